// mt-differentiate: backward templates, one for each rung of the ladder of saved activations. A template is cloned,
// its gradient operations appended, and the whole split at the saved values: what backward still needs beyond them it
// recomputes, in the same operations, so that all rungs give the same bits. The rung `all` still leaves out what one
// pass over memory makes again.
#include "kernels/Expression.h"
#include "passes/Passes.h"
#include "passes/layers/WidenGradients.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace mt {
#define GEN_PASS_DEF_DIFFERENTIATE
#include "passes/Passes.h.inc"
using namespace nn;

namespace {
constexpr StringLiteral kRungs[] = {"input", "attention", "all"};

bool isFloat(Value value) { return isa<FloatType>(getElementTypeOrSelf(value.getType())); }

/// What widened a value from bf16, which makes it again exactly; null: nothing.
CastOp wideningOf(Value value) {
  auto cast = value.getDefiningOp<CastOp>();
  return cast && isFloat(value) && passes::isWidened(cast.getOperand().getType()) ? cast : CastOp();
}

/// Which arguments of a template want a gradient, which results then carry one, and which of these gradients are sums
/// over micro-batches or layers: those have 32 bits.
struct Flow {
  llvm::SmallBitVector wanted, carries, wideArguments, wideResults;
};

/// Values of `function` that depend on a wanted argument.
llvm::DenseSet<Value> reached(func::FuncOp function, const llvm::SmallBitVector &wanted) {
  llvm::DenseSet<Value> values;
  for (BlockArgument argument : function.getArguments())
    if (wanted.test(argument.getArgNumber()))
      values.insert(argument);
  for (Operation &op : function.front().without_terminator())
    if (!op.hasTrait<Flat>() && llvm::any_of(op.getOperands(), [&](Value v) { return values.contains(v); }))
      for (Value result : op.getResults())
        if (isFloat(result))
          values.insert(result);
  return values;
}

/// The differentiation of one template for one set of wanted arguments.
class TemplateDifferentiator {
public:
  TemplateDifferentiator(func::FuncOp primal, const Flow &flow, std::string stem, bool isLoss)
      : primal(primal), flow(flow), stem(std::move(stem)), isLoss(isLoss) {}

  LogicalResult run() {
    for (StringRef rung : kRungs) {
      if (isLoss && rung != "input")
        break;
      if (failed(build(rung)))
        return failure();
    }
    return success();
  }

private:
  func::FuncOp primal;
  const Flow &flow;
  std::string stem;
  bool isLoss;

  MLIRContext *context() { return primal.getContext(); }

  LogicalResult build(StringRef rung) {
    IRMapping mapping;
    auto backward = cast<func::FuncOp>(primal->clone(mapping));
    backward.setName(stem + ".backward." + rung.str());
    primal->getParentOfType<ModuleOp>().push_back(backward);
    Operation *firstGradient = nullptr;
    if (failed(appendGradients(backward, firstGradient)))
      return failure();
    llvm::SetVector<Value> saved = chooseSaved(backward, firstGradient, rung);
    if (rung != "input")
      makeForward(saved, mapping, rung);
    takeSaved(backward, saved);
    sweep(backward);
    return success();
  }

  void argumentAttribute(func::FuncOp function, unsigned index, StringRef name, int64_t value) {
    function.setArgAttr(index, name, IntegerAttr::get(IntegerType::get(context(), 64), value));
  }

  LogicalResult appendGradients(func::FuncOp function, Operation *&first) {
    auto exit = cast<func::ReturnOp>(function.front().getTerminator());
    Operation *lastForward = exit->getPrevNode();
    OpBuilder builder(exit);
    Gradients gradients;
    llvm::DenseSet<Value> active = reached(function, flow.wanted);
    for (Value value : active)
      gradients.want(value);
    for (BlockArgument argument : function.getArguments())
      argumentAttribute(function, argument.getArgNumber(), "nn.argument", argument.getArgNumber());
    SmallVector<Value> forwardResults(exit.getOperands());
    for (auto [k, value] : llvm::enumerate(forwardResults)) {
      if (!flow.carries.test(k) || !active.contains(value))
        continue;
      if (isLoss) {
        gradients.add(builder, value, scalarLike(builder, value, 1));
        continue;
      }
      unsigned index = function.getNumArguments();
      Type type = flow.wideResults.test(k) ? Type(passes::widened(value.getType())) : value.getType();
      if (failed(function.insertArgument(index, type, {}, value.getLoc())))
        return failure();
      argumentAttribute(function, index, "nn.gradient", k);
      gradients.add(builder, value, function.getArgument(index));
    }
    if (failed(walkBackwards(function, lastForward, builder, gradients)))
      return failure();
    auto behindForward = [&] { return lastForward ? lastForward->getNextNode() : &function.front().front(); };
    setResults(function, exit, behindForward(), builder, gradients);
    first = behindForward(); // what widens the first gradient operation's operands stands before it
    return success();
  }

