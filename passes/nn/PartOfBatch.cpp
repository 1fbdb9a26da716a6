#include "passes/nn/PartOfBatch.h"

#include "mlir/Interfaces/InferTypeOpInterface.h"

#include <map>
#include <tuple>

using namespace mlir;
using namespace mt::nn;

namespace mt::passes {
namespace {
class Part {
public:
  Part(func::FuncOp main, const BatchFlow &flow, int64_t rows) : main(main), flow(flow), rows(rows) {}

  LogicalResult run() {
    for (BlockArgument argument : main.getArguments())
      resize(argument);
    auto meeting = flow.meetings.begin();
    for (Operation &op : llvm::make_early_inc_range(main.front().without_terminator())) {
      for (; meeting != flow.meetings.end() && meeting->op == &op; ++meeting)
        op.setOperand(meeting->index, repeated(op.getOperand(meeting->index), meeting->at));
      if (op.getNumResults() && failed(resize(&op)))
        return failure();
    }
    main.setType(FunctionType::get(main.getContext(), main.front().getArgumentTypes(), main.getResultTypes()));
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(main.front())))
      if (isOpTriviallyDead(&op)) // what was there as often as the batch has rows
        op.erase();
    return success();
  }

private:
  func::FuncOp main;
  const BatchFlow &flow;
  int64_t rows;
  std::map<std::tuple<const void *, int64_t, int64_t, int64_t>, Value> made; ///< by value and where rows would be

  RankedTensorType resized(Value value, int64_t dim) {
    SmallVector<int64_t> shape(shapeOf(value));
    shape[dim] = shape[dim] / flow.batch * rows;
    return tensorOf(shape, getElementTypeOrSelf(value.getType()));
  }
  void resize(Value value) {
    if (Rows of = flow.rows.lookup(value); of.isEach())
      value.setType(resized(value, of.dim));
  }
  static void setSize(SliceOp slice, int64_t dim, int64_t size) {
    SmallVector<int64_t> sizes(slice.getSizes());
    sizes[dim] = size;
    slice.setSizes(sizes);
  }

  /// The results' rows are where the analysis has them; operations that infer their types must agree.
  LogicalResult resize(Operation *op) {
    Rows of = flow.rows.lookup(op->getResult(0));
    if (!of.isEach())
      return success();
    if (auto slice = dyn_cast<SliceOp>(op))
      setSize(slice, of.dim, resized(op->getResult(0), of.dim).getDimSize(of.dim));
    resize(op->getResult(0));
    auto infers = dyn_cast<InferTypeOpInterface>(op);
    if (!infers)
      return success();
    SmallVector<Type> types;
    if (failed(infers.inferReturnTypes(op->getContext(), op->getLoc(), op->getOperands(), op->getRawDictionaryAttrs(),
                                       op->getPropertiesStorage(), op->getRegions(), types)) ||
        cast<ShapedType>(types[0]).getShape() != shapeOf(op->getResult(0)))
      return op->emitError() << "cannot be computed for " << rows << " of " << flow.batch << " rows; compile with --micro-batch "
                             << flow.batch << " (the whole batch)";
    for (auto [result, type] : llvm::zip(op->getResults(), types))
      result.setType(tensorOf(cast<ShapedType>(type).getShape(), getElementTypeOrSelf(result.getType())));
    return success();
  }

  /// Whether an operation of as many rows as a part has costs no more than its result for all of them, cut.
  static bool isMadeAgain(Operation *op) {
    return op->hasTrait<Elementwise>() ||
           isa<IotaOp, TransposeOp, ReshapeOp, CumsumOp, EmbeddingOp, ConcatOp, BroadcastOp>(op);
  }

  /// `value` for the first rows alone of those that it would have at `at`.
  Operation *cut(OpBuilder &builder, Value value, const Rows &at) {
    SmallVector<int64_t> apart(shapeOf(value)), sizes;
    apart[at.dim] = at.outer;
    apart.insert(apart.begin() + at.dim + 1, {shapeOf(value)[at.dim] / (at.outer * at.inner), at.inner});
    sizes = apart;
    sizes[at.dim + 1] = sizes[at.dim + 1] / flow.batch * rows;
    SmallVector<int64_t> none(sizes.size(), 0), ones(sizes.size(), 1);
    Value part = SliceOp::create(builder, value.getLoc(), reshapeTo(builder, value, apart), none, sizes, ones);
    return ReshapeOp::create(builder, value.getLoc(), resized(value, at.dim), part);
  }

  /// `value`, the same for all rows that it would have at `at`, for as many rows as the part has.
  Value repeated(Value value, const Rows &at) {
    if (shapeOf(value)[at.dim] == at.outer * at.inner || shapeOf(value)[at.dim] == 1)
      return value;
    Value &result = made[{value.getAsOpaquePointer(), at.dim, at.outer, at.inner}];
    if (result)
      return result;
    RankedTensorType type = resized(value, at.dim);
    Operation *op = value.getDefiningOp(), *copy = nullptr;
    OpBuilder builder(main.getContext());
    builder.setInsertionPointAfter(op);
    auto constant = dyn_cast<ConstantOp>(op);
    if (auto values = constant ? cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
        values && values.isSplat()) {
      copy = ConstantOp::create(builder, op->getLoc(), values.resizeSplat(type));
    } else if (!isMadeAgain(op)) {
      copy = cut(builder, value, at);
    } else {
      copy = builder.clone(*op);
      const Followed followed = followedAlong(op, at).value_or(Followed());
      for (const auto &[operand, place] : followed)
        copy->setOperand(operand, repeated(op->getOperand(operand), place));
      copy->getResult(0).setType(type);
    }
    return result = copy->getResult(0);
  }
};
} // namespace

LogicalResult takePart(func::FuncOp main, const BatchFlow &flow, int64_t rows) { return Part(main, flow, rows).run(); }

} // namespace mt::passes
