// A cuBLASLt that is none: it proposes the algorithms a test gives it and multiplies on the host, in 64 bits, by
// reading the descriptors that it was given. It refuses what an algorithm was not proposed for: another alignment, less
// scratch. For tests of what is decided and described; no kernel runs on any GPU.
#ifndef MT_TESTS_KERNELS_FAKEBLAS_H
#define MT_TESTS_KERNELS_FAKEBLAS_H

#include "kernels/cuda/Blas.h"

#include <functional>
#include <vector>

namespace mt::kernels::test {

/// What the library would propose; those beyond the preference's bound are not returned, as by the real one.
struct Proposal {
  uint64_t scratch = 0;
  uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
  uint32_t alignment = 1; ///< bytes that operands must be multiples of
};

struct FakeBlas {
  std::vector<Proposal> proposals = {{}};
  bool fuses = true;            ///< has algorithms for epilogues beyond a bias
  uint64_t implementations = 0; ///< the last preference's mask
  int queries = 0, products = 0;
  uint64_t chosenScratch = 0; ///< of the last product run
  /// Whether a product may touch memory (begin, bytes, writes); asked where it is set.
  std::function<bool(const void *, uint64_t, bool)> touches;
  /// Whether a product on a stream is not to happen; asked where it is set.
  std::function<bool(cudaStream_t)> instead;
  cuda::Blas blas;
  FakeBlas();
  ~FakeBlas();
};

} // namespace mt::kernels::test
#endif
