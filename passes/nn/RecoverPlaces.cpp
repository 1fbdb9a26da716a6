// Places counted over a whole tensor, as MaxPool's second output is, that are places within its rows: what exporters
// add and take away again goes, and what is put at such places is put row by row, so that the rows of a batch stay
// apart.
#include "passes/nn/IndexExpression.h"
#include "passes/nn/Match.h"

using namespace mlir;
using namespace mt::nn;

namespace mt::passes {
namespace {
bool isWhole(Value value) { return getElementTypeOrSelf(value.getType()).isSignlessInteger(64); }

/// What each element of `value`, broadcast to `shape`, is as a function of where it stands; none if that is not known.
std::optional<Affine> countedIn(ArrayRef<int64_t> shape, Value value) {
  IndexEvaluator evaluator(shape);
  ExpressionRef element = evaluator.element(value, evaluator.indicesFor(value));
  return element->kind == Expression::affine ? std::optional(element->number) : std::nullopt;
}

/// (x + start) - start of whole numbers -> x.
struct TakenAway : OpRewritePattern<SubOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SubOp op, PatternRewriter &rewriter) const override {
    auto sum = op.getLhs().getDefiningOp<AddOp>();
    ArrayRef<int64_t> shape = shapeOf(op.getResult());
    if (!sum || !isWhole(op.getResult()) || sum.getType() != op.getType())
      return failure();
    std::optional<Affine> taken = countedIn(shape, op.getRhs());
    for (auto [value, start] : {std::pair(sum.getLhs(), sum.getRhs()), std::pair(sum.getRhs(), sum.getLhs())})
      if (taken && countedIn(shape, start) == taken) {
        rewriter.replaceOp(op, value.getType() == op.getType()
                                   ? value
                                   : BroadcastOp::create(rewriter, op.getLoc(), op.getType(), value).getResult());
        return success();
      }
    return failure();
  }
};

/// Places in rows of `size` elements each, to which the start of their row is added.
struct PlacesInRows {
  Value within;
  int64_t rows, size;
};

/// The other operand of an operation whose one operand is a number, and that number; null where none is.
template <typename Op> std::pair<Value, double> bounded(Value value) {
  if (auto op = value.getDefiningOp<Op>())
    for (unsigned i : {0, 1})
      if (auto number = splatValue(op->getOperand(i)))
        return {op->getOperand(1 - i), *number};
  return {};
}

/// Whether `value` is kept from 0 to less than `size`.
bool liesWithin(Value value, int64_t size) {
  while (auto view = value.getDefiningOp<ReshapeOp>())
    value = view.getOperand();
  if (auto wrapped = value.getDefiningOp<ModOp>()) {
    auto divisor = splatValue(wrapped.getRhs());
    return divisor && *divisor >= 1 && *divisor <= static_cast<double>(size);
  }
  auto [below, most] = bounded<MinimumOp>(value);
  if (!below || most < 0 || most >= static_cast<double>(size))
    return false;
  auto [above, least] = bounded<MaximumOp>(below);
  return above && least >= 0;
}

/// Of how many leading dimensions of `shape` a number counts the rows, each of `total / rows` elements; 0 if it does
/// not.
size_t leadingRows(const Affine &starts, ArrayRef<int64_t> shape, int64_t total) {
  int64_t rows = 1;
  for (size_t leading = 1; leading <= shape.size() && starts.constant == 0; ++leading) {
    rows *= shape[leading - 1];
    int64_t stride = rows > 1 && total % rows == 0 ? total / rows : 0;
    bool counts = stride > 0;
    for (size_t d = shape.size(); d-- > 0;) {
      counts &= shape[d] == 1 || starts.coefficients[d] == (d < leading ? stride : 0);
      stride *= d < leading ? shape[d] : 1;
    }
    if (counts)
      return leading;
  }
  return 0;
}

