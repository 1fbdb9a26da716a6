// mt-fuse-elementwise: operations that use each other's elements become one (kernels/Expression.h).
#include "compiler/nn/KernelCall.h"
#include "kernels/Blocks.h"
#include "kernels/Coverage.h"
#include "kernels/Expression.h"
#include "passes/Passes.h"

#include "llvm/ADT/SetVector.h"

#include <cmath>

using namespace mlir;

namespace mt {
#define GEN_PASS_DEF_FUSEELEMENTWISE
#include "passes/Passes.h.inc"
using namespace nn;

namespace {
using Members = llvm::SetVector<Operation *>;

int64_t elementsOf(Value value) { return cast<RankedTensorType>(value.getType()).getNumElements(); }
kernels::DType typeOf(Value value) { return operandType(value.getType(), kernels::Effect::read).type; }

bool canBePart(Operation *op) { return kernels::isInstruction(op->getName().stripDialect()); }

/// What an operation is in an expression, without its operands.
kernels::Instruction instructionOf(Operation *op) {
  kernels::Instruction one;
  one.kernel = op->getName().stripDialect().str();
  for (StringRef name : kernels::kChoices)
    if (auto choice = op->getAttrOfType<StringAttr>(name))
      one.choice = choice.getValue().str();
  one.type = typeOf(op->getResult(0));
  return one;
}

/// The call that an operation of an expression is.
template <typename Op>
kernels::Signature callOf(const kernels::Expression &expression, ArrayRef<Value> inputs, ArrayRef<Value> results) {
  kernels::Signature call{Op::getOperationName().split('.').second.str(), {}, {}};
  call.attributes["expression"] = kernels::print(expression);
  for (Value input : inputs)
    call.operands.push_back(operandType(input.getType(), kernels::Effect::read));
  for (Value result : results)
    call.operands.push_back(operandType(result.getType(), kernels::Effect::write));
  return call;
}

/// A conversion to a wider type: what uses its result may as well read less and convert it again.
bool isMadeAgain(Operation *op) {
  return isa<CastOp>(op) && kernels::byteSize(typeOf(op->getOperand(0))) < kernels::byteSize(typeOf(op->getResult(0)));
}

/// The number that all elements of a value are, if an expression can hold it.
std::optional<double> numberOf(Value value) {
  std::optional<double> number = splatValue(value);
  const bool whole = number && *number == std::trunc(*number) && std::abs(*number) <= 0x1p53;
  return whole || nn::isReal(value) ? number : std::nullopt;
}

/// What stands outside of `members` and uses `value`, as it is or by a view; views that lead to members alone do not.
SmallVector<Operation *> usersOutside(Value value, const Members &members) {
  SmallVector<Operation *> users;
  for (Operation *user : value.getUsers()) {
    if (members.contains(user))
      continue;
    if (!isa<ReshapeOp>(user) || user->use_empty() || !usersOutside(user->getResult(0), members).empty())
      users.push_back(user);
  }
  return users;
}

/// Operations of a block that become one, which computes all results in one order of their elements.
class Group {
public:
  Group(Operation *root, kernels::Backend backend) : backend(backend), domain(shapeOf(root->getResult(0))) {
    members.insert(root);
  }

  /// Takes in what its members are computed from, as far as it goes, and what stands near and reads the same.
  void grow() {
    for (size_t i = 0; i < members.size(); ++i) {
      if (isMadeAgain(members[i]) && !usersOutside(members[i]->getResult(0), members).empty())
        continue; // it stays for those, and so does what it is made of
      for (Value operand : members[i]->getOperands()) {
        if (Operation *producer = viewedBy(operand).getDefiningOp(); producer && canTake(producer))
          take(producer);
        if (elementsOf(operand) != size())
          continue;
        for (Operation *user : llvm::to_vector(operand.getUsers()))
          if (canTake(user) && isNear(placeOf(user), placeOf(members.front())))
            take(user);
      }
    }
  }

