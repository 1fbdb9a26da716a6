// What oneDNN allocates for a product is within what each thread is counted for.
#include "kernels/cpu/Gemm.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <vector>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

static thread_local bool counts = false;
static thread_local size_t allocated = 0;

/// The library takes its buffers by this.
extern "C" int posix_memalign(void **buffer, size_t alignment, size_t bytes) {
  if (counts)
    allocated += bytes;
  *buffer = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  return *buffer ? 0 : ENOMEM;
}

namespace mt::kernels::cpu {
namespace {

TEST(Scratch, OfTheLibraryIsWithinItsBound) {
  size_t most = 0;
  for (bool turnA : {false, true})
    for (bool turnB : {false, true})
      for (int64_t m : {1, 40, 128, 700, 2000})
        for (int64_t n : {1, 48, 192, 700, 2000})
          for (int64_t k : {1, 100, 400, 700}) {
            std::vector<float> a(m * k, 1.0f), b(k * n, 1.0f), c(m * n);
            Gemm gemm{turnA, turnB, m, n, k, turnA ? m : k, turnB ? k : n, n};
            multiply(gemm, 1, a.data(), b.data(), 0, c.data()); // once for what stays: compiled code
            allocated = 0;
            counts = true;
            multiply(gemm, 1, a.data(), b.data(), 0, c.data());
            counts = false;
            EXPECT_LE(allocated, libraryScratch(m, n, k)) << turnA << turnB << " " << m << " " << n << " " << k;
            most = std::max(most, allocated);
          }
  EXPECT_GT(most, size_t{1} << 20) << "the library allocates by another function: count that";
}

} // namespace
} // namespace mt::kernels::cpu

#endif
