#include "kernels/Optimizers.h"

#include "kernels/Blocks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace mt::kernels {
namespace {

constexpr Hyperparameter kBeta1 = {"beta1", 0.9, true, Scalars::kBeta1, Scalars::kBiasCorrection1};
constexpr Hyperparameter kBeta2 = {"beta2", 0.999, true, Scalars::kBeta2, Scalars::kBiasCorrection2};
constexpr Hyperparameter kEpsilon = {"eps", 1e-8, false, Scalars::kEpsilon};
constexpr Hyperparameter kMomentum = {"momentum", 0, false, Scalars::kMomentum};

constexpr Hyperparameter kOfAverage = {kAverageDecay, 0.999, true, Scalars::kAverageDecay};

/// Names of parts are those of files that checkpoints have: they stay.
const std::vector<OptimizerSpec> kPlain = {
    {.name = "adamw",
     .whole = "adamw",
     .split = "adamw_split",
     .state = {{.name = "first_moment", .undo = 2}, {.name = "second_moment", .undo = 1}},
     .hyperparameters = {kBeta1, kBeta2, kEpsilon},
     .weightUndo = 1,
     .usualDecay = 0.01,
     .averaging = "adamw+average"},
    {.name = "sgd",
     .whole = "sgd",
     .split = "sgd_split",
     .state = {{"first_moment"}}, // without momentum nothing tells what it was
     .hyperparameters = {kMomentum},
     .weightUndo = 1,
     .averaging = "sgd+average"},
    {.name = "lion",
     .whole = "lion",
     .split = "lion_split",
     .state = {{.name = "first_moment", .undo = 2}},
     .hyperparameters = {{"beta1", 0.9, true, Scalars::kBeta1}, {"beta2", 0.99, true, Scalars::kBeta2}},
     .weightUndo = 1,
     .averaging = "lion+average"},
    {.name = kReplace,
     .whole = kReplace,
     .split = "replace_split",
     .state = {},
     .hyperparameters = {},
     .learns = false}};

/// Behind them those that average.
std::vector<OptimizerSpec> withAverages() {
  std::vector<OptimizerSpec> all = kPlain;
  for (OptimizerSpec made : kPlain) {
    if (made.averaging.empty())
      continue;
    made.name = std::exchange(made.averaging, {});
    made.state.push_back({.name = kAverage, .undo = 1});
    made.hyperparameters.push_back(kOfAverage);
    made.averages = true;
    all.push_back(std::move(made));
  }
  return all;
}
const std::vector<OptimizerSpec> kOptimizers = withAverages();

/// "a, b or c".
template <typename Name> std::string listed(const std::vector<Name> &names, std::string_view conjunction) {
  if (names.size() < 2)
    return fmt::format("{}", fmt::join(names, ""));
  return fmt::format("{} {} {}", fmt::join(names.begin(), names.end() - 1, ", "), conjunction, names.back());
}

/// The names that list(optimizer) has, each once.
template <typename List> std::vector<std::string_view> namesOf(List list) {
  std::vector<std::string_view> names;
  for (const OptimizerSpec &optimizer : kOptimizers)
    for (const auto &entry : list(optimizer))
      if (std::ranges::find(names, entry.name) == names.end())
        names.push_back(entry.name);
  return names;
}

} // namespace

const Hyperparameter *OptimizerSpec::find(std::string_view hyperparameter) const {
  auto found = std::ranges::find(hyperparameters, hyperparameter, &Hyperparameter::name);
  return found == hyperparameters.end() ? nullptr : &*found;
}

const std::vector<OptimizerSpec> &optimizers() { return kOptimizers; }

bool isUpdate(std::string_view kernel) {
  return std::ranges::any_of(kOptimizers, [&](const OptimizerSpec &optimizer) {
    return kernel == optimizer.whole || kernel == optimizer.split;
  });
}

const OptimizerSpec *findOptimizer(std::string_view name) {
  auto found = std::ranges::find(kOptimizers, name, &OptimizerSpec::name);
  return found == kOptimizers.end() ? nullptr : &*found;
}

std::string averagingName(const std::string &name) {
  const OptimizerSpec *optimizer = findOptimizer(name);
  return optimizer && !optimizer->averaging.empty() ? std::string(optimizer->averaging) : name;
}

std::vector<std::string> optimizerNames() {
  std::vector<std::string> names;
  for (const OptimizerSpec &optimizer : kPlain)
    if (optimizer.learns)
      names.emplace_back(optimizer.name);
  return names;
}

