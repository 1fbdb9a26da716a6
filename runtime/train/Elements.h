// Conversion of arrays between element types, as files and plans store them. Not a numerics library: the kernels have
// their own casts. Used by the corpora (a file's type to the plan's) and by export (fp32 to the model's type).
#ifndef MT_RUNTIME_TRAIN_ELEMENTS_H
#define MT_RUNTIME_TRAIN_ELEMENTS_H

#include "kernels/Catalogue.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace mt::train {

using kernels::Dims;
using kernels::DType;

/// Converts `count` elements. Floats become floats (round to nearest even), integers become integers or floats.
/// Fails where a float would become an integer, or an integer does not fit; the message gives the element's index.
Status convert(DType fromType, const std::byte *from, DType toType, std::byte *to, int64_t count);

/// A floating-point array as floats.
Result<std::vector<float>> floatsOf(DType type, std::span<const std::byte> bytes);

/// Element `index` of an integer or boolean array.
int64_t integerAt(DType type, const std::byte *data, int64_t index);
/// Index of the first of an integer array's elements that is neither in [0, limit) nor `except`; `count` if all are.
int64_t firstOutside(DType type, const std::byte *data, int64_t count, int64_t limit, std::optional<int64_t> except);

float bf16ToFloat(uint16_t bits);
uint16_t floatToBf16(float value);
float f16ToFloat(uint16_t bits);
uint16_t floatToF16(float value);

/// Product of `dims`, or nothing where it is negative or does not fit 63 bits with 8 bytes an element.
std::optional<int64_t> elementCount(std::span<const int64_t> dims);
/// "[4, 32]".
std::string text(std::span<const int64_t> dims);

} // namespace mt::train
#endif
