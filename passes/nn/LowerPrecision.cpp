// mt-lower-precision: the types of mixed precision training, by rules that sit on the operations
// (PrecisionOpInterface). Walks over @main: forward, what each value would be; backward, what frozen parameters
// and what follows from them alone are asked to be; forward again, types set and casts placed at the operations that
// want another type than they get.
#include "passes/Passes.h"
#include "passes/Settings.h"

#include "llvm/ADT/APFloat.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace mt {
#define GEN_PASS_DEF_LOWERPRECISION
#include "passes/Passes.h.inc"
using namespace nn;

namespace {
/// Of a value that the model has in 32 bits: bf16, 32 bits still, or what its users want (`flexible`); `none`: of a
/// value that the model has in another type, which stays.
enum class State : uint8_t { none, flexible, narrow, full };

struct LowerPrecision : impl::LowerPrecisionBase<LowerPrecision> {
  using LowerPrecisionBase::LowerPrecisionBase;

  llvm::DenseMap<Value, State> states;
  llvm::DenseSet<Value> ofData;       ///< values that depend on an input
  llvm::DenseSet<Value> ofParameters; ///< values that depend on a trainable parameter
  llvm::DenseSet<Value> rounded;      ///< activations again, behind sums in 32 bits

  static bool isFull(Value value) { return getElementTypeOrSelf(value.getType()).isF32(); }
  State stateOf(Value value) const { return states.lookup(value); }

  //===-- rules ---------------------------------------------------------------------------------------------===//

  static Precision operandRule(OpOperand &operand) {
    Operation *op = operand.getOwner();
    if (op->hasTrait<FullPrecision>() || op->hasTrait<OpTrait::IsTerminator>())
      return Precision::full;
    auto precise = dyn_cast<PrecisionOpInterface>(op);
    return precise ? precise.operandPrecision(operand.getOperandNumber()) : Precision::joined;
  }
  static Precision resultRule(OpResult result) {
    Operation *op = result.getOwner();
    if (op->hasTrait<FullPrecision>())
      return Precision::full;
    auto precise = dyn_cast<PrecisionOpInterface>(op);
    return precise ? precise.resultPrecision(result.getResultNumber()) : Precision::joined;
  }

  static State join(State a, State b) { return std::max(a, b); }

  /// What the operands that decide an operation's type join to. Sums and products of parameters alone, as gains of
  /// 1 + w, have 32 bits: they are small, and their rounding is every activation's.
  State joined(Operation *op) const {
    State state = State::none;
    for (OpOperand &operand : op->getOpOperands())
      if (operandRule(operand) == Precision::joined)
        state = join(state, stateOf(operand.get()));
    bool ofParametersAlone = state == State::narrow && !op->hasTrait<Movement>() &&
                             llvm::none_of(op->getOperands(), [&](Value v) { return ofData.contains(v); }) &&
                             llvm::any_of(op->getOperands(), [&](Value v) { return ofParameters.contains(v); });
    return ofParametersAlone ? State::full : state;
  }

  //===-- walks ---------------------------------------------------------------------------------------------===//

  void readArguments(func::FuncOp main) {
    for (BlockArgument argument : main.getArguments()) {
      bool parameter = bool(main.getArgAttr(argument.getArgNumber(), kParameterAttr));
      bool trainable = bool(main.getArgAttr(argument.getArgNumber(), kTrainableAttr));
      if (!parameter)
        ofData.insert(argument);
      if (trainable)
        ofParameters.insert(argument);
      if (isFull(argument))
        states[argument] = !parameter ? State::full : trainable ? State::narrow : State::flexible;
    }
  }

  /// Whether a parameter has 32 bits because nothing uses it but operands that ask for exact ones, directly or through
  /// arithmetic on parameters alone.
  bool isExact(Value value) const {
    return !value.use_empty() && llvm::all_of(value.getUses(), [&](OpOperand &use) {
      Operation *op = use.getOwner();
      return operandRule(use) == Precision::exact ||
             (op->getNumResults() > 0 && llvm::all_of(op->getResults(), [&](Value result) {
                return !ofData.contains(result) && isExact(result);
              }));
    });
  }

  void propagate(Operation &op) {
    for (Value operand : op.getOperands())
      for (auto *set : {&ofData, &ofParameters})
        if (set->contains(operand))
          set->insert(op.result_begin(), op.result_end());
    for (OpResult result : op.getResults()) {
      if (!isFull(result))
        continue;
      if (rounded.contains(result)) {
        states[result] = State::narrow;
        continue;
      }
      State state = joined(&op);
      switch (resultRule(result)) {
      case Precision::narrow:
        state = State::narrow;
        break;
      case Precision::full:
      case Precision::any:
      case Precision::exact:
        state = State::full;
        break;
      case Precision::joined:
        if (isa<ConstantOp>(op))
          state = splatValue(result) ? State::flexible : State::full;
        else if (state == State::none)
          state = State::full;
      }
      states[result] = state;
    }
  }

  //===-- normalization in parts ----------------------------------------------------------------------------===//

  /// Whether a value has an element for several of another's row, as statistics of channels have; however many rows
  /// there are, for types are the same in micro-batches of any size.
  static bool isOfFew(Value value, Value all) {
    constexpr int64_t kSeveral = 4;
    const size_t rank = shapeOf(all).size();
    auto ofRow = [&](ArrayRef<int64_t> shape) {
      return llvm::product_of(shape.size() == rank ? shape.drop_front() : shape);
    };
    return rank > 0 && ofRow(shapeOf(value)) <= ofRow(shapeOf(all)) / kSeveral;
  }

