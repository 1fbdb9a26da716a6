// Operands seen as rows of float, whatever they are stored as: f32 in place, other types through a buffer of the
// caller. Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_FLOATROWS_H
#define MT_KERNELS_CPU_FLOATROWS_H

#include "kernels/cpu/Elements.h"
#include "kernels/cpu/Family.h"

namespace mt::kernels::cpu {

struct RowIn {
  size_t operand = 0;
  bool present = false, native = false;
  LoadRow<float> load = nullptr;

  RowIn() = default;
  RowIn(const Signature &call, size_t operand)
      : operand(operand), present(call.operands[operand].present), native(isNative<float>(call.operands[operand].type)),
        load(loader<float>(call.operands[operand].type)) {}

  /// Elements [begin, begin + count), in the operand or in `buffer`; null if the operand is absent.
  const float *at(const Launch &launch, int64_t begin, int64_t count, float *buffer) const {
    if (!present)
      return nullptr;
    if (native)
      return launch.at<const float>(operand) + begin;
    load(launch.operands[operand], begin, 1, count, buffer);
    return buffer;
  }
};

/// Write a row at `place`, adding if `adds`, then call `finish`.
struct RowOut {
  size_t operand = 0;
  bool present = false, native = false;
  StoreRow<float> store = nullptr;

  RowOut() = default;
  RowOut(const Signature &call, size_t operand)
      : operand(operand), present(call.operands[operand].present), native(isNative<float>(call.operands[operand].type)),
        store(storer<float>(call.operands[operand].type)) {}

  float *place(const Launch &launch, int64_t begin, float *buffer) const {
    return present && native ? launch.at<float>(operand) + begin : buffer;
  }
  bool adds(const Launch &launch) const { return present && native && launch.accumulates(operand); }
  void finish(const Launch &launch, int64_t begin, int64_t count, const float *buffer) const {
    if (present && !native)
      store(buffer, launch.operands[operand], begin, count, launch.accumulates(operand));
  }
};

} // namespace mt::kernels::cpu
#endif
