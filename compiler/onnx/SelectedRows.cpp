#include "compiler/onnx/SelectedRows.h"

#include "compiler/onnx/Converters.h"
#include "compiler/onnx/MergeExperts.h"
#include "compiler/onnx/SafeNumbers.h"
#include "compiler/onnx/ValueEvidence.h"

#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>
#include <sstream>

using namespace mlir;

namespace mt::onnx {
namespace {

constexpr auto kFloat = ::onnx::TensorProto::FLOAT, kDouble = ::onnx::TensorProto::DOUBLE;

/// In place of the number of places where the mask holds, to see what sizes are computed from it: a whole number in
/// every type, as are some times as many, and times a prime that no model's sizes are.
constexpr int64_t kAnotherCount = int64_t(1021) << 13;

std::set<std::string> wordsOf(const char *text) {
  std::istringstream words(text);
  return std::set<std::string>(std::istream_iterator<std::string>(words), {});
}

const std::set<std::string> &elementwise() {
  static const std::set<std::string> names =
      wordsOf("Abs Acos Acosh Add And Asin Asinh Atan Atanh BiasGelu BitwiseAnd BitwiseNot BitwiseOr BitwiseXor "
              "Cast Ceil Celu Clip Cos Cosh Div Dropout Elu Equal Erf Exp FastGelu Floor Gelu Greater "
              "GreaterOrEqual HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean "
              "Min Mish Mod Mul Neg Not Or PRelu Pow QuickGelu Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin "
              "Sinh Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor");
  return names;
}

/// Operators that work on each entry of dimension 0 alone, whatever lies in it.
const std::set<std::string> &ofEachEntry() {
  static const std::set<std::string> names = wordsOf(
      "AveragePool BatchNormalization Conv ConvTranspose DepthToSpace GlobalAveragePool GlobalLpPool GlobalMaxPool "
      "GroupNormalization InstanceNormalization LRN LpPool MaxPool SpaceToDepth");
  return names;
}

/// Whether two values are computed alike from the same, in at most so many steps: masks are often written down twice.
bool isSame(Value a, Value b, int steps) {
  if (a == b)
    return true;
  Operation *left = a.getDefiningOp(), *right = b.getDefiningOp();
  if (!left || !right || steps == 0 || left->getName() != right->getName() || a.getType() != b.getType() ||
      left->getNumOperands() != right->getNumOperands() || withoutNotes(left) != withoutNotes(right) ||
      cast<OpResult>(a).getResultNumber() != cast<OpResult>(b).getResultNumber() || !isMemoryEffectFree(left))
    return false;
  for (auto [one, other] : llvm::zip(left->getOperands(), right->getOperands()))
    if (!isSame(one, other, steps - 1))
      return false;
  return true;
}

/// The first value that is computed as this one is.
Value firstAlike(Value value) {
  constexpr int kDeep = 6; // twice as many comparisons for each more
  Operation *op = value.getDefiningOp();
  Value first = value;
  if (!op || op->getNumOperands() == 0)
    return value;
  for (Operation *user : op->getOperand(0).getUsers())
    if (user != op && user->getNumResults() == 1 && user->getBlock() == op->getBlock() &&
        isSame(user->getResult(0), value, kDeep) && user->isBeforeInBlock(first.getDefiningOp()))
      first = user->getResult(0);
  return first;
}

/// Where a result has its rows: the places of the mask, each `run` times, and all that `tiles` times, one behind the
/// other.
struct Way {
  size_t dim = 0;
  int64_t run = 1, tiles = 1;

  /// How many entries a place of the mask is.
  int64_t entries() const { return run * tiles; }
};

/// The rows of dimension `way.dim` of `from` in dimension `d` of a tensor of the same elements with dims `to`: with
/// some of what is before and behind them, or without some that they had.
std::optional<Way> reshaped(ArrayRef<int64_t> from, Way way, ArrayRef<int64_t> to, size_t d) {
  if (productOf(from) == 0 || productOf(to) != productOf(from))
    return std::nullopt;
  const int64_t places = from[way.dim] / way.entries();
  const int64_t tiles = productOf(from.take_front(way.dim)) * way.tiles, before = productOf(to.take_front(d));
  const int64_t run = way.run * productOf(from.drop_front(way.dim + 1)), behind = productOf(to.drop_front(d + 1));
  if (tiles % before != 0 || run % behind != 0)
    return std::nullopt;
  Way found{d, run / behind, tiles / before};
  return to[d] == places * found.entries() ? std::optional(found) : std::nullopt;
}

/// One node on its way.
class Rows {
public:
  explicit Rows(NodeContext &node) : node(node), op(node.node.op_type()) {
    constexpr size_t kNamed = 3; // inputs that are spoken of by number, whether they are there or not
    for (size_t i = 0; i < std::max(kNamed, node.inputCount()); ++i) {
      const Selection *rows = selectionAt(node, i, Selection::rows);
      ways.push_back(rows ? std::optional<Way>(Way{rows->dim, rows->run, rows->tiles}) : std::nullopt);
      first = first ? first : rows;
    }
  }

