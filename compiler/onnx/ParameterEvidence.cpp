#include "compiler/onnx/ParameterEvidence.h"

#include "compiler/nn/Nn.h"
#include "compiler/onnx/ValueEvidence.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;

namespace mt::onnx {
namespace {

/// What a value depends on: stored tensors only; positions and token ids too; activations.
enum class Nature : uint8_t { fixed, position, data };

bool isLookup(Operation *op) {
  return isa<nn::EmbeddingOp, nn::GatherOp, nn::GatherNdOp, nn::GatherElementsOp>(op);
}

class Evidence {
public:
  Evidence(func::FuncOp function, const std::vector<Candidate> &candidates)
      : function(function), candidates(candidates), values(candidates.size()), read(candidates.size()),
        namedScalar(candidates.size()) {
    for (size_t i = 0; i < candidates.size(); ++i)
      indexOf[candidates[i].argument] = i;
    findReaching();
    findNatures();
  }
  bool trainable(size_t index);
  bool isPositionTable(size_t index);
  bool isDetached(size_t index) const;
  bool isNamedScalar(size_t index) const { return namedScalar[index]; }

private:
  void findReaching();
  void findNatures();
  Nature natureOf(Operation *op, Value result);
  const HostTensor *valuesOf(size_t index);
  bool onCircle(size_t index);
  bool holds(size_t index, bool (*property)(const HostTensor &)) {
    return valuesOf(index) && property(*valuesOf(index));
  }
  std::optional<size_t> rootOf(Value value) const;
  bool isFilled(size_t index);
  bool usedAsWeight(size_t index);
  bool usedAsTable(size_t index);
  bool isWeightOf(size_t index, OpOperand &use);
  bool isWeightOfProduct(size_t index, OpOperand &use, Nature others);
  bool isTrainedScalar(size_t index, OpOperand &use);
  bool combines(size_t index, OpOperand &use, Nature others);
  bool isScoreBias(size_t index, Operation *op);
  bool isGridOfPoints(size_t index);
  bool isRawInput(Value value) const;
  Nature othersOf(OpOperand &use) const;