  /// Puts one operation in the place of the members, if they are several; `gone`: those that are no more.
  void fuse(llvm::DenseSet<Operation *> &gone) const {
    if (members.size() < 2)
      return;
    const SmallVector<Operation *> ordered = inOrder(members);
    const Parts parts = partsOf(members);
    OpBuilder builder(ordered.back());
    builder.setInsertionPointAfter(ordered.back());
    if (Operation *user = firstUser(parts, members); user && user->isBeforeInBlock(ordered.back()))
      builder.setInsertionPoint(user);
    SmallVector<Value> inputs;
    for (Value input : parts.inputs)
      inputs.push_back(broadcasts(input) ? input : reshapeTo(builder, input, elementsOf(input) == 1 ? ArrayRef<int64_t>() : domain));
    SmallVector<Type> types;
    SmallVector<Location> places;
    for (Value result : parts.results)
      types.push_back(tensorOf(domain, getElementTypeOrSelf(result)));
    for (Operation *op : ordered)
      places.push_back(op->getLoc());
    auto fused = ElementwiseOp::create(builder, builder.getFusedLoc(places), types, inputs,
                                       builder.getStringAttr(kernels::print(parts.expression)));
    for (auto [result, value] : llvm::zip(parts.results, fused.getResults())) {
      Value viewed = reshapeTo(builder, value, shapeOf(result));
      for (Operation *user : usersOutside(result, members))
        if (user != fused)
          user->replaceUsesOfWith(result, viewed);
    }
    for (Operation *op : llvm::reverse(ordered))
      erase(op, gone);
  }

private:
  /// An expression, and the values that are its inputs, as members use them or before they are repeated, and results.
  struct Parts {
    kernels::Expression expression;
    llvm::SetVector<Value> inputs;
    SmallVector<Value> results;
  };

  kernels::Backend backend;
  SmallVector<int64_t> domain;
  Members members;

  void take(Operation *op) {
    Members more = members;
    more.insert(op);
    if (isOne(more))
      members = std::move(more);
  }

  static bool isBefore(Operation *one, Operation *other) { return one->isBeforeInBlock(other); }

  /// Where an operation will stand: what is made again, before its first use.
  static Operation *placeOf(Operation *op) {
    return op->hasAttr(kAgainAttr) && !op->use_empty() ? *llvm::min_element(op->getUsers(), isBefore) : op;
  }

  /// Whether few operations are between two: what waits for what is far away takes memory until then.
  static bool isNear(Operation *one, Operation *other) {
    constexpr int kFew = 6;
    Operation *at = one->isBeforeInBlock(other) ? one : other, *end = at == one ? other : one;
    for (int i = 0; i < kFew && at != end; ++i)
      at = at->getNextNode();
    return at == end;
  }

  int64_t size() const { return ShapedType::getNumElements(domain); }

  bool broadcasts(Value value) const {
    auto shape = broadcastShapes(shapeOf(value), domain);
    return shape && ArrayRef<int64_t>(*shape) == ArrayRef<int64_t>(domain);
  }

  /// Whether an operation computes so many elements, in this order: of operands that are broadcast, only in this shape.
  bool canTake(Operation *op) const {
    if (!canBePart(op) || members.contains(op) || op->getBlock() != members.front()->getBlock() || elementsOf(op->getResult(0)) != size())
      return false;
    return shapeOf(op->getResult(0)) == ArrayRef<int64_t>(domain) || llvm::all_of(op->getOperands(), [&](Value operand) {
             return elementsOf(operand) == size() || elementsOf(operand) == 1;
           });
  }

  static SmallVector<Operation *> inOrder(const Members &members) {
    SmallVector<Operation *> ordered(members.begin(), members.end());
    llvm::sort(ordered, isBefore);
    return ordered;
  }

  /// Where the elements of a member's operand lie: a value that is repeated to the domain is read where it is.
  Value source(Value operand) const {
    auto repeated = operand.getDefiningOp<BroadcastOp>();
    return repeated && shapeOf(operand) == ArrayRef<int64_t>(domain) ? repeated.getOperand() : operand;
  }