  LogicalResult convert() {
    if (op == "Shape")
      return first ? sizesOf() : failure();
    if (std::optional<LogicalResult> done = movedSizes())
      return *done;
    if (!first && !takesSizes())
      return failure();
    if (first && !allSame())
      return failure();
    if (op == "Expand" && first && !node.known(1))
      return toShapeOfData();
    if (op == "Range")
      return numbered();
    others.reserve(node.inputCount());
    for (size_t i = 0; i < node.inputCount(); ++i) {
      if (node.has(i) && !node.known(i))
        (void)node.input(i); // made here, not in the copy
      others.push_back(node.has(i) ? node.given(i) : NodeValue());
      others.back().selection.reset();
      if (node.has(i) && ways[i])
        others.back().value = node.input(i);
    }
    if (Value taken = takenAsItLies())
      return giveTaken(taken);
    if (Value own = takenByNumber())
      return giveRows(own);
    const bool taken = (op == "Gather" || op == "GatherND") && !ways[0];
    if ((taken || op == "GatherElements") && ways[1]) // indices of what is not selected may be any
      others[1].value = guarded(*selection(), ways[1]->dim, others[1].value, 0);
    Passes out = countsAsValues() ? passage() : std::nullopt;
    if (!out)
      return failure();
    std::vector<NodeValue *> inputs;
    for (size_t i = 0; i < node.inputCount(); ++i)
      inputs.push_back(node.has(i) ? &others[i] : nullptr);
    NodeContext inner = node.with(inputs, attributes);
    if (failed(Converters::table().find(domainOf(node.node), op)(inner)))
      return node.failAs(inner);
    for (size_t input : inner.statistics())
      node.isStatistic(input);
    std::vector<NodeValue> results = inner.takeResults();
    int64_t passed = 0; // columns of a Split that earlier results have
    for (size_t i = 0; i < results.size(); ++i) {
      if (out->what == Passage::mean)
        results[i].value = ofCounted(results[i].value);
      if (out->what != Passage::rows) {
        node.result(i, std::move(results[i]));
        continue;
      }
      for (NodeValue &part : results[i].sequence) {
        part.selection = *selection();
        part.selection->dim = out->ways.back().dim;
        part.selection->columns.clear();
      }
      if (!results[i].value && results[i].known)
        results[i].value = node.constant(*results[i].known);
      results[i].known.reset();
      if (!results[i].value) {
        if (results[i].isSequence)
          node.result(i, std::move(results[i]));
        continue;
      }
      std::optional<Way> way = out->ways[std::min(i, out->ways.size() - 1)];
      if (op == "Reshape" || op == "Flatten")
        way = throughReshape(nn::shapeOf(results[i].value));
      if (!way)
        return failure();
      if (taken)
        results[i].value = guarded(*selection(), way->dim, results[i].value, 0);
      results[i].selection = *selection();
      results[i].selection->kind = Selection::rows;
      results[i].selection->columns = columnsOf(passed, nn::shapeOf(results[i].value), *way);
      passed +=
          op == "Split" && nn::shapeOf(results[i].value).size() == 2 ? nn::shapeOf(results[i].value)[1 - way->dim] : 0;
      results[i].selection->dim = way->dim;
      results[i].selection->run = way->run;
      results[i].selection->tiles = way->tiles;
      node.result(i, std::move(results[i]));
    }
    return success();
  }

private:
  /// A mean over all places, of which those that do not count are zero, as one of those that do.
  Value ofCounted(Value mean) {
    Value number = node.cast(numberOfRows(ways[0]->entries()), node.builder.getF32Type());
    if (!mean || !number)
      return {};
    const auto places = static_cast<double>(shapeAt(0)[ways[0]->dim]);
    Value more = node.div(node.scalar(number, places), number);
    return node.mul(mean, node.cast(more, getElementTypeOrSelf(mean)));
  }

  /// What the rows of this node are selected by: of rows, else of sizes.
  const Selection *selection() const { return first ? first : bySizes; }

  SmallVector<int64_t> shapeAt(size_t index) {
    if (const HostTensor *known = node.known(index); known && !node.given(index).value)
      return SmallVector<int64_t>(known->dims().begin(), known->dims().end());
    Value value = node.input(index);
    return value ? SmallVector<int64_t>(nn::shapeOf(value)) : SmallVector<int64_t>();
  }

  bool allSame() const {
    for (size_t i = 0; i < node.inputCount(); ++i)
      if (const Selection *rows = selectionAt(node, i, Selection::rows); rows && !sameRows(*rows, *first))
        return false;
    return true;
  }

  LogicalResult sizesOf() {
    SmallVector<int64_t> dims = shapeAt(0);
    SmallVector<int64_t> otherwise = dims;
    otherwise[first->dim] = kAnotherCount * first->run * first->tiles;
    auto rank = static_cast<int64_t>(dims.size());
    SliceBounds bounds = sliceBounds(node.attributes.integer("start", 0), node.attributes.integer("end", rank), 1, rank);
    auto part = [&](ArrayRef<int64_t> all) {
      ArrayRef<int64_t> kept = all.slice(static_cast<size_t>(bounds.start), static_cast<size_t>(bounds.count));
      return HostTensor::integers({kept.begin(), kept.end()});
    };
    return giveSizes({part(dims)}, {part(otherwise)}, *first);
  }

  /// Whether each size is some times the number of places where the mask holds, or what it is whatever that number is.
  static bool followCount(const HostTensor &values, const HostTensor &otherwise, const Selection &by) {
    const auto places = static_cast<double>(productOf(nn::shapeOf(by.mask)));
    for (int64_t e = 0; e < values.elements(); ++e) {
      const double other = otherwise.realAt(e), times = other / static_cast<double>(kAnotherCount);
      if (other != values.realAt(e) && (times != std::floor(times) || times < 1 || values.realAt(e) != times * places))
        return false;
    }
    return true;
  }

  /// Sizes, and what they were with another number of entries: what stays the same is a plain number.
  LogicalResult giveSizes(std::vector<HostTensor> values, std::vector<HostTensor> otherwise, const Selection &by) {
    for (size_t i = 0; i < values.size(); ++i) {
      NodeValue result;
      if (!followCount(values[i], otherwise[i], by))
        return node.fail("it computes with the number of what NonZero selects, which depends on the model's data");
      bool counts = false;
      for (int64_t e = 0; e < values[i].elements(); ++e)
        counts |= values[i].realAt(e) != otherwise[i].realAt(e);
      result.known = std::move(values[i]);
      if (counts) {
        result.selection = by;
        result.selection->kind = Selection::sizes;
        result.selection->run = result.selection->tiles = 1;
        result.selection->columns.clear();
        result.selection->otherwise = std::move(otherwise[i]);
      }
      node.result(i, std::move(result));
    }
    return success();
  }

  /// Such sizes among known tensors, moved about, and whole multiples of them.
  std::optional<LogicalResult> movedSizes() {
    static const std::set<std::string> moves{"Cast",    "Concat", "Expand", "Gather",  "Identity",  "ReduceProd",
                                             "Reshape", "Slice",  "Split",  "Squeeze", "Transpose", "Unsqueeze"};
    const bool computes = op == "Add" || op == "Sub" || op == "Mul" || op == "Div";
    const int64_t to = op == "Cast" ? node.attributes.integer("to", 0) : int64_t(::onnx::TensorProto::INT64);
    if ((!moves.contains(op) && !computes) ||
        !(to == ::onnx::TensorProto::INT64 || to == ::onnx::TensorProto::INT32 || to == kFloat || to == kDouble))
      return std::nullopt;
    if (op == "Div" && selectionAt(node, 1, Selection::sizes)) // what is cut off depends on it
      return std::nullopt;
    EvaluatedNode once{op, &node.attributes, {}, node.outputCount()}, twice = once;
    const Selection *by = nullptr;
    for (size_t i = 0; i < node.inputCount(); ++i) {
      const Selection *sizes = selectionAt(node, i, Selection::sizes);
      if (node.has(i) && !node.known(i))
        return std::nullopt;
      if (sizes && by && sizes->mask != by->mask)
        return node.fail("it joins the numbers of what two masks select, which depend on the model's data");
      by = sizes ? sizes : by;
      once.inputs.push_back(node.known(i));
      twice.inputs.push_back(sizes ? &sizes->otherwise : node.known(i));
    }
    auto values = evaluateShapes(once), otherwise = evaluateShapes(twice);
    if (!by || !values || !otherwise || values->size() != otherwise->size())
      return std::nullopt;
    for (size_t i = 0; i < values->size(); ++i)
      if ((*values)[i].dims() != (*otherwise)[i].dims() ||
          (computes && !followCount((*values)[i], (*otherwise)[i], *by)))
        return std::nullopt; // a value, where it is one
    return giveSizes(std::move(*values), std::move(*otherwise), *by);
  }

