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
  else if constexpr (std::is_same_v<C, float>)
    return __fadd_rn(a, b); // of a product that was rounded, fused kernels too
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

/// Eight elements as they lie in memory, of any type of C's arithmetic. They are brought apart from being widened, so
/// that a thread has all its operands under way before it waits for one.
template <typename C> struct Raw { uint32_t words[2 * sizeof(C)]; };

template <typename C> __device__ __forceinline__ Raw<C> bring(DType type, const void *base, int64_t at) {
  Raw<C> raw;
  withPacks<C>(type, [&](auto storage) {
    using S = decltype(storage);
    const S *from = static_cast<const S *>(base) + at;
    if constexpr (sizeof(S) == 1) {
      uint2 words = *reinterpret_cast<const uint2 *>(from);
      raw.words[0] = words.x, raw.words[1] = words.y;
    } else {
#pragma unroll
      for (int i = 0; i < static_cast<int>(2 * sizeof(S)); i += 4) {
        uint4 words = reinterpret_cast<const uint4 *>(from)[i / 4];
        raw.words[i] = words.x, raw.words[i + 1] = words.y, raw.words[i + 2] = words.z, raw.words[i + 3] = words.w;
      }
    }
  });
  return raw;
}

template <typename S> __device__ __forceinline__ S elementOf(const uint32_t *words, int i) {
  constexpr int kEach = sizeof(S) < 4 ? 4 / sizeof(S) : 1; // elements of a word
  uint64_t bits = sizeof(S) == 8 ? words[2 * i] | static_cast<uint64_t>(words[2 * i + 1]) << 32
                                 : words[i / kEach] >> (i % kEach * 8 * sizeof(S));
  S element;
  memcpy(&element, &bits, sizeof(S));
  return element;
}

template <typename C> __device__ __forceinline__ void widen(DType type, const Raw<C> &raw, C (&out)[kOctet]) {
  withPacks<C>(type, [&](auto storage) {
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
      out[i] = fromStorage<C>(elementOf<decltype(storage)>(raw.words, i));
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
  bool exact = false;  ///< packed, and the size is a multiple of eight
  __device__ __forceinline__ int64_t at(int i) const { return first + i * step; }
  __device__ __forceinline__ bool none() const { return first >= size; }
  __device__ __forceinline__ bool whole() const { return packed && first + (exact ? 1 : kOctet) <= size; }
};

/// The places of `thread` in piece `piece` of a row cut into pieces of eight elements for each thread.
__device__ __forceinline__ Places placesOf(int64_t piece, int thread, int threads, int64_t size, bool packed) {
  int64_t begin = piece * kOctet * threads;
  return packed ? Places{begin + thread * kOctet, 1, size, true} : Places{begin + thread, threads, size};
}

/// What is loaded for the places of a row: elements from `base` on, or `otherwise` where there is no place or no data.
template <typename C> struct Read {
  In in;
  int64_t base = 0;
  Places places;
  C otherwise = 0;
};

// Element by element: functions that are called, because their code is long.

template <typename C> __device__ __noinline__ void loadScattered(const Read<C> &read, C *out) {
  withStorage<C>(read.in.type, [&](auto storage) {
    const auto *from = static_cast<const decltype(storage) *>(read.in.data) + read.base;
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
      out[i] = read.places.at(i) < read.places.size ? fromStorage<C>(from[read.places.at(i)]) : read.otherwise;
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

/// Several reads, all under way before one is waited for.
template <int Count, typename C>
__device__ __forceinline__ void load(const Read<C> (&reads)[Count], C (&out)[Count][kOctet]) {
  Raw<C> raw[Count];
#pragma unroll
  for (int n = 0; n < Count; ++n)
    if (const Read<C> &read = reads[n]; read.in.data && read.places.whole())
      raw[n] = bring<C>(read.in.type, read.in.data, read.base + read.places.first);
#pragma unroll
  for (int n = 0; n < Count; ++n) {
    const Read<C> &read = reads[n];
    if (read.in.data && read.places.whole()) {
      widen(read.in.type, raw[n], out[n]);
      continue;
    }
    C scattered[kOctet]; // in memory, so that `out` need not be
    bool some = read.in.data && !read.places.exact && !read.places.none();
    if (some) {
      const Read<C> copy = read; // so that only this one is in memory, and not all of `reads`, always
      loadScattered(copy, scattered);
    }
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
      out[n][i] = some ? scattered[i] : read.otherwise;
  }
}

template <typename C> __device__ __forceinline__ void load(const Read<C> &read, C (&out)[kOctet]) {
  Read<C> reads[1] = {read};
  C values[1][kOctet];
  load(reads, values);
#pragma unroll
  for (int i = 0; i < kOctet; ++i)
    out[i] = values[0][i];
}

template <typename C>
__device__ __forceinline__ void store(Out out, int64_t base, Places places, const C (&in)[kOctet]) {
  if (places.whole())
    return storePack(out.type, out.data, base + places.first, in, out.adds);
  if (places.exact || places.none())
    return;
  C scattered[kOctet];
#pragma unroll
  for (int i = 0; i < kOctet; ++i)
    scattered[i] = in[i];
  storeScattered(out, base, places, scattered);
}

} // namespace mt::kernels::cuda
#endif