/// Indices of `total` entries that are such places, under another shape and counted from the end where negative.
std::optional<PlacesInRows> placesInRows(Value indices, int64_t total) {
  while (Operation *op = indices.getDefiningOp()) {
    auto wrapped = dyn_cast<ModOp>(op);
    if (!isa<ReshapeOp>(op) && !(wrapped && splatValue(wrapped.getRhs()) == static_cast<double>(total)))
      break;
    indices = op->getOperand(0);
  }
  auto sum = indices.getDefiningOp<AddOp>();
  if (!sum || !isWhole(indices))
    return std::nullopt;
  ArrayRef<int64_t> shape = shapeOf(indices);
  for (auto [within, starts] : {std::pair(sum.getLhs(), sum.getRhs()), std::pair(sum.getRhs(), sum.getLhs())}) {
    std::optional<Affine> number = within.getType() == indices.getType() ? countedIn(shape, starts) : std::nullopt;
    size_t leading = number ? leadingRows(*number, shape, total) : 0;
    int64_t rows = 1;
    for (int64_t size : shape.take_front(leading))
      rows *= size;
    if (leading > 0 && liesWithin(within, total / rows))
      return PlacesInRows{within, rows, total / rows};
  }
  return std::nullopt;
}

/// scatter(data [rows * size], row * size + place, ..) -> scatter_elements(data [rows, size], place, ..) along the row.
struct ScatterByRows : OpRewritePattern<ScatterOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ScatterOp op, PatternRewriter &rewriter) const override {
    int64_t total = cast<ShapedType>(op.getType()).getNumElements();
    int64_t count = cast<ShapedType>(op.getIndices().getType()).getNumElements();
    if (op.getAxis() != 0 || shapeOf(op.getData())[0] != total || count == 0)
      return failure();
    std::optional<PlacesInRows> places = placesInRows(op.getIndices(), total);
    if (!places)
      return failure();
    SmallVector<int64_t> line{places->rows, count / places->rows};
    Value rows = ScatterElementsOp::create(
        rewriter, op.getLoc(), reshapeTo(rewriter, op.getData(), {places->rows, places->size}),
        reshapeTo(rewriter, places->within, line), reshapeTo(rewriter, op.getUpdates(), line), 1, op.getKind());
    rewriter.replaceOp(op, reshapeTo(rewriter, rows, shapeOf(op.getResult())));
    return success();
  }
};
/// Every element put where it is: what exporters write for mask[..., :n] = mask[..., :n].masked_fill(..).
struct PutWhereItIs : OpRewritePattern<ScatterElementsOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ScatterElementsOp op, PatternRewriter &rewriter) const override {
    Value indices = op.getIndices();
    size_t axis = static_cast<size_t>(op.getAxis());
    if (op.getKind() != "none" || op.getUpdates().getType() != op.getType() ||
        shapeOf(indices) != shapeOf(op.getResult()))
      return failure();
    const size_t behind = shapeOf(indices).size() - axis; // dimensions from the axis on
    for (auto view = indices.getDefiningOp<ReshapeOp>(); view; view = indices.getDefiningOp<ReshapeOp>()) {
      ArrayRef<int64_t> inner = shapeOf(view.getOperand()), shape = shapeOf(indices);
      if (inner.size() < behind || inner.take_back(behind) != shape.take_back(behind))
        break; // rows are counted otherwise, but not what is in one
      indices = view.getOperand();
      axis = inner.size() - behind;
    }
    ArrayRef<int64_t> shape = shapeOf(indices);
    std::optional<Affine> place = countedIn(shape, indices);
    if (!place || !(shape[axis] == 1 ? place->isConstant() && place->constant == 0
                                     : place->coordinate() == static_cast<int64_t>(axis)))
      return failure();
    rewriter.replaceOp(op, op.getUpdates());
    return success();
  }
};
} // namespace

void addPlacePatterns(RewritePatternSet &patterns) {
  patterns.add<TakenAway, ScatterByRows, PutWhereItIs>(patterns.getContext());
}

} // namespace mt::passes