  bool takesSizes() {
    for (size_t i = 0; i < node.inputCount(); ++i)
      bySizes = bySizes ? bySizes : selectionAt(node, i, Selection::sizes);
    return bySizes;
  }

  /// Sizes among what is computed become the number itself, as the data say it; false where they may not be.
  bool countsAsValues() {
    for (size_t i = 0; i < node.inputCount(); ++i) {
      const Selection *sizes = selectionAt(node, i, Selection::sizes);
      if (!sizes || (op == "CastLike" && i == 1))
        continue;
      if (sizes->mask != selection()->mask)
        return false;
      if (op == "ConstantOfShape" || ((op == "Expand" || op == "Reshape") && i == 1) || (op == "Slice" && i == 2))
        continue; // as a shape
      const int64_t times = countsAt(i, 0);
      if ((op != "CastLike" && !elementwise().contains(op)) || times == 0 || others[i].known->elements() != 1)
        return false;
      Type element = mlirType(node.builder.getContext(), others[i].known->type());
      others[i].value = node.reshape(node.cast(numberOfRows(times), element), others[i].known->dims());
      others[i].known.reset();
    }
    return true;
  }

  /// The one dimension of the result that may be the rows', by its elements and by what the node says of its size: it
  /// must not be a number, which would be another if something else were selected.
  std::optional<Way> throughReshape(ArrayRef<int64_t> result) {
    const HostTensor *shape = op == "Reshape" ? node.known(1) : nullptr;
    const auto rank = static_cast<int64_t>(result.size());
    int64_t named = 0; // dimensions that are their number: no other may be the rows' then
    for (int64_t d = 0; shape && d < rank; ++d)
      named += countsAt(1, d) > 0;
    if (named > 1) // one for each two of them
      return std::nullopt;
    std::optional<Way> found;
    for (size_t d = 0; d < result.size(); ++d) {
      const auto at = static_cast<int64_t>(d);
      const int64_t times = shape ? countsAt(1, at) : 0;
      const bool open = !shape || shape->intAt(at) == -1 || (shape->intAt(at) == 0 && d == ways[0]->dim);
      std::optional<Way> way = (named ? times > 0 : open) ? reshaped(shapeAt(0), *ways[0], result, d) : std::nullopt;
      if (!way || (times > 0 && times != way->entries()))
        continue;
      const bool stays = way->tiles == ways[0]->tiles; // rather than what takes some of what is before the rows
      const bool stood = found && found->tiles == ways[0]->tiles;
      if (found && stays == stood && shapeAt(0)[ways[0]->dim] != ways[0]->entries()) // of one place, either will do
        return std::nullopt;
      if (!found || (stays && !stood))
        found = way;
    }
    return found;
  }

  /// Rows expanded to a shape of which only the data know the number of rows: there are as many as there are, as in
  /// x[mask] = rows.
  LogicalResult toShapeOfData() {
    Value wanted = node.input(1);
    auto joined = wanted ? wanted.getDefiningOp<nn::ConcatOp>() : nn::ConcatOp();
    SmallVector<int64_t> shape = shapeAt(0);
    if (!wanted || nn::shapeOf(wanted).size() != 1 || !ways[0] || ways[0]->tiles != 1)
      return failure();
    Dims sizes;
    for (Value part : joined ? SmallVector<Value>(joined.getInputs()) : SmallVector<Value>{wanted})
      for (int64_t e = 0; e < nn::shapeOf(part).front(); ++e)
        sizes.push_back(wholeNumberAt(part, e).value_or(0));
    const size_t behind = shape.size() - ways[0]->dim; // dimensions from the rows on
    if (sizes.size() < behind || llvm::count(sizes, 0) != 1 || sizes[sizes.size() - behind] != 0)
      return failure();
    sizes[sizes.size() - behind] = shape[ways[0]->dim];
    std::optional<Dims> wide = broadcastDims(Dims(shape.begin(), shape.end()), sizes);
    if (!wide)
      return failure();
    NodeValue result;
    result.value = node.broadcast(node.input(0), *wide);
    result.selection = *first;
    result.selection->dim = wide->size() - behind;
    if (result.selection->columns.size() != 1)
      result.selection->columns.clear();
    node.result(0, std::move(result));
    return success();
  }

  /// How many times the number of places where the mask of these rows holds element `at` of input `index` is; 0 if
  /// none.
  int64_t countsAt(size_t index, int64_t at) const {
    const Selection *sizes = selectionAt(node, index, Selection::sizes);
    return sizes && sizes->mask == selection()->mask ? timesCount(*sizes, at) : 0;
  }

  Value numberOfRows(int64_t times) {
    Value mask = selection()->mask;
    mask = node.reshape(mask, {productOf(nn::shapeOf(mask))});
    Value count = node.reduce(node.cast(mask, node.builder.getI64Type()), "sum", {0}, false);
    return node.mul(count, node.scalar(count, static_cast<double>(times)));
  }

  /// A value with a safe number in the rows that do not count: what these hold, no number perhaps, must not reach the
  /// gradient of anything, and finite numbers stay finite.
  Value guarded(const Selection &rows, size_t dim, Value value, double safe) {
    Value guard = countedOr(node, rows, dim, value, safe);
    if (guard)
      noteGuard(guard);
    return guard;
  }

  //===-- rows by their numbers -------------------------------------------------------------------------------===//

  /// 0, 1, ... for as many rows as count: of each how many of them are before it.
  LogicalResult numbered() {
    const int64_t times = first ? 0 : countsAt(1, 0);
    if (times == 0 || !isNumber(node, 0, 0) || !isNumber(node, 2, 1) || node.known(1)->elements() != 1)
      return failure();
    NodeValue result;
    result.selection = *selection();
    result.selection->kind = Selection::rows;
    result.selection->run = times;
    result.value = numbersOf(node, *result.selection, mlirType(node.builder.getContext(), node.known(1)->type()));
    if (!result.value)
      return failure();
    node.result(0, std::move(result));
    return success();
  }

