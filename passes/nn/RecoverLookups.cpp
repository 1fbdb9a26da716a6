// Lookups that are simpler operations: gather_nd by one index is a gather, and a gather of one fixed entry is a slice.
#include "passes/nn/IndexExpression.h"
#include "passes/nn/Match.h"

using namespace mlir;
using namespace mt::nn;

namespace mt::passes {
namespace {
/// What each entry of an index tensor is, as a function of where it stands; none if that is not known.
std::optional<Affine> entriesOf(Value indices) {
  IndexEvaluator evaluator(shapeOf(indices));
  ExpressionRef element = evaluator.element(indices, evaluator.indicesFor(indices));
  return element && element->kind == Expression::affine ? std::optional(element->number) : std::nullopt;
}

/// gather_nd(data, indices [.., 1]) -> gather(data, indices [..]) along dimension 0.
struct GatherNdByOneIndex : OpRewritePattern<GatherNdOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GatherNdOp op, PatternRewriter &rewriter) const override {
    ArrayRef<int64_t> indices = shapeOf(op.getIndices());
    if (op.getBatchDims() != 0 || indices.empty() || indices.back() != 1)
      return failure();
    Value places = reshapeTo(rewriter, op.getIndices(), indices.drop_back());
    rewriter.replaceOpWithNewOp<GatherOp>(op, op.getData(), places, 0);
    return success();
  }
};

/// gather_nd(data, [row, place ..]) of each row's own number -> gather_nd(data, [place ..]) row by row.
struct GatherNdByRows : OpRewritePattern<GatherNdOp> {
  using OpRewritePattern::OpRewritePattern;
  /// Whether entry i along the first dimension is i.
  static bool countsRows(Value value) {
    std::optional<Affine> entries = entriesOf(value);
    return entries && entries->coordinate() == 0;
  }
  LogicalResult matchAndRewrite(GatherNdOp op, PatternRewriter &rewriter) const override {
    auto concat = op.getIndices().getDefiningOp<ConcatOp>();
    ArrayRef<int64_t> indices = shapeOf(op.getIndices());
    if (op.getBatchDims() != 0 || !concat || indices.size() < 2 || concat.getAxis() + 1 != indices.size() ||
        indices[0] != shapeOf(op.getData())[0] || concat.getInputs().size() < 2)
      return failure();
    Value rows = concat.getInputs().front();
    if (shapeOf(rows).back() != 1 || !countsRows(rows))
      return failure();
    SmallVector<Value> rest(concat.getInputs().drop_front());
    Value places =
        rest.size() == 1 ? rest[0] : ConcatOp::create(rewriter, concat.getLoc(), rest, concat.getAxis()).getResult();
    rewriter.replaceOpWithNewOp<GatherNdOp>(op, op.getData(), places, 1);
    return success();
  }
};

