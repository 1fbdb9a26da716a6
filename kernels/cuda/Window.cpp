// Pools, prepared.
#include "kernels/cuda/Window.h"

#include "kernels/cuda/Launching.h"

namespace mt::kernels::cuda {
namespace {

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

} // namespace

std::span<const Entry> windowEntries() {
  static constexpr Entry kEntries[] = {{"pool", preparePool}, {"pool_grad", preparePoolGrad}};
  return kEntries;
}

} // namespace mt::kernels::cuda
