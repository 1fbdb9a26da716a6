// Stands in for CUDA's header of that name where device code is compiled for the host (tests/simt/Simt.h): matrix units
// of 16 x 16 x 16, bf16 with sums of 32 bits. Every lane reads whole operands and has eight of the products, which
// elements is not the GPU's choice; sums go along the depth in order.
#ifndef MT_TESTS_SIMT_MMA_H
#define MT_TESTS_SIMT_MMA_H

#include <cuda_bf16.h>

#include <type_traits>

namespace nvcuda::wmma {

struct row_major {};
struct col_major {};
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
enum layout_t { mem_row_major, mem_col_major };

template <typename Use, int M, int N, int K, typename T, typename Layout = void> struct fragment {
  static_assert(M == 16 && N == 16 && K == 16 && std::is_same_v<T, __nv_bfloat16>);
  float values[16][16]; // by row and column
};
template <typename T> struct fragment<accumulator, 16, 16, 16, T> {
  static_assert(std::is_same_v<T, float>);
  float values[8]; // of the lane
};
using Sums = fragment<accumulator, 16, 16, 16, float>;

/// A line of an operand where the GPU wants it to lie; -fsanitize=alignment finds others.
struct alignas(16) Line {
  __nv_bfloat16 values[16];
};

inline void fill_fragment(Sums &sums, float value) {
  for (float &sum : sums.values)
    sum = value;
}

template <typename Use, typename Layout>
void load_matrix_sync(fragment<Use, 16, 16, 16, __nv_bfloat16, Layout> &into, const __nv_bfloat16 *from,
                      unsigned line) {
  for (unsigned i = 0; i < 16; ++i) {
    const Line &along = *reinterpret_cast<const Line *>(from + i * line);
    for (unsigned j = 0; j < 16; ++j)
      (std::is_same_v<Layout, row_major> ? into.values[i][j] : into.values[j][i]) = __bfloat162float(along.values[j]);
  }
}

template <typename A, typename B> void mma_sync(Sums &result, const A &a, const B &b, const Sums &before) {
  for (unsigned i = 0; i < 8; ++i) {
    const unsigned at = static_cast<unsigned>(mt::simt::lane()) * 8 + i;
    float sum = before.values[i];
    for (unsigned k = 0; k < 16; ++k)
      sum += a.values[at / 16][k] * b.values[k][at % 16];
    result.values[i] = sum;
  }
}

inline void store_matrix_sync(float *into, const Sums &sums, unsigned line, layout_t layout) {
  for (unsigned i = 0; i < 8; ++i) {
    const unsigned at = static_cast<unsigned>(mt::simt::lane()) * 8 + i, row = at / 16, column = at % 16;
    into[layout == mem_row_major ? row * line + column : column * line + row] = sums.values[i];
  }
}

} // namespace nvcuda::wmma
#endif
