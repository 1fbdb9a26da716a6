// reduce and cumsum. A result whose elements lie in rows is the work of a warp or a block; results that lie side by
// side in the operand are 32 columns of a block. Few results of many elements are cut into chunks first, whose sums a
// second launch reduces. The operand is read once, its floats are added in 64 bits: at the memory's bandwidth for
// rows of packs, up to half of it for columns (a load is one element; less on devices made for graphics). A cumsum is
// one warp's work for each line, far from any bandwidth: it is for positions.
#include "kernels/cuda/Reduction.h"

#include "kernels/cuda/Rows.cuh"
#include "kernels/cuda/Views.cuh"

namespace mt::kernels::cuda {
namespace {

/// What elements of type C are reduced in.
template <typename C> using Wide = std::conditional_t<std::is_integral_v<C>, int64_t, double>;

template <typename C> __device__ __forceinline__ C neutral(ReduceKind kind) {
  if (kind == ReduceKind::prod)
    return 1;
  if (kind == ReduceKind::sum)
    return 0;
  if constexpr (std::is_integral_v<C>)
    return kind == ReduceKind::max ? INT64_MIN : INT64_MAX;
  else
    return kind == ReduceKind::max ? -static_cast<C>(INFINITY) : static_cast<C>(INFINITY);
}

/// Integers wrap around; a NaN stays.
template <typename S> __device__ __forceinline__ S combine(ReduceKind kind, S a, S b) {
  if (kind == ReduceKind::sum)
    return plus(a, b);
  if (kind == ReduceKind::prod) {
    if constexpr (std::is_integral_v<S>)
      return static_cast<S>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else
      return a * b;
  }
  return b != b || (kind == ReduceKind::max ? b > a : b < a) ? b : a;
}

struct Combine {
  ReduceKind kind;
  template <typename S> __device__ __forceinline__ S operator()(S a, S b) const { return combine(kind, a, b); }
};

/// `total` and all of `values`.
template <int Count, typename C>
__device__ __forceinline__ Wide<C> fold(ReduceKind kind, Wide<C> total, const C (&values)[Count]) {
  if (kind == ReduceKind::sum) {
#pragma unroll
    for (int i = 0; i < Count; ++i)
      total = plus(total, static_cast<Wide<C>>(values[i]));
    return total;
  }
#pragma unroll
  for (int i = 0; i < Count; ++i)
    total = combine(kind, total, static_cast<Wide<C>>(values[i]));
  return total;
}

template <typename C> __device__ __forceinline__ void finish(const ReduceArguments &a, int64_t place, Wide<C> total) {
  if constexpr (std::is_integral_v<C>) {
    total /= static_cast<int64_t>(a.divisor);
  } else {
    total /= a.divisor;
    if (a.out.type != DType::f64)
      return storeOne(a.out.type, a.out.data, place, static_cast<float>(total), a.out.adds);
  }
  storeOne(a.out.type, a.out.data, place, total, a.out.adds);
}

/// A group of threads for each result and chunk.
template <typename C>
__global__ void __launch_bounds__(kRowThreads) reduceRows(const __grid_constant__ ReduceArguments a) {
  int64_t group = groupIndex();
  if (group >= a.results * a.chunks.count)
    return;
  int64_t chunk = group / a.results, result = group % a.results, base[1], offset[1];
  a.kept.offsets(result, base);
  int64_t begin = chunk * a.chunks.size, end = min(begin + a.chunks.size, a.count);
  Wide<C> total = neutral<Wide<C>>(a.kind);
  for (int64_t piece = 0; piece * kOctet * blockDim.x < end - begin; ++piece) {
    Places places = placesOf(piece, threadIdx.x, blockDim.x, end - begin, a.packed);
    C values[kOctet];
    if (places.whole()) {
      widen(a.in.type, bring<C>(a.in.type, a.in.data, base[0] + begin + places.first), values);
    } else {
#pragma unroll
      for (int i = 0; i < kOctet; ++i) {
        values[i] = neutral<C>(a.kind);
        if (places.at(i) < places.size) {
          a.reduced.offsets(begin + places.at(i), offset);
          values[i] = loadOne<C>(a.in.type, a.in.data, base[0] + offset[0]);
        }
      }
    }
    total = fold(a.kind, total, values);
  }
  Wide<C> totals[1] = {total};
  groupReduce(totals, Combine{a.kind});
  if (threadIdx.x == 0)
    finish<C>(a, group, totals[0]);
}

constexpr int kAhead = 8; // elements of a column that a thread waits for at once

/// 32 results side by side and a chunk for each block: every 16th element of a result for each of its threads.
template <typename C>
__global__ void __launch_bounds__(kWarp *kReduceSlices) reduceColumns(const __grid_constant__ ReduceArguments a) {
  __shared__ Wide<C> parts[kReduceSlices][kWarp];
  int64_t blocks = (a.results + kWarp - 1) / kWarp, chunk = blockIdx.x / blocks;
  int64_t result = blockIdx.x % blocks * kWarp + threadIdx.x, base[1], offset[1];
  int64_t begin = chunk * a.chunks.size, end = min(begin + a.chunks.size, a.count);
  a.kept.offsets(min(result, a.results - 1), base);
  int64_t step = a.reduced.rank == 1 ? a.reduced.strides[0][0] : 0; // 0: elements lie by their view
  Wide<C> total = neutral<Wide<C>>(a.kind);
  for (int64_t at = begin + threadIdx.y; at < end; at += kReduceSlices * kAhead) {
    int64_t offsets[kAhead];
    C values[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      int64_t own = min(at + i * kReduceSlices, end - 1);
      offset[0] = own * step;
      if (step == 0)
        a.reduced.offsets(own, offset);
      offsets[i] = base[0] + offset[0];
    }
    withStorage<C>(a.in.type, [&](auto storage) {
      decltype(storage) held[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i)
        held[i] = static_cast<const decltype(storage) *>(a.in.data)[offsets[i]];
#pragma unroll
      for (int i = 0; i < kAhead; ++i)
        values[i] = at + i * kReduceSlices < end ? fromStorage<C>(held[i]) : neutral<C>(a.kind);
    });
    total = fold(a.kind, total, values);
  }
  parts[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y != 0 || result >= a.results)
    return;
  for (int slice = 1; slice < kReduceSlices; ++slice)
    total = combine(a.kind, total, parts[slice][threadIdx.x]);
  finish<C>(a, chunk * a.results + result, total);
}

/// A warp for each line of `size` elements, `inner` apart.
template <typename C> __global__ void __launch_bounds__(kThreads) cumsum(const __grid_constant__ CumsumArguments a) {
  int64_t line = groupIndex(), column;
  if (line >= a.lines)
    return;
  int64_t base = a.inner.divide(line, column) * a.size * a.inner.size + column;
  int lane = threadIdx.x;
  Wide<C> carry = 0;
  for (int64_t begin = 0; begin < a.size; begin += kWarp) {
    int64_t step = begin + lane, at = base + (a.reverse ? a.size - 1 - step : step) * a.inner.size;
    Wide<C> own = step < a.size ? static_cast<Wide<C>>(loadOne<C>(a.in.type, a.in.data, at)) : Wide<C>(0), sum = own;
#pragma unroll
    for (int distance = 1; distance < kWarp; distance *= 2) {
      Wide<C> before = __shfl_up_sync(0xffffffffu, sum, distance);
      sum = lane >= distance ? plus(before, sum) : sum;
    }
    Wide<C> until = __shfl_up_sync(0xffffffffu, sum, 1);
    Wide<C> result = plus(carry, a.exclusive ? (lane > 0 ? until : Wide<C>(0)) : sum);
    if (step < a.size)
      storeOne(a.out.type, a.out.data, at, static_cast<C>(result), a.out.adds);
    carry = plus(carry, __shfl_sync(0xffffffffu, sum, kWarp - 1));
  }
}

} // namespace

ReduceCode reduceCode(DType type, bool columns) {
  return withArithmetic(type, [&](auto arithmetic) -> ReduceCode {
    using C = decltype(arithmetic);
    return columns ? reduceColumns<C> : reduceRows<C>;
  });
}
CumsumCode cumsumCode(DType type) {
  return withArithmetic(type, [](auto arithmetic) -> CumsumCode { return cumsum<decltype(arithmetic)>; });
}

} // namespace mt::kernels::cuda
