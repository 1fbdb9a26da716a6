// The rewriting of WidenGradients.h: from a gradient up to the operations that round it.
#include "passes/layers/WidenGradients.h"

#include "compiler/nn/KernelCall.h"

using namespace mlir;
using namespace mt::nn;

namespace mt::passes {
namespace {
Type full(Value value) { return Float32Type::get(value.getContext()); }
bool isFull(Value value) { return getElementTypeOrSelf(value.getType()).isF32(); }

class Widener {
public:
  Widener(OpBuilder &builder, Operation *first) : builder(builder), first(first) {}

  /// A 32-bit value in place of `value`; `alone`: nothing but the gradient at hand uses it.
  Value widen(Value value, bool alone) {
    Operation *op = value.getDefiningOp();
    if (!nn::isReal(value) || !op || op->isBeforeInBlock(first))
      return castTo(builder, value, full(value));
    if (auto cast = dyn_cast<CastOp>(op))
      return throughCast(cast, alone);
    if (!isFull(value) && (!alone || writesFull(cast<OpResult>(value))))
      return castTo(builder, value, full(value));
    if (passesOn(op))
      widenOperands(op, value);
    return castTo(builder, value, full(value));
  }

private:
  OpBuilder &builder;
  Operation *first;

  Value throughCast(CastOp cast, bool alone) {
    Value inner = cast.getOperand();
    if (!nn::isReal(inner))
      return castTo(builder, cast.getResult(), full(cast.getResult()));
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(cast);
    return widen(inner, alone && inner.hasOneUse());
  }

  /// Gives `result` 32 bits if the operation's kernel can write them.
  static bool writesFull(OpResult result) {
    Operation *op = result.getOwner();
    if (!hasKernel(op) || isa<ConstantOp>(op))
      return false;
    Type before = result.getType();
    result.setType(tensorOf(shapeOf(result), full(result)));
    if (isTyped(op) && kernels::check(kernelCallOf(op).signature).empty())
      return true;
    result.setType(before);
    return false;
  }
  /// Whether the dialect allows the result types that an operation has now.
  static bool isTyped(Operation *op) {
    auto infer = dyn_cast<InferTypeOpInterface>(op);
    SmallVector<Type> types;
    return !infer || (succeeded(infer.inferReturnTypes(op->getContext(), std::nullopt, op->getOperands(), op->getAttrDictionary(),
                                                       op->getPropertiesStorage(), {}, types)) &&
                      infer.isCompatibleReturnTypes(types, op->getResultTypes()));
  }

  /// Operations of one type whose result is as precise as their operands.
  static bool passesOn(Operation *op) { return op->hasTrait<Movement>() || isa<AddOp, SubOp, MulOp, NegOp>(op); }

  void widenOperands(Operation *op, Value result) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(op);
    for (OpOperand &operand : op->getOpOperands())
      if (isa<FloatType>(getElementTypeOrSelf(operand.get().getType())))
        operand.set(widenOperand(operand.get()));
    result.setType(tensorOf(shapeOf(result), full(result)));
  }
  Value widenOperand(Value operand) {
    if (auto number = splatValue(operand))
      return splat(builder, operand.getLoc(), tensorOf(shapeOf(operand), full(operand)), *number);
    return widen(operand, operand.hasOneUse());
  }
};
} // namespace

bool isWidened(Type type) { return getElementTypeOrSelf(type).isBF16(); }

RankedTensorType widened(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return isWidened(type) ? tensorOf(tensor.getShape(), Float32Type::get(type.getContext())) : tensor;
}

Value widenGradient(OpBuilder &builder, Operation *first, OpOperand &use) {
  return Widener(builder, first).widen(use.get(), use.get().hasOneUse());
}

} // namespace mt::passes
