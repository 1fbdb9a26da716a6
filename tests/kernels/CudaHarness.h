// What only tests on a GPU ask: the CPU's results for the same call.
#ifndef MT_TESTS_KERNELS_CUDAHARNESS_H
#define MT_TESTS_KERNELS_CUDAHARNESS_H

#include "tests/kernels/Harness.h"

namespace mt::kernels::test {

/// A call made ready on the CPU, whose operands may have the scratch that a GPU asks for.
Result<Execute> prepareOnCpu(const Signature &call, int threads);

/// Each result within `tolerance` of the largest value of it on the CPU, the same bits twice, nothing written
/// elsewhere. Outputs of type u8 are absent. Returns the GPU's results.
std::vector<Values> expectAsOnCpu(const Call &call, double tolerance);

/// While it lives, operands begin so many bytes behind a multiple of 256.
class Displaced {
public:
  explicit Displaced(uint64_t bytes);
  ~Displaced();
  Displaced(const Displaced &) = delete;
};

} // namespace mt::kernels::test
#endif