  /// Whether rows, of a place each, hold their own numbers among those that count, and nothing else.
  bool holdsNumbers(Value value) const {
    auto isWide = [](Value cast) {
      return getElementTypeOrSelf(cast).isInteger(64) || getElementTypeOrSelf(cast).isInteger(32);
    };
    while (Operation *op = value.getDefiningOp()) {
      if (!isa<nn::ReshapeOp, nn::BroadcastOp>(op) && !(isa<nn::CastOp>(op) && isWide(value)))
        break;
      value = op->getOperand(0);
    }
    auto less = value.getDefiningOp<nn::SubOp>();
    auto sum = less ? less.getLhs().getDefiningOp<nn::CumsumOp>() : nn::CumsumOp();
    if (!sum || nn::splatValue(less.getRhs()) != 1 || sum.getExclusive() || sum.getReverse() ||
        nn::shapeOf(sum.getOperand()).size() != 1)
      return false;
    Value held = sum.getOperand();
    while (held != selection()->mask && isa_and_nonnull<nn::ReshapeOp, nn::CastOp>(held.getDefiningOp()))
      held = held.getDefiningOp()->getOperand(0);
    return held == selection()->mask;
  }

  /// x[n, i, j] of rows x, where n are their numbers: what each takes of its own.
  Value takenByNumber() {
    if (op != "GatherND")
      return {};
    SmallVector<int64_t> indices = shapeAt(1);
    if (!ways[0] || !ways[1] || node.attributes.integer("batch_dims", 0) != 0 || ways[0]->entries() != 1 ||
        ways[0]->dim != 0 || ways[1]->dim != 0 || indices.back() < 2)
      return {};
    auto joined = others[1].value.getDefiningOp<nn::ConcatOp>();
    Value number = joined ? joined.getInputs().front() : Value();
    if (!number || nn::shapeOf(number).back() != 1 || !holdsNumbers(number))
      return {};
    const auto last = static_cast<int64_t>(indices.size()) - 1;
    Value behind = guarded(*selection(), 0, node.slice(others[1].value, last, 1, indices.back() - 1), 0);
    return node.emit<nn::GatherNdOp>({others[0].value, behind}, {node.intAttr("batchDims", 1)});
  }
  LogicalResult giveRows(Value value) {
    NodeValue result;
    result.selection = *first;
    result.selection->columns.clear();
    result.selection->dim = 0;
    result.value = value;
    node.result(0, std::move(result));
    return success();
  }

  //===-- where rows go ---------------------------------------------------------------------------------------===//

  /// What becomes of rows: where results have them, the last of these for all further ones; or that results are plain
  /// values, of which sums leave out what does not count, and means divide by its number.
  struct Passage {
    std::vector<Way> ways;
    enum What : uint8_t { rows, plain, mean } what = rows;
  };
  using Passes = std::optional<Passage>;
  static Passes at(size_t dim, const Way &like) { return Passage{{{dim, like.run, like.tiles}}}; }
  /// Of any input that has rows: they are alike.
  Way anyWay() const { return {0, selection()->run, selection()->tiles}; }
  static Passes ends(Passage::What what) { return Passage{{}, what}; }

  /// How rows pass the operator; changes `others` where it must see other values.
  Passes passage() {
    if (elementwise().contains(op))
      return throughElements();
    if (op == "CastLike")
      return ways[0] ? at(ways[0]->dim, *ways[0]) : ends(Passage::plain);
    if (op == "Expand")
      return throughExpand();
    if (op == "ConstantOfShape")
      return throughConstant();
    if (op == "Reshape" || op == "Flatten") // by the result's shape
      return ways[0] ? at(0, *ways[0]) : Passes();
    if (op == "Squeeze" || op == "Unsqueeze")
      return throughOnes();
    if (op == "Transpose")
      return throughTranspose();
    if (op == "MatMul" || op == "Gemm" || op == "FusedMatMul" || op == "FusedGemm")
      return throughProduct();
    if (op == "Gather" || op == "GatherND" || op == "GatherElements")
      return throughGather();
    if (ofEachEntry().contains(op))
      return ofEach();
    if (op == "Attention")
      return throughAttention();
    if (op == "SoftmaxCrossEntropyLoss" || op == "NegativeLogLikelihoodLoss")
      return throughLoss();
    if (op == "Concat" || op == "Split" || op == "SplitToSequence" || op == "Slice" || op == "CumSum" || op == "TopK" ||
        op == "Softmax" || op == "LogSoftmax" || op == "LayerNormalization" || op == "RMSNormalization" ||
        op == "SimplifiedLayerNormalization" || op == "ArgMax" || op == "ArgMin")
      return besideAxis();
    if (op.starts_with("Reduce"))
      return throughReduction();
    return std::nullopt;
  }

  Passes throughElements() {
    size_t rank = 0;
    std::optional<size_t> behind; // dimensions from the rows on
    for (size_t i = 0; i < node.inputCount(); ++i) {
      if (!node.has(i))
        continue;
      const size_t own = shapeAt(i).size();
      rank = std::max(rank, own);
      if (ways[i] && behind && *behind != own - ways[i]->dim)
        return std::nullopt;
      if (ways[i])
        behind = own - ways[i]->dim;
    }
    for (size_t i = 0; i < node.inputCount(); ++i) {
      if (node.has(i) && !ways[i] && behind && !selectionAt(node, i, Selection::sizes)) {
        SmallVector<int64_t> shape = shapeAt(i);
        if (shape.size() >= *behind && shape[shape.size() - *behind] != 1)
          return std::nullopt;
      }
    }
    for (size_t i = 0; i < node.inputCount(); ++i)
      if (std::optional<double> safe = safeNumber(op, i); safe && ways[i])
        others[i].value = guarded(*selection(), ways[i]->dim, others[i].value, *safe);
    for (size_t i = 1; i < 3 && op == "Where" && ways[0]; ++i) // a row of which all is hidden has no softmax
      if (const HostTensor *put = node.known(i);
          put && put->real() && isUniform(*put) && put->realAt(0) <= nn::kVeryNegative)
        others[0].value = guarded(*selection(), ways[0]->dim, others[0].value, i == 1 ? 0 : 1);
    if (behind)
      return at(rank - *behind, anyWay());
    return ends(Passage::plain);
  }

