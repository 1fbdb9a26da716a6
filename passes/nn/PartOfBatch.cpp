#include "passes/nn/PartOfBatch.h"

#include "mlir/Interfaces/InferTypeOpInterface.h"

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
        op.setOperand(meeting->index, repeated(op.getOperand(meeting->index), meeting->dim));
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
  llvm::DenseMap<std::pair<Value, int64_t>, Value> made; ///< by value and dimension

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

  /// `value`, the same along `dim`, for as many rows as the part has.
  Value repeated(Value value, int64_t dim) {
    if (shapeOf(value)[dim] == 1)
      return value;
    if (Value known = made.lookup({value, dim}))
      return known;
    RankedTensorType type = resized(value, dim);
    Operation *op = value.getDefiningOp(), *copy = nullptr;
    OpBuilder builder(main.getContext());
    builder.setInsertionPointAfter(op);
    if (auto constant = dyn_cast<ConstantOp>(op)) {
      copy = ConstantOp::create(builder, op->getLoc(), cast<DenseElementsAttr>(constant.getValue()).resizeSplat(type));
    } else {
      copy = builder.clone(*op);
      std::optional<Followed> followed = followedAlong(op, dim);
      if (auto slice = dyn_cast<SliceOp>(copy))
        setSize(slice, dim, type.getDimSize(dim));
      else
        for (auto [operand, at] : *followed)
          copy->setOperand(operand, repeated(op->getOperand(operand), at));
      copy->getResult(0).setType(type);
    }
    return made[{value, dim}] = copy->getResult(0);
  }
};
} // namespace

LogicalResult takePart(func::FuncOp main, const BatchFlow &flow, int64_t rows) { return Part(main, flow, rows).run(); }

} // namespace mt::passes