  Parts partsOf(const Members &of) const {
    Parts parts;
    std::map<std::pair<kernels::DType, uint64_t>, size_t>
        constants; // by the bits of a number: zeros differ, and NaN has no order
    const SmallVector<Operation *> ordered = inOrder(of);
    auto isInside = [&](Value operand) { return of.contains(viewedBy(operand).getDefiningOp()); };
    for (Operation *op : ordered)
      for (Value operand : op->getOperands()) {
        if (isInside(operand))
          continue;
        if (std::optional<double> number = numberOf(operand))
          constants.try_emplace({typeOf(operand), llvm::bit_cast<uint64_t>(*number)});
        else
          parts.inputs.insert(source(operand));
      }
    size_t next = parts.inputs.size();
    for (auto &[constant, value] : constants) {
      value = next++;
      parts.expression.instructions.push_back(
          {std::string(kernels::kConstant), "", {}, constant.first, llvm::bit_cast<double>(constant.second)});
    }
    llvm::DenseMap<Value, size_t> computed;
    for (Operation *op : ordered) {
      kernels::Instruction one = instructionOf(op);
      for (Value operand : op->getOperands()) {
        std::optional<double> number = numberOf(operand);
        one.operands.push_back(isInside(operand) ? computed.at(viewedBy(operand))
                               : number          ? constants.at({typeOf(operand), llvm::bit_cast<uint64_t>(*number)})
                                                 : llvm::find(parts.inputs, source(operand)) - parts.inputs.begin());
      }
      parts.expression.instructions.push_back(std::move(one));
      for (Value result : op->getResults()) {
        computed[result] = next++;
        if (isMadeAgain(op) || usersOutside(result, of).empty())
          continue;
        parts.results.push_back(result);
        parts.expression.results.push_back(computed[result]);
      }
    }
    return parts;
  }

  static Operation *firstUser(const Parts &parts, const Members &of) {
    Operation *first = nullptr;
    for (Value result : parts.results)
      for (Operation *user : usersOutside(result, of))
        if (!first || user->isBeforeInBlock(first))
          first = user;
    return first;
  }

  /// Whether all can be computed at one place, after what they read and before what reads them, by one kernel.
  bool isOne(const Members &of) const {
    const Parts parts = partsOf(of);
    if (parts.inputs.size() > kernels::Expression::kMostReads || parts.results.size() > kernels::Expression::kMostResults ||
        parts.expression.instructions.size() > kernels::Expression::kMostInstructions || parts.results.empty())
      return false;
    Operation *user = firstUser(parts, of);
    for (Value input : parts.inputs)
      if (Operation *producer = input.getDefiningOp(); producer && !producer->isBeforeInBlock(user))
        return false;
    return kernels::missingCode(callOf<ElementwiseOp>(parts.expression, parts.inputs.getArrayRef(), parts.results),
                                backend)
        .empty();
  }

  /// With the views of its results that nothing uses any more; not what others still use.
  static void erase(Operation *op, llvm::DenseSet<Operation *> &gone) {
    for (Value result : op->getResults())
      for (Operation *user : llvm::make_early_inc_range(result.getUsers()))
        if (isa<ReshapeOp>(user) && user->use_empty())
          user->erase();
    if (!op->use_empty())
      return;
    gone.insert(op);
    op->erase();
  }
};

/// Sums and means of what an operation computes, or reads, which it can compute as it goes.
class Sums {
public:
  /// Empty: there are none worth it.
  static std::optional<Sums> of(Operation *producer, kernels::Backend backend) {
    std::optional<Sums> best;
    for (Value value : producer->getResults())
      for (Operation *user : value.getUsers())
        if (auto first = dyn_cast<ReduceOp>(user)) {
          Sums sums(producer, first);
          if (sums.isWorthIt() && sums.isOne(backend) && (!best || sums.reduces.size() > best->reduces.size()))
            best = std::move(sums);
        }
    return best;
  }

  /// Puts one operation in the place of all.
  void fuse() const {
    const Parts parts = partsOf();
    OpBuilder builder(firstUser());
    SmallVector<Type> types;
    SmallVector<Location> places = {producer->getLoc()};
    for (Value value : parts.results)
      types.push_back(value.getType());
    for (ReduceOp reduce : reduces) {
      types.push_back(sumType());
      places.push_back(reduce.getLoc());
    }
    auto fused = ElementwiseSumsOp::create(builder, builder.getFusedLoc(places), types, parts.inputs,
                                           kernels::print(parts.expression), reduces.size(), kind, axes);
    ValueRange made = fused.getResults();
    for (auto [value, result] : llvm::zip(parts.results, made)) {
      sinkViews(value, fused);
      Value(value).replaceAllUsesWith(result);
    }
    for (auto [reduce, result] : llvm::zip(reduces, made.drop_front(parts.results.size()))) {
      Operation *op = reduce;
      builder.setInsertionPointAfter(fused); // what the first user was may be gone
      Value sum = reshapeTo(builder, result, shapeOf(op->getResult(0)));
      sinkViews(op->getResult(0), sum.getDefiningOp());
      op->getResult(0).replaceAllUsesWith(sum);
      op->erase();
    }
    producer->erase();
  }

private:
  struct Parts {
    kernels::Expression expression;
    SmallVector<Value> inputs, results; ///< results: those that are not summed
  };