  func::FuncOp function;
  const std::vector<Candidate> &candidates;
  std::vector<std::optional<HostTensor>> values;
  std::vector<bool> read;
  std::vector<bool> namedScalar; ///< single numbers that were taken for weights for their names
  DenseMap<Value, size_t> indexOf;
  DenseMap<Value, Nature> natures;
  DenseSet<Value> reaching;     ///< values that a float output depends on differentiably
  DenseSet<Value> butForDetach; ///< those, and values that one would, were nothing detached
};

// Values that a float output depends on through operations that gradients go through.
DenseSet<Value> reachingOutputs(func::FuncOp function, llvm::function_ref<bool(Operation &)> stops) {
  DenseSet<Value> reaching;
  Block &body = function.getBody().front();
  for (Value result : body.getTerminator()->getOperands())
    if (nn::isReal(result))
      reaching.insert(result);
  for (Operation &op : llvm::reverse(body.without_terminator())) {
    bool reached = llvm::any_of(op.getResults(), [&](Value result) { return reaching.contains(result); });
    if (!reached || stops(op))
      continue;
    for (Value operand : op.getOperands())
      if (nn::isReal(operand))
        reaching.insert(operand);
  }
  return reaching;
}

void Evidence::findReaching() {
  reaching = reachingOutputs(function, [](Operation &op) { return op.hasTrait<nn::Flat>(); });
  butForDetach =
      reachingOutputs(function, [](Operation &op) { return op.hasTrait<nn::Flat>() && !isa<nn::DetachOp>(op); });
}

// A parameter by the exporter's word that only detached values depend on.
bool Evidence::isDetached(size_t index) const {
  const Candidate &candidate = candidates[index];
  return candidate.origin.kind == Origin::Kind::parameter && !reaching.contains(candidate.argument) &&
         butForDetach.contains(candidate.argument);
}

Nature Evidence::natureOf(Operation *op, Value result) {
  Nature nature = isa<nn::IotaOp, nn::CumsumOp>(op) ? Nature::position : Nature::fixed; // positions are counted, too
  for (Value operand : op->getOperands())
    nature = std::max(nature, natures.lookup(operand));
  if (!nn::isReal(result))
    return std::min(nature, Nature::position);
  if (isLookup(op) && nature == Nature::position && natures.lookup(op->getOperand(0)) == Nature::fixed) {
    std::optional<size_t> table = rootOf(op->getOperand(0));
    return table && onCircle(*table) ? Nature::position : Nature::data;
  }
  return nature;
}

void Evidence::findNatures() {
  Block &body = function.getBody().front();
  for (BlockArgument argument : body.getArguments())
    natures[argument] = indexOf.contains(argument) ? Nature::fixed
                        : nn::isReal(argument)     ? Nature::data
                                                   : Nature::position;
  for (Operation &op : body.without_terminator())
    for (Value result : op.getResults())
      natures[result] = natureOf(&op, result);
}

const HostTensor *Evidence::valuesOf(size_t index) {
  if (!read[index]) {
    read[index] = true;
    const TensorSource &source = candidates[index].source;
    if (source.elements <= kEvidenceLimit && source.generator.kind.empty())
      if (Result<HostTensor> tensor = readTensor(source))
        values[index] = std::move(*tensor);
  }
  return values[index] ? &*values[index] : nullptr;
}

// A table of sines or cosines: the partner is in the tensor itself, or another tensor of the same shape.
bool Evidence::onCircle(size_t index) {
  const Candidate &candidate = candidates[index];
  if (candidate.source.elements > kEvidenceLimit || candidate.source.dims.size() < 2 || !valuesOf(index))
    return false;
  if (holdsCircle(*valuesOf(index)))
    return true;
  for (size_t other = 0; other < candidates.size(); ++other)
    if (other != index && candidates[other].source.dims == candidate.source.dims && valuesOf(other) &&
        formCircle(*valuesOf(index), *valuesOf(other)))
      return true;
  return false;
}

// The stored tensor that a value is a view of.
std::optional<size_t> Evidence::rootOf(Value value) const {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<nn::ReshapeOp, nn::TransposeOp, nn::BroadcastOp, nn::CastOp, nn::SliceOp>(op))
      return std::nullopt;
    value = op->getOperand(0);
  }
  auto at = indexOf.find(value);
  return at == indexOf.end() ? std::nullopt : std::optional<size_t>(at->second);
}

// Whether rows that were looked up are only used as the cosines and sines of rotations.
bool onlyTurns(Value rows) {
  return llvm::all_of(rows.getUses(), [](OpOperand &use) {
    if (isa<nn::ReshapeOp, nn::CastOp, nn::BroadcastOp, nn::SliceOp>(use.getOwner()))
      return onlyTurns(use.getOwner()->getResult(0));
    return isa<nn::RotaryOp>(use.getOwner()) && use.getOperandNumber() > 0;
  });
}

Nature Evidence::othersOf(OpOperand &use) const {
  Nature nature = Nature::fixed;
  for (OpOperand &operand : use.getOwner()->getOpOperands())
    if (operand.get() != use.get())
      nature = std::max(nature, natures.lookup(operand.get()));
  return nature;
}

// A float graph input, before anything but fixed tensors has been applied to it.
bool Evidence::isRawInput(Value value) const {
  while (Operation *op = value.getDefiningOp()) {
    Value next;
    for (Value operand : op->getOperands())
      if (natures.lookup(operand) != Nature::fixed) {
        if (next || isa<nn::MatmulOp, nn::EmbeddingOp, nn::GatherOp>(op))
          return false;
        next = operand;
      }
    if (!next)
      return false;
    value = next;
  }
  return nn::isReal(value) && !indexOf.contains(value);
}

