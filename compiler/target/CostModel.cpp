#include "compiler/target/CostModel.h"

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

} // namespace

double kernelSeconds(const Target &target, double flops, double bytes, kernels::DType type) {
  return std::max(flops / rateOf(target, type), bytes / target.deviceBandwidth) + target.kernelOverheadSeconds;
}

double kernelSeconds(const Target &target, const kernels::Signature &call) {
  return kernelSeconds(target, kernels::flops(call), kernels::traffic(call), computeType(call));
}

double copySeconds(const Target &target, uint64_t bytes, CopyDirection direction) {
  const double moved = static_cast<double>(bytes);
  switch (direction) {
  case CopyDirection::upload:
    return moved / target.uploadBandwidth + target.copyOverheadSeconds;
  case CopyDirection::download:
    return moved / target.downloadBandwidth + target.copyOverheadSeconds;
  case CopyDirection::withinDevice: // reads and writes every byte
    return 2 * moved / target.deviceBandwidth + target.copyOverheadSeconds;
  case CopyDirection::withinHost:
    return 2 * moved / target.hostBandwidth + target.copyOverheadSeconds;
  }
  return 0;
}

double hostSeconds(const Target &target, uint64_t bytes) {
  return static_cast<double>(bytes) / target.hostBandwidth + target.kernelOverheadSeconds;
}

double hostKernelSeconds(const Target &target, const kernels::Signature &call) {
  return hostSeconds(target, static_cast<uint64_t>(kernels::traffic(call)));
}

} // namespace mt::target