  Operation *producer;
  StringRef kind;
  ArrayRef<int64_t> axes, dims; ///< dims: of what is summed
  SmallVector<ReduceOp> reduces;

  Sums(Operation *op, ReduceOp first)
      : producer(op), kind(first.getKind()), axes(first.getAxes()), dims(shapeOf(first.getOperand())) {
    SmallVector<Value> values(op->getResults());
    values.append(op->operand_begin(), op->operand_end());
    for (Value value : llvm::SetVector<Value>(values.begin(), values.end()))
      for (Operation *user : value.getUsers())
        if (auto reduce = dyn_cast<ReduceOp>(user); reduce && isLike(reduce) && !llvm::is_contained(reduces, reduce))
          reduces.push_back(reduce);
    llvm::sort(reduces, [](ReduceOp a, ReduceOp b) { return a->isBeforeInBlock(b); });
  }

  /// Whether it is of the same kind, and can be computed where the producer stands.
  bool isLike(ReduceOp reduce) const {
    const kernels::DType type = typeOf(reduce.getOperand());
    return reduce.getKind() == kind && (kind == "sum" || kind == "mean") && reduce.getAxes() == axes &&
           shapeOf(reduce.getOperand()) == dims && (type == kernels::DType::f32 || type == kernels::DType::bf16) &&
           typeOf(reduce.getResult()) == kernels::DType::f32 && reduce->getBlock() == producer->getBlock() &&
           llvm::all_of(usersOf(reduce.getResult()), [&](Operation *user) { return producer->isBeforeInBlock(user); });
  }

  /// What uses a value, as it is or by a view.
  static SmallVector<Operation *> usersOf(Value value) {
    SmallVector<Operation *> users;
    for (Operation *user : value.getUsers())
      isa<ReshapeOp>(user) ? users.append(usersOf(user->getResult(0))) : users.push_back(user);
    return users;
  }
  /// Puts views of a value behind an operation.
  static void sinkViews(Value value, Operation *behind) {
    for (Operation *user : value.getUsers())
      if (isa<ReshapeOp>(user) && user->isBeforeInBlock(behind)) {
        user->moveAfter(behind);
        sinkViews(user->getResult(0), user);
      }
  }

  /// Sums go through memory in runs, of which a block of elements must be a large part.
  bool isWorthIt() const {
    constexpr int64_t kLeast = 128;
    return !reduces.empty() && kernels::Kept::of(dims, axes).run >= kLeast;
  }

  RankedTensorType sumType() const {
    SmallVector<int64_t> kept;
    for (auto [i, dim] : llvm::enumerate(dims))
      if (!llvm::is_contained(axes, static_cast<int64_t>(i)))
        kept.push_back(dim);
    return tensorOf(kept, Float32Type::get(producer->getContext()));
  }

  /// What needs a result first: all can be computed before it, and none sooner.
  Operation *firstUser() const {
    Operation *first = nullptr;
    const auto look = [&](Value value) {
      for (Operation *user : usersOf(value))
        if (!first || user->isBeforeInBlock(first))
          first = user;
    };
    for (Value result : producer->getResults())
      look(result);
    for (ReduceOp reduce : reduces)
      look(reduce->getResult(0));
    return first;
  }

  bool isSummed(Operation *user) const {
    auto reduce = dyn_cast<ReduceOp>(user);
    return reduce && llvm::is_contained(reduces, reduce);
  }

