#include "kernels/cuda/Launching.h"

#include <algorithm>

namespace mt::kernels::cuda {

Dims rowMajor(const Dims &dims) {
  Dims strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

Dims broadcastStrides(const Dims &operand, const Dims &result) {
  Dims strides(result.size(), 0), own = rowMajor(operand);
  size_t lead = result.size() - operand.size();
  for (size_t i = 0; i < operand.size(); ++i)
    strides[lead + i] = operand[i] == 1 ? 0 : own[i];
  return strides;
}

dim3 rowThreads(int64_t width, int held) {
  int64_t warps = ceilDivide(width, int64_t{held} * kOctet * kWarp);
  return warps == 1 ? dim3(kWarp, 8) : dim3(static_cast<unsigned>(std::min<int64_t>(warps * kWarp, kRowThreads)));
}

RowCode rowCode(const RowShape &shape, std::initializer_list<Bound> operands, std::initializer_list<Bound> parameters) {
  DType type = operands.begin()->type;
  auto all = [](std::initializer_list<Bound> bounds, DType type) {
    return std::ranges::all_of(bounds, [&](const Bound &bound) { return !bound.present || bound.type == type; });
  };
  if (!shape.packed || !all(operands, type) || !all(parameters, DType::f32))
    return RowCode::any;
  return type == DType::f32 ? RowCode::f32 : type == DType::bf16 ? RowCode::bf16 : RowCode::any;
}

} // namespace mt::kernels::cuda
