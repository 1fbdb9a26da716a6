// Convolutions and pools, prepared.
#include "kernels/cuda/Window.h"

#include "kernels/cuda/Launching.h"

namespace mt::kernels::cuda {
namespace {

struct Convolution {
  ConvArguments arguments = {};
  Bound image, kernel, gradient, bias, result;
  ConvCode code = nullptr;
  bool byBlocks = false;

  Status operator()(const Launch &launch) const {
    if (!launch.operands[result.operand])
      return {};
    ConvArguments bound = arguments;
    bound.image = image.in(launch), bound.kernel = kernel.in(launch), bound.gradient = gradient.in(launch);
    bound.bias = bias.in(launch), bound.result = result.out(launch);
    return start(launch.stream, byBlocks ? bound.total : ceilDivide(bound.total, kThreads), kThreads, code, bound);
  }
};

ConvArguments argumentsOf(const Signature &call, size_t result) {
  ConvArguments arguments = {};
  arguments.shape = ConvShape::of(call);
  arguments.total = call.operands[result].elements();
  return arguments;
}

Result<Run> prepareConv(const Signature &call, Library &) {
  return Run(Convolution{
      argumentsOf(call, 3), Bound(call, 0), Bound(call, 1), {}, Bound(call, 2), Bound(call, 3), convCode()});
}
Result<Run> prepareDataGrad(const Signature &call, Library &) {
  return Run(
      Convolution{argumentsOf(call, 2), {}, Bound(call, 1), Bound(call, 0), {}, Bound(call, 2), convDataGradCode()});
}
Result<Run> prepareWeightGrad(const Signature &call, Library &) {
  return Run(Convolution{
      argumentsOf(call, 2), Bound(call, 1), {}, Bound(call, 0), {}, Bound(call, 2), convWeightGradCode(), true});
}

PoolKind kindOf(const Signature &call) {
  std::string kind = call.text("kind");
  return kind == "max" ? PoolKind::max : kind == "sum" ? PoolKind::sum : PoolKind::mean;
}

struct Pool {
  PoolArguments arguments = {};
  Bound operand, gradient, result;
  PoolCode code = nullptr;

  Status operator()(const Launch &launch) const {
    if (!launch.operands[result.operand])
      return {};
    PoolArguments bound = arguments;
    bound.operand = operand.in(launch), bound.gradient = gradient.in(launch), bound.result = result.out(launch);
    return start(launch.stream, ceilDivide(bound.total, kThreads), kThreads, code, bound);
  }
};

Result<Run> preparePool(const Signature &call, Library &) {
  Windows windows = Windows::of(call, call.operands[0].dims, call.operands[1].dims, call.integers("size"));
  return Run(Pool{{windows, kindOf(call), call.operands[1].elements(), {}, {}, {}},
                  Bound(call, 0),
                  {},
                  Bound(call, 1),
                  poolCode()});
}
Result<Run> preparePoolGrad(const Signature &call, Library &) {
  Windows windows = Windows::of(call, call.operands[2].dims, call.operands[0].dims, call.integers("size"));
  return Run(Pool{{windows, kindOf(call), call.operands[2].elements(), {}, {}, {}},
                  Bound(call, 1),
                  Bound(call, 0),
                  Bound(call, 2),
                  poolGradCode()});
}

constexpr Entry kEntries[] = {{"conv", prepareConv},
                              {"conv_data_grad", prepareDataGrad},
                              {"conv_weight_grad", prepareWeightGrad},
                              {"pool", preparePool},
                              {"pool_grad", preparePoolGrad}};

} // namespace

std::span<const Entry> windowEntries() { return kEntries; }

} // namespace mt::kernels::cuda
