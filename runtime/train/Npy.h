// The header of NumPy's .npy format, versions 1 to 3: element type, dimensions, order, where the data begin.
#ifndef MT_RUNTIME_TRAIN_NPY_H
#define MT_RUNTIME_TRAIN_NPY_H

#include "runtime/train/Elements.h"

namespace mt::train {

/// An array inside bytes that somebody else owns; little-endian, C order (the last index varies
/// fastest), not necessarily aligned.
struct ArrayView {
  DType type = DType::f32;
  Dims dims;
  std::span<const std::byte> data; ///< exactly the elements
};

/// The array that a whole .npy file holds. Sets `columnMajor` if its elements are in Fortran order: the view is then not
/// yet in C order.
Result<ArrayView> parseNpy(std::span<const std::byte> file, bool &columnMajor);
/// The elements of an array in Fortran order, in C order.
std::vector<std::byte> rowMajor(const ArrayView &columnMajor);

/// Header of a version 1.0 file for such an array; a multiple of 64 bytes.
std::string npyHeader(DType type, std::span<const int64_t> dims);

} // namespace mt::train
#endif