  Passes throughExpand() {
    SmallVector<int64_t> shape = shapeAt(0);
    if (!node.known(1))
      return std::nullopt;
    const int64_t added = std::max<int64_t>(0, node.known(1)->elements() - static_cast<int64_t>(shape.size()));
    const int64_t skipped = std::max<int64_t>(0, static_cast<int64_t>(shape.size()) - node.known(1)->elements());
    std::optional<size_t> dim;
    Way way;
    if (ways[0]) {
      dim = ways[0]->dim + static_cast<size_t>(added);
      way = *ways[0];
    }
    for (int64_t e = 0; e < node.known(1)->elements(); ++e) {
      const auto place = static_cast<size_t>(e + skipped);
      const int64_t times = countsAt(1, e);
      const bool plainOne = !ways[0] && (e < added || shape[place - static_cast<size_t>(added)] == 1);
      if (times > 0 ? !((dim == place && times == way.entries()) || (!dim && plainOne))
                    : dim == place && node.known(1)->intAt(e) != 1)
        return std::nullopt;
      if (times > 0 && !dim)
        way.run = times;
      if (times > 0)
        dim = place;
    }
    return dim ? at(*dim, way) : Passes();
  }

  Passes throughConstant() {
    Passes found;
    for (int64_t e = 0; e < node.known(0)->elements(); ++e)
      if (const int64_t times = countsAt(0, e); times > 0) {
        if (found) // one for each two of them
          return std::nullopt;
        found = at(static_cast<size_t>(e), Way{0, times});
      }
    return found;
  }

  /// Dimensions of one that are taken away or put in.
  Passes throughOnes() {
    SmallVector<int64_t> shape = shapeAt(0);
    std::optional<std::vector<int64_t>> given = node.attributes.integers("axes");
    if (node.has(1) && !node.known(1))
      return std::nullopt;
    if (node.has(1))
      given = node.known(1)->toIntegers();
    const bool adds = op == "Unsqueeze";
    if (!ways[0] || (!given && (adds || shape[ways[0]->dim] == 1)))
      return std::nullopt;
    const auto rank = static_cast<int64_t>(shape.size() + (adds ? given->size() : 0));
    std::set<int64_t> axes;
    for (int64_t d = 0; !given && d < rank; ++d)
      if (shape[static_cast<size_t>(d)] == 1)
        axes.insert(d);
    for (int64_t axis : given.value_or(std::vector<int64_t>()))
      axes.insert(frontAxis(axis, rank).value_or(-1));
    auto dim = static_cast<int64_t>(ways[0]->dim);
    if (!adds && axes.contains(dim))
      return std::nullopt;
    if (adds)
      for (int64_t axis : axes) // ascending: each that is at it or before it moves it on
        dim += axis <= dim;
    else
      for (int64_t axis : axes)
        dim -= axis < static_cast<int64_t>(ways[0]->dim) && shape[static_cast<size_t>(axis)] == 1;
    return at(static_cast<size_t>(dim), *ways[0]);
  }

  Passes throughTranspose() {
    const auto rank = shapeAt(0).size();
    std::optional<std::vector<int64_t>> order = node.attributes.integers("perm");
    for (size_t d = 0; d < rank; ++d) {
      const size_t from = order && order->size() == rank ? static_cast<size_t>((*order)[d]) : rank - 1 - d;
      if (from == ways[0]->dim)
        return at(d, *ways[0]);
    }
    return std::nullopt;
  }

  Passes throughProduct() {
    SmallVector<int64_t> left = shapeAt(0), right = shapeAt(1);
    if (op == "MatMul")
      if (Passes batch = throughBatch(left, right))
        return batch;
    const bool onlyLeft = ways[0] && !ways[1] && !ways[2] && !node.attributes.integer("transBatchA", 0);
    if (!onlyLeft || right.size() > 2 || left.size() < 2 || ways[0]->dim + 1 == left.size() ||
        node.attributes.integer("transA", 0))
      return std::nullopt;
    if ((op == "Gemm" || op == "FusedGemm") && node.has(2) && shapeAt(2).size() == 2 && shapeAt(2)[0] != 1)
      return std::nullopt;
    return at(ways[0]->dim, *ways[0]);
  }

  /// Products of matrices each, where rows are matrices.
  Passes throughBatch(ArrayRef<int64_t> left, ArrayRef<int64_t> right) const {
    const ArrayRef<int64_t> shapes[] = {left, right};
    size_t behind = 0; // dimensions from the rows on
    for (size_t i = 0; i < 2; ++i) {
      const size_t own = ways[i] ? shapes[i].size() - ways[i]->dim : behind;
      if (ways[i] && (own < 3 || (behind && own != behind)))
        return std::nullopt;
      behind = own;
    }
    for (size_t i = 0; i < 2; ++i)
      if (!ways[i] && shapes[i].size() >= behind && shapes[i][shapes[i].size() - behind] != 1)
        return std::nullopt;
    return at(std::max(left.size(), right.size()) - behind, anyWay());
  }

  /// Whether nothing but its first output is used: others are statistics of all, or places counted through all.
  bool givesOneResult() const {
    for (size_t i = 1; i < node.outputCount(); ++i)
      if (node.wantsOutput(i))
        return false;
    return true;
  }

  Passes ofEach() const {
    if (!givesOneResult() || !ways[0] || ways[0]->dim != 0 || node.attributes.integer("training_mode", 0))
      return std::nullopt;
    for (size_t i = 1; i < node.inputCount(); ++i)
      if (ways[i])
        return std::nullopt;
    return at(0, *ways[0]);
  }

  /// Of queries, keys and values each, with a mask of theirs or for all.
  Passes throughAttention() {
    constexpr size_t kMask = 3;
    if (!givesOneResult())
      return std::nullopt;
    for (size_t i = 0; i < kMask; ++i)
      if (!ways[i] || ways[i]->dim != 0)
        return std::nullopt;
    for (size_t i = kMask + 1; i < node.inputCount(); ++i)
      if (node.has(i))
        return std::nullopt;
    if (node.has(kMask) && (ways[kMask] ? ways[kMask]->dim != 0 : shapeAt(kMask).size() > 3 && shapeAt(kMask)[0] != 1))
      return std::nullopt;
    return at(0, *ways[0]);
  }

  Passes throughGather() {
    SmallVector<int64_t> data = shapeAt(0), indices = shapeAt(1);
    if (op == "GatherND") {
      if (ways[0] || node.attributes.integer("batch_dims", 0) != 0 || ways[1]->dim + 1 >= indices.size())
        return std::nullopt;
      return at(ways[1]->dim, *ways[1]);
    }
    std::optional<int64_t> axis = frontAxis(node.attributes.integer("axis", 0), static_cast<int64_t>(data.size()));
    if (!axis)
      return std::nullopt;
    const auto along = static_cast<size_t>(*axis);
    if (op == "GatherElements") {
      const bool both = ways[0] && ways[1] && ways[0]->dim == ways[1]->dim && along != ways[0]->dim;
      return both ? at(ways[0]->dim, *ways[0]) : Passes();
    }
    if (!ways[0])
      return at(along + ways[1]->dim, *ways[1]);
    if (ways[1] || along == ways[0]->dim)
      return std::nullopt;
    return at(along < ways[0]->dim ? ways[0]->dim + indices.size() - 1 : ways[0]->dim, *ways[0]);
  }