  LogicalResult walkBackwards(func::FuncOp function, Operation *lastForward, OpBuilder &builder, Gradients &gradients) {
    SmallVector<Operation *> ops;
    for (Operation *op = lastForward; op; op = op->getPrevNode())
      ops.push_back(op);
    for (Operation *op : ops) {
      bool reachedBy = llvm::any_of(op->getResults(), [&](Value v) { return gradients.lookup(v); });
      bool wantedBy = llvm::any_of(op->getOperands(), [&](Value v) { return gradients.wants(v); });
      if (!reachedBy || !wantedBy)
        continue;
      auto differentiable = dyn_cast<DifferentiableOpInterface>(op);
      if (!differentiable)
        return op->emitOpError("has no gradient, but a trainable parameter reaches the loss only through it; freeze "
                               "that parameter (--freeze PATTERN) or replace the operation in the model");
      // A result without gradient beside one that has it gets zeros where its rule looks it up.
      if (!gradients.lookup(op->getResult(0)))
        gradients.add(builder, op->getResult(0),
                      splat(builder, op->getLoc(), cast<RankedTensorType>(op->getResult(0).getType()), 0));
      if (failed(differentiable.buildGradient(builder, gradients)))
        return failure();
    }
    return success();
  }

  void setResults(func::FuncOp function, func::ReturnOp exit, Operation *first, OpBuilder &builder, Gradients &gradients) {
    SmallVector<Value> results;
    SmallVector<bool> wide;
    SmallVector<NamedAttribute> attributes;
    auto number = [&](StringRef name, int64_t value) { attributes.push_back(builder.getNamedAttr(name, builder.getI64IntegerAttr(value))); };
    if (isLoss)
      for (auto [k, value] : llvm::enumerate(exit.getOperands())) {
        results.push_back(value);
        wide.push_back(false);
        number("nn.result", k);
      }
    for (unsigned i = 0; i < flow.wanted.size(); ++i) {
      if (!flow.wanted.test(i))
        continue;
      Value argument = function.getArgument(i), gradient = gradients.lookup(argument);
      results.push_back(gradient ? gradient
                                 : splat(builder, function.getLoc(), cast<RankedTensorType>(argument.getType()), 0));
      wide.push_back(flow.wideArguments.test(i));
      number("nn.gradient", i);
    }
    exit->setOperands(results);
    for (auto [use, widen] : llvm::zip(exit->getOpOperands(), wide))
      if (widen)
        use.set(passes::widenGradient(builder, first, use));
    function.setType(builder.getFunctionType(function.getArgumentTypes(), exit->getOperandTypes()));
    SmallVector<Attribute> dictionaries;
    for (NamedAttribute attribute : attributes)
      dictionaries.push_back(builder.getDictionaryAttr(attribute));
    function.setAllResultAttrs(dictionaries);
  }

  /// Views, constants, and weights from what is stored of them, are made again rather than saved.
  static bool isFree(Operation *op) {
    auto stored = dyn_cast<DequantizeOp>(op);
    return isa<ConstantOp, IotaOp>(op) || (stored && stored.isOfStored());
  }
  static Value root(Value value) {
    while (Operation *view = value.getDefiningOp()) {
      if (!isa<ReshapeOp, DetachOp>(view))
        break;
      value = view->getOperand(0);
    }
    return value;
  }

  static void makeAgain(Operation *op) { op->setAttr(kAgainAttr, UnitAttr::get(op->getContext())); }

  /// Forward values that backward is given instead of recomputing them.
  llvm::SetVector<Value> chooseSaved(func::FuncOp function, Operation *firstGradient, StringRef rung) {
    llvm::SetVector<Value> saved;
    if (rung == "input")
      return saved;
    llvm::DenseSet<Operation *> forward;
    for (Operation &op : function.front()) {
      if (&op == firstGradient)
        break;
      forward.insert(&op);
    }
    llvm::DenseSet<Value> used;
    for (Operation *op = firstGradient; op; op = op->getNextNode())
      for (Value operand : op->getOperands()) {
        Value value = root(operand);
        used.insert(value);
        if (CastOp widening = wideningOf(value); widening && rung == "all" && forward.contains(widening)) {
          makeAgain(widening); // of half the bytes
          value = root(widening.getOperand());
          used.insert(value);
        }
        Operation *producer = value.getDefiningOp();
        if (!producer || !forward.contains(producer) || isFree(producer))
          continue;
        if (rung == "all" || isa<AttentionOp>(producer))
          saved.insert(value);
      }
    leaveOutCheap(saved, used);
    return saved;
  }

