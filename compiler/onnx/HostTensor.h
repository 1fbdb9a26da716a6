// A small tensor whose values are known when compiling: shapes, axes, scalars, and splats of any size. What shape
// arithmetic is evaluated on; never weights. Values are held as 64-bit integers or doubles, whatever the type.
#ifndef MT_COMPILER_ONNX_HOSTTENSOR_H
#define MT_COMPILER_ONNX_HOSTTENSOR_H

#include "compiler/onnx/ElementTypes.h"

#include <cstdint>
#include <vector>

namespace mt::onnx {

class HostTensor {
public:
  HostTensor() = default;
  /// All elements zero (one stored value).
  HostTensor(DType type, Dims dims) : HostTensor(splat(type, std::move(dims), 0.0)) {}
  static HostTensor integers(std::vector<int64_t> values);                ///< rank 1, i64
  static HostTensor integerScalar(int64_t value);                         ///< rank 0, i64
  static HostTensor ofIntegers(DType type, Dims dims, std::vector<int64_t> values);
  static HostTensor ofReals(DType type, Dims dims, std::vector<double> values); ///< rounded to `type`
  static HostTensor splat(DType type, Dims dims, double value);
  static HostTensor splatInteger(DType type, Dims dims, int64_t value);

  DType type() const { return elementType; }
  const Dims &dims() const { return shape; }
  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  int64_t elements() const { return count; }
  bool real() const { return isFloat(elementType); }
  /// All elements equal, one value stored.
  bool isSplat() const { return uniform; }
  /// Elements actually held: 1 for a splat.
  int64_t stored() const { return real() ? static_cast<int64_t>(reals.size()) : static_cast<int64_t>(ints.size()); }

  /// Element `index` in row-major order, as a real or (truncated) as an integer.
  double realAt(int64_t index) const;
  int64_t intAt(int64_t index) const;
  std::vector<int64_t> toIntegers() const;
  std::vector<double> toReals() const;

  /// The same values under other dims of as many elements.
  HostTensor reshaped(Dims dims) const;
  HostTensor converted(DType type) const;

private:
  void finish();

  DType elementType = DType::i64;
  Dims shape;
  int64_t count = 0;
  bool uniform = false;
  std::vector<int64_t> ints;
  std::vector<double> reals;
};

} // namespace mt::onnx
#endif
