// What only tests on a GPU ask: the CPU's results for the same call.
#ifndef MT_TESTS_KERNELS_CUDAHARNESS_H
#define MT_TESTS_KERNELS_CUDAHARNESS_H

#include "tests/kernels/Harness.h"

namespace mt::kernels::test {

/// A call made ready on the CPU, whose operands may have the scratch that a GPU asks for.
Result<Execute> prepareOnCpu(const Signature &call, int threads);

} // namespace mt::kernels::test
#endif
