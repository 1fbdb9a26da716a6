// The gradient of a recurrent layer. What waits for another step is nn.recurrence_grad's; products with states that are
// all known by now, and the gradients of weight, bias and peephole, are products and sums over all steps at once.
#include "compiler/nn/Nn.h"

using namespace mlir;
using namespace mt::nn;

namespace {
Type elementOf(Value value) { return getElementTypeOrSelf(value.getType()); }

Value sliceOf(OpBuilder &b, Value value, int64_t axis, int64_t start, int64_t size) {
  SmallVector<int64_t> starts(shapeOf(value).size(), 0), sizes(shapeOf(value)), strides(starts.size(), 1);
  starts[axis] = start;
  sizes[axis] = size;
  return SliceOp::create(b, value.getLoc(), value, starts, sizes, strides);
}

Value asMatrix(OpBuilder &b, Value value) {
  ArrayRef<int64_t> shape = shapeOf(value);
  return reshapeTo(b, value, {shape[0] * shape[1], shape[2]});
}

/// What is built for one recurrence.
struct Builder {
  OpBuilder &b;
  RecurrenceOp op;
  Location where = op.getLoc();

  /// Gate `at` of rows of gates, in 32 bits at least.
  Value gateOf(Value rows, int64_t at) {
    int64_t width = shapeOf(op.getHidden())[2];
    return castTo(b, sliceOf(b, rows, 2, at * width, width), elementOf(op.getHidden()));
  }

  /// The states that steps begin with: `initial`, or zeros, then those of the steps before.
  Value before(Value states, Value initial) {
    int64_t steps = shapeOf(states)[0];
    auto row = tensorOf({1, shapeOf(states)[1], shapeOf(states)[2]}, elementOf(states));
    Value first =
        initial ? reshapeTo(b, castTo(b, initial, elementOf(states)), row.getShape()) : splat(b, where, row, 0);
    if (steps == 1)
      return first;
    Value others = sliceOf(b, states, 0, op.getReverse() ? 1 : 0, steps - 1);
    SmallVector<Value> parts = {first, others};
    if (op.getReverse())
      std::swap(parts[0], parts[1]);
    return ConcatOp::create(b, where, parts, 0);
  }

  /// rows . weight^T + bias in 32 bits.
  Value product(Value rows, Value weight, Value bias) {
    Value made = MatmulOp::create(b, where, castTo(b, rows, elementOf(weight)), weight,
                                  bias ? castTo(b, bias, elementOf(op.getHidden())) : bias, false, true);
    made.setType(tensorOf(shapeOf(made), elementOf(op.getHidden())));
    return made;
  }
  /// The gradient of a weight that multiplied `rows`: slopes^T . rows.
  Value weightGradient(Value slopes, Value rows) {
    Value left = castTo(b, asMatrix(b, slopes), elementOf(op.getWeight()));
    return MatmulOp::create(b, where, left, castTo(b, asMatrix(b, rows), elementOf(left)), true, false);
  }

  Value activation(StringRef name, Value x) {
    if (double clip = op.getClip().convertToDouble(); clip > 0) {
      x = MinimumOp::create(b, where, x, scalarLike(b, x, clip));
      x = MaximumOp::create(b, where, x, scalarLike(b, x, -clip));
    }
    if (name == "relu")
      return ReluOp::create(b, where, x);
    return name == "tanh" ? TanhOp::create(b, where, x).getResult() : SigmoidOp::create(b, where, x).getResult();
  }
};

/// gru whose reset gate acts on the state: the candidate's product is one with what is left of that.
struct ResetFirst : Builder {
  int64_t width = shapeOf(op.getHidden())[2], firsts = 2 * width;

  Value part(Value vector, bool last) {
    return vector ? sliceOf(b, vector, 0, last ? firsts : 0, last ? width : firsts) : Value();
  }