bool Evidence::isWeightOfProduct(size_t index, OpOperand &use, Nature others) {
  if (use.getOperandNumber() == 2 || others == Nature::data)
    return true;
  // Positions times a matrix are a layer on positions; positions times a vector are the angles of a rotation.
  ArrayRef<int64_t> shape = candidates[index].source.dims;
  return others == Nature::position && llvm::count_if(shape, [](int64_t size) { return size > 1; }) >= 2;
}

// Whether an operation computes attention scores: its result goes to a softmax, through other elementwise ones only.
bool computesScores(Operation *op) {
  for (Operation *user : op->getResult(0).getUsers())
    if (isa<nn::SoftmaxOp>(user) || (isa<nn::AddOp, nn::SelectOp, nn::MaximumOp>(user) && computesScores(user)))
      return true;
  return false;
}

// Masks and slopes on attention scores, zeros and ones that say which pairs there are among them; a uniform one hides
// nothing.
bool Evidence::isScoreBias(size_t index, Operation *op) {
  return holds(index, isAddedMask) || holds(index, isRamp) ||
         (candidates[index].source.dims.size() > 1 && (holds(index, isUniform) || holds(index, isMask)) &&
          computesScores(op));
}

// The points that a matrix moves before an image is sampled there; tensors that are none to look at are not read.
bool Evidence::isGridOfPoints(size_t index) {
  const Dims &dims = candidates[index].source.dims;
  return llvm::count_if(dims, [](int64_t size) { return size > 1; }) <= 3 &&
         llvm::any_of(dims, [](int64_t size) { return size >= 2 && size <= 4; }) && holds(index, isGrid);
}

// A single number is a scale or an offset that the model's code contains, unless it has the name of a variable, or is
// the bias of a product with one column, or the slope of a PReLU: select(x > 0, x, slope * x).
bool isSingleWeight(OpOperand &use) {
  Operation *op = use.getOwner();
  Value other = op->getOperand(1 - use.getOperandNumber());
  if (isa<nn::AddOp>(op))
    return other.getDefiningOp<nn::MatmulOp>() && nn::shapeOf(other).back() == 1;
  return isa<nn::MulOp>(op) && llvm::any_of(op->getUsers(), [&](Operation *user) {
           return isa<nn::SelectOp>(user) && llvm::is_contained(user->getOperands(), other);
         });
}

// Whether an operation only keeps a number from zero, before a root of it, its logarithm, or a division by it.
bool isSafeguard(Operation *op) {
  auto isKept = [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (isa<nn::PowOp>(user)) { // a root, or a division
      auto exponent = nn::splatValue(user->getOperand(1));
      return use.getOperandNumber() == 0 && exponent && (*exponent < 0 || *exponent != std::floor(*exponent));
    }
    return isa<nn::SqrtOp, nn::RsqrtOp, nn::ReciprocalOp, nn::LogOp>(user) ||
           (isa<nn::DivOp>(user) && use.getOperandNumber() == 1);
  };
  return isa<nn::AddOp, nn::MaximumOp>(op) && llvm::all_of(op->getResult(0).getUses(), isKept);
}

// Whether a single number that its name alone tells from those of the code is used as one that is trained.
bool Evidence::isTrainedScalar(size_t index, OpOperand &use) {
  constexpr double kSafeguard = 1e-2; // at most
  Operation *op = use.getOwner();
  const HostTensor *value = valuesOf(index);
  return candidates[index].isVariable && value && !(std::abs(value->realAt(0)) <= kSafeguard && isSafeguard(op)) &&
         (!isa<nn::PowOp>(op) || use.getOperandNumber() == 1);
}