  /// Operations that make a value again in about the time that it takes to read it.
  static bool isCheap(Operation *op) {
    const bool isWhole = llvm::any_of(op->getOperands(), [](Value v) { return getElementTypeOrSelf(v).isInteger(64); });
    return isa<LayerNormOp, RmsNormOp>(op) ||
           (kernels::isInstruction(op->getName().stripDialect()) && !isWhole && !isa<PowOp, SinOp, CosOp, ModOp>(op));
  }

  /// Operations of which a few more cost nothing in a pass over memory.
  static bool isShort(Operation *op) {
    return isa<AddOp, SubOp, MulOp, NegOp, CastOp, ReluOp>(op) && isFloat(op->getOperand(0));
  }

  static constexpr int64_t kRows = 16;
  static constexpr int kMostAgain = 16; ///< operations, for one value
  static int64_t elementsOf(Value value) { return cast<RankedTensorType>(value.getType()).getNumElements(); }

  /// How backward makes a value again of what it has anyway: by its own operation, and short ones before that.
  struct Again {
    const llvm::DenseSet<Value> &used;
    int64_t size; ///< elements of the value: what has few of those, such as a bias or a mean, is read in no time
    llvm::SetVector<Operation *> operations;
    llvm::SetVector<Value> rows; ///< of few elements, that are to be saved for it

    bool isRow(Value value) const { return kRows * elementsOf(value) <= size; }

    bool find(Value value) {
      Operation *producer = value.getDefiningOp();
      if (value != producer->getResult(0) || operations.size() == kMostAgain)
        return false;
      operations.insert(producer);
      return llvm::all_of(producer->getOperands(), [&](Value operand) { return has(root(operand)); });
    }

  private:
    bool has(Value value) {
      Operation *op = value.getDefiningOp();
      if (used.contains(value) || (op ? isFree(op) || operations.contains(op) : isRow(value)))
        return true;
      const llvm::SetVector<Operation *> before = operations;
      if (op && isShort(op) && find(value))
        return true;
      operations = before;
      if (op && isRow(value))
        rows.insert(value);
      return op && isRow(value);
    }
  };

  /// Leaves out what backward makes again of values that it has anyway, cheaply.
  static void leaveOutCheap(llvm::SetVector<Value> &saved, llvm::DenseSet<Value> &used) {
    SmallVector<Value> ordered(saved.begin(), saved.end());
    for (Value value : ordered) {
      Again again{used, elementsOf(value), {}, {}};
      if (!isCheap(value.getDefiningOp()) || !again.find(value))
        continue;
      saved.remove(value);
      saved.insert(again.rows.begin(), again.rows.end());
      used.insert(again.rows.begin(), again.rows.end());
      llvm::for_each(again.operations, makeAgain);
    }
  }

  void makeForward(const llvm::SetVector<Value> &saved, IRMapping &mapping, StringRef rung) {
    IRMapping again;
    auto forward = cast<func::FuncOp>(primal->clone(again));
    forward.setName(stem + ".forward." + rung.str());
    primal->getParentOfType<ModuleOp>().push_back(forward);
    llvm::DenseMap<Value, Value> toPrimal;
    for (auto [from, to] : mapping.getValueMap())
      toPrimal[to] = from;
    auto exit = cast<func::ReturnOp>(forward.front().getTerminator());
    SmallVector<Value> results(exit.getOperands());
    for (Value value : saved)
      results.push_back(again.lookup(toPrimal.lookup(value)));
    exit->setOperands(results);
    forward.setType(FunctionType::get(context(), forward.getArgumentTypes(), ValueRange(results).getTypes()));
    SmallVector<Attribute> attributes(results.size(), DictionaryAttr::get(context()));
    forward.setAllResultAttrs(attributes);
  }

  /// Turns the saved values of a backward template into arguments.
  void takeSaved(func::FuncOp function, const llvm::SetVector<Value> &saved) {
    for (auto [j, value] : llvm::enumerate(saved)) {
      unsigned index = function.getNumArguments();
      (void)function.insertArgument(index, value.getType(), {}, value.getLoc());
      argumentAttribute(function, index, "nn.saved", j);
      Value(value).replaceAllUsesWith(function.getArgument(index));
    }
  }

