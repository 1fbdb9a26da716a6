#include "kernels/cpu/Elements.h"

#include "kernels/Bf16.h"
#include "kernels/cpu/Vector.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace mt::kernels::cpu {
namespace {

struct Half {
  uint16_t bits;
};
struct Boolean {
  uint8_t value;
};

float widen(Half value) {
  uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000) << 16;
  uint32_t magnitude = value.bits & 0x7fff;
  float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f; // exponent bias 15 to 127, subnormals too
  uint32_t bits = magnitude >= 0x7c00 ? (magnitude << 13) | 0x7f800000 : std::bit_cast<uint32_t>(scaled);
  return std::bit_cast<float>(sign | bits);
}

Half toHalf(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return {static_cast<uint16_t>(sign | 0x7e00)};
  if (magnitude >= 0x477ff000) // rounds beyond the largest finite half
    return {static_cast<uint16_t>(sign | 0x7c00)};
  if (magnitude < 0x38800000) { // subnormal: let the addition round
    float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000))};
  }
  return {static_cast<uint16_t>(sign | ((magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13))};
}

template <typename C, typename S> C fromStorage(S value) {
  if constexpr (std::is_same_v<S, Bf16> || std::is_same_v<S, Half>)
    return static_cast<C>(widen(value));
  else if constexpr (std::is_same_v<S, Boolean>)
    return static_cast<C>(value.value != 0);
  else
    return static_cast<C>(value);
}

/// Floats to integers truncate; what the integer cannot hold becomes its nearest, NaN becomes zero.
template <typename I, typename C> I truncate(C value) {
  if (std::isnan(value))
    return 0;
  if (value < static_cast<C>(std::numeric_limits<I>::min()))
    return std::numeric_limits<I>::min();
  if (value >= static_cast<C>(std::numeric_limits<I>::max()))
    return std::numeric_limits<I>::max();
  return static_cast<I>(value);
}

template <typename S, typename C> S toStorage(C value) {
  if constexpr (std::is_same_v<S, Bf16>)
    return nearest(static_cast<float>(value));
  else if constexpr (std::is_same_v<S, Half>)
    return toHalf(static_cast<float>(value));
  else if constexpr (std::is_same_v<S, Boolean>)
    return Boolean{static_cast<uint8_t>(value != C(0))};
  else if constexpr (std::is_integral_v<S> && std::is_floating_point_v<C>)
    return truncate<S>(value);
  else
    return static_cast<S>(value);
}

template <typename C, typename S>
void loadRow(const void *base, int64_t offset, int64_t stride, int64_t count, C *out) {
  const S *in = static_cast<const S *>(base) + offset;
  if (stride == 1) {
    if constexpr (std::is_same_v<C, S>)
      std::memcpy(out, in, static_cast<size_t>(count) * sizeof(C));
    else if constexpr (std::is_same_v<S, Bf16> && std::is_same_v<C, float>)
      vec::widen(in, count, out);
    else
      for (int64_t i = 0; i < count; ++i)
        out[i] = fromStorage<C>(in[i]);
  } else if (stride == 0) {
    C value = fromStorage<C>(*in);
    for (int64_t i = 0; i < count; ++i)
      out[i] = value;
  } else {
    for (int64_t i = 0; i < count; ++i)
      out[i] = fromStorage<C>(in[i * stride]);
  }
}

/// a + b; integers wrap around.
template <typename C> C sum(C a, C b) {
  if constexpr (std::is_integral_v<C>)
    return static_cast<C>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return a + b;
}

template <typename C, typename S>
void storeRow(const C *in, void *base, int64_t offset, int64_t count, bool accumulate) {
  S *out = static_cast<S *>(base) + offset;
  if constexpr (std::is_same_v<S, Bf16> && std::is_same_v<C, float>)
    return vec::narrow(in, count, accumulate, out);
  if (accumulate)
    for (int64_t i = 0; i < count; ++i)
      out[i] = toStorage<S>(sum(fromStorage<C>(out[i]), in[i]));
  else if constexpr (std::is_same_v<C, S>)
    std::memcpy(out, in, static_cast<size_t>(count) * sizeof(C));
  else
    for (int64_t i = 0; i < count; ++i)
      out[i] = toStorage<S>(in[i]);
}

/// Calls visit(S()) with the C++ type that holds a storage type.
template <typename Visit> auto withStorage(DType type, Visit visit) {
  switch (type) {
  case DType::f32:
    return visit(float());
  case DType::bf16:
    return visit(Bf16());
  case DType::f16:
    return visit(Half());
  case DType::f64:
    return visit(double());
  case DType::i64:
    return visit(int64_t());
  case DType::i32:
    return visit(int32_t());
  case DType::i16:
    return visit(int16_t());
  case DType::i8:
    return visit(int8_t());
  case DType::u8:
    return visit(uint8_t());
  case DType::boolean:
    break;
  }
  return visit(Boolean());
}

} // namespace

template <typename C> LoadRow<C> loader(DType storage) {
  return withStorage(storage, [](auto type) -> LoadRow<C> { return loadRow<C, decltype(type)>; });
}

template <typename C> StoreRow<C> storer(DType storage) {
  return withStorage(storage, [](auto type) -> StoreRow<C> { return storeRow<C, decltype(type)>; });
}

Arithmetic arithmeticOf(DType storage) {
  switch (storage) {
  case DType::f32:
  case DType::bf16:
  case DType::f16:
    return Arithmetic::real32;
  case DType::f64:
    return Arithmetic::real64;
  default:
    return Arithmetic::integer;
  }
}

template <typename C> bool isNative(DType storage) {
  return withStorage(storage, [](auto type) { return std::is_same_v<C, decltype(type)>; });
}

template LoadRow<float> loader<float>(DType);
template LoadRow<double> loader<double>(DType);
template LoadRow<int64_t> loader<int64_t>(DType);
template StoreRow<float> storer<float>(DType);
template StoreRow<double> storer<double>(DType);
template StoreRow<int64_t> storer<int64_t>(DType);
template bool isNative<float>(DType);
template bool isNative<double>(DType);
template bool isNative<int64_t>(DType);

} // namespace mt::kernels::cpu