// Elementwise and joining operations with activations on the other side.
bool Evidence::combines(size_t index, OpOperand &use, Nature others) {
  Operation *op = use.getOwner();
  if (others != Nature::data)
    return false;
  const bool alone = candidates[index].source.elements == 1 && !(op->getNumOperands() == 2 && isSingleWeight(use));
  if (alone && !isTrainedScalar(index, use))
    return false;
  if (isa<nn::AddOp, nn::SubOp>(op) && isScoreBias(index, op))
    return false;
  if (isa<nn::MulOp>(op) && (onCircle(index) || holds(index, isMask)))
    return false;
  if (isa<nn::SubOp, nn::DivOp>(op) && isRawInput(op->getOperand(1 - use.getOperandNumber())))
    return false;
  const bool isWeight = isa<nn::AddOp, nn::SubOp, nn::MulOp, nn::DivOp, nn::ConcatOp, nn::SelectOp>(op) ||
                        (alone && isa<nn::PowOp, nn::MaximumOp, nn::MinimumOp>(op));
  namedScalar[index] = namedScalar[index] || (alone && isWeight);
  return isWeight;
}

bool Evidence::isWeightOf(size_t index, OpOperand &use) {
  unsigned place = use.getOperandNumber();
  Nature others = othersOf(use);
  return llvm::TypeSwitch<Operation *, bool>(use.getOwner())
      .Case<nn::MatmulOp>([&](auto) { return isWeightOfProduct(index, use, others); })
      .Case<nn::EmbeddingOp, nn::GatherOp, nn::GatherNdOp, nn::GatherElementsOp>([&](Operation *op) {
        return place == 0 && others == Nature::position && !onlyTurns(op->getResult(0)) && !onCircle(index);
      })
      .Case<nn::LayerNormOp, nn::RmsNormOp>([&](auto) { return place > 0; })
      .Case<nn::ConvOp, nn::ConvDataGradOp>([&](auto) { return place > 0 && othersOf(use) == Nature::data; })
      .Case<nn::AttentionOp>([&](auto) {
        return place < 3 || (!holds(index, isMask) && !holds(index, isRamp) && !holds(index, isUniform));
      })
      .Case<nn::RecurrenceOp>([&](nn::RecurrenceOp op) { // states that are one number begin a sequence: no weights
        const bool isState = use.get() == op.getInitialHidden() || use.get() == op.getInitialCell();
        return !isState || candidates[index].isVariable || !holds(index, isUniform);
      })
      .Case<nn::RotaryOp>([&](auto) { return place == 0; })
      .Default([&](Operation *) { return combines(index, use, others); });
}

// Sines and cosines are of angles, and no angle is trained.
bool endsEvidence(Operation *op) { return isa<nn::SinOp, nn::CosOp>(op); }
// A table joined with positions is still that table: a bias where a mask leaves it.
bool joins(Operation *op) { return isa<nn::AddOp, nn::SelectOp, nn::ConcatOp>(op); }

// Follows the tensor through what only reshapes or fixedly changes it to where it meets something else.
bool Evidence::usedAsWeight(size_t index) {
  SmallVector<Value> work{candidates[index].argument};
  DenseSet<Value> seen;
  while (!work.empty()) {
    Value value = work.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    for (OpOperand &use : value.getUses()) {
      Operation *op = use.getOwner();
      bool reached = llvm::any_of(op->getResults(), [&](Value result) { return reaching.contains(result); });
      if (!reached || endsEvidence(op))
        continue;
      Nature nature = natures.lookup(op->getResult(0));
      if (nature == Nature::fixed || (nature == Nature::position && joins(op)))
        work.push_back(op->getResult(0));
      else if (isWeightOf(index, use))
        return true;
    }
  }
  return false;
}

// Whether whole matrices are looked up, one for each of many rows: those of experts, and no entries of a table.
bool picksExperts(Operation *op) {
  auto gather = dyn_cast<nn::GatherOp>(op);
  return gather && gather.getAxis() == 0 && nn::shapeOf(gather.getData()).size() == 3 &&
         nn::shapeOf(gather.getIndices()).size() == 1;
}

