#include "compiler/target/CostModel.h"

#include "compiler/target/Rates.h"

#include <algorithm>

namespace mt::target {
namespace {

double rateOf(const Target &target, kernels::DType type) {
  const bool narrow = type == kernels::DType::bf16 || type == kernels::DType::f16;
  return narrow ? target.bf16Flops : target.fp32Flops;
}

/// The type that a call computes in: that of its first floating-point operand; indices come first in some kernels.
kernels::DType computeType(const kernels::Signature &call) {
  using enum kernels::DType;
  for (const kernels::OperandType &operand : call.operands)
    if (operand.present && (operand.type == f32 || operand.type == bf16 || operand.type == f16 || operand.type == f64))
      return operand.type;
  return f32;
}

double ratio(const Target &target, Place place, const kernels::Signature &call) {
  return target.rates ? target.rates->ratio(place, call).value_or(1) : 1;
}

} // namespace

double roofline(const Target &target, const kernels::Signature &call) {
  return std::max(kernels::flops(call) / rateOf(target, computeType(call)), kernels::traffic(call) / target.deviceBandwidth) +
         target.kernelOverheadSeconds;
}

double hostRoofline(const Target &target, const kernels::Signature &call) {
  return kernels::traffic(call) / target.hostBandwidth + target.kernelOverheadSeconds;
}

double kernelSeconds(const Target &target, const kernels::Signature &call) {
  if (const kernels::Kernel *kernel = kernels::find(call.kernel); target.rates && kernel && kernel->pieces)
    if (std::optional<double> seconds = target.rates->whole(Place::device, call))
      return *seconds;
  double sum = 0;
  for (const kernels::Piece &piece : kernels::piecesOf(call))
    sum += piece.times * roofline(target, piece.call) * ratio(target, Place::device, piece.call);
  return sum;
}

double hostKernelSeconds(const Target &target, const kernels::Signature &call) {
  return hostRoofline(target, call) * ratio(target, Place::host, call);
}

} // namespace mt::target
