#include "kernels/cpu/View.h"

namespace mt::kernels::cpu {

Dims rowMajor(const Dims &dims) {
  Dims strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

View::View(Dims dims, Dims strides, int64_t offset) : start(offset) {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1)
      continue;
    if (!sizes.empty() && steps.back() == strides[i] * dims[i]) {
      sizes.back() *= dims[i];
      steps.back() = strides[i];
    } else {
      sizes.push_back(dims[i]);
      steps.push_back(strides[i]);
    }
  }
}

View View::broadcast(const Dims &operand, const Dims &result) {
  Dims strides(result.size(), 0), own = rowMajor(operand);
  size_t lead = result.size() - operand.size();
  for (size_t i = 0; i < operand.size(); ++i)
    strides[lead + i] = operand[i] == 1 ? 0 : own[i];
  return View(result, strides);
}

} // namespace mt::kernels::cpu
