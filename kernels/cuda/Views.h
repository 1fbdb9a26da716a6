// Operands seen in the row-major order of a result: dimensions with strides, adjacent ones merged for all operands at
// once, and division without the divide instruction (Views.cuh). Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_VIEWS_H
#define MT_KERNELS_CUDA_VIEWS_H

#include <cuda_runtime_api.h>

#include <cstdint>

namespace mt::kernels::cuda {

/// Division by a number known before the launch; of 31-bit numbers by a multiplication (Granlund and Montgomery, 1994).
struct Divider {
  int64_t size = 1;
  uint32_t magic = 1, shift = 0;

  Divider() = default;
  explicit Divider(int64_t by) : size(by) {
    if (by >> 31)
      return;
    while ((int64_t{1} << shift) < by)
      ++shift;
    magic = static_cast<uint32_t>(
        ((uint64_t{1} << 32) * ((uint64_t{1} << shift) - static_cast<uint64_t>(by))) / static_cast<uint64_t>(by) + 1);
  }

  __device__ int64_t divide(int64_t value, int64_t &rest) const;
};

/// Dimensions that do not merge; and that an index tuple may name: as many as an operand can have.
constexpr int kMaxDims = 8, kMaxIndexed = 12;

/// `Count` operands over the same dimensions; strides in elements, 0 where an operand repeats.
template <int Count> struct Views {
  int rank = 0;
  Divider sizes[kMaxDims];
  int64_t strides[Count][kMaxDims] = {};

  /// Adds a dimension inside the others; false if there are too many.
  bool add(int64_t size, const int64_t (&steps)[Count]) {
    if (size == 1)
      return true;
    bool merges = rank > 0;
    for (int i = 0; i < Count && merges; ++i)
      merges = strides[i][rank - 1] == steps[i] * size;
    if (!merges && rank == kMaxDims)
      return false;
    rank += merges ? 0 : 1;
    sizes[rank - 1] = Divider(merges ? sizes[rank - 1].size * size : size);
    for (int i = 0; i < Count; ++i)
      strides[i][rank - 1] = steps[i];
    return true;
  }

  int64_t inner() const { return rank == 0 ? 1 : sizes[rank - 1].size; }
  int64_t innerStride(int operand) const { return rank == 0 ? 0 : strides[operand][rank - 1]; }
  int64_t elements() const {
    int64_t product = 1;
    for (int i = 0; i < rank; ++i)
      product *= sizes[i].size;
    return product;
  }

  /// Whether all strides of an operand but the innermost are multiples of `by`.
  bool isMultiple(int operand, int64_t by) const {
    for (int i = 0; i + 1 < rank; ++i)
      if (strides[operand][i] % by != 0)
        return false;
    return true;
  }

  /// Of the element `index` in each operand.
  __device__ void offsets(int64_t index, int64_t (&out)[Count]) const;
};

} // namespace mt::kernels::cuda
#endif
