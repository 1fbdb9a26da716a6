#include "compiler/onnx/MergeExperts.h"

#include <map>
#include <set>

using namespace mlir;

namespace mt::onnx {
namespace {

/// A number for each mask, at the mask, and at rows that it selects with their dimension.
constexpr StringLiteral kMask = "mt.mask", kRows = "mt.rows", kGuard = "mt.guard", kTaken = "mt.taken", kPut = "mt.put";
constexpr StringLiteral kNotes[] = {kMask, kRows, kGuard, kTaken, kPut};

/// A mask that holds where the choice, of as many elements and in their order, is this number.
struct Choice {
  Value choices;
  int64_t number = 0;
};

/// The one number that a tensor holds, where a constant says so.
std::optional<int64_t> numberOf(Value value) {
  while (isa_and_nonnull<nn::ReshapeOp, nn::BroadcastOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  if (auto slice = value.getDefiningOp<nn::SliceOp>(); slice && nn::shapeOf(slice.getResult()) == ArrayRef<int64_t>{1})
    return wholeNumberAt(slice.getOperand(), slice.getStarts()[0]);
  return nn::splatValue(value) ? wholeNumberAt(value, 0) : std::nullopt;
}

/// Finds what masks compare; creates views of the choices where masks are such of a comparison.
class Choices {
public:
  explicit Choices(OpBuilder &builder) : b(builder) {}

  std::optional<Choice> of(Value mask) {
    if (++steps > kSteps)
      return std::nullopt;
    if (auto cast = mask.getDefiningOp<nn::CastOp>())
      return of(cast.getOperand());
    if (auto view = mask.getDefiningOp<nn::ReshapeOp>())
      return viewed(of(view.getOperand()), [&](Value choices) { return nn::reshapeTo(b, choices, nn::shapeOf(mask)); });
    if (auto turn = mask.getDefiningOp<nn::TransposeOp>())
      return viewed(of(turn.getOperand()), [&](Value choices) { return turned(choices, turn.getPermutation()); });
    if (auto cut = mask.getDefiningOp<nn::SliceOp>())
      return ofSlice(cut);
    auto negated = mask.getDefiningOp<nn::NotOp>();
    auto compare = (negated ? negated.getOperand() : mask).getDefiningOp<nn::CompareOp>();
    if (!compare || (negated && compare.getPredicate() != "ne"))
      return std::nullopt;
    if (!negated && compare.getPredicate() == "ne" && numberOf(compare.getRhs()) == 0)
      return of(compare.getLhs());
    if (!negated && compare.getPredicate() != "eq")
      return std::nullopt;
    for (auto [choices, number] : {std::pair(compare.getLhs(), compare.getRhs()), std::pair(compare.getRhs(), compare.getLhs())})
      if (auto known = numberOf(number); known && isNumber(choices) && nn::shapeOf(choices) == nn::shapeOf(mask))
        return Choice{choices, *known};
    return std::nullopt;
  }

private:
  /// Whether nn.expert_matmul takes it for the numbers of experts.
  static bool isNumber(Value value) {
    Type element = getElementTypeOrSelf(value);
    return element.isInteger(64) || element.isInteger(32);
  }
  template <typename View> static std::optional<Choice> viewed(std::optional<Choice> choice, View view) {
    if (choice)
      choice->choices = view(choice->choices);
    return choice;
  }
  Value turned(Value value, ArrayRef<int64_t> permutation) {
    SmallVector<int64_t> shape;
    for (int64_t d : permutation)
      shape.push_back(nn::shapeOf(value)[static_cast<size_t>(d)]);
    return nn::TransposeOp::create(b, value.getLoc(), nn::tensorOf(shape, getElementTypeOrSelf(value)), value,
                                   b.getDenseI64ArrayAttr(permutation));
  }

  /// One place along a dimension: that of one expert in what is one for each of them.
  std::optional<Choice> ofSlice(nn::SliceOp cut) {
    ArrayRef<int64_t> from = nn::shapeOf(cut.getOperand()), to = nn::shapeOf(cut.getResult());
    std::optional<size_t> along;
    for (size_t d = 0; d < from.size(); ++d) {
      if (from[d] == to[d])
        continue;
      if (along || to[d] != 1)
        return std::nullopt;
      along = d;
    }
    if (!along)
      return std::nullopt;
    return viewed(at(cut.getOperand(), *along, cut.getStarts()[*along]),
                  [&](Value choices) { return nn::reshapeTo(b, choices, to); });
  }

  /// Place `place` along dimension `along` of a mask; the choices without that dimension.
  std::optional<Choice> at(Value mask, size_t along, int64_t place) {
    if (++steps > kSteps)
      return std::nullopt;
    if (auto cast = mask.getDefiningOp<nn::CastOp>())
      return at(cast.getOperand(), along, place);
    if (auto select = mask.getDefiningOp<nn::SelectOp>()) { // one where it holds, else zero
      auto on = numberOf(select.getLhs()), off = numberOf(select.getRhs());
      return on && *on != 0 && off == 0 && nn::shapeOf(select.getCondition()) == nn::shapeOf(mask)
                 ? at(select.getCondition(), along, place)
                 : std::nullopt;
    }
    if (auto turn = mask.getDefiningOp<nn::TransposeOp>()) {
      const int64_t dropped = turn.getPermutation()[along];
      SmallVector<int64_t> rest;
      for (int64_t d : turn.getPermutation())
        if (d != dropped)
          rest.push_back(d - (d > dropped));
      return viewed(at(turn.getOperand(), static_cast<size_t>(dropped), place),
                    [&](Value choices) { return turned(choices, rest); });
    }
    auto compare = mask.getDefiningOp<nn::CompareOp>();
    if (!compare || compare.getPredicate() != "eq")
      return std::nullopt;
    ArrayRef<int64_t> shape = nn::shapeOf(mask);
    for (auto [choices, numbers] : {std::pair(compare.getLhs(), compare.getRhs()), std::pair(compare.getRhs(), compare.getLhs())}) {
      SmallVector<int64_t> same(shape), without(shape);
      same[along] = 1;
      without.erase(without.begin() + static_cast<ptrdiff_t>(along));
      auto iota = numbers.getDefiningOp<nn::IotaOp>();
      const size_t behind = shape.size() - along;
      ArrayRef<int64_t> line = nn::shapeOf(numbers);
      if (iota && isNumber(choices) && nn::shapeOf(choices) == ArrayRef<int64_t>(same) && line.size() >= behind &&
          iota.getDimension() == line.size() - behind && productOf(line) == shape[along])
        return Choice{nn::reshapeTo(b, choices, without),
                      static_cast<int64_t>(iota.getStart().convertToDouble()) +
                          place * static_cast<int64_t>(iota.getStep().convertToDouble())};
    }
    return std::nullopt;
  }

  static constexpr int kSteps = 32; ///< of views and casts between a mask and what it compares
  OpBuilder &b;
  int steps = 0;
};

/// Numbers of values: the same for what is computed alike from the same.
class Numbering {
public:
  explicit Numbering(Block &block) {
    for (Value argument : block.getArguments())
      of(argument);
    for (Operation &op : block) {
      std::vector<unsigned> key;
      for (Value operand : op.getOperands())
        key.push_back(of(operand));
      for (OpResult result : op.getResults()) {
        key.push_back(result.getResultNumber());
        auto [found, isNew] = known.try_emplace(
            {op.getName().getAsOpaquePointer(), withoutNotes(&op).getAsOpaquePointer(),
             result.getType().getAsOpaquePointer(), key},
            0);
        if (isNew)
          found->second = of(result);
        numbers[result] = found->second;
        key.pop_back();
      }
    }
  }
  unsigned of(Value value) { return numbers.try_emplace(value, static_cast<unsigned>(numbers.size())).first->second; }

private:
  std::map<std::tuple<const void *, const void *, const void *, std::vector<unsigned>>, unsigned> known;
  llvm::DenseMap<Value, unsigned> numbers;
};

/// Where operations are in their block; asking them anew after each that is made would count them all again.
class Places {
public:
  explicit Places(Block &block) {
    for (Operation &op : block)
      places[&op] = static_cast<unsigned>(places.size());
  }
  /// Of operations that were there, and of those that have been noted since.
  bool isBefore(Operation *op, Operation *other) const {
    return op != other && places.lookup(op) <= places.lookup(other);
  }
  void noteBefore(Operation *op, Operation *other) { places[op] = places.lookup(other); }

private:
  llvm::DenseMap<Operation *, unsigned> places;
};

/// Experts of one tensor of choices: the mask that selects each one's rows, by their numbers.
struct Family {
  Value choices;
  std::map<int64_t, std::vector<int64_t>> masks; ///< expert -> masks, all alike
};

class Merger {
public:
  Merger(func::FuncOp function, Numbering &numbering, Places &places, const Family &family)
      : function(function), numbering(numbering), places(places), family(family), b(function.getContext()) {
    for (const auto &[expert, masks] : family.masks)
      for (int64_t mask : masks)
        expertOf[mask] = expert - family.masks.begin()->first;
  }

  void run(ArrayRef<Operation *> operations) {
    for (Operation *op : operations)
      if (auto noted = op->getAttrOfType<DenseI64ArrayAttr>(kRows); noted && expertOf.contains(noted[0]))
        sort(op, static_cast<size_t>(expertOf[noted[0]]));
    for (size_t i = 0; i < classes.size(); ++i)
      decide(classes[i]);
    if (llvm::none_of(classes, [](const Class &each) { return each.how == Class::product; }))
      return;
    for (Class &each : classes) {
      merge(each);
      if (each.merged && each.how != Class::common)
        places.noteBefore(each.merged.getDefiningOp(), first(each));
    }
    for (Class &each : classes)
      if (each.merged && each.how != Class::common)
        for (Operation *op : each.members)
          op->getResult(0).replaceAllUsesWith(each.merged);
    joinPuts();
  }

private:
  /// What all experts compute alike: one operation of each.
  struct Class {
    enum How : uint8_t { unlike, common, alike, product } how = unlike;
    std::vector<Operation *> members; ///< by expert
    std::vector<std::optional<size_t>> operands; ///< the classes of operands
    SmallVector<bool> varies;                    ///< operands that are each expert's own parameters
    Value merged;
  };

  /// Whether a value is made of parameters and constants alone, in a few steps.
  bool isParameter(Value value, int steps = 8) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return isa<FloatType>(getElementTypeOrSelf(value)) &&
             function.getArgAttr(argument.getArgNumber(), nn::kParameterAttr);
    Operation *op = value.getDefiningOp();
    return steps > 0 && !op->hasAttr(kRows) && isMemoryEffectFree(op) &&
           llvm::all_of(op->getOperands(), [&](Value operand) { return isParameter(operand, steps - 1); });
  }

  /// An operand, without the guards of rows that do not count: all rows of what is merged do.
  static Value operandOf(Operation *op, unsigned i) {
    Value operand = op->getOperand(i);
    while (operand.getDefiningOp() && operand.getDefiningOp()->hasAttr(kGuard))
      operand = operand.getDefiningOp<nn::SelectOp>().getLhs();
    return operand;
  }

  void sort(Operation *op, size_t expert) {
    if (op->hasAttr(kGuard))
      return;
    std::vector<std::pair<int, const void *>> key{{0, op->getName().getAsOpaquePointer()},
                                                  {0, withoutNotes(op).getAsOpaquePointer()},
                                                  {0, op->getResult(0).getType().getAsOpaquePointer()}};
    std::vector<std::optional<size_t>> operands;
    for (unsigned i = 0; i < op->getNumOperands(); ++i) {
      Value operand = operandOf(op, i);
      auto at = classOf.find(operand);
      operands.push_back(at == classOf.end() ? std::nullopt : std::optional<size_t>(at->second));
      if (operands.back())
        key.emplace_back(1, reinterpret_cast<const void *>(*operands.back()));
      else if (isParameter(operand))
        key.emplace_back(2, operand.getType().getAsOpaquePointer());
      else
        key.emplace_back(3, reinterpret_cast<const void *>(static_cast<uintptr_t>(numbering.of(operand))));
    }
    key.emplace_back(4, reinterpret_cast<const void *>(static_cast<uintptr_t>(times[{expert, key}]++)));
    auto [found, isNew] = byKey.try_emplace(key, classes.size());
    if (isNew) {
      classes.emplace_back();
      classes.back().members.resize(family.masks.size());
      classes.back().operands = std::move(operands);
    }
    classes[found->second].members[expert] = op;
    classOf[op->getResult(0)] = found->second;
  }

  void decide(Class &each) {
    if (llvm::is_contained(each.members, nullptr))
      return;
    Operation *first = each.members.front();
    bool fresh = true;
    for (unsigned i = 0; i < first->getNumOperands(); ++i) {
      bool varies = false;
      if (each.operands[i]) {
        if (classes[*each.operands[i]].how == Class::unlike)
          return;
        fresh &= classes[*each.operands[i]].how == Class::common;
      } else {
        for (Operation *op : each.members)
          varies |= numbering.of(operandOf(op, i)) != numbering.of(operandOf(first, i));
      }
      fresh &= !varies;
      each.varies.push_back(varies);
    }
    const bool any = llvm::is_contained(each.varies, true);
    ArrayRef<int64_t> shape = nn::shapeOf(first->getResult(0));
    const bool leading = first->getAttrOfType<DenseI64ArrayAttr>(kRows)[1] == 0; // as each row's own parameters lie
    if (fresh) {
      each.how = Class::common;
    } else if (!any) {
      each.how = Class::alike;
    } else if (auto matmul = dyn_cast<nn::MatmulOp>(first)) {
      const bool fits = leading && !each.varies[0] && each.varies[1] && !matmul.getTransposeLhs() &&
                        shape.size() == 2 && nn::shapeOf(matmul.getRhs()).size() == 2 &&
                        nn::shapeOf(matmul.getLhs()).size() == 2;
      each.how = fits ? Class::product : Class::unlike;
    } else if (first->hasTrait<nn::Elementwise>() && leading && shape.size() == 2) {
      each.how = Class::alike;
      for (unsigned i = 0; i < first->getNumOperands(); ++i) {
        ArrayRef<int64_t> own = nn::shapeOf(first->getOperand(i));
        if (each.varies[i] && (own.empty() || own.back() != productOf(own)))
          each.how = Class::unlike;
      }
    }
  }

  /// The first of the experts' operations in their block, before which what is merged stands.
  Operation *first(const Class &each) const {
    Operation *anchor = each.members.front();
    for (Operation *op : each.members)
      anchor = places.isBefore(op, anchor) ? op : anchor;
    return anchor;
  }

  /// Moves what a value is made of before an operation.
  void bringBefore(Value value, Operation *anchor) {
    Operation *op = value.getDefiningOp();
    if (!op || places.isBefore(op, anchor))
      return;
    for (Value operand : op->getOperands())
      bringBefore(operand, anchor);
    op->moveBefore(anchor);
    places.noteBefore(op, anchor);
  }

  /// Every expert's operand, one after another along a new first dimension.
  Value stacked(const Class &each, unsigned operand, ArrayRef<int64_t> shape, Operation *anchor) {
    SmallVector<Value> parts;
    SmallVector<int64_t> one{1}, all{static_cast<int64_t>(each.members.size())};
    llvm::append_range(one, shape);
    llvm::append_range(all, shape);
    for (Operation *op : each.members) {
      Value value = op->getOperand(operand);
      bringBefore(value, anchor);
      parts.push_back(nn::reshapeTo(b, value, one));
    }
    Type element = getElementTypeOrSelf(parts.front());
    return nn::ConcatOp::create(b, anchor->getLoc(), nn::tensorOf(all, element), parts, b.getI64IntegerAttr(0));
  }

  /// A number to compute with choices with.
  Value choiceOf(int64_t number) { return nn::scalarLike(b, family.choices, static_cast<double>(number)); }

  /// The expert of each row, counted from the first of the family; rows that chose another have some of these.
  Value chosen(int64_t rows, Operation *anchor) {
    Location where = anchor->getLoc();
    Value flat = nn::reshapeTo(b, family.choices, {rows});
    if (int64_t first = family.masks.begin()->first)
      flat = nn::SubOp::create(b, where, flat, choiceOf(first));
    flat = nn::MaximumOp::create(b, where, flat, choiceOf(0));
    return nn::MinimumOp::create(b, where, flat, choiceOf(static_cast<int64_t>(family.masks.size()) - 1));
  }

  /// Rows as merged ones take them in place of what an expert took: with a safe number where a row chose none of the
  /// family, if there may be such and the expert's rows had one or are what all share.
  Value ofFamily(Value rows, Value given, std::optional<size_t> from, Operation *anchor) {
    auto guard = given.getDefiningOp<nn::SelectOp>();
    const bool isGuard = guard && guard->hasAttr(kGuard), isShared = from && classes[*from].how == Class::common;
    auto noted =
        given.getDefiningOp() ? given.getDefiningOp()->getAttrOfType<DenseI64ArrayAttr>(kRows) : DenseI64ArrayAttr();
    if ((!isGuard && !(isShared && noted)) || belong())
      return rows;
    Location where = anchor->getLoc();
    auto compared = [&](int64_t number, StringRef predicate) -> Value {
      return nn::CompareOp::create(b, where, family.choices, choiceOf(number), predicate);
    };
    Value mask = nn::AndOp::create(b, where, compared(family.masks.begin()->first, "ge"), compared(family.masks.rbegin()->first, "le"));
    SmallVector<int64_t> aligned(nn::shapeOf(rows).size(), 1);
    if (isGuard)
      aligned.assign(nn::shapeOf(guard.getCondition()).begin(), nn::shapeOf(guard.getCondition()).end());
    else
      aligned[static_cast<size_t>(noted[1])] = nn::shapeOf(rows)[static_cast<size_t>(noted[1])];
    mask = nn::reshapeTo(b, mask, aligned);
    Value safe = nn::scalarLike(b, rows, isGuard ? *nn::splatValue(guard.getRhs()) : 0);
    return nn::SelectOp::create(b, where, mask, rows, safe);
  }

  /// One row for each row of its expert's parameters.
  Value lookedUp(Value stack, Value experts, Operation *anchor) {
    return nn::GatherOp::create(b, anchor->getLoc(), stack, experts, b.getI64IntegerAttr(0));
  }

  void merge(Class &each) {
    if (each.how == Class::unlike)
      return;
    Operation *anchor = first(each);
    if (Operation *choice = family.choices.getDefiningOp(); choice && !places.isBefore(choice, anchor))
      return;
    b.setInsertionPoint(anchor);
    SmallVector<Value> operands;
    for (unsigned i = 0; i < anchor->getNumOperands(); ++i) {
      operands.push_back(each.operands[i] ? classes[*each.operands[i]].merged : operandOf(anchor, i));
      Operation *made = operands.back() ? operands.back().getDefiningOp() : nullptr;
      if (!operands.back() || (made && !each.varies[i] && !places.isBefore(made, anchor)))
        return;
      if (!each.varies[i])
        operands.back() = ofFamily(operands.back(), anchor->getOperand(i),
                                   each.how == Class::common ? std::nullopt : each.operands[i], anchor);
    }
    if (each.how == Class::common && llvm::equal(operands, anchor->getOperands())) {
      each.merged = anchor->getResult(0);
      return;
    }
    const int64_t rows = nn::shapeOf(anchor->getResult(0))[0];
    if (auto matmul = dyn_cast<nn::MatmulOp>(anchor); matmul && each.how == Class::product) {
      Value experts = chosen(rows, anchor);
      Value weights = stacked(each, 1, nn::shapeOf(matmul.getRhs()), anchor);
      each.merged =
          nn::ExpertMatmulOp::create(b, anchor->getLoc(), operands[0], weights, experts, matmul.getTransposeRhs());
      if (Value bias = matmul.getBias())
        each.merged = nn::AddOp::create(
            b, anchor->getLoc(), each.merged,
            each.varies[2] ? lookedUp(stacked(each, 2, nn::shapeOf(bias), anchor), experts, anchor) : bias);
      return;
    }
    for (unsigned i = 0; i < anchor->getNumOperands(); ++i)
      if (each.varies[i]) {
        Value stack = stacked(each, i, {nn::shapeOf(operands[i]).back()}, anchor);
        operands[i] = lookedUp(stack, chosen(rows, anchor), anchor);
      }
    Operation *clone = b.clone(*anchor);
    clone->setOperands(operands);
    clone->removeAttr(kRows);
    each.merged = clone->getResult(0);
  }

  //===-- what experts' rows are put into ---------------------------------------------------------------------===//

  /// One expert's rows put into `data`: added, or chosen by the mask, from layers of places that share one of the data.
  struct Put {
    Value result, data, rows, mask;
    bool adds = false;
    int64_t views = 0, layers = 1, layer = -1; ///< as notePut has them
    ArrayRef<int64_t> columns;
    int64_t expert = 0;
  };

  static bool isView(Operation *op) { return isa_and_nonnull<nn::ReshapeOp, nn::TransposeOp, nn::BroadcastOp>(op); }

  /// The layers that `part` is a slice of.
  static Value layersOf(Value part) {
    if (auto view = part.getDefiningOp<nn::ReshapeOp>())
      if (auto slice = view.getOperand().getDefiningOp<nn::SliceOp>())
        return slice.getOperand();
    return part;
  }

  std::optional<Put> putOf(Operation &op) {
    auto said = op.getAttrOfType<DenseI64ArrayAttr>(kPut);
    if (!said || !expertOf.contains(said[0]))
      return std::nullopt;
    Put put;
    put.result = op.getResult(0);
    put.views = said[1], put.layers = said[2], put.layer = said[3];
    put.columns = said.asArrayRef().drop_front(4), put.expert = expertOf[said[0]];
    nn::SelectOp select = dyn_cast<nn::SelectOp>(op);
    if (auto add = dyn_cast<nn::AddOp>(op)) {
      auto sum = add.getRhs().getDefiningOp<nn::ReduceOp>();
      select = sum ? sum.getOperand().getDefiningOp<nn::SelectOp>() : nn::SelectOp();
      put.adds = true, put.data = add.getLhs();
    }
    if (!select)
      return std::nullopt;
    const bool isSliced = !put.adds && put.layers > 1;
    put.rows = isSliced ? layersOf(select.getLhs()) : select.getLhs();
    put.mask = isSliced ? layersOf(select.getCondition()) : select.getCondition();
    for (int64_t layer = 0; layer < put.layers && !put.adds && select; ++layer) {
      put.data = select.getRhs();
      select = put.data.getDefiningOp<nn::SelectOp>();
    }
    return put.data ? std::optional<Put>(put) : std::nullopt;
  }

  /// The same of a sum with what one expert's rows were put into that was all zeros, as the older exporter adds them.
  std::optional<Put> putOfSum(nn::AddOp sum) {
    for (unsigned i = 0; i < 2; ++i) {
      Operation *op = sum->getOperand(i).getDefiningOp();
      auto put = op ? putOf(*op) : std::nullopt;
      if (!put || put->adds || nn::splatValue(put->data) != 0.0 || put->data.getType() != sum.getType() ||
          sum->getOperand(1 - i).getType() != sum.getType() || (put->layers > 1 && !differAlong(put->layer)))
        continue;
      put->result = sum.getResult(), put->data = sum->getOperand(1 - i), put->adds = true;
      return put;
    }
    return std::nullopt;
  }

  /// The value that so many views are taken of; `views`, the nearest to it last.
  static Value below(Value value, int64_t count, SmallVectorImpl<Operation *> *views = nullptr) {
    for (int64_t i = 0; i < count && isView(value.getDefiningOp()); ++i) {
      if (views)
        views->push_back(value.getDefiningOp());
      value = value.getDefiningOp()->getOperand(0);
    }
    return value;
  }

  /// What is added to the data's own numbers at the places that rows are put to: rows = views of own + added.
  static Value addedTo(const Put &put, Numbering &numbers) {
    auto sum = below(put.rows, put.views).getDefiningOp<nn::AddOp>();
    for (unsigned own = 0; sum && own < 2; ++own) {
      Operation *guard = sum->getOperand(own).getDefiningOp();
      auto taken = guard ? guard->getAttrOfType<DenseI64ArrayAttr>(kTaken) : DenseI64ArrayAttr();
      auto noted = guard ? guard->getAttrOfType<DenseI64ArrayAttr>(kRows) : DenseI64ArrayAttr();
      Value added = sum->getOperand(1 - own);
      if (!taken || !noted || noted[1] != 0 || taken.asArrayRef().drop_front() != put.columns ||
          added.getType() != sum.getType())
        continue;
      if (numbers.of(below(cast<nn::SelectOp>(guard).getLhs(), taken[0])) == numbers.of(put.data))
        return added;
    }
    return {};
  }

  /// What is put, of other rows.
  Value viewed(Value rows, const Put &put) {
    SmallVector<Operation *> views;
    below(put.rows, put.views, &views);
    for (Operation *view : llvm::reverse(views)) {
      Operation *clone = b.clone(*view);
      clone->setOperand(0, rows);
      rows = clone->getResult(0);
    }
    return rows;
  }

  /// The places of the largest numbers that the choices are, and views of them, the nearest to the places first.
  std::pair<nn::TopKOp, SmallVector<Operation *>> largest() const {
    SmallVector<Operation *> views;
    Value choices = family.choices;
    while (Operation *op = choices.getDefiningOp()) {
      auto select = dyn_cast<nn::SelectOp>(op); // counted from the end where negative, which places are not
      auto negative = select ? select.getCondition().getDefiningOp<nn::CompareOp>() : nn::CompareOp();
      const bool wraps = negative && negative.getPredicate() == "lt" && negative.getLhs() == select.getRhs() &&
                         numberOf(negative.getRhs()) == 0;
      if (!wraps && !isa<nn::ReshapeOp, nn::TransposeOp>(op))
        break;
      if (!wraps)
        views.insert(views.begin(), op);
      choices = wraps ? select.getRhs() : op->getOperand(0);
    }
    return {choices.getDefiningOp<nn::TopKOp>(), views};
  }

  /// Whether every choice is an expert of this family.
  bool belong() const {
    auto [places, views] = largest();
    return places && family.masks.begin()->first == 0 &&
           nn::shapeOf(places.getOperand()).back() == static_cast<int64_t>(family.masks.size());
  }

  /// Whether the choices along a dimension of them differ: the largest numbers have different places.
  bool differAlong(int64_t dim) const {
    auto [places, views] = largest();
    if (!places || dim < 0)
      return false;
    auto at = static_cast<int64_t>(nn::shapeOf(places.getResult()).size()) - 1;
    for (Operation *view : views) {
      ArrayRef<int64_t> from = nn::shapeOf(view->getOperand(0)), to = nn::shapeOf(view->getResult(0));
      int64_t next = -1;
      for (size_t d = 0; d < to.size() && next < 0; ++d) {
        auto turn = dyn_cast<nn::TransposeOp>(view);
        const bool is = turn ? turn.getPermutation()[d] == at
                             : to[d] == from[static_cast<size_t>(at)] &&
                                   productOf(to.take_front(d)) == productOf(from.take_front(static_cast<size_t>(at)));
        next = is ? static_cast<int64_t>(d) : -1;
      }
      if (next < 0)
        return false;
      at = next;
    }
    return at == dim;
  }

  /// Puts of one expert's rows after another into the same data are one, now that the rows are the same.
  void joinPuts() {
    llvm::DenseMap<Value, Put> puts;
    SmallVector<Value> order;
    for (Operation &op : function.getBody().front()) {
      auto put = putOf(op);
      if (auto sum = dyn_cast<nn::AddOp>(op); sum && !put)
        put = putOfSum(sum);
      if (put) {
        puts[put->result] = *put;
        order.push_back(put->result);
      }
    }
    if (order.size() < family.masks.size())
      return;
    Numbering numbers(function.getBody().front());
    llvm::DenseSet<Value> joined;
    for (Value last : llvm::reverse(order)) {
      SmallVector<Put> chain;
      std::set<int64_t> experts;
      for (Value at = last; puts.contains(at) && !joined.contains(at) && chain.size() < family.masks.size();
           at = chain.back().data) {
        chain.push_back(puts[at]);
        experts.insert(chain.back().expert);
      }
      const Put &first = chain.empty() ? puts[last] : chain.front();
      if (experts.size() != family.masks.size() || llvm::any_of(chain, [&](const Put &put) {
            return put.adds != first.adds || put.layers != first.layers || put.layer != first.layer ||
                   put.columns != first.columns;
          }))
        continue;
      if (Value all = putAtOnce(chain, numbers)) {
        for (const Put &put : chain)
          joined.insert(put.result);
        last.replaceAllUsesWith(all);
      }
    }
  }

  /// The experts' puts, last one first, as one; null where their rows are not the same.
  Value putAtOnce(ArrayRef<Put> chain, Numbering &numbers) {
    const Put &last = chain.front();
    Value rows = last.rows, data = chain.back().data;
    const bool all = belong();
    auto areSame = [&](Value one, Value other) { return one && other && numbers.of(one) == numbers.of(other); };
    b.setInsertionPoint(last.result.getDefiningOp());
    bool adds = last.adds;
    if (!llvm::all_of(chain, [&](const Put &put) { return areSame(put.rows, last.rows); })) {
      Value added = adds || (last.layers > 1 && !differAlong(last.layer)) ? Value() : addedTo(last, numbers);
      if (!llvm::all_of(chain, [&](const Put &put) { return added && areSame(addedTo(put, numbers), added); }))
        return {};
      rows = viewed(added, last), adds = true;
    } else if (!adds && last.layers > 1) {
      return {};
    }
    Location where = last.result.getLoc();
    Value mask = all ? Value() : last.mask;
    for (const Put &put : all ? ArrayRef<Put>() : chain.drop_front())
      mask = nn::OrOp::create(b, where, mask, put.mask);
    if (mask)
      rows = nn::SelectOp::create(b, where, mask, rows, adds ? nn::scalarLike(b, rows, 0) : data);
    if (!adds)
      return rows;
    if (nn::shapeOf(rows).size() == nn::shapeOf(data).size()) // of one layer, which has no dimension here
      return nn::AddOp::create(b, where, data, rows);
    Value sum = nn::ReduceOp::create(b, where, data.getType(), rows, b.getStringAttr("sum"),
                                     b.getDenseI64ArrayAttr({0}), b.getBoolAttr(false));
    return nn::AddOp::create(b, where, data, sum);
  }

  using Key = std::vector<std::pair<int, const void *>>;
  func::FuncOp function;
  Numbering &numbering;
  Places &places;
  const Family &family;
  OpBuilder b;
  std::map<int64_t, int64_t> expertOf;
  std::vector<Class> classes; ///< operands' before those that use them
  std::map<Key, size_t> byKey;
  std::map<std::pair<size_t, Key>, size_t> times;
  llvm::DenseMap<Value, size_t> classOf;
};

} // namespace

std::optional<int64_t> wholeNumberAt(Value value, int64_t at) {
  auto constant = value.getDefiningOp<nn::ConstantOp>();
  auto values = constant ? dyn_cast<DenseIntElementsAttr>(constant.getValue()) : DenseIntElementsAttr();
  if (!values || (!values.isSplat() && at >= values.getNumElements()))
    return std::nullopt;
  return (values.isSplat() ? values.getSplatValue<APInt>() : *(values.value_begin<APInt>() + at)).getSExtValue();
}

DictionaryAttr withoutNotes(Operation *op) {
  NamedAttrList attributes(op->getAttrDictionary());
  for (StringLiteral note : kNotes)
    attributes.erase(note);
  return attributes.getDictionary(op->getContext());
}

void noteGuard(Value value) {
  if (auto select = value.getDefiningOp<nn::SelectOp>())
    select->setAttr(kGuard, UnitAttr::get(value.getContext()));
}

/// How coordinates follow the mask's dimensions, a number after another.
static SmallVector<int64_t> flat(const std::vector<Dims> &columns) {
  SmallVector<int64_t> all;
  for (const Dims &column : columns)
    llvm::append_range(all, column);
  return all;
}

void noteTaken(Value value, const Selection &rows, int64_t views) {
  SmallVector<int64_t> said{views};
  llvm::append_range(said, flat(rows.columns));
  value.getDefiningOp()->setAttr(kTaken, Builder(value.getContext()).getDenseI64ArrayAttr(said));
}

void notePut(Value value, const Selection &rows, int64_t views, int64_t layers, int64_t layer) {
  Operation *mask = rows.mask.getDefiningOp();
  auto number = mask ? mask->getAttrOfType<IntegerAttr>(kMask) : IntegerAttr();
  if (!number)
    return;
  SmallVector<int64_t> said{number.getInt(), views, layers, layer};
  llvm::append_range(said, flat(rows.columns));
  value.getDefiningOp()->setAttr(kPut, Builder(value.getContext()).getDenseI64ArrayAttr(said));
}

void noteRows(Value value, const Selection &rows, int64_t &masks) {
  Operation *op = value.getDefiningOp(), *mask = rows.mask.getDefiningOp();
  if (!op || !mask || rows.run != 1 || rows.tiles != 1 || op->getNumResults() != 1 || mask->getNumResults() != 1 ||
      op->hasAttr(kRows))
    return;
  Builder b(op->getContext());
  if (!mask->hasAttr(kMask))
    mask->setAttr(kMask, b.getI64IntegerAttr(masks++));
  op->setAttr(kRows, b.getDenseI64ArrayAttr(
                         {mask->getAttrOfType<IntegerAttr>(kMask).getInt(), static_cast<int64_t>(rows.dim)}));
}

void mergeExperts(func::FuncOp function) {
  Block &block = function.getBody().front();
  SmallVector<Operation *> operations;
  std::map<int64_t, Value> masks;
  for (Operation &op : block) {
    if (op.hasAttr(kRows))
      operations.push_back(&op);
    if (auto number = op.getAttrOfType<IntegerAttr>(kMask))
      masks[number.getInt()] = op.getResult(0);
  }
  if (operations.empty() && masks.empty())
    return;
  std::map<int64_t, Choice> choices;
  OpBuilder builder(function.getContext());
  for (auto [number, mask] : masks) {
    builder.setInsertionPointAfterValue(mask);
    if (auto choice = Choices(builder).of(mask))
      choices[number] = *choice;
  }
  Numbering numbering(block);
  Places places(block);
  std::map<unsigned, Family> families;
  for (const auto &[number, choice] : choices) {
    Family &family = families[numbering.of(choice.choices)];
    if (!family.choices || choice.choices.getDefiningOp() == nullptr ||
        (family.choices.getDefiningOp() &&
         places.isBefore(choice.choices.getDefiningOp(), family.choices.getDefiningOp())))
      family.choices = choice.choices;
    family.masks[choice.number].push_back(number);
  }
  for (auto &[of, family] : families)
    if (family.masks.size() > 1 &&
        family.masks.rbegin()->first - family.masks.begin()->first + 1 == static_cast<int64_t>(family.masks.size()))
      Merger(function, numbering, places, family).run(operations);
  for (Operation &op : block)
    for (StringLiteral note : kNotes)
      op.removeAttr(note);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

} // namespace mt::onnx