  /// Operators along an axis that is not the rows'.
  Passes besideAxis() {
    if (!ways[0])
      return std::nullopt;
    const auto rank = static_cast<int64_t>(shapeAt(0).size());
    const auto dim = static_cast<int64_t>(ways[0]->dim);
    const Passes same = at(ways[0]->dim, *ways[0]);
    for (size_t i = 1; i < node.inputCount(); ++i)
      if (op == "Concat" ? !ways[i] || ways[i]->dim != ways[0]->dim : ways[i].has_value())
        return std::nullopt;
    if (op == "Slice") {
      const HostTensor *starts = node.known(1), *ends = node.known(2), *axes = node.known(3), *steps = node.known(4);
      if (!starts || !ends || starts->elements() != ends->elements() ||
          (axes && axes->elements() != starts->elements()) || (steps && steps->elements() != starts->elements()))
        return std::nullopt;
      for (int64_t e = 0; e < starts->elements(); ++e) {
        std::optional<int64_t> axis = frontAxis(axes ? axes->intAt(e) : e, rank);
        const int64_t times = countsAt(2, e);
        const bool all =
            starts->intAt(e) == 0 &&
            (times > 0 ? times == ways[0]->entries() : ends->intAt(e) >= std::numeric_limits<int32_t>::max()) &&
            (!steps || steps->intAt(e) == 1);
        if (!axis || (*axis == dim ? !all : times > 0))
          return std::nullopt;
      }
      return same;
    }
    if (op == "SplitToSequence" && !node.has(1) && !node.attributes.integer("keepdims", 1))
      return std::nullopt; // parts of fewer dimensions
    const bool last = op == "Softmax" || op == "LogSoftmax" || op == "TopK" || op.ends_with("Normalization");
    int64_t given = node.attributes.integer("axis", last ? (node.opset < 13 && op.ends_with("oftmax") ? 1 : -1) : 0);
    if (op == "CumSum")
      given = node.known(1) && node.known(1)->elements() == 1 ? node.known(1)->intAt(0) : dim;
    std::optional<int64_t> axis = frontAxis(given, rank);
    const bool onward = op.ends_with("Normalization") || (op.ends_with("oftmax") && node.opset < 13); // along all behind
    if (!axis || *axis == dim || (onward && *axis < dim))
      return std::nullopt;
    if (op.starts_with("Arg") && !node.attributes.integer("keepdims", 1) && *axis < dim)
      return at(ways[0]->dim - 1, *ways[0]);
    return same;
  }

  /// Labels that do not count are ignored.
  Passes throughLoss() {
    if (!ways[0] || !ways[1] || ways[0]->dim != 0 || ways[1]->dim != 0 || node.wantsOutput(1) ||
        nn::isReal(others[1].value))
      return std::nullopt;
    constexpr int64_t kIgnored = -100; // PyTorch's
    ignored.set_name("ignore_index");
    ignored.set_type(::onnx::AttributeProto::INT);
    ignored.set_i(kIgnored);
    attributes.addDefault(ignored);
    others[1].value = countedOr(node, *selection(), 0, others[1].value,
                                static_cast<double>(attributes.integer("ignore_index", kIgnored)));
    return node.attributes.text("reduction", "mean") == "none" ? at(0, anyWay()) : ends(Passage::plain);
  }

  Passes throughReduction() {
    if (!ways[0])
      return std::nullopt;
    const auto rank = static_cast<int64_t>(shapeAt(0).size());
    std::optional<std::vector<int64_t>> axes = node.attributes.integers("axes");
    if (node.has(1) && !node.known(1))
      return std::nullopt;
    if (node.has(1))
      axes = node.known(1)->toIntegers();
    if ((!axes || axes->empty()) && node.attributes.integer("noop_with_empty_axes", 0))
      return std::nullopt;
    std::set<int64_t> along;
    for (int64_t axis : axes.value_or(std::vector<int64_t>()))
      along.insert(frontAxis(axis, rank).value_or(-1));
    const auto dim = static_cast<int64_t>(ways[0]->dim);
    if (along.empty() || along.contains(dim)) { // over the rows: those that do not count must not
      const bool most = op == "ReduceMax", least = op == "ReduceMin";
      if (!most && !least && op != "ReduceSum" && op != "ReduceMean" && op != "ReduceL1" && op != "ReduceL2" &&
          op != "ReduceSumSquare")
        return std::nullopt;
      if ((most || least) && !nn::isReal(others[0].value))
        return std::nullopt;
      const double none = most    ? -std::numeric_limits<double>::infinity()
                          : least ? std::numeric_limits<double>::infinity()
                                  : 0;
      others[0].value = countedOr(node, *selection(), ways[0]->dim, others[0].value, none);
      return ends(op == "ReduceMean" ? Passage::mean : Passage::plain);
    }
    const bool keeps = node.attributes.integer("keepdims", 1);
    const auto before = std::distance(along.begin(), along.lower_bound(dim));
    return at(ways[0]->dim - (keeps ? 0 : static_cast<size_t>(before)), *ways[0]);
  }

  //===-- coordinates -----------------------------------------------------------------------------------------===//

