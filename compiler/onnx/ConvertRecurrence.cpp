// LSTM, GRU and RNN: for each direction the products of all steps with the inputs as one nn.matmul, and one
// nn.recurrence. What ONNX makes of rows shorter than the sequence - zeros behind them, the state that they ended with
// - is made of its states, which it holds there.
#include "compiler/onnx/Converters.h"
#include "compiler/onnx/ProductParts.h"

#include <algorithm>

using namespace mlir;

namespace mt::onnx {
namespace {

/// What the three operators differ in. Inputs are X, W, R, B, sequence_lens, initial_h, initial_c and P.
struct Kind {
  const char *name;
  int64_t gates;
  std::vector<const char *> activations; ///< f, g, h as far as there are, by default
};
enum Input : size_t { kX, kW, kR, kB, kLengths, kInitialHidden, kInitialCell, kPeephole };

struct Layer {
  NodeContext &node;
  const Kind &kind;
  bool batchFirst = false;
  int64_t steps = 0, batch = 0, width = 0, directions = 1;
  std::vector<std::string> activations = {}; ///< of all directions
  Value x = {}, lengths = {};

  bool isLstm() const { return kind.gates == 4; }
  bool isGru() const { return kind.gates == 3; }
};

/// Whether a value is made of zeros alone.
bool isZeros(Value value) {
  while (value && isa_and_nonnull<nn::SliceOp, nn::ReshapeOp, nn::BroadcastOp, nn::TransposeOp, nn::CastOp>(
                      value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value && nn::splatValue(value) == std::optional<double>(0);
}

LogicalResult readActivations(Layer &layer) {
  NodeContext &node = layer.node;
  size_t each = layer.kind.activations.size();
  const auto *given = node.attributes.find("activations");
  for (size_t i = 0; i < each * static_cast<size_t>(layer.directions); ++i)
    layer.activations.push_back(given && given->strings_size() > 0 ? "" : layer.kind.activations[i % each]);
  if (!given || given->strings_size() == 0)
    return success();
  if (static_cast<size_t>(given->strings_size()) != layer.activations.size())
    return node.fail("it has {} activations for {} directions; each needs {}", given->strings_size(), layer.directions,
                     each);
  for (size_t i = 0; i < layer.activations.size(); ++i) {
    std::string name = StringRef(given->strings(static_cast<int>(i))).lower();
    if (name != "sigmoid" && name != "tanh" && name != "relu")
      return node.fail(
          "its activation {} is not supported: Sigmoid, Tanh and Relu are; export the model with one of them, or "
          "with the recurrence written out",
          given->strings(static_cast<int>(i)));
    layer.activations[i] = name;
  }
  return success();
}

LogicalResult readLengths(Layer &layer) {
  NodeContext &node = layer.node;
  if (!node.has(kLengths))
    return success();
  if (const HostTensor *known = node.known(kLengths); known && !known->real()) {
    std::vector<int64_t> lengths = known->toIntegers();
    if (llvm::all_of(lengths, [&](int64_t length) { return length >= layer.steps; }))
      return success();
  }
  layer.lengths = node.input(kLengths);
  return layer.lengths ? success() : failure();
}

LogicalResult readShapes(Layer &layer) {
  NodeContext &node = layer.node;
  Value x = node.input(kX), w = node.input(kW), r = node.input(kR);
  if (!x || !w || !r)
    return failure();
  int64_t layout = node.attributes.integer("layout", 0);
  std::string direction = node.attributes.text("direction", "forward");
  if (layout != 0 && layout != 1)
    return node.fail("its layout is {}, neither 0 nor 1", layout);
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    return node.fail("its direction is '{}': forward, reverse and bidirectional are known", direction);
  layer.batchFirst = layout == 1;
  layer.directions = direction == "bidirectional" ? 2 : 1;
  layer.x = layer.batchFirst && nn::shapeOf(x).size() == 3 ? node.transpose(x, {1, 0, 2}) : x;
  ArrayRef<int64_t> rows = nn::shapeOf(layer.x), inputs = nn::shapeOf(w), states = nn::shapeOf(r);
  if (rows.size() != 3 || inputs.size() != 3 || states.size() != 3 || inputs[0] != layer.directions ||
      states[0] != layer.directions || inputs[2] != rows[2] || inputs[1] != layer.kind.gates * states[2] ||
      states[1] != inputs[1] || node.attributes.integer("hidden_size", states[2]) != states[2])
    return node.fail("its X of shape {}, W of {} and R of {} do not fit together for {} direction(s)",
                     dimsText(Dims(nn::shapeOf(x))), dimsText(Dims(inputs)), dimsText(Dims(states)), layer.directions);
  layer.steps = rows[0], layer.batch = rows[1], layer.width = states[2];
  return success();
}

/// What input `index` has for a direction, its first dimension: of this shape.
Operand partOf(Layer &layer, size_t index, int64_t direction, ArrayRef<int64_t> shape, bool isState = false) {
  NodeContext &node = layer.node;
  if (!node.has(index))
    return Operand::absent();
  Value all = node.input(index);
  if (isState && layer.batchFirst && all && nn::shapeOf(all).size() == 3)
    all = node.transpose(all, {1, 0, 2});
  SmallVector<int64_t> wanted{layer.directions};
  wanted.append(shape.begin(), shape.end());
  if (all && nn::shapeOf(all) != ArrayRef<int64_t>(wanted)) {
    (void)node.fail("its input {} has the shape {}, not {}", index, dimsText(Dims(nn::shapeOf(all))),
                    dimsText(Dims(wanted.begin(), wanted.end())));
    return Value();
  }
  if (isState && isZeros(all))
    return Operand::absent();
  return node.reshape(node.slice(all, 0, direction, 1), shape);
}

/// Biases of W and of R. They are added up where nothing stands between the two products.
std::pair<Operand, Operand> biasesOf(Layer &layer, int64_t direction) {
  NodeContext &node = layer.node;
  int64_t line = layer.kind.gates * layer.width;
  Operand both = partOf(layer, kB, direction, {2 * line});
  if (both.leftOut)
    return {both, both};
  Value ofInputs = node.slice(both.value, 0, 0, line), ofStates = node.slice(both.value, 0, line, line);
  if (layer.isGru())
    return {ofInputs, ofStates};
  return {node.add(ofInputs, ofStates), Operand::absent()};
}

/// The states of one direction: of all steps, hidden and cell.
struct States {
  Value hidden, cell;
  bool reverse = false;
};

States statesOf(Layer &layer, int64_t direction) {
  NodeContext &node = layer.node;
  int64_t line = layer.kind.gates * layer.width;
  auto [inputBias, recurrentBias] = biasesOf(layer, direction);
  Value w = partOf(layer, kW, direction, {line, nn::shapeOf(layer.x)[2]}).value,
        r = partOf(layer, kR, direction, {line, layer.width}).value;
  if (!w || !r || (!inputBias.leftOut && !inputBias.value))
    return {};
  Value gates = plainMatmul(node, layer.x, w, inputBias.value, false, true);
  Operand hidden = partOf(layer, kInitialHidden, direction, {layer.batch, layer.width}, true);
  Operand cell =
      layer.isLstm() ? partOf(layer, kInitialCell, direction, {layer.batch, layer.width}, true) : Operand::absent();
  Operand peephole = layer.isLstm() ? partOf(layer, kPeephole, direction, {3 * layer.width}) : Operand::absent();
  Operand lengths = layer.lengths ? Operand(layer.lengths) : Operand::absent();
  bool reverse = direction == 1 || node.attributes.text("direction", "forward") == "reverse";
  size_t each = layer.kind.activations.size(), first = static_cast<size_t>(direction) * each;
  auto activation = [&](size_t which, const char *otherwise) {
    return which < each ? layer.activations[first + which] : std::string(otherwise);
  };
  bool gated = each > 1;
  Operation *op = node.emitOp<nn::RecurrenceOp>(
      {gates, r, recurrentBias, hidden, cell, lengths, peephole},
      {node.textAttr("kind", layer.kind.name), node.boolAttr("reverse", reverse),
       node.boolAttr("linearBeforeReset", layer.isGru() && node.attributes.integer("linear_before_reset", 0) != 0),
       node.boolAttr("coupled", layer.isLstm() && node.attributes.integer("input_forget", 0) != 0),
       node.realAttr("clip", node.attributes.real("clip", 0)),
       node.textAttr("gate", gated ? activation(0, "") : "sigmoid"),
       node.textAttr("candidate", activation(gated ? 1 : 0, "tanh")), node.textAttr("output", activation(2, "tanh"))});
  if (!op)
    return {};
  return {op->getResult(0), layer.isLstm() ? op->getResult(1) : Value(), reverse};
}

/// Y of one direction, [steps, 1, batch, width]: zeros behind the end of a row.
Value sequenceOf(Layer &layer, const States &states) {
  NodeContext &node = layer.node;
  Value rows = states.hidden;
  if (layer.lengths) {
    Value place = node.iota({layer.steps, 1, 1}, getElementTypeOrSelf(layer.lengths), 0, 0, 1);
    Value lasts = node.compare(place, node.reshape(layer.lengths, {1, layer.batch, 1}), "lt");
    rows = node.emit<nn::SelectOp>({lasts, rows, node.scalar(rows, 0)});
  }
  return node.reshape(rows, {layer.steps, 1, layer.batch, layer.width});
}

/// The state that a direction ends with, [1, batch, width].
Value lastOf(Layer &layer, const States &states, Value rows) {
  return layer.node.slice(rows, 0, states.reverse ? 0 : layer.steps - 1, 1);
}

LogicalResult joined(Layer &layer, size_t output, ArrayRef<Value> parts, int64_t axis, ArrayRef<int64_t> batchFirst) {
  Value whole = layer.node.concat(parts, axis);
  return layer.node.result(output, layer.batchFirst ? layer.node.transpose(whole, batchFirst) : whole);
}

LogicalResult convert(NodeContext &node, const Kind &kind) {
  Layer layer{node, kind};
  if (failed(readShapes(layer)) || failed(readActivations(layer)) || failed(readLengths(layer)))
    return failure();
  SmallVector<Value> sequences, hidden, cells;
  for (int64_t direction = 0; direction < layer.directions; ++direction) {
    States states = statesOf(layer, direction);
    if (!states.hidden)
      return failure();
    if (node.wantsOutput(0))
      sequences.push_back(sequenceOf(layer, states));
    if (node.wantsOutput(1))
      hidden.push_back(lastOf(layer, states, states.hidden));
    if (node.wantsOutput(2))
      cells.push_back(lastOf(layer, states, states.cell));
  }
  bool good = (!node.wantsOutput(0) || succeeded(joined(layer, 0, sequences, 1, {2, 0, 1, 3}))) &&
              (!node.wantsOutput(1) || succeeded(joined(layer, 1, hidden, 0, {1, 0, 2}))) &&
              (!node.wantsOutput(2) || succeeded(joined(layer, 2, cells, 0, {1, 0, 2})));
  return success(good);
}

LogicalResult lstm(NodeContext &node) {
  static const Kind kind{"lstm", 4, {"sigmoid", "tanh", "tanh"}};
  return convert(node, kind);
}
LogicalResult gru(NodeContext &node) {
  static const Kind kind{"gru", 3, {"sigmoid", "tanh"}};
  return convert(node, kind);
}
LogicalResult rnn(NodeContext &node) {
  static const Kind kind{"rnn", 1, {"tanh"}};
  return convert(node, kind);
}

} // namespace

void addRecurrence(Converters &table) {
  table.add("LSTM", lstm);
  table.add("GRU", gru);
  table.add("RNN", rnn);
}

} // namespace mt::onnx