/// gather(data, one constant) -> a slice of size one. Backwards a slice is a pad, where a gather is a scatter.
struct GatherOfOneEntry : OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GatherOp op, PatternRewriter &rewriter) const override {
    auto place = splatValue(op.getIndices());
    if (!place || cast<ShapedType>(op.getIndices().getType()).getNumElements() != 1)
      return failure();
    SmallVector<int64_t> sizes(shapeOf(op.getData())), starts(sizes.size(), 0), strides(sizes.size(), 1);
    int64_t axis = op.getAxis(), start = int64_t(*place) + (*place < 0 ? sizes[axis] : 0);
    if (start < 0 || start >= sizes[axis])
      return failure();
    sizes[axis] = 1;
    starts[axis] = start;
    Value slice = SliceOp::create(rewriter, op.getLoc(), op.getData(), starts, sizes, strides);
    rewriter.replaceOp(op, reshapeTo(rewriter, slice, shapeOf(op.getResult())));
    return success();
  }
};
/// gather(dequantize(table), places) along the first dimension -> dequantize(gather(rows of bytes, places)): the table
/// stays as it is stored.
struct GatherOfStored : OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;

  /// Whether scales or zeros are those of all rows.
  static bool areShared(DequantizeOp table, Value value) {
    return shapeOf(value).empty() || (shapeOf(value).size() == 1 && table.getAxis() != 0);
  }
  /// Or of each row; else they are of blocks of rows.
  static bool areOfRows(DequantizeOp table, Value value) {
    return areShared(table, value) ||
           (shapeOf(value)[0] == shapeOf(table.getResult())[0] && (table.getAxis() != 0 || table.getBlock() == 1));
  }
  LogicalResult matchAndRewrite(GatherOp op, PatternRewriter &rewriter) const override {
    auto table = op.getData().getDefiningOp<DequantizeOp>();
    SmallVector<int64_t> shape(shapeOf(op.getData()));
    if (!table || op.getAxis() != 0 || llvm::is_contained(shape, 0))
      return failure();
    int64_t rows = shape[0], bits = cast<ShapedType>(table.getType()).getNumElements() / rows * table.getBits();
    if (bits % 8 != 0 || shape.size() < 2 || !areOfRows(table, table.getScales()) ||
        (table.getZeros() && !areOfRows(table, table.getZeros())))
      return failure();
    int64_t count = cast<ShapedType>(op.getIndices().getType()).getNumElements();
    Value places = reshapeTo(rewriter, op.getIndices(), {count});
    auto ofRows = [&](Value value) -> Value {
      if (!value || areShared(table, value))
        return value;
      return GatherOp::create(rewriter, table.getLoc(), value, places, 0);
    };
    Value scales = ofRows(table.getScales()), zeros = ofRows(table.getZeros());
    Value lines =
        GatherOp::create(rewriter, op.getLoc(), reshapeTo(rewriter, table.getValues(), {rows, bits / 8}), places, 0);
    shape[0] = count;
    Value reals = DequantizeOp::create(rewriter, table.getLoc(), tensorOf(shape, getElementTypeOrSelf(op.getType())),
                                       lines, scales, zeros, table.getBits(), table.getIsSigned(), table.getZero(),
                                       table.getAxis(), table.getBlock(), table.getLevelsAttr());
    rewriter.replaceOp(op, reshapeTo(rewriter, reals, shapeOf(op.getResult())));
    return success();
  }
};

/// Whether entries count from `number.constant` on, in row-major order.
bool isCount(const Affine &number, ArrayRef<int64_t> shape) {
  int64_t stride = 1;
  for (int64_t dim = static_cast<int64_t>(shape.size()) - 1; dim >= 0; stride *= shape[dim--])
    if (shape[dim] != 1 && number.coefficients[dim] != stride)
      return false;
  return true;
}

/// gather(data, 0, 1, 2 ..) of all entries -> data under another shape: views by strides that are none.
struct GatherOfAllEntries : OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GatherOp op, PatternRewriter &rewriter) const override {
    auto indices = cast<RankedTensorType>(op.getIndices().getType());
    if (indices.getNumElements() != shapeOf(op.getData())[op.getAxis()])
      return failure();
    std::optional<Affine> entries = entriesOf(op.getIndices());
    if (!entries || entries->constant != 0 || !isCount(*entries, indices.getShape()))
      return failure();
    rewriter.replaceOp(op, reshapeTo(rewriter, op.getData(), shapeOf(op.getResult())));
    return success();
  }
};

/// A slice of tensors put together that lies in one of them -> a slice of that one: a column of index tuples.
struct SliceOfOnePart : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SliceOp op, PatternRewriter &rewriter) const override {
    auto concat = op.getOperand().getDefiningOp<ConcatOp>();
    if (!concat)
      return failure();
    auto axis = static_cast<size_t>(concat.getAxis());
    SmallVector<int64_t> starts(op.getStarts());
    const int64_t last = starts[axis] + (op.getSizes()[axis] - 1) * op.getStrides()[axis];
    const int64_t low = std::min(starts[axis], last), high = std::max(starts[axis], last);
    int64_t begin = 0;
    for (Value part : concat.getInputs()) {
      const int64_t end = begin + shapeOf(part)[axis];
      if (low >= begin && high < end) {
        starts[axis] -= begin;
        rewriter.replaceOpWithNewOp<SliceOp>(op, part, starts, op.getSizes(), op.getStrides());
        return success();
      }
      begin = end;
    }
    return failure();
  }
};

