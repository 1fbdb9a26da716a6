#include "runtime/plan/Program.h"

#include "kernels/Blocks.h"
#include "kernels/Optimizers.h"

#include <fmt/format.h>

#include <algorithm>

namespace mt::plan {

const Program *Plan::program(ProgramKind kind) const {
  auto found = std::ranges::find(programs, kind, &Program::kind);
  return found == programs.end() ? nullptr : &*found;
}

kernels::Shares sharesOf(const Plan &plan, const Parameter &parameter) {
  int64_t elements = 1;
  for (int64_t dim : parameter.dims)
    elements *= dim;
  const kernels::OptimizerSpec *optimizer = kernels::findOptimizer(parameter.optimizer);
  if (!parameter.trainable || !optimizer)
    return {elements, 1};
  return kernels::sharesOf(*optimizer, elements, plan.ranks);
}

std::string describePrecision(const Plan &plan) {
  const bool packs = std::ranges::any_of(plan.parameters, [](const Parameter &p) { return p.initial.packing.has_value(); });
  return plan.settings.precision + (packs ? ", its base in 4 bits" : "");
}

std::string describeLoss(const Settings &settings) {
  std::string text = settings.loss;
  if (settings.labelSmoothing > 0)
    text += fmt::format(" with label smoothing {}", settings.labelSmoothing);
  if (settings.zLoss > 0)
    text += fmt::format("{} z-loss {}", settings.labelSmoothing > 0 ? " and" : " with", settings.zLoss);
  return text;
}

Span everyRank(const Binding &binding) {
  return {binding.span.space, binding.span.offset, binding.span.bytes + binding.rankReach};
}

uint64_t deviceCount(const Plan &plan) {
  uint64_t count = 1;
  for (const Stream &stream : plan.streams)
    count = std::max(count, isOfHost(stream.kind) ? 1 : uint64_t{stream.device} + 1);
  for (const Space &space : plan.spaces)
    count = std::max(count, space.kind == SpaceKind::device ? uint64_t{space.device} + 1 : 1);
  return count;
}

kernels::Dims Packing::scaleDims() const {
  kernels::Dims scales = dims;
  if (!scales.empty() && block > 0)
    scales.back() = kernels::ceilDivide(scales.back(), block);
  return scales;
}

const Part *Parameter::part(std::string_view partName) const {
  auto found = std::ranges::find(parts, partName, &Part::name);
  return found == parts.end() ? nullptr : &*found;
}

} // namespace mt::plan
