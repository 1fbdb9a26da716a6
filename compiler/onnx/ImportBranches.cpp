// If: the branch that shapes and constants choose, or both where data do.
#include "compiler/onnx/GraphImporter.h"
#include "compiler/onnx/SafeNumbers.h"

using namespace mlir;

namespace mt::onnx {
namespace {

bool areSame(const HostTensor &a, const HostTensor &b) {
  if (a.type() != b.type() || a.dims() != b.dims() || a.stored() != b.stored())
    return false;
  for (int64_t i = 0; i < a.stored(); ++i)
    if (a.real() ? a.realAt(i) != b.realAt(i) : a.intAt(i) != b.intAt(i))
      return false;
  return true;
}

// Whether a value is computed from parameters or inputs, and not from positions and constants alone.
bool isOfArguments(Value value) {
  SmallVector<Value> work{value};
  DenseSet<Value> seen;
  while (!work.empty()) {
    Value next = work.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    Operation *op = next.getDefiningOp();
    if (!op)
      return true;
    work.append(op->operand_begin(), op->operand_end());
  }
  return false;
}

} // namespace

// In a branch that data choose: what would give no number while the other one is taken is a safe number then.
void GraphImporter::guardInputs(const ::onnx::NodeProto &node, Value taken, std::vector<NodeValue *> &inputs,
                                std::deque<NodeValue> &guarded) {
  auto hasZero = [](const HostTensor &known) {
    for (int64_t i = 0; i < known.stored(); ++i)
      if (known.realAt(i) == 0)
        return true;
    return false;
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::optional<double> safe = safeNumber(node.op_type(), i);
    if (!safe || !inputs[i] || (inputs[i]->known && !inputs[i]->symbolic && !hasZero(*inputs[i]->known)))
      continue;
    NodeValue value = partOf(*inputs[i]);
    if (!value.value)
      continue;
    value.known.reset();
    value.value = nn::SelectOp::create(builder, locationOf(nodeName(node)), taken, value.value,
                                       nn::scalarLike(builder, value.value, *safe));
    guarded.push_back(std::move(value));
    inputs[i] = &guarded.back();
  }
}

// Both branches, and of their results those of the one that the data choose. What the other one computes must not
// become a number that is none, for its gradient would then be none: what it takes is safe there (guardInputs).
void GraphImporter::chooseBranch(const ::onnx::NodeProto &node, const NodeAttributes &attributes, Value condition,
                                 Scope &scope, const Frame &frame) {
  Location location = locationOf(nodeName(node));
  Value taken = nn::reshapeTo(builder, nn::castTo(builder, condition, builder.getI1Type()), {});
  std::vector<NodeValue> results[2];
  for (size_t i : {0, 1}) {
    const auto *branch = attributes.find(i == 0 ? "then_branch" : "else_branch");
    if (!branch || !branch->has_g() || branch->g().output_size() != node.output_size()) {
      problems.push_back(fmt::format("{}: a branch of it is missing, or has other outputs than it", nodeText(node)));
      return giveUp(node, scope);
    }
    Frame within = frame;
    within.taken = i == 0 ? taken : nn::NotOp::create(builder, location, taken).getResult();
    if (frame.taken)
      within.taken = nn::AndOp::create(builder, location, frame.taken, within.taken);
    for (NodeValue &result : importBody(branch->g(), {}, scope, within))
      results[i].push_back(result.isSequence || result.selection ? std::move(result) : partOf(std::move(result)));
  }
  std::vector<NodeValue> chosen;
  for (auto [yes, no] : llvm::zip(results[0], results[1])) {
    NodeValue &result = chosen.emplace_back();
    result.poisoned = yes.poisoned || no.poisoned;
    result.isGuess = yes.isGuess || no.isGuess;
    if (result.poisoned)
      continue;
    if (yes.known && no.known && !yes.symbolic && !no.symbolic && areSame(*yes.known, *no.known)) {
      result = std::move(yes);
      continue;
    }
    const char *wrong = yes.selection || no.selection     ? "give what a mask selects"
                        : yes.isSequence || no.isSequence ? "give sequences"
                        : !yes.value || !no.value || yes.value.getType() != no.value.getType()
                            ? "do not give tensors of one shape and type"
                            : nullptr;
    if (wrong) {
      problems.push_back(fmt::format(
          "{}: its condition depends on the model's data, and its branches {}: have both give tensors of one "
          "shape, or choose by torch.where",
          nodeText(node), wrong));
      return giveUp(node, scope);
    }
    result.value = nn::SelectOp::create(builder, location, taken, yes.value, no.value);
  }
  store(node, scope, std::move(chosen));
}

// Only the branch that is taken is imported where that follows from shapes and constants.
void GraphImporter::importCondition(const ::onnx::NodeProto &node, const NodeAttributes &attributes,
                                    const std::vector<NodeValue *> &inputs, Scope &scope, const Frame &frame) {
  const NodeValue *given = inputs.size() == 1 ? inputs[0] : nullptr;
  const HostTensor *taken = given && given->known ? &*given->known : nullptr;
  NodeValue condition = given && (!taken || given->symbolic) ? partOf(*given) : NodeValue();
  if (condition.value && llvm::cast<ShapedType>(condition.value.getType()).getNumElements() == 1 &&
      (!taken || isOfArguments(condition.value)))
    return chooseBranch(node, attributes, condition.value, scope, frame);
  if (!taken || taken->elements() != 1) {
    problems.push_back(
        fmt::format("{}: its condition is not one number: choose among elements by torch.where", nodeText(node)));
    return giveUp(node, scope);
  }
  const auto *branch = attributes.find(taken->intAt(0) ? "then_branch" : "else_branch");
  if (!branch || !branch->has_g()) {
    problems.push_back(fmt::format("{}: its branch is missing", nodeText(node)));
    return giveUp(node, scope);
  }
  std::vector<NodeValue> results = importBody(branch->g(), {}, scope, frame);
  results.resize(static_cast<size_t>(node.output_size()));
  store(node, scope, std::move(results));
}

} // namespace mt::onnx