  Parts partsOf() const {
    const llvm::SetVector<Value> inputs(producer->operand_begin(), producer->operand_end());
    Parts parts{{}, SmallVector<Value>(inputs.begin(), inputs.end()), {}};
    kernels::Expression &whole = parts.expression;
    SmallVector<size_t> values; // of the producer's results
    if (auto chain = dyn_cast<ElementwiseOp>(producer)) {
      kernels::parse(chain.getExpression().str(), whole);
      values.assign(whole.results.begin(), whole.results.end());
    } else {
      whole.instructions = {instructionOf(producer)};
      for (Value operand : producer->getOperands())
        whole.instructions[0].operands.push_back(llvm::find(inputs, operand) - inputs.begin());
      for (size_t i = 0; i < producer->getNumResults(); ++i)
        values.push_back(parts.inputs.size() + i);
    }
    whole.results.clear();
    for (auto [result, value] : llvm::zip(producer->getResults(), values))
      if (!llvm::all_of(result.getUsers(), [&](Operation *user) { return isSummed(user); })) {
        parts.results.push_back(result);
        whole.results.push_back(value);
      }
    size_t next = parts.inputs.size();
    for (const kernels::Instruction &one : whole.instructions)
      next += one.results();
    for (ReduceOp reduce : reduces) {
      auto made = llvm::find(producer->getResults(), reduce.getOperand());
      if (made != producer->getResults().end()) {
        whole.results.push_back(values[made - producer->getResults().begin()]);
        continue;
      }
      const size_t read = llvm::find(parts.inputs, reduce.getOperand()) - parts.inputs.begin();
      whole.instructions.push_back({"cast", "", {read}, kernels::DType::f32}); // what is summed is computed
      whole.results.push_back(next++);
    }
    whole.sums = reduces.size();
    return parts;
  }

  bool isOne(kernels::Backend backend) const {
    const Parts parts = partsOf();
    if (parts.expression.results.size() > kernels::Expression::kMostResults ||
        parts.expression.instructions.size() > kernels::Expression::kMostInstructions)
      return false;
    kernels::Signature call = callOf<ElementwiseSumsOp>(parts.expression, parts.inputs, parts.results);
    call.attributes["sums"] = static_cast<int64_t>(reduces.size());
    call.attributes["kind"] = kind.str();
    call.attributes["axes"] = std::vector<int64_t>(axes);
    call.operands.insert(call.operands.end(), reduces.size(), operandType(sumType(), kernels::Effect::write));
    const bool isWhole = ArrayRef<int64_t>(kernels::domainOf(call)) == dims; // something that is read has every element
    return isWhole && kernels::check(call).empty() && kernels::missingCode(call, backend).empty();
  }
};

struct FuseElementwise : impl::FuseElementwiseBase<FuseElementwise> {
  using FuseElementwiseBase::FuseElementwiseBase;

  /// Operands that are repeated values become those, where the operation itself repeats them.
  static void readUnrepeated(func::FuncOp function) {
    for (Operation &op : function.front()) {
      if (!op.hasTrait<Elementwise>() || op.getNumOperands() < 2 || isa<GatedProductOp>(op))
        continue; // others have no broadcast
      for (OpOperand &operand : op.getOpOperands())
        if (auto repeated = operand.get().getDefiningOp<BroadcastOp>()) {
          std::optional<SmallVector<int64_t>> shape(shapeOf(repeated.getOperand()));
          for (OpOperand &other : op.getOpOperands())
            if (&other != &operand && shape)
              shape = broadcastShapes(*shape, shapeOf(other.get()));
          if (shape && ArrayRef<int64_t>(*shape) == shapeOf(op.getResult(0)))
            operand.set(repeated.getOperand());
        }
    }
  }

  void runOnOperation() override {
    const kernels::Backend backend = backendOf(getOperation());
    const kernels::Backend backendOfSums = mayRunOnGpu(getOperation()) ? kernels::Backend::cuda : backend;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.getName() == kMainName || function.isExternal())
        continue;
      readUnrepeated(function);
      SmallVector<Operation *> roots;
      for (Operation &op : llvm::reverse(function.front()))
        if (canBePart(&op))
          roots.push_back(&op);
      llvm::DenseSet<Operation *> gone;
      for (Operation *root : roots) {
        if (gone.contains(root))
          continue;
        Group group(root, backend);
        group.grow();
        group.fuse(gone);
      }
      for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.front())))
        if (isOpTriviallyDead(&op))
          op.erase();
      SmallVector<Operation *> producers;
      for (Operation &op : function.front())
        if (canBePart(&op) || isa<ElementwiseOp>(op))
          producers.push_back(&op);
      for (Operation *producer : producers)
        if (std::optional<Sums> sums = Sums::of(producer, backendOfSums))
          sums->fuse();
    }
  }
};
} // namespace
} // namespace mt
