#include "compiler/planner/Model.h"

#include "compiler/planner/Decisions.h"
#include "compiler/planner/Emitter.h"
#include "runtime/plan/Program.h"

#include <algorithm>
#include <bit>

namespace mt::planner {

int64_t Model::homeOf(int64_t parameter) const {
  const Parameter &entry = parameters[static_cast<size_t>(parameter)];
  return entry.isTrained() ? packs[static_cast<size_t>(entry.pack)].complete() : entry.owner;
}

Status Model::setMicroBatches(int64_t batch, int64_t rankCount) {
  const int64_t all = batch / microBatch;
  if (batch % (microBatch * rankCount) != 0)
    return fail("a batch of {} rows does not divide into micro-batches of {} on each of {} ranks", batch, microBatch,
                rankCount);
  if (rankCount > 1 && !std::has_single_bit(static_cast<uint64_t>(all / rankCount)))
    return fail("{} micro-batches of {} rows are {} for each of {} ranks: only a power of two of them adds up to the "
                "same sums as on one; use another --batch or --micro-batch",
                all, microBatch, all / rankCount, rankCount);
  if (all / rankCount > kMostMicroBatches)
    return fail("a step of {} micro-batches of {} rows has too many commands, {} are the most: use a smaller --batch",
                all / rankCount, microBatch, kMostMicroBatches);
  microBatches = all / rankCount;
  return {};
}

Status Model::setOptimizer(const std::string &usual, int64_t rankCount) {
  ranks = rankCount;
  for (Parameter &parameter : parameters) {
    if (parameter.optimizer.empty())
      parameter.optimizer = usual;
    parameter.spec = kernels::findOptimizer(parameter.optimizer);
    if (!parameter.spec)
      return fail("optimizer '{}': must be {}", parameter.optimizer, kernels::optimizerList());
    parameter.rest.clear();
    parameter.shares = kernels::sharesOf(*parameter.spec, parameter.type.elements(), ranks);
    const bool isShared = parameter.isTrained() && parameter.shares.share < parameter.shares.body;
    const kernels::Dims dims = isShared ? kernels::Dims{parameter.shares.elements()} : parameter.type.dims;
    parameter.own = {kernels::DType::f32, dims};
    if (parameter.isSplit())
      parameter.rest.push_back({plan::kRemainderPart, {kernels::DType::i16, dims}});
    for (size_t i = 0; i < parameter.spec->state.size(); ++i) {
      const kernels::StatePart &part = parameter.spec->state[i];
      parameter.rest.push_back({plan::kStateParts + static_cast<int64_t>(i),
                                {part.type, kernels::partDims(part.elements, dims)},
                                part.elements});
    }
  }
  for (GradientPack &pack : packs) {
    pack.ownBytes = 0;
    for (int64_t p : pack.parameters) {
      Parameter &parameter = parameters[static_cast<size_t>(p)];
      parameter.ownOffset = aligned(pack.ownBytes);
      pack.ownBytes = parameter.ownOffset + parameter.own.bytes();
    }
  }
  return {};
}

std::string Model::updateOf(int64_t parameter) const {
  const Parameter &entry = parameters[static_cast<size_t>(parameter)];
  return std::string(entry.isSplit() ? entry.spec->split : entry.spec->whole);
}

void Model::noteReads() {
  for (Template &code : templates) {
    code.reads.clear();
    for (const Argument &argument : code.arguments) {
      if (argument.kind != Argument::operand)
        continue;
      const auto index = static_cast<size_t>(argument.index);
      code.reads.resize(std::max(code.reads.size(), index + 1));
      code.reads[index] = true;
    }
  }
}

bool Model::backwardReads(int64_t layer, int64_t rung, int64_t operand) const {
  const Layer &entry = layers[static_cast<size_t>(layer)];
  if (!entry.isDifferentiated())
    return false;
  const Template &backward = templates[static_cast<size_t>(entry.rungs[entry.isLoss ? 0 : static_cast<size_t>(rung)].backward)];
  const auto index = static_cast<size_t>(operand);
  return index < backward.reads.size() && backward.reads[index];
}

} // namespace mt::planner
