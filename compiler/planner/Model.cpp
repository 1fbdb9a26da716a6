#include "compiler/planner/Model.h"

#include "compiler/planner/Decisions.h"
#include "runtime/plan/Program.h"

#include <algorithm>

namespace mt::planner {

int64_t TensorType::elements() const {
  int64_t count = 1;
  for (int64_t size : dims)
    count *= size;
  return count;
}

int64_t Model::homeOf(int64_t parameter) const {
  const Parameter &entry = parameters[static_cast<size_t>(parameter)];
  return entry.isTrained() ? packs[static_cast<size_t>(entry.pack)].complete() : entry.owner;
}

Status Model::setOptimizer(const std::string &usual) {
  for (Parameter &parameter : parameters) {
    if (parameter.optimizer.empty())
      parameter.optimizer = usual;
    parameter.spec = kernels::findOptimizer(parameter.optimizer);
    if (!parameter.spec)
      return fail("optimizer '{}': must be {}", parameter.optimizer, kernels::optimizerList());
    parameter.rest.clear();
    if (parameter.isSplit())
      parameter.rest.push_back({plan::kRemainderPart, {kernels::DType::i16, parameter.type.dims}});
    for (size_t i = 0; i < parameter.spec->state.size(); ++i) {
      const kernels::StatePart &part = parameter.spec->state[i];
      parameter.rest.push_back(
          {plan::kStateParts + static_cast<int64_t>(i), {part.type, kernels::partDims(part.elements, parameter.type.dims)}, part.elements});
    }
  }
  return {};
}

std::string Model::updateOf(int64_t parameter) const {
  const Parameter &entry = parameters[static_cast<size_t>(parameter)];
  return std::string(entry.isSplit() ? entry.spec->split : entry.spec->name);
}

bool Model::backwardReads(int64_t layer, int64_t rung, int64_t operand) const {
  const Layer &entry = layers[static_cast<size_t>(layer)];
  if (!entry.isDifferentiated())
    return false;
  const Template &backward = templates[static_cast<size_t>(entry.rungs[entry.isLoss ? 0 : static_cast<size_t>(rung)].backward)];
  return std::ranges::any_of(backward.arguments, [&](const Argument &argument) {
    return argument.kind == Argument::operand && argument.index == operand;
  });
}

} // namespace mt::planner