  /// What columns a result has, where the inputs have some; of a Split those behind the first `passed`.
  std::vector<Dims> columnsOf(int64_t passed, ArrayRef<int64_t> result, const Way &way) {
    const Selection &by = *selection();
    if (way.tiles != 1 || !by.whole || way.run * productOf(nn::shapeOf(by.mask)) != productOf(nn::shapeOf(by.whole)))
      return {}; // not one row for each of its places
    std::vector<const std::vector<Dims> *> given;
    for (size_t i = 0; i < ways.size(); ++i)
      given.push_back(ways[i] ? &node.given(i).selection->columns : nullptr);
    if (!given[0] || given[0]->empty())
      return op == "Mul" && given[1] ? scaled(*given[1], 0) : std::vector<Dims>();
    const std::vector<Dims> &columns = *given[0];
    const bool one = columns.size() == 1; // whatever the shape, all numbers of a row are this
    SmallVector<int64_t> from = shapeAt(0);
    if (op == "Transpose" || op == "Identity" || (op == "Cast" && isWide()))
      return columns;
    if (op == "Reshape" || op == "Squeeze" || op == "Unsqueeze" || op == "Expand")
      return one || from == result ? columns : std::vector<Dims>();
    if (op == "Add" && given[1] && one && given[1]->size() == 1) {
      Dims sum = columns[0];
      for (size_t d = 0; d < sum.size(); ++d)
        sum[d] = static_cast<int64_t>(uint64_t(sum[d]) + uint64_t((*given[1])[0][d])); // what does not fit wraps
      return {sum};
    }
    if (op == "Mul" && !given[1])
      return scaled(columns, 1);
    if (one && (op == "Slice" || op == "Split"))
      return columns;
    if (op == "Slice" && node.known(1)->elements() == 1 && from.size() == 2) {
      const auto along = frontAxis(node.known(3) ? node.known(3)->intAt(0) : 0, 2);
      if (!along || static_cast<size_t>(*along) == ways[0]->dim)
        return columns;
      SliceBounds bounds = sliceBounds(node.known(1)->intAt(0), node.known(2)->intAt(0),
                                       node.known(4) ? node.known(4)->intAt(0) : 1, static_cast<int64_t>(columns.size()));
      std::vector<Dims> kept;
      for (int64_t c = 0; c < bounds.count; ++c)
        kept.push_back(columns[static_cast<size_t>(bounds.start + c * bounds.step)]);
      return kept;
    }
    if (op == "Split" && result.size() == 2) {
      const auto start = static_cast<size_t>(passed), count = static_cast<size_t>(result[1 - ways[0]->dim]);
      if (start + count <= columns.size())
        return {columns.begin() + static_cast<ptrdiff_t>(start), columns.begin() + static_cast<ptrdiff_t>(start + count)};
    }
    if (op == "Gather" && node.known(1) && from.size() == 2) {
      std::vector<Dims> kept;
      for (int64_t e = 0; e < node.known(1)->elements(); ++e)
        if (auto at = frontAxis(node.known(1)->intAt(e), static_cast<int64_t>(columns.size())))
          kept.push_back(columns[static_cast<size_t>(*at)]);
      return kept;
    }
    if (op == "Concat" && result.size() == 2) {
      std::vector<Dims> all;
      for (size_t i = 0; i < node.inputCount(); ++i)
        llvm::append_range(all, *given[i]);
      return static_cast<int64_t>(all.size()) == result[1 - ways[0]->dim] ? all : std::vector<Dims>();
    }
    return {};
  }

  /// Whether a Cast is to whole numbers that hold any place.
  bool isWide() const {
    const int64_t to = node.attributes.integer("to", 0);
    return to == ::onnx::TensorProto::INT64 || to == ::onnx::TensorProto::INT32;
  }

  /// One column times a known number.
  std::vector<Dims> scaled(std::vector<Dims> columns, size_t factor) {
    const HostTensor *known = node.known(factor);
    if (columns.size() != 1 || !known || known->real() || known->elements() != 1 ||
        selectionAt(node, factor, Selection::sizes))
      return {};
    for (int64_t &number : columns[0])
      number = static_cast<int64_t>(uint64_t(number) * uint64_t(known->intAt(0)));
    return columns;
  }

  /// What is gathered by coordinates, without looking anything up: the data's dimensions laid along the mask's.
  Value takenAsItLies() {
    const Selection *by = selectionAt(node, 1, Selection::rows);
    if ((op != "Gather" && op != "GatherND") || ways[0] || !by || by->columns.empty())
      return {};
    SmallVector<int64_t> data = shapeAt(0), indices = shapeAt(1);
    size_t axis = 0, depth = 1;
    if (op == "Gather") {
      auto given = frontAxis(node.attributes.integer("axis", 0), static_cast<int64_t>(data.size()));
      if (!given || indices.size() != 1)
        return {};
      axis = static_cast<size_t>(*given);
    } else {
      depth = by->columns.size();
      if (node.attributes.integer("batch_dims", 0) != 0 || by->dim != 0 || indices.size() != 2 || depth > data.size() ||
          static_cast<int64_t>(depth) != indices[1])
        return {};
    }
    auto pointed = pointedAt(*by, ArrayRef<int64_t>(data).slice(axis, depth));
    if (!pointed)
      return {};
    ArrayRef<int64_t> mask = nn::shapeOf(by->whole), all(data);
    SmallVector<int64_t> cut(all.take_front(axis)), permutation, ones(cut), wide(cut);
    for (size_t d = 0; d < axis; ++d)
      permutation.push_back(static_cast<int64_t>(d));
    for (size_t dim : pointed->order)
      permutation.push_back(static_cast<int64_t>(axis) + (llvm::find(pointed->dims, dim) - pointed->dims.begin()));
    for (size_t dim : pointed->dims)
      cut.push_back(mask[dim]);
    for (size_t dim = 0; dim < mask.size(); ++dim) {
      ones.push_back(llvm::is_contained(pointed->dims, dim) ? mask[dim] : 1);
      wide.push_back(mask[dim]);
    }
    for (int64_t size : all.drop_front(axis + depth)) {
      permutation.push_back(static_cast<int64_t>(cut.size()));
      cut.push_back(size);
      ones.push_back(size);
      wide.push_back(size);
    }
    takenAlong = axis;
    SmallVector<int64_t> rows(all.take_front(axis));
    rows.push_back(productOf(mask));
    llvm::append_range(rows, all.drop_front(axis + depth));
    Value taken = node.input(0);
    for (auto view : {std::function([&](Value from) { return node.reshape(from, cut); }),
                      std::function([&](Value from) { return node.transpose(from, permutation); }),
                      std::function([&](Value from) { return node.reshape(from, ones); }),
                      std::function([&](Value from) { return node.broadcast(from, wide); }),
                      std::function([&](Value from) { return node.reshape(from, rows); })}) {
      Value next = view(taken);
      takenViews += next != taken;
      taken = next;
    }
    return taken;
  }

  LogicalResult giveTaken(Value taken) {
    NodeValue result;
    result.selection = *selectionAt(node, 1, Selection::rows);
    result.value = guarded(*result.selection, takenAlong, taken, 0);
    if (result.value)
      noteTaken(result.value, *result.selection, takenViews);
    result.selection->columns.clear();
    result.selection->dim = takenAlong;
    node.result(0, std::move(result));
    return success();
  }

