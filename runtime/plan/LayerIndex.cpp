#include "runtime/plan/LayerIndex.h"

#include "runtime/plan/Accesses.h"

#include <algorithm>
#include <tuple>

namespace mt::plan {
namespace {

/// A parameter's part, or a part of one, by where it lies.
struct Weight {
  Span span;
  uint32_t parameter;
};

std::vector<Weight> weightsByPlace(const Plan &plan) {
  std::vector<Weight> weights;
  for (uint32_t i = 0; i < plan.parameters.size(); ++i)
    for (const Part &part : plan.parameters[i].parts)
      if (part.name == kWeight)
        weights.push_back({part.span, i});
  std::sort(weights.begin(), weights.end(), [](const Weight &a, const Weight &b) {
    return std::tuple(a.span.space, a.span.offset) < std::tuple(b.span.space, b.span.offset);
  });
  return weights;
}

} // namespace

std::map<int32_t, std::vector<uint32_t>> parametersByLayer(const Plan &plan) {
  std::vector<int32_t> layerOf(plan.parameters.size(), -1);
  const std::vector<Weight> weights = weightsByPlace(plan);
  const Program *step = plan.program(ProgramKind::step);
  for (const Command &command : step ? step->commands : std::vector<Command>()) {
    if (command.layer < 0)
      continue;
    for (const Access &access : accessesOf(command).accesses) {
      auto at = std::lower_bound(weights.begin(), weights.end(), access, [](const Weight &weight, const Access &range) {
        return std::tuple(weight.span.space, weight.span.offset + weight.span.bytes) <=
               std::tuple(range.space, range.begin);
      });
      for (; at != weights.end() && at->span.space == access.space && at->span.offset < access.end; ++at)
        if (int32_t &layer = layerOf[at->parameter]; layer < 0 || command.layer < layer)
          layer = command.layer;
    }
  }
  std::map<int32_t, std::vector<uint32_t>> result;
  for (uint32_t i = 0; i < layerOf.size(); ++i)
    result[layerOf[i]].push_back(i);
  return result;
}

std::map<int32_t, std::map<Role, std::vector<uint32_t>>> commandsByLayer(const Program &program) {
  std::map<int32_t, std::map<Role, std::vector<uint32_t>>> result;
  for (uint32_t i = 0; i < program.commands.size(); ++i)
    result[program.commands[i].layer][program.commands[i].role].push_back(i);
  return result;
}

double elementsOf(const Parameter &parameter) {
  double elements = parameter.holdsScales() ? 0 : 1;
  for (int64_t dim : parameter.modelDims())
    elements *= static_cast<double>(dim);
  return elements;
}

uint64_t bytesOf(const Parameter &parameter) {
  uint64_t bytes = 0;
  for (const Part &part : parameter.parts)
    bytes += part.span.bytes;
  return bytes;
}

uint64_t bytesOf(const Command &command) {
  if (command.isCopy)
    return command.to.bytes;
  uint64_t bytes = 0;
  for (const Binding &binding : command.arguments)
    bytes += binding.span.bytes;
  return bytes;
}

} // namespace mt::plan