// Whether the tensor is only looked up, or meets activations element by element: added to them, or turning them.
bool Evidence::usedAsTable(size_t index) {
  bool found = false;
  SmallVector<Value> work{candidates[index].argument};
  DenseSet<Value> seen;
  while (!work.empty()) {
    Value value = work.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    for (OpOperand &use : value.getUses()) {
      Operation *op = use.getOwner();
      if (op->getNumResults() == 0) // it is given out as it is
        return false;
      if (natures.lookup(op->getResult(0)) == Nature::fixed)
        work.push_back(op->getResult(0));
      else if (isa<nn::AddOp, nn::MulOp, nn::ConcatOp>(op) ||
               (isLookup(op) && use.getOperandNumber() == 0 && !picksExperts(op)) ||
               (isa<nn::RotaryOp>(op) && use.getOperandNumber() > 0))
        found = true;
      else
        return false;
    }
  }
  return found;
}

// At most so many rows of a tensor, from its first on.
std::optional<HostTensor> leadingRows(TensorSource source, int64_t most) {
  if (source.dims.size() < 2 || source.dims.back() <= 0 || !source.generator.kind.empty())
    return std::nullopt;
  int64_t width = source.dims.back(), rows = std::min({source.elements / width, kEvidenceLimit / width, most});
  if (rows * width < source.elements && source.bytes.path.empty())
    return std::nullopt;
  source.dims = {rows, width};
  source.elements = rows * width;
  source.bytes.length = std::min(source.bytes.length, static_cast<uint64_t>(source.elements) * elementBytes(source.type));
  Result<HostTensor> tensor = readTensor(source);
  return tensor ? std::optional(std::move(*tensor)) : std::nullopt;
}

bool Evidence::isPositionTable(size_t index) {
  const TensorSource &source = candidates[index].source;
  if (!usedAsTable(index))
    return false;
  auto holds = [&](int64_t most) {
    std::optional<HostTensor> rows = leadingRows(source, most);
    return rows && holdsSinusoids(*rows);
  };
  constexpr int64_t kFew = 8; // show of most tables that they are something else
  return holds(kFew) && holds(source.elements);
}

bool Evidence::trainable(size_t index) {
  const Candidate &candidate = candidates[index];
  if (!isFloat(candidate.source.type) || !reaching.contains(candidate.argument))
    return false;
  if (candidate.origin.kind != Origin::Kind::unknown)
    return candidate.origin.kind == Origin::Kind::parameter;
  return !candidate.isStatistic && !isFilled(index) && usedAsWeight(index) && !isGridOfPoints(index);
}

// Ones or zeros that an exporter which names its parameters made up, as the gains and biases of the instance norm that
// it writes a group norm as: vectors are what it has no reason to rename.
bool Evidence::isFilled(size_t index) {
  return candidates[index].source.dims.size() == 1 && candidates[index].aliases.empty() && holds(index, isUniform) &&
         llvm::any_of(candidates, [](const Candidate &other) { return other.origin.kind == Origin::Kind::parameter; });
}

} // namespace

Trained decideTrainable(func::FuncOp function, const std::vector<Candidate> &candidates) {
  Evidence evidence(function, candidates);
  Trained trained;
  std::vector<bool> weights;
  int64_t initializers = 0, ofNodes = 0; // numbers of weights: exporters write them as the one or as the other
  for (size_t i = 0; i < candidates.size(); ++i) {
    weights.push_back(evidence.trainable(i));
    if (weights[i])
      (candidates[i].source.ofNode ? ofNodes : initializers) += candidates[i].source.elements;
  }
  for (size_t i = 0; i < candidates.size(); ++i) {
    bool constant = weights[i] && ofNodes <= initializers && candidates[i].source.ofNode &&
                    candidates[i].origin.kind == Origin::Kind::unknown;
    bool weight = weights[i] && !constant, table = weight && evidence.isPositionTable(i);
    trained.trainable.push_back((weight && !table) || candidates[i].isRunning);
    trained.sinusoids.push_back(table);
    trained.constants.push_back(constant);
    trained.detached.push_back(evidence.isDetached(i));
    trained.namedScalars.push_back(weight && evidence.isNamedScalar(i));
  }
  return trained;
}

} // namespace mt::onnx