  /// Results of 32 bits that add values of few elements to an activation, or multiply it by some: whether one of those
  /// has 32 bits.
  using Moved = llvm::DenseMap<Value, bool>;
  void move(Operation &op, Moved &moved) const {
    if (!isa<AddOp, SubOp, MulOp, DivOp>(op) || stateOf(op.getResult(0)) != State::full)
      return;
    for (unsigned i : {0u, 1u}) {
      Value value = op.getOperand(i), other = op.getOperand(1 - i);
      if (shapeOf(value) != shapeOf(op.getResult(0)) || !isOfFew(other, value) ||
          (stateOf(value) != State::narrow && !moved.contains(value)) || (isa<DivOp>(op) && i == 1))
        continue;
      moved[op.getResult(0)] = moved.lookup(value) || (isa<MulOp, DivOp>(op) && stateOf(other) == State::full);
      return;
    }
  }

  /// Where a normalization that is written as sums and products ends, as that by the batch's statistics is: its result
  /// is an activation, rounded once.
  void roundNormalized(Block &block) {
    Moved moved;
    for (Operation &op : block)
      move(op, moved);
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (!isa<AddOp>(op) || !moved.lookup(op.getResult(0)))
        continue;
      Value result = op.getResult(0);
      if (llvm::any_of(result.getUsers(), [&](Operation *user) { // it goes on, or has 32 bits there anyway
            return user->hasTrait<FullPrecision>() || user->hasTrait<OpTrait::IsTerminator>() || isa<CastOp>(user) ||
                   llvm::any_of(user->getResults(), [&](Value made) { return moved.contains(made); });
          }))
        continue;
      OpBuilder builder(&getContext());
      builder.setInsertionPointAfter(&op);
      auto behind = CastOp::create(builder, op.getLoc(), result.getType(), result);
      result.replaceAllUsesExcept(behind, behind);
      rounded.insert(behind);
    }
  }

  /// What an operation wants of an operand that it may get in either type.
  State wanted(OpOperand &operand) const {
    Operation *op = operand.getOwner();
    State got = stateOf(operand.get());
    switch (operandRule(operand)) {
    case Precision::narrow:
      return State::narrow;
    case Precision::full:
      return State::full;
    case Precision::any:
      return got == State::flexible && !isa<CastOp>(op) ? State::narrow : got;
    case Precision::exact:
      return got == State::flexible ? State::full : got;
    case Precision::joined:
      break;
    }
    for (OpResult result : op->getResults())
      if (resultRule(result) == Precision::joined && stateOf(result) != State::none)
        return stateOf(result);
    State state = joined(op); // a comparison: its result says nothing
    return state == State::flexible ? State::full : state;
  }

  /// Users come first: what they want of a flexible value settles it, 32 bits before bf16.
  void settle(Operation &op) {
    for (Value result : op.getResults())
      if (stateOf(result) == State::flexible)
        states[result] = isa<ConstantOp>(op) ? State::full : demanded(result);
  }
  State demanded(Value value) const {
    State state = State::none;
    for (OpOperand &use : value.getUses())
      state = join(state, wanted(use));
    return state == State::narrow ? State::narrow : State::full;
  }

  //===-- rewriting -----------------------------------------------------------------------------------------===//

  /// A number in bf16; one beyond its range, as masks have, becomes the largest there is.
  static Value narrowSplat(OpBuilder &builder, Location location, ArrayRef<int64_t> shape, double number) {
    double most = APFloat::getLargest(APFloat::BFloat()).convertToDouble();
    if (std::isfinite(number))
      number = std::clamp(number, -most, most);
    return splat(builder, location, tensorOf(shape, builder.getBF16Type()), number);
  }

  void retype(Value value) {
    if (stateOf(value) == State::narrow)
      value.setType(tensorOf(shapeOf(value), BFloat16Type::get(&getContext())));
  }

  Value converted(OpBuilder &builder, Location location, Value value, State state) {
    auto number = splatValue(value);
    if (number && state == State::narrow)
      return narrowSplat(builder, location, shapeOf(value), *number);
    Type element = state == State::narrow ? Type(builder.getBF16Type()) : Type(builder.getF32Type());
    return castTo(builder, value, element);
  }

  void rewrite(Operation &op) {
    OpBuilder builder(&op);
    SmallVector<State> wants;
    for (OpOperand &operand : op.getOpOperands())
      wants.push_back(stateOf(operand.get()) == State::none ? State::none : wanted(operand));
    for (auto [operand, want] : llvm::zip(op.getOpOperands(), wants))
      if (want != stateOf(operand.get()))
        operand.set(converted(builder, op.getLoc(), operand.get(), want));
    for (Value result : op.getResults())
      retype(result);
  }

  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>(kMainName);
    if (!main || main.isExternal())
      return;
    Block &block = main.front();
    readArguments(main);
    for (Operation &op : block)
      propagate(op);
    for (BlockArgument argument : main.getArguments())
      if (stateOf(argument) == State::narrow && isExact(argument))
        states[argument] = State::full;
    roundNormalized(block);
    for (Operation &op : block) // once more: what follows from exact parameters, and from what is rounded
      propagate(op);
    for (Operation &op : llvm::reverse(block))
      settle(op);
    for (BlockArgument argument : main.getArguments())
      if (stateOf(argument) == State::flexible)
        states[argument] = demanded(argument);
    for (BlockArgument argument : main.getArguments())
      retype(argument);
    for (Operation &op : llvm::make_early_inc_range(block))
      rewrite(op);
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
    main.setType(FunctionType::get(&getContext(), block.getArgumentTypes(), main.getResultTypes()));
    passes::stateSetting(getOperation(), &plan::Settings::precision, "bf16");
  }
};
} // namespace
} // namespace mt