/// A tensor taken apart into stretches of entries that are put together again in their order, as the features of a list
/// of pictures are: the tensor under another shape.
struct ConcatOfAllEntries : OpRewritePattern<ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  static int64_t before(ArrayRef<int64_t> shape, int64_t axis) {
    return std::accumulate(shape.begin(), shape.begin() + axis, int64_t{1}, std::multiplies<>());
  }
  LogicalResult matchAndRewrite(ConcatOp op, PatternRewriter &rewriter) const override {
    if (op.getInputs().size() < 2 || before(shapeOf(op.getResult()), op.getAxis()) != 1)
      return failure();
    Value whole;
    int64_t axis = -1, next = 0;
    for (Value part : op.getInputs()) {
      while (auto view = part.getDefiningOp<ReshapeOp>())
        part = view.getOperand();
      auto slice = part.getDefiningOp<SliceOp>();
      if (!slice || (whole && slice.getOperand() != whole))
        return failure();
      whole = slice.getOperand();
      ArrayRef<int64_t> shape = shapeOf(whole);
      for (size_t d = 0; d < shape.size(); ++d)
        if (slice.getSizes()[d] != shape[d] && axis < 0)
          axis = static_cast<int64_t>(d);
      for (size_t d = 0; d < shape.size(); ++d)
        if (slice.getStrides()[d] != 1 || slice.getStarts()[d] != (static_cast<int64_t>(d) == axis ? next : 0) ||
            (slice.getSizes()[d] != shape[d] && static_cast<int64_t>(d) != axis))
          return failure();
      next += axis < 0 ? 0 : slice.getSizes()[static_cast<size_t>(axis)];
    }
    if (axis < 0 || before(shapeOf(whole), axis) != 1 || next != shapeOf(whole)[static_cast<size_t>(axis)] ||
        cast<ShapedType>(whole.getType()).getNumElements() != cast<ShapedType>(op.getType()).getNumElements())
      return failure();
    rewriter.replaceOp(op, reshapeTo(rewriter, whole, shapeOf(op.getResult())));
    return success();
  }
};

/// What replaces neighbouring entries of `data` along an axis -> that between what is before and behind.
LogicalResult putBetween(PatternRewriter &rewriter, Operation *op, Value data, Value updates, int64_t axis,
                         int64_t first) {
  ArrayRef<int64_t> shape = shapeOf(data);
  int64_t end = first + shapeOf(updates)[axis];
  if (first < 0 || end > shape[axis])
    return failure();
  SmallVector<Value> parts;
  auto part = [&](int64_t from, int64_t to) {
    SmallVector<int64_t> starts(shape.size(), 0), sizes(shape), strides(shape.size(), 1);
    starts[axis] = from, sizes[axis] = to - from;
    if (to > from)
      parts.push_back(SliceOp::create(rewriter, op->getLoc(), data, starts, sizes, strides));
  };
  part(0, first);
  parts.push_back(updates);
  part(end, shape[axis]);
  rewriter.replaceOp(op,
                     parts.size() == 1 ? updates : ConcatOp::create(rewriter, op->getLoc(), parts, axis).getResult());
  return success();
}

struct ScatterOfNeighbours : OpRewritePattern<ScatterOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ScatterOp op, PatternRewriter &rewriter) const override {
    if (op.getKind() != "none" || shapeOf(op.getIndices()).size() != 1)
      return failure();
    std::optional<Affine> entries = entriesOf(op.getIndices());
    if (!entries || !isCount(*entries, shapeOf(op.getIndices())))
      return failure();
    return putBetween(rewriter, op, op.getData(), op.getUpdates(), op.getAxis(), entries->constant);
  }
};

struct ScatterElementsOfNeighbours : OpRewritePattern<ScatterElementsOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ScatterElementsOp op, PatternRewriter &rewriter) const override {
    ArrayRef<int64_t> data = shapeOf(op.getData()), places = shapeOf(op.getIndices());
    const auto axis = static_cast<size_t>(op.getAxis());
    if (op.getKind() != "none")
      return failure();
    std::optional<Affine> entries = entriesOf(op.getIndices());
    for (size_t dim = 0; dim < data.size(); ++dim)
      if (!entries || (places[dim] != 1 && entries->coefficients[dim] != (dim == axis)) ||
          (dim != axis && places[dim] != data[dim]))
        return failure();
    return putBetween(rewriter, op, op.getData(), op.getUpdates(), op.getAxis(), entries->constant);
  }
};
} // namespace

void addLookupPatterns(RewritePatternSet &patterns) {
  patterns.add<GatherNdByOneIndex, GatherNdByRows, GatherOfOneEntry, GatherOfAllEntries, GatherOfStored,
               ConcatOfAllEntries, SliceOfOnePart, ScatterOfNeighbours, ScatterElementsOfNeighbours>(patterns.getContext());
}

} // namespace mt::passes
