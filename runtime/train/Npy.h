// The header of NumPy's .npy format, versions 1 to 3: element type, dimensions, where the data begin. C order only.
#ifndef MT_RUNTIME_TRAIN_NPY_H
#define MT_RUNTIME_TRAIN_NPY_H

#include "runtime/train/Elements.h"

namespace mt::train {

/// An array inside bytes that somebody else owns; little-endian, C order, not necessarily aligned.
struct ArrayView {
  DType type = DType::f32;
  Dims dims;
  std::span<const std::byte> data; ///< exactly the elements
};

/// The array that a whole .npy file holds.
Result<ArrayView> parseNpy(std::span<const std::byte> file);

/// Header of a version 1.0 file for such an array; a multiple of 64 bytes.
std::string npyHeader(DType type, std::span<const int64_t> dims);

} // namespace mt::train
#endif
