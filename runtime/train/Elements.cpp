#include "runtime/train/Elements.h"

#include <fmt/ranges.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace mt::train {

float bf16ToFloat(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t floatToBf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value))
    return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float f16ToFloat(uint16_t bits) {
  float sign = (bits & 0x8000) ? -1.0f : 1.0f;
  int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent == 31)
    return fraction ? std::numeric_limits<float>::quiet_NaN() : sign * std::numeric_limits<float>::infinity();
  if (exponent == 0)
    return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
}

uint16_t floatToF16(float value) {
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value))
    return sign | 0x7e00;
  double magnitude = std::fabs(value);
  if (magnitude >= 65520.0)
    return sign | 0x7c00;
  int exponent = magnitude < 0x1p-14 ? -14 : std::ilogb(magnitude);
  // The significand in units of the last place; nearbyint rounds ties to even. A carry moves into the exponent.
  auto units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  return static_cast<uint16_t>(sign + ((exponent + 14) << 10) + units);
}

namespace {

template <typename T> T load(const std::byte *data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <typename T> void store(std::byte *data, int64_t index, T value) {
  std::memcpy(data + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

double realAt(DType type, const std::byte *data, int64_t index) {
  switch (type) {
  case DType::f32:
    return load<float>(data, index);
  case DType::f64:
    return load<double>(data, index);
  case DType::bf16:
    return bf16ToFloat(load<uint16_t>(data, index));
  case DType::f16:
    return f16ToFloat(load<uint16_t>(data, index));
  default:
    return static_cast<double>(integerAt(type, data, index));
  }
}

void storeReal(DType type, std::byte *data, int64_t index, double value) {
  switch (type) {
  case DType::f32:
    return store(data, index, static_cast<float>(value));
  case DType::bf16:
    return store(data, index, floatToBf16(static_cast<float>(value)));
  case DType::f16:
    return store(data, index, floatToF16(static_cast<float>(value)));
  default:
    return store(data, index, value);
  }
}

/// Calls `body` with a value of the type that stores an integer or boolean.
template <typename Body> auto withInteger(DType type, const Body &body) {
  switch (type) {
  case DType::i64:
    return body(int64_t());
  case DType::i32:
    return body(int32_t());
  case DType::i16:
    return body(int16_t());
  case DType::i8:
    return body(int8_t());
  default:
    return body(uint8_t());
  }
}

/// Integers become other integers or booleans; the index of the first that does not fit, or `count`.
int64_t convertIntegers(DType fromType, const std::byte *from, DType toType, std::byte *to, int64_t count) {
  return withInteger(fromType, [&](auto source) {
    using From = decltype(source);
    return withInteger(toType, [&](auto target) {
      using To = decltype(target);
      bool toTruth = toType == DType::boolean, fromTruth = fromType == DType::boolean;
      for (int64_t i = 0; i < count; ++i) {
        int64_t value = load<From>(from, i);
        if (toTruth || fromTruth)
          value = value != 0;
        if (value < int64_t(std::numeric_limits<To>::min()) || value > int64_t(std::numeric_limits<To>::max()))
          return i;
        store(to, i, static_cast<To>(value));
      }
      return count;
    });
  });
}

template <typename T>
int64_t firstOutsideOf(const std::byte *data, int64_t count, int64_t limit, std::optional<int64_t> except) {
  for (int64_t i = 0; i < count; ++i) {
    int64_t value = load<T>(data, i);
    if ((value < 0 || value >= limit) && value != except)
      return i;
  }
  return count;
}

} // namespace

int64_t firstOutside(DType type, const std::byte *data, int64_t count, int64_t limit, std::optional<int64_t> except) {
  return withInteger(type, [&](auto one) { return firstOutsideOf<decltype(one)>(data, count, limit, except); });
}

Result<std::vector<float>> floatsOf(DType type, std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / byteSize(type));
  MT_TRY(convert(type, bytes.data(), DType::f32, reinterpret_cast<std::byte *>(values.data()),
                 static_cast<int64_t>(values.size())));
  return values;
}

int64_t integerAt(DType type, const std::byte *data, int64_t index) {
  switch (type) {
  case DType::i64:
    return load<int64_t>(data, index);
  case DType::i32:
    return load<int32_t>(data, index);
  case DType::i16:
    return load<int16_t>(data, index);
  case DType::i8:
    return load<int8_t>(data, index);
  case DType::u8:
    return load<uint8_t>(data, index);
  case DType::boolean:
    return load<uint8_t>(data, index) != 0;
  default:
    return static_cast<int64_t>(realAt(type, data, index));
  }
}

Status convert(DType fromType, const std::byte *from, DType toType, std::byte *to, int64_t count) {
  if (fromType == toType) {
    if (count > 0)
      std::memcpy(to, from, static_cast<size_t>(count) * byteSize(toType));
    return Status();
  }
  if (isFloat(fromType) && !isFloat(toType))
    return fail("{} numbers where {} is wanted", name(fromType), name(toType));
  if (!isFloat(toType)) {
    int64_t bad = convertIntegers(fromType, from, toType, to, count);
    return bad == count ? Status()
                        : fail("element {} is {}, which {} cannot hold", bad, integerAt(fromType, from, bad),
                               name(toType));
  }
  for (int64_t i = 0; i < count; ++i)
    storeReal(toType, to, i, realAt(fromType, from, i));
  return Status();
}

std::optional<int64_t> elementCount(std::span<const int64_t> dims) {
  int64_t count = 1;
  for (int64_t dim : dims) {
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count) || count > (int64_t(1) << 59))
      return std::nullopt;
  }
  return count;
}

std::string text(std::span<const int64_t> dims) { return fmt::format("[{}]", fmt::join(dims, ", ")); }

} // namespace mt::train