std::string optimizerList() { return listed(optimizerNames(), "or"); }

const Hyperparameter *findHyperparameter(std::string_view name) {
  for (const OptimizerSpec &optimizer : kOptimizers)
    if (const Hyperparameter *own = optimizer.find(name))
      return own;
  return nullptr;
}

std::string ownersOf(std::string_view hyperparameter, std::string_view conjunction) {
  std::vector<std::string_view> names;
  for (const OptimizerSpec &optimizer : kPlain)
    if (optimizer.find(hyperparameter))
      names.push_back(optimizer.name);
  return hyperparameter == kAverageDecay ? "plans with --ema" : listed(names, conjunction);
}

std::vector<std::string_view> hyperparameterNames() {
  return namesOf([](const OptimizerSpec &optimizer) { return optimizer.hyperparameters; });
}
std::vector<std::string_view> statePartNames() {
  return namesOf([](const OptimizerSpec &optimizer) { return optimizer.state; });
}

Dims partDims(int64_t elements, const Dims &dims) {
  return elements == 1 ? dims : Dims{ceilDivide(OperandType{DType::u8, dims}.elements(), elements)};
}

Shares sharesOf(const OptimizerSpec &optimizer, int64_t elements, int64_t ranks) {
  int64_t granule = optimizer.granularity;
  for (const StatePart &part : optimizer.state)
    granule = std::lcm(granule, part.elements); // of 0: 0
  return {elements, ranks, granule};
}

Speculation speculationOf(const Signature &update) {
  const std::vector<OperandType> &operands = update.operands;
  if (operands.size() > kUpdateUndo && operands[kUpdateUndo].effect == Effect::read)
    return Speculation::ends;
  return !operands.empty() && operands.back().effect == Effect::write ? Speculation::begins : Speculation::none;
}

int64_t Undo::blocksAt() const {
  constexpr int64_t kLine = 64;
  return leftAt() + ceilDivide(ceilDivide(elements, kUndoBlock), kLine) * kLine;
}
int64_t Undo::bytes() const { return blocksAt() + ceilDivide(elements, kUndoBlock) * blockBytes(); }

Undo undoOf(const OptimizerSpec &optimizer, int64_t elements) {
  auto of = [](int64_t bytes, DType type) { return bytes > 0 ? bytes : static_cast<int64_t>(byteSize(type)); };
  Undo undo{{of(optimizer.weightUndo, DType::f32)}, elements};
  for (const StatePart &part : optimizer.state)
    undo.parts.push_back(of(part.undo, part.type));
  return undo;
}

Undo undoOf(const Signature &update) {
  const Speculation speculation = speculationOf(update);
  const size_t replaced = update.operands.size() - kUpdateUndo - (speculation == Speculation::none ? 0 : 1);
  const int64_t elements = update.operands[kUpdateGradient].elements();
  Undo undo{{}, elements};
  for (const OptimizerSpec &optimizer : kOptimizers) {
    const bool split = update.kernel == optimizer.split;
    if ((split || update.kernel == optimizer.whole) && replaced == (split ? 2u : 1u) + optimizer.state.size())
      undo = undoOf(optimizer, elements);
  }
  return undo;
}

Signature updateCall(const OptimizerSpec &optimizer, bool split, const Dims &dims, Speculation speculation) {
  auto updated = [&](DType type) { return OperandType{type, dims, Effect::update}; };
  Signature call{std::string(split ? optimizer.split : optimizer.whole), {{"parameter", int64_t{0}}}, {}};
  call.operands = {{DType::f32, dims}, {DType::f64, {1}}, {DType::f64, {Scalars::kCount}}};
  for (DType type : split ? std::vector{DType::bf16, DType::i16} : std::vector{DType::f32})
    call.operands.push_back(updated(type));
  for (const StatePart &part : optimizer.state)
    call.operands.push_back({part.type, partDims(part.elements, dims), Effect::update});
  if (speculation == Speculation::none)
    return call;
  OperandType undo{DType::u8, {undoOf(call).bytes()}};
  if (speculation == Speculation::ends) {
    call.operands.insert(call.operands.begin() + kUpdateUndo, undo);
  } else {
    undo.effect = Effect::write;
    call.operands.push_back(undo);
  }
  return call;
}

} // namespace mt::kernels
