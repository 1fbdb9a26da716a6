// Kernels whose result's elements each come from one place of an operand, or are a fixed value: a source gives the
// place. Elements are moved by their size, not their type, and as wide as source and addresses allow; where the result
// accumulates they are added by their type. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_MOVING_H
#define MT_KERNELS_CUDA_MOVING_H

#include "kernels/cuda/Elements.h"
#include "kernels/cuda/Views.h"

namespace mt::kernels::cuda {

// Sources have `int64_t at(int64_t index) const` on the device: the operand's element for one of the result's, or -1
// for the fixed value; and on the host `uint64_t run() const`, of which every power of two that divides it is a number
// of elements that always move together, with `void widen(int64_t by)`, after which so many are one element.

/// An operand seen with strides, from element `begin` on.
struct ViewSource {
  Views<1> view;
  int64_t begin = 0;

  __device__ int64_t at(int64_t index) const;
  uint64_t run() const {
    if (view.innerStride(0) != 1)
      return 1;
    auto all = static_cast<uint64_t>(view.inner() | begin);
    for (int i = 0; i + 1 < view.rank; ++i)
      all |= static_cast<uint64_t>(view.strides[0][i]);
    return all;
  }
  void widen(int64_t by) {
    if (by == 1)
      return;
    view.sizes[view.rank - 1] = Divider(view.inner() / by);
    for (int i = 0; i + 1 < view.rank; ++i)
      view.strides[0][i] /= by;
    begin /= by;
  }
};

/// The result's dimensions from the outermost: an element of the operand falls on `low` and every `step` from there.
struct PadSource {
  int rank = 0;
  Divider to[kMaxDims], step[kMaxDims];
  int64_t from[kMaxDims] = {}, low[kMaxDims] = {}, strides[kMaxDims] = {}; ///< strides of the operand

  __device__ int64_t at(int64_t index) const;
  uint64_t run() const {
    int last = rank - 1;
    if (rank == 0 || step[last].size != 1)
      return 1;
    return static_cast<uint64_t>(to[last].size | low[last] | from[last]);
  }
  void widen(int64_t by) {
    if (by == 1)
      return;
    int last = rank - 1;
    to[last] = Divider(to[last].size / by);
    low[last] /= by, from[last] /= by;
    for (int i = 0; i < last; ++i)
      strides[i] /= by; // multiples of the last dimension
  }
  /// Adds a dimension inside the others, one with the last if it has no padding; false if there are too many.
  bool add(int64_t size, int64_t before, int64_t after, int64_t distance) {
    int64_t whole = before + after + size + (size - 1) * (distance - 1);
    if (rank > 0 && whole == size && step[rank - 1].size == 1) {
      to[rank - 1] = Divider(to[rank - 1].size * size);
      from[rank - 1] *= size, low[rank - 1] *= size;
      return true;
    }
    if (rank == kMaxDims)
      return false;
    to[rank] = Divider(whole), step[rank] = Divider(distance);
    from[rank] = size, low[rank] = before;
    ++rank;
    return true;
  }
};

/// Nothing but the fixed value.
struct NoSource {
  __device__ int64_t at(int64_t index) const;
  uint64_t run() const { return 0; }
  void widen(int64_t) {}
};

/// Indices of either width. One out of range, -size to size - 1, is a fault, and nothing is read for it.
struct Indices {
  const void *data = nullptr;
  bool wide = true, wraps = true; ///< wraps: negative ones count from the end
  uint32_t *fault = nullptr;
  __device__ int64_t at(int64_t place, int64_t size) const; ///< -1: out of range
};

/// result[a, i, b] = data[a, indices[i], b].
struct GatherSource {
  Indices indices;
  Divider inner, count; ///< elements of b; indices
  int64_t size = 0;     ///< of the indexed dimension
  __device__ int64_t at(int64_t index) const;
  uint64_t run() const { return static_cast<uint64_t>(inner.size); }
  void widen(int64_t by) { inner = Divider(inner.size / by); }
};

/// result[b, i, ..] = data[b, indices[b, i, :], ..].
struct GatherNdSource {
  Indices indices;
  Divider inner, rows; ///< elements of a slice; slices of a batch
  int64_t batchStride = 0;
  int depth = 0;
  int64_t sizes[kMaxIndexed] = {}, strides[kMaxIndexed] = {}; ///< of the indexed dimensions
  __device__ int64_t at(int64_t index) const;
  uint64_t run() const { return static_cast<uint64_t>(inner.size); } // which divides all strides
  void widen(int64_t by) {
    inner = Divider(inner.size / by), batchStride /= by;
    for (int i = 0; i < depth; ++i)
      strides[i] /= by;
  }
};

/// result[i, j] = data[i, indices[i, j]] for the axis of j: the data seen in the indices' dimensions, but for the axis.
struct GatherElementsSource {
  Indices indices;
  Views<1> others;
  int64_t size = 0, stride = 0; ///< of the axis
  __device__ int64_t at(int64_t index) const;
  uint64_t run() const { return 1; }
  void widen(int64_t) {}
};

/// Where the elements of a result go: side by side, or (`pitch` > 0) in rows of `row` elements that lie `pitch` apart.
struct Target {
  Divider row;
  int64_t pitch = 0, begin = 0;
  __device__ int64_t at(int64_t index) const;
};

/// Elements of a thread.
constexpr int kEach = 4;

/// 16 bytes as one element.
struct alignas(16) Wide {
  uint64_t words[2];
};

/// source, target, elements, the operand, the result, the fixed value
template <typename Source> using MoveCode = void (*)(Source, Target, int64_t, const void *, void *, Wide);
template <typename Source> using MoveAddingCode = void (*)(Source, Target, int64_t, In, Out, Wide);
/// For elements of so many bytes, of a type.
template <typename Source> MoveCode<Source> moveCode(int64_t bytes);
template <typename Source> MoveAddingCode<Source> moveAddingCode(DType type);

} // namespace mt::kernels::cuda
#endif
