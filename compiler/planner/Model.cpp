#include "compiler/planner/Model.h"

#include "compiler/planner/Decisions.h"

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

std::string Model::updateOf(int64_t parameter) const {
  return optimizer + (parameters[static_cast<size_t>(parameter)].isSplit() ? "_split" : "");
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