  NodeContext &node;
  const std::string op;
  NodeAttributes attributes = node.attributes; ///< as the converter sees them
  ::onnx::AttributeProto ignored;
  size_t takenAlong = 0;
  int64_t takenViews = 0;
  std::vector<std::optional<Way>> ways; ///< of the inputs
  std::vector<NodeValue> others;        ///< the inputs as the converter sees them
  const Selection *first = nullptr, *bySizes = nullptr;
};

} // namespace

const Selection *selectionAt(const NodeContext &node, size_t index, Selection::Kind kind) {
  const bool is = node.has(index) && node.given(index).selection && node.given(index).selection->kind == kind;
  return is ? &*node.given(index).selection : nullptr;
}

bool isNumber(const NodeContext &node, size_t index, int64_t number) {
  const HostTensor *known = node.known(index);
  return !node.has(index) ||
         (known && known->elements() == 1 && known->intAt(0) == number && !selectionAt(node, index, Selection::sizes));
}

int64_t timesCount(const Selection &sizes, int64_t at) {
  const int64_t other = sizes.otherwise.intAt(at);
  return other % kAnotherCount == 0 ? other / kAnotherCount : 0;
}

Selection selectionBy(Value mask) {
  Selection made;
  made.whole = mask;
  // Without the trailing dimensions along which it is only repeated, as one of tokens is for their features.
  while (true) {
    ArrayRef<int64_t> shape = nn::shapeOf(mask);
    if (auto reshape = mask.getDefiningOp<nn::ReshapeOp>()) {
      mask = reshape.getOperand();
    } else if (auto broadcast = mask.getDefiningOp<nn::BroadcastOp>()) {
      ArrayRef<int64_t> from = nn::shapeOf(broadcast.getOperand());
      const size_t added = shape.size() - from.size();
      size_t kept = shape.size();
      while (kept > added && from[kept - 1 - added] == 1)
        --kept;
      if (kept == added) // one number for all
        kept = 0;
      if (productOf(shape.take_front(kept)) != productOf(from))
        break; // repeated in front too
      made.run *= productOf(shape.drop_front(kept));
      mask = broadcast.getOperand();
    } else {
      break;
    }
  }
  made.mask = firstAlike(mask);
  if (mask != made.mask)
    mask.replaceAllUsesWith(made.mask);
  if (made.whole == mask)
    made.whole = made.mask;
  return made;
}

bool sameRows(const Selection &a, const Selection &b) {
  return a.run == b.run && a.tiles == b.tiles && a.mask == b.mask;
}

Value maskAlong(NodeContext &node, const Selection &rows, size_t dim, ArrayRef<int64_t> shape) {
  const int64_t places = productOf(nn::shapeOf(rows.mask));
  const int64_t all = rows.tiles * places * rows.run;
  Value mask =
      node.reshape(node.broadcast(node.reshape(rows.mask, {1, places, 1}), {rows.tiles, places, rows.run}), {all});
  SmallVector<int64_t> aligned(shape.size(), 1);
  aligned[dim] = all;
  return node.reshape(mask, aligned);
}

Value countedOr(NodeContext &node, const Selection &rows, size_t dim, Value value, double number) {
  if (!value)
    return {};
  return node.emit<nn::SelectOp>({maskAlong(node, rows, dim, nn::shapeOf(value)), value, node.scalar(value, number)});
}

Value numbersOf(NodeContext &node, const Selection &rows, Type integer) {
  const int64_t entries = rows.tiles * productOf(nn::shapeOf(rows.mask)) * rows.run;
  Value held = node.cast(maskAlong(node, rows, 0, {entries}), integer);
  Value sum = node.emit<nn::CumsumOp>({held}, {node.intAttr("axis", 0)});
  return node.sub(sum, node.scalar(sum, 1));
}

// Which place the row of each number has: numbers are put there, those of rows that do not count behind the end.
Value movedToFront(NodeContext &node, const Selection &rows, Value value) {
  SmallVector<int64_t> shape(nn::shapeOf(value));
  const int64_t places = productOf(nn::shapeOf(rows.mask)), behind = productOf(shape) / places;
  Selection each = rows; // a place is a row
  each.run = 1;
  Type integer = node.builder.getI64Type();
  Value held = node.reshape(rows.mask, {places}), numbers = numbersOf(node, each, integer);
  Value end = node.scalar(numbers, static_cast<double>(places));
  Value order =
      node.emit<nn::ScatterOp>({node.broadcast(end, {places + 1}), node.emit<nn::SelectOp>({held, numbers, end}),
                                node.iota({places}, integer, 0, 0, 1)},
                               {node.intAttr("axis", 0), node.textAttr("kind", "none")});
  order = node.slice(order, 0, 0, places);
  Value there = node.compare(order, end, "lt");
  Value moved = node.emit<nn::GatherOp>(
      {node.reshape(value, {places, behind}), node.emit<nn::SelectOp>({there, order, node.scalar(order, 0)})},
      {node.intAttr("axis", 0)});
  // What takes more rows than count gets no numbers, and does not train on others.
  Value none = node.scalar(moved, nn::isReal(value) ? std::numeric_limits<double>::quiet_NaN() : 0);
  return node.reshape(node.emit<nn::SelectOp>({node.reshape(there, {places, 1}), moved, none}), shape);
}

std::optional<Pointed> pointedAt(const Selection &rows, ArrayRef<int64_t> sizes) {
  ArrayRef<int64_t> mask = nn::shapeOf(rows.whole);
  Pointed found;
  if (rows.columns.size() != sizes.size())
    return std::nullopt;
  for (size_t c = 0; c < sizes.size(); ++c) {
    const size_t first = found.dims.size();
    int64_t step = sizes[c]; // a place along sizes[c] counted over several dimensions, one of which runs fastest
    std::vector<size_t> slowest(mask.size());
    std::iota(slowest.begin(), slowest.end(), size_t{0});
    llvm::stable_sort(slowest, [&](size_t a, size_t b) { return rows.columns[c][a] > rows.columns[c][b]; });
    for (size_t d : slowest) {
      if (mask[d] == 1 || rows.columns[c][d] == 0)
        continue;
      if (step % mask[d] != 0 || rows.columns[c][d] != (step /= mask[d]) || llvm::is_contained(found.dims, d))
        return std::nullopt;
      found.dims.push_back(d);
    }
    if (step != 1 || (first == found.dims.size() && sizes[c] != 1))
      return std::nullopt;
  }
  found.order = found.dims;
  llvm::sort(found.order);
  for (size_t d = 0; d < mask.size(); ++d)
    if (!llvm::is_contained(found.dims, d))
      found.others.push_back(d);
  return found;
}

LogicalResult convertRows(NodeContext &node) { return Rows(node).convert(); }

} // namespace mt::onnx