  /// Erases what nothing uses: operations, then arguments.
  static void sweep(func::FuncOp function) {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.front())))
      if (isOpTriviallyDead(&op))
        op.erase();
    llvm::BitVector unused(function.getNumArguments());
    for (BlockArgument argument : function.getArguments())
      if (argument.use_empty())
        unused.set(argument.getArgNumber());
    (void)function.eraseArguments(unused);
  }
};

struct Differentiate : impl::DifferentiateBase<Differentiate> {
  using DifferentiateBase::DifferentiateBase;

  llvm::StringMap<bool> built;
  llvm::DenseSet<Value> carrying; ///< results of calls that carry gradient

  static bool hasSeveralUsers(Value value) { return !value.use_empty() && !value.hasOneUse(); }

  Flow flowOf(func::FuncOp main, func::CallOp call, func::FuncOp callee) {
    llvm::SmallBitVector arguments(callee.getNumArguments()), results(callee.getNumResults());
    Flow flow{arguments, results, arguments, results};
    for (auto [i, operand] : llvm::enumerate(call.getOperands())) {
      auto argument = dyn_cast<BlockArgument>(operand);
      bool trainable = argument && main.getArgAttr(argument.getArgNumber(), kTrainableAttr);
      if (!isFloat(operand) || (!trainable && !carrying.contains(operand)))
        continue;
      flow.wanted.set(i);
      if (passes::isWidened(operand.getType()) && (trainable || hasSeveralUsers(operand)))
        flow.wideArguments.set(i);
    }
    llvm::DenseSet<Value> values = reached(callee, flow.wanted);
    for (auto [k, value] : llvm::enumerate(callee.front().getTerminator()->getOperands()))
      if (values.contains(value) && !call.getResult(k).use_empty()) {
        flow.carries.set(k);
        if (passes::isWidened(value.getType()) && hasSeveralUsers(call.getResult(k)))
          flow.wideResults.set(k);
      }
    return flow;
  }

  /// Tells apart the ways in which calls of one template want gradients; the first way keeps the template's name.
  static std::string maskOf(const Flow &flow) {
    std::string mask;
    for (unsigned i = 0; i < flow.wanted.size(); ++i)
      mask += flow.wideArguments.test(i) ? '2' : flow.wanted.test(i) ? '1' : '0';
    for (unsigned i = 0; i < flow.carries.size(); ++i)
      mask += flow.wideResults.test(i) ? '2' : flow.carries.test(i) ? '1' : '0';
    return mask;
  }

  LogicalResult differentiate(func::FuncOp main, func::CallOp call, llvm::StringMap<SmallVector<std::string>> &masks) {
    auto callee = getOperation().lookupSymbol<func::FuncOp>(call.getCallee());
    Flow flow = flowOf(main, call, callee);
    bool isLoss = llvm::any_of(call->getUsers(), [](Operation *user) { return isa<func::ReturnOp>(user); });
    for (auto [k, result] : llvm::enumerate(call.getResults()))
      if (flow.carries.test(k))
        carrying.insert(result);
    if (flow.carries.none())
      return success(); // nothing upstream of the loss: forward only
    auto &known = masks[callee.getName()];
    std::string mask = maskOf(flow);
    size_t index = llvm::find(known, mask) - known.begin();
    if (index == known.size())
      known.push_back(mask);
    std::string name = callee.getName().str() + (index == 0 ? "" : "." + std::to_string(index));
    call->setAttr("nn.backward", StringAttr::get(&getContext(), name));
    if (std::exchange(built[name], true))
      return success();
    return TemplateDifferentiator(callee, flow, name, isLoss).run();
  }

  /// Sums read what was widened as it was before: they have 32 bits whatever they add. Not before gradients are
  /// made, which would have the type of what is read.
  static void readNarrow(ReduceOp sum) {
    if (sum.getKind() != "sum" && sum.getKind() != "mean")
      return;
    if (CastOp widening = wideningOf(sum.getOperand()))
      sum.getOperandMutable().set(widening.getOperand());
  }

  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>(kMainName);
    if (!main)
      return signalPassFailure();
    llvm::StringMap<SmallVector<std::string>> masks;
    SmallVector<func::CallOp> calls(main.front().getOps<func::CallOp>());
    if (calls.empty()) {
      main.emitError("has no layers; run mt-partition-layers first");
      return signalPassFailure();
    }
    for (func::CallOp call : calls)
      if (failed(differentiate(main, call, masks)))
        return signalPassFailure();
    getOperation().walk([](DetachOp op) {
      op.replaceAllUsesWith(op.getOperand());
      op.erase();
    });
    getOperation().walk(readNarrow);
  }
};
} // namespace
} // namespace mt
