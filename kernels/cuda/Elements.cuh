// Elements between storage and arithmetic, by the storage type at run time: any float but f64 is read as float, f64 as
// double, integers as int64_t, booleans as any of them. One at a time or eight at a time: kernels are written once for
// all storage types, and the branch on the type is the same for all threads. Device code of kernels/cuda alone.
#ifndef MT_KERNELS_CUDA_ELEMENTS_CUH
#define MT_KERNELS_CUDA_ELEMENTS_CUH

#include "kernels/cuda/Convert.cuh"
#include "kernels/cuda/Elements.h"

#include <type_traits>

namespace mt::kernels::cuda {

/// Eight elements side by side, loaded and stored by instructions of up to 16 bytes.
template <typename S> struct alignas(sizeof(S) * kOctet < 16 ? sizeof(S) * kOctet : 16) Pack { S at[kOctet]; };

template <typename C, typename S> __device__ __forceinline__ C fromStorage(S value) {
  if constexpr (std::is_same_v<S, Bfloat16> || std::is_same_v<S, Half>)
    return static_cast<C>(widen(value));
  else if constexpr (std::is_same_v<S, Boolean>)
    return static_cast<C>(value.value != 0);
  else
    return static_cast<C>(value);
}

template <typename S, typename C> __device__ __forceinline__ S toStorage(C value) {
  if constexpr (std::is_same_v<S, Bfloat16>)
    return toBfloat16(value);
  else if constexpr (std::is_same_v<S, Half>)
    return toHalf(value);
  else if constexpr (std::is_same_v<S, Boolean>)
    return Boolean{static_cast<uint8_t>(value != C(0))};
  else
    return static_cast<S>(value);
}

/// a + b; integers wrap around.
template <typename C> __device__ __forceinline__ C plus(C a, C b) {
  if constexpr (std::is_integral_v<C>)
    return static_cast<C>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return a + b;
}

/// Calls visit(S()) with the C++ type that holds a storage type of C's arithmetic, or a boolean.
template <typename C, typename Visit> __device__ __forceinline__ void withStorage(DType type, Visit visit) {
  if constexpr (std::is_same_v<C, float>) {
    if (type == DType::f32)
      return visit(float());
    if (type == DType::bf16)
      return visit(Bfloat16());
    if (type == DType::f16)
      return visit(Half());
  } else if constexpr (std::is_same_v<C, double>) {
    if (type == DType::f64)
      return visit(double());
  } else {
    if (type == DType::i64)
      return visit(int64_t());
    if (type == DType::i32)
      return visit(int32_t());
    if (type == DType::i16)
      return visit(int16_t());
    if (type == DType::i8)
      return visit(int8_t());
    if (type == DType::u8)
      return visit(uint8_t());
  }
  visit(Boolean());
}

template <typename C> __device__ __forceinline__ C loadOne(DType type, const void *base, int64_t at) {
  C value = 0;
  withStorage<C>(type, [&](auto storage) { value = fromStorage<C>(static_cast<const decltype(storage) *>(base)[at]); });
  return value;
}

template <typename C> __device__ __forceinline__ void storeOne(DType type, void *base, int64_t at, C value, bool adds) {
  withStorage<C>(type, [&](auto storage) {
    using S = decltype(storage);
    S *place = static_cast<S *>(base) + at;
    *place = toStorage<S>(adds ? plus(fromStorage<C>(*place), value) : value);
  });
}

/// The same for the types that come in packs: what models are made of. hasPacks() in Elements.h names them.
template <typename C, typename Visit> __device__ __forceinline__ void withPacks(DType type, Visit visit) {
  if constexpr (std::is_same_v<C, float>) {
    if (type == DType::f32)
      return visit(float());
    if (type == DType::bf16)
      return visit(Bfloat16());
  } else if constexpr (std::is_same_v<C, double>) {
    if (type == DType::f64)
      return visit(double());
  } else {
    if (type == DType::i64)
      return visit(int64_t());
    if (type == DType::i32)
      return visit(int32_t());
  }
  visit(Boolean());
}

template <typename C>
__device__ __forceinline__ void loadPack(DType type, const void *base, int64_t at, C (&out)[kOctet]) {
  withPacks<C>(type, [&](auto storage) {
    using S = decltype(storage);
    Pack<S> pack = *reinterpret_cast<const Pack<S> *>(static_cast<const S *>(base) + at);
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
      out[i] = fromStorage<C>(pack.at[i]);
  });
}

template <typename C>
__device__ __forceinline__ void storePack(DType type, void *base, int64_t at, const C (&in)[kOctet], bool adds) {
  withPacks<C>(type, [&](auto storage) {
    using S = decltype(storage);
    Pack<S> *place = reinterpret_cast<Pack<S> *>(static_cast<S *>(base) + at), pack;
    if (adds)
      pack = *place;
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
      pack.at[i] = toStorage<S>(adds ? plus(fromStorage<C>(pack.at[i]), in[i]) : in[i]);
    *place = pack;
  });
}

/// Eight places of a row that one thread holds: first, first + step, ..; those at or beyond `size` are none.
struct Places {
  int64_t first = 0, step = 1, size = 0;
  bool packed = false; ///< side by side, and all addresses allow packs
  __device__ __forceinline__ int64_t at(int i) const { return first + i * step; }
  __device__ __forceinline__ bool whole() const { return packed && first + kOctet <= size; }
};

/// The places of `thread` in piece `piece` of a row cut into pieces of eight elements for each thread.
__device__ __forceinline__ Places placesOf(int64_t piece, int thread, int threads, int64_t size, bool packed) {
  int64_t begin = piece * kOctet * threads;
  return packed ? Places{begin + thread * kOctet, 1, size, true} : Places{begin + thread, threads, size, false};
}

// Element by element: functions that are called, because their code is long.

template <typename C>
__device__ __noinline__ void loadScattered(In in, int64_t base, Places places, C otherwise, C *out) {
  withStorage<C>(in.type, [&](auto storage) {
    const auto *from = static_cast<const decltype(storage) *>(in.data) + base;
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
      out[i] = places.at(i) < places.size ? fromStorage<C>(from[places.at(i)]) : otherwise;
  });
}

template <typename C> __device__ __noinline__ void storeScattered(Out out, int64_t base, Places places, const C *in) {
  withStorage<C>(out.type, [&](auto storage) {
    using S = decltype(storage);
    S *to = static_cast<S *>(out.data) + base;
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
      if (places.at(i) < places.size)
        to[places.at(i)] = toStorage<S>(out.adds ? plus(fromStorage<C>(to[places.at(i)]), in[i]) : in[i]);
  });
}

/// out[i] = in[base + place i], or `otherwise` where there is none.
template <typename C>
__device__ __forceinline__ void load(In in, int64_t base, Places places, C otherwise, C (&out)[kOctet]) {
  if (places.whole())
    return loadPack(in.type, in.data, base + places.first, out);
  C scattered[kOctet]; // in memory, so that `out` need not be
  loadScattered(in, base, places, otherwise, scattered);
#pragma unroll
  for (int i = 0; i < kOctet; ++i)
    out[i] = scattered[i];
}

template <typename C>
__device__ __forceinline__ void store(Out out, int64_t base, Places places, const C (&in)[kOctet]) {
  if (places.whole())
    return storePack(out.type, out.data, base + places.first, in, out.adds);
  C scattered[kOctet];
#pragma unroll
  for (int i = 0; i < kOctet; ++i)
    scattered[i] = in[i];
  storeScattered(out, base, places, scattered);
}

} // namespace mt::kernels::cuda
#endif