  /// The products of all steps; `left` becomes what reset gates left.
  Value products(Value before, Value &left) {
    Value gates = product(before, part(op.getWeight(), false), part(op.getRecurrentBias(), false));
    Value reset = activation(op.getGate(), AddOp::create(b, where, gateOf(op.getGates(), 1), gateOf(gates, 1)));
    left = MulOp::create(b, where, reset, before);
    Value candidate = product(left, part(op.getWeight(), true), part(op.getRecurrentBias(), true));
    return ConcatOp::create(b, where, ValueRange{gates, candidate}, 2);
  }
  Value weightGradients(Value slopes, Value before, Value left) {
    Value first = weightGradient(sliceOf(b, slopes, 2, 0, firsts), before);
    Value second = weightGradient(sliceOf(b, slopes, 2, firsts, width), left);
    return ConcatOp::create(b, where, ValueRange{first, second}, 0);
  }
};

/// Of lstm: gates i and f see the cell before, o the new one.
void addPeepholeGradient(Builder &make, Gradients &g, Value dgates, Value cellBefore) {
  OpBuilder &b = make.b;
  RecurrenceOp op = make.op;
  if (!g.wants(op.getPeephole()))
    return;
  SmallVector<Value> parts;
  for (auto [gate, cell] : {std::pair<int64_t, Value>(0, cellBefore), {1, op.getCell()}, {2, cellBefore}}) {
    Value each = MulOp::create(b, make.where, make.gateOf(dgates, gate), cell);
    parts.push_back(ReduceOp::create(b, make.where, each, "sum", ArrayRef<int64_t>{0, 1}, false));
  }
  g.add(b, op.getPeephole(), ConcatOp::create(b, make.where, parts, 0));
}
} // namespace

LogicalResult RecurrenceOp::buildGradient(OpBuilder &b, Gradients &g) {
  ResetFirst make{{b, *this}};
  bool lstm = getKind() == "lstm", waits = getKind() == "gru" && !getLinearBeforeReset();
  Value dhidden = g.lookup(getHidden()), dcell = lstm ? g.lookup(getCell()) : Value(), left, cellBefore;
  if (!dhidden)
    dhidden = splat(b, getLoc(), cast<RankedTensorType>(getHidden().getType()), 0);
  Value before = make.before(getHidden(), getInitialHidden());
  if (lstm)
    cellBefore = make.before(getCell(), getInitialCell());
  Value products = waits ? make.products(before, left) : make.product(before, getWeight(), getRecurrentBias());
  Type rows = tensorOf(shapeOf(getGates()), elementOf(getWeight()));
  Type state = tensorOf(shapeOf(getHidden()).drop_front(), elementOf(getHidden()));
  auto grad = RecurrenceGradOp::create(
      b, getLoc(), getGates().getType(), rows, state, lstm ? state : Type(), dhidden, dcell, getGates(), products,
      getWeight(), before, cellBefore, getLengths(), getPeephole(), getKindAttr(), getReverseAttr(),
      getLinearBeforeResetAttr(), getCoupledAttr(), getClipAttr(), getGateAttr(), getCandidateAttr(), getOutputAttr());
  // Only where a gate stands between them do inputs and products get different gradients.
  Value slopes = getLinearBeforeReset() ? grad.getDproducts() : grad.getDgates();
  g.add(b, getGates(), grad.getDgates());
  if (g.wants(getWeight()))
    g.add(b, getWeight(), waits ? make.weightGradients(slopes, before, left) : make.weightGradient(slopes, before));
  if (g.wants(getRecurrentBias()))
    g.add(b, getRecurrentBias(), sumTo(b, slopes, shapeOf(getRecurrentBias())));
  g.add(b, getInitialHidden(), grad.getDinitialHidden());
  if (lstm) {
    g.add(b, getInitialCell(), grad.getDinitialCell());
    addPeepholeGradient(make, g, grad.getDgates(), cellBefore);
  }
  return success();
}
