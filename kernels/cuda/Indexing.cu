// gather, gather_nd, gather_elements, embedding: rows are moved in elements of 16 bytes where they can be, four to a
// thread, close to the memory's bandwidth for rows of 512 bytes and more. The gradients sort the indices with their
// places (runs in shared memory, then merges), and a warp adds the rows of one index in the order of their places: no
// atomics, the same bits every time, and every gradient is read once. An index that half of all places have is one
// warp's work, eight rows at a time, and takes as long as all others together or longer.
#include "kernels/cuda/Indexing.h"

#include "kernels/cuda/Fault.h"
#include "kernels/cuda/Moving.cuh"

namespace mt::kernels::cuda {

__device__ __forceinline__ int64_t Indices::at(int64_t place, int64_t size) const {
  int64_t index = wide ? static_cast<const int64_t *>(data)[place] : static_cast<const int32_t *>(data)[place];
  if (index < size && index >= (wraps ? -size : 0))
    return index < 0 ? index + size : index;
  *fault = static_cast<uint32_t>(Fault::indexOutOfRange);
  return -1;
}

__device__ __forceinline__ int64_t GatherSource::at(int64_t index) const {
  int64_t column, place, row = inner.divide(index, column), outer = count.divide(row, place);
  int64_t from = indices.at(place, size);
  return from < 0 ? -1 : (outer * size + from) * inner.size + column;
}

__device__ __forceinline__ int64_t GatherNdSource::at(int64_t index) const {
  int64_t column, place, row = inner.divide(index, column), batch = rows.divide(row, place);
  int64_t offset = batch * batchStride + column;
#pragma unroll 1
  for (int i = 0; i < depth; ++i) {
    int64_t from = indices.at(row * depth + i, sizes[i]);
    if (from < 0)
      return -1;
    offset += from * strides[i];
  }
  return offset;
}

__device__ __forceinline__ int64_t GatherElementsSource::at(int64_t index) const {
  int64_t offset[1], from = indices.at(index, size);
  others.offsets(index, offset);
  return from < 0 ? -1 : offset[0] + from * stride;
}

MT_MOVES(GatherSource);
MT_MOVES(GatherNdSource);
MT_MOVES(GatherElementsSource);

namespace {

/// Index and place of an element in one number; an index out of range comes last.
__device__ __forceinline__ uint64_t keyOf(const Indices &indices, int64_t place, int64_t size) {
  uint32_t index = static_cast<uint32_t>(indices.at(place, size));
  return static_cast<uint64_t>(index) << 32 | static_cast<uint64_t>(place);
}

/// A run for each block: every key goes where as many others are smaller. No two are equal.
__global__ void __launch_bounds__(kSorted)
    sortRuns(const __grid_constant__ Indices indices, int64_t count, int64_t size, uint64_t *sorted) {
  __shared__ uint64_t keys[kSorted];
  int64_t begin = static_cast<int64_t>(blockIdx.x) * kSorted, place = begin + threadIdx.x;
  uint64_t key = place < count ? keyOf(indices, place, size) : ~uint64_t{0};
  keys[threadIdx.x] = key;
  __syncthreads();
  int smaller = 0;
#pragma unroll 8
  for (int i = 0; i < kSorted; ++i)
    smaller += keys[i] < key ? 1 : 0;
  if (place < count)
    sorted[begin + smaller] = key;
}

/// Every key goes as far behind the begin of its two runs as there are smaller keys in both.
__global__ void __launch_bounds__(kThreads)
    mergeRuns(const uint64_t *keys, int64_t count, int64_t length, uint64_t *merged) {
  int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= count)
    return;
  uint64_t key = keys[at];
  int64_t run = at / length, other = (run ^ 1) * length, begin = run / 2 * 2 * length;
  int64_t low = other < count ? other : count, end = other + length < count ? other + length : count, first = low;
  while (low < end) {
    int64_t middle = low + (end - low) / 2;
    if (keys[middle] < key)
      low = middle + 1;
    else
      end = middle;
  }
  merged[begin + (at - run * length) + (low - first)] = key;
}

constexpr int kAhead = 8; // rows that a thread waits for at once

/// A warp for each first key of an index, and tile of 256 elements of its row.
__global__ void __launch_bounds__(kThreads) addSegments(const __grid_constant__ SegmentsArguments a) {
  int64_t tile, group, outer = a.groups.divide(a.tiles.divide(blockIdx.x, tile), group);
  int64_t at = group * (kThreads / kWarp) + threadIdx.y;
  if (at >= a.count)
    return;
  uint64_t index = a.keys[at] >> 32;
  if (index >= static_cast<uint64_t>(a.size) || (at > 0 && a.keys[at - 1] >> 32 == index))
    return;
  Places places = placesOf(tile, threadIdx.x, kWarp, a.inner, a.packed);
  places.exact = a.packed;
  float sums[kOctet] = {};
  for (bool more = true; more; at += kAhead) {
    Read<float> reads[kAhead];
    float rows[kAhead][kOctet];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      uint64_t key = at + i < a.count ? a.keys[at + i] : ~uint64_t{0};
      more = more && key >> 32 == index; // what is absent adds zero
      reads[i] = {more ? a.gradient : In(), (outer * a.count + static_cast<int64_t>(key & 0xffffffff)) * a.inner,
                  places};
    }
    load(reads, rows);
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
#pragma unroll
      for (int j = 0; j < kOctet; ++j)
        sums[j] += rows[i][j];
  }
  store(a.result, (outer * a.size + static_cast<int64_t>(index)) * a.inner, places, sums);
}

