// top_k: a block looks through its row once for each place, for what comes next behind the one that it found before: k
// times the row's bytes from the cache, which is little for the few of many that models ask for.
#include "kernels/cuda/TopK.h"

#include "kernels/cuda/Elements.cuh"

namespace mt::kernels::cuda {
namespace {

template <typename C> struct Entry {
  C value;
  int64_t place; ///< -1: none
};

/// Whether `a` stands before `b`: NaN first, then by value, then by place.
template <typename C> __device__ __forceinline__ bool before(bool largest, const Entry<C> &a, const Entry<C> &b) {
  bool nan = a.value != a.value, other = b.value != b.value;
  if (nan != other)
    return nan;
  if (nan || a.value == b.value)
    return a.place < b.place;
  return largest ? a.value > b.value : a.value < b.value;
}

template <typename C> __device__ __forceinline__ Entry<C> first(bool largest, const Entry<C> &a, const Entry<C> &b) {
  return a.place < 0 || (b.place >= 0 && before(largest, b, a)) ? b : a;
}

template <typename C> __global__ void __launch_bounds__(kTopKThreads) topK(const __grid_constant__ TopKArguments a) {
  __shared__ Entry<C> found[kTopKThreads];
  Entry<C> last = {0, -1};
  int64_t row = blockIdx.x, begin = row * a.width;
  for (int64_t i = 0; i < a.k; ++i) {
    Entry<C> best = {0, -1};
    for (int64_t place = threadIdx.x; place < a.width; place += kTopKThreads) {
      Entry<C> entry = {loadOne<C>(a.operand.type, a.operand.data, begin + place), place};
      if (last.place < 0 || before(a.largest, last, entry))
        best = first(a.largest, best, entry);
    }
    found[threadIdx.x] = best;
    for (int half = kTopKThreads / 2; half > 0; half /= 2) {
      __syncthreads();
      if (static_cast<int>(threadIdx.x) < half)
        found[threadIdx.x] = first(a.largest, found[threadIdx.x], found[threadIdx.x + half]);
    }
    __syncthreads();
    last = found[0];
    __syncthreads(); // before the next round writes
    if (threadIdx.x == 0)
      a.places[row * a.k + i] = last.place;
  }
}

} // namespace

TopKCode topKCode(DType type) {
  return withArithmetic(type, [](auto arithmetic) -> TopKCode { return topK<decltype(arithmetic)>; });
}

} // namespace mt::kernels::cuda
