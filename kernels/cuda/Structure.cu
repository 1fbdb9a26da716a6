// Kernels that move elements by position: constant, iota, cast, copy, transpose, broadcast, slice, pad, concat. Rows
// that stay together move in elements of 16 bytes, close to the memory's bandwidth. Transposes of the last dimension go
// through tiles in shared memory, an element a thread at a time: warps read and write 32 elements side by side, which
// is too little for more than about half of the bandwidth in 16 bits.
#include "kernels/cuda/Structure.h"

#include "kernels/cuda/Moving.cuh"

namespace mt::kernels::cuda {

// Sources.

__device__ __forceinline__ int64_t ViewSource::at(int64_t index) const {
  int64_t offset[1];
  view.offsets(index, offset);
  return begin + offset[0];
}

__device__ __forceinline__ int64_t PadSource::at(int64_t index) const {
  int64_t offset = 0;
#pragma unroll 1
  for (int d = rank - 1; d >= 0; --d) {
    int64_t place, rest;
    index = to[d].divide(index, place);
    if (place < low[d])
      return -1;
    int64_t number = step[d].divide(place - low[d], rest);
    if (rest != 0 || number >= from[d])
      return -1;
    offset += number * strides[d];
  }
  return offset;
}

__device__ __forceinline__ int64_t NoSource::at(int64_t) const { return -1; }

MT_MOVES(ViewSource);
MT_MOVES(PadSource);
MT_MOVES(NoSource);

namespace {

/// Floats to integers truncate; what the integer cannot hold becomes its nearest, NaN becomes zero.
template <typename C> __device__ __forceinline__ int64_t truncated(DType type, C value) {
  int bits = type == DType::i64 ? 64 : type == DType::i32 ? 32 : type == DType::i16 ? 16 : 8;
  int64_t most = type == DType::u8 ? 255 : static_cast<int64_t>(~uint64_t{0} >> (65 - bits));
  int64_t least = type == DType::u8 ? 0 : -most - 1;
  if (value != value)
    return 0;
  return value < static_cast<C>(least) ? least : value >= static_cast<C>(most) ? most : static_cast<int64_t>(value);
}

template <typename D, typename C>
__device__ __forceinline__ void storeAs(Out out, const Places &places, const C (&in)[kOctet]) {
  D values[kOctet];
#pragma unroll
  for (int i = 0; i < kOctet; ++i)
    if constexpr (std::is_integral_v<D> && !std::is_integral_v<C>)
      values[i] = truncated(out.type, in[i]);
    else
      values[i] = static_cast<D>(in[i]);
  store(out, 0, places, values);
}

/// Any type to any other, side by side.
template <typename C> __global__ void __launch_bounds__(kThreads) convert(In in, Out out, int64_t total, bool packed) {
  Places places = placesOf(blockIdx.x, threadIdx.x, kThreads, total, packed);
  C values[kOctet];
  load(Read<C>{in, 0, places}, values);
  if (out.type == DType::boolean)
    return store(out, 0, places, values);
  if (out.type == DType::f64)
    return storeAs<double>(out, places, values);
  if (out.type == DType::f32 || out.type == DType::bf16 || out.type == DType::f16)
    return storeAs<float>(out, places, values);
  storeAs<int64_t>(out, places, values);
}

// Transposes of the last dimension.

template <typename E>
__global__ void __launch_bounds__(kTile *kTileRows)
    transposeTiles(const __grid_constant__ Tiles a, const void *from, void *to) {
  const E *in = static_cast<const E *>(from);
  E *out = static_cast<E *>(to);
  __shared__ E tile[kTile][kTile + 1];
  int64_t tileColumn, tileRow, base[2];
  int64_t rest = a.acrossColumns.divide(blockIdx.x, tileColumn), other = a.acrossRows.divide(rest, tileRow);
  a.others.offsets(other, base);
  int64_t row = tileRow * kTile + threadIdx.x, column = tileColumn * kTile;
  for (int i = threadIdx.y; i < kTile; i += kTileRows)
    if (row < a.rows && column + i < a.columns)
      tile[i][threadIdx.x] = in[base[0] + (column + i) * a.operandStride + row];
  __syncthreads();
  row = tileRow * kTile, column += threadIdx.x;
  for (int i = threadIdx.y; i < kTile; i += kTileRows)
    if (row + i < a.rows && column < a.columns)
      out[base[1] + (row + i) * a.resultStride + column] = tile[threadIdx.x][i];
}

// Constants.

template <typename C>
__global__ void __launch_bounds__(kThreads)
    writeList(const __grid_constant__ List list, int64_t begin, int64_t count, Out out) {
  for (int64_t i = threadIdx.x; i < count; i += kThreads)
    storeOne(out.type, out.data, begin + i, loadOne<C>(out.type, list.words, i), out.adds);
}

template <typename C>
__global__ void __launch_bounds__(kThreads)
    iota(int64_t total, Divider inner, Divider size, double first, double step, Out out) {
  int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x, rest, place;
  if (index >= total)
    return;
  size.divide(inner.divide(index, rest), place);
  double number = first + step * static_cast<double>(place);
  C value;
  if constexpr (std::is_integral_v<C>)
    value = truncated(DType::i64, number);
  else
    value = static_cast<C>(number);
  storeOne(out.type, out.data, index, value, out.adds);
}

} // namespace

ConvertCode convertCode(DType type) {
  return withArithmetic(type, [](auto arithmetic) -> ConvertCode { return convert<decltype(arithmetic)>; });
}
TransposeCode transposeCode(int64_t bytes) {
  return bytes == 1   ? transposeTiles<uint8_t>
         : bytes == 2 ? transposeTiles<uint16_t>
         : bytes == 4 ? transposeTiles<uint32_t>
                      : transposeTiles<uint64_t>;
}
ListCode listCode(DType type) {
  return withArithmetic(type, [](auto arithmetic) -> ListCode { return writeList<decltype(arithmetic)>; });
}
IotaCode iotaCode(DType type) {
  return withArithmetic(type, [](auto arithmetic) -> IotaCode { return iota<decltype(arithmetic)>; });
}

} // namespace mt::kernels::cuda