/// Integers wrap around; a NaN stays.
template <typename C> __device__ __forceinline__ C combined(ScatterKind kind, C there, C update) {
  if (kind == ScatterKind::none)
    return update;
  if (kind == ScatterKind::add)
    return plus(there, update);
  if (kind == ScatterKind::mul) {
    if constexpr (std::is_integral_v<C>)
      return static_cast<C>(static_cast<uint64_t>(there) * static_cast<uint64_t>(update));
    else
      return there * update;
  }
  return there != there || (kind == ScatterKind::max ? there > update : there < update) ? there : update;
}

/// A warp for each first key of an index, and 32 columns of its row.
template <typename C>
__global__ void __launch_bounds__(kThreads) scatterSegments(const __grid_constant__ ScatterArguments a) {
  int64_t tile, group, outer = a.groups.divide(a.tiles.divide(blockIdx.x, tile), group);
  int64_t at = group * (kThreads / kWarp) + threadIdx.y, column = tile * kWarp + threadIdx.x;
  if (at >= a.count || column >= a.inner)
    return;
  uint64_t index = a.keys[at] >> 32;
  if (index >= static_cast<uint64_t>(a.size) || (at > 0 && a.keys[at - 1] >> 32 == index))
    return;
  int64_t to = (outer * a.size + static_cast<int64_t>(index)) * a.inner + column;
  C value = loadOne<C>(a.result.type, a.result.data, to);
  for (; at < a.count && a.keys[at] >> 32 == index; ++at) {
    int64_t place = static_cast<int64_t>(a.keys[at] & 0xffffffff);
    value = combined(a.kind, value,
                     loadOne<C>(a.updates.type, a.updates.data, (outer * a.count + place) * a.inner + column));
  }
  storeOne(a.result.type, a.result.data, to, value, false);
}

/// A thread for each line.
template <typename C> __global__ void __launch_bounds__(kThreads) scatterLines(const __grid_constant__ ScatterLines a) {
  int64_t line = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (line >= a.lines)
    return;
  int64_t column, row = a.step.divide(line, column), base[1];
  a.others.offsets(line, base);
  for (int64_t i = 0; i < a.length; ++i) {
    int64_t at = (row * a.length + i) * a.step.size + column, index = a.indices.at(at, a.size);
    if (index < 0)
      return;
    int64_t to = base[0] + index * a.stride;
    C there = loadOne<C>(a.result.type, a.result.data, to);
    storeOne(a.result.type, a.result.data, to, combined(a.kind, there, loadOne<C>(a.updates.type, a.updates.data, at)),
             false);
  }
}

} // namespace

ScatterCode scatterCode(DType type) {
  return withArithmetic(type, [](auto arithmetic) -> ScatterCode { return scatterSegments<decltype(arithmetic)>; });
}
ScatterLinesCode scatterLinesCode(DType type) {
  return withArithmetic(type, [](auto arithmetic) -> ScatterLinesCode { return scatterLines<decltype(arithmetic)>; });
}
SortRunsCode sortRunsCode() { return sortRuns; }
MergeRunsCode mergeRunsCode() { return mergeRuns; }
AddSegmentsCode addSegmentsCode() { return addSegments; }

} // namespace mt::kernels::cuda
