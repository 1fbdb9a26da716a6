// Elementwise operators (and ReduceLogSum) that may make infinities, or what is no number, of finite numbers, or have
// such a slope there. Where both of two ways to compute are computed, or rows of which some do not count, such a number
// would reach the gradient of what does count, as zero times infinity.
#ifndef MT_COMPILER_ONNX_SAFENUMBERS_H
#define MT_COMPILER_ONNX_SAFENUMBERS_H

#include <cstddef>
#include <optional>
#include <string>

namespace mt::onnx {

/// What input `index` of the standard's operator may always be; none where it may be any number.
std::optional<double> safeNumber(const std::string &op, size_t index);

} // namespace mt::onnx
#endif
