#include "tests/passes/RandomLosses.h"

using namespace mlir;
using namespace mt::nn;

namespace mt::test {
namespace {
constexpr int64_t kEntries = 5;      ///< of tables
constexpr int64_t kElements = 4096; ///< of a value at most

class Generator {
public:
  Generator(MLIRContext &context, uint64_t seed) : random(seed), builder(&context) {}

  LossCase make() {
    LossCase made;
    made.module = ModuleOp::create(builder.getUnknownLoc());
    builder.setInsertionPointToEnd(made.module->getBody());
    auto function = func::FuncOp::create(builder, here(), kMainName, builder.getFunctionType({}, {}));
    body = function.addEntryBlock();
    builder.setInsertionPointToStart(body);
    batch = made.batch = flip(50) ? 4 : 6;
    addArguments();
    addConstants();
    for (int64_t i = pick(4, 14); i > 0; --i)
      grow();
    Value loss = lossOf();
    func::ReturnOp::create(builder, here(), loss);
    function.setFunctionType(builder.getFunctionType(body->getArgumentTypes(), loss.getType()));
    for (auto [i, name] : llvm::enumerate(names))
      function.setArgAttrs(i, builder.getDictionaryAttr(name));
    function.setResultAttr(0, kOutputAttr, builder.getStringAttr("loss"));
    made.inputs = std::move(inputs);
    return made;
  }

private:
  std::mt19937_64 random;
  OpBuilder builder;
  Block *body = nullptr;
  int64_t batch = 0;
  std::vector<nn::test::Tensor> inputs;
  std::vector<SmallVector<NamedAttribute>> names;
  std::vector<Value> reals, integers, truths; ///< values to go on from, by type

  //===-- chance and types --===//
  int64_t pick(int64_t low, int64_t high) { return low + int64_t(random() % uint64_t(high - low + 1)); }
  bool flip(int64_t percent) { return pick(1, 100) <= percent; }
  template <typename List> auto &any(List &list) { return list[size_t(pick(0, int64_t(std::size(list)) - 1))]; }
  /// Rather one of the last: graphs get deep.
  Value recent(const std::vector<Value> &list) {
    return flip(50) ? list[list.size() - 1 - size_t(pick(0, std::min<int64_t>(2, int64_t(list.size()) - 1)))] : any(list);
  }
  Location here() { return builder.getUnknownLoc(); }
  Type f32() { return builder.getF32Type(); }
  Type i64() { return builder.getI64Type(); }
  static int64_t elements(ArrayRef<int64_t> shape) {
    int64_t product = 1;
    for (int64_t size : shape)
      product *= size;
    return product;
  }
  static int64_t rankOf(Value value) { return int64_t(shapeOf(value).size()); }

  void keep(Value value) {
    Type element = getElementTypeOrSelf(value.getType());
    if (elements(shapeOf(value)) <= kElements)
      (isa<FloatType>(element) ? reals : element.isInteger(1) ? truths : integers).push_back(value);
  }

  void addArgument(StringRef attribute, ArrayRef<int64_t> shape, Type element, bool trained, auto &&number) {
    nn::test::Tensor tensor{shape.vec(), {}};
    for (int64_t i = elements(shape); i > 0; --i)
      tensor.values.push_back(number());
    inputs.push_back(std::move(tensor));
    SmallVector<NamedAttribute> attributes{builder.getNamedAttr(attribute, builder.getStringAttr("a" + Twine(names.size())))};
    if (trained)
      attributes.push_back(builder.getNamedAttr(kTrainableAttr, builder.getUnitAttr()));
    names.push_back(attributes);
    keep(body->addArgument(tensorOf(shape, element), here()));
  }
  void addArguments() {
    auto normal = [&] { return double(std::normal_distribution<float>()(random)); };
    auto index = [&] { return double(pick(0, kEntries - 1)); };
    int64_t length = flip(40) ? batch : pick(1, 4), width = flip(20) ? batch : pick(1, 3);
    addArgument(kInputAttr, {batch, length, width}, f32(), false, normal);
    addArgument(kInputAttr, {batch, length}, i64(), false, index);
    if (flip(50))
      addArgument(kInputAttr, {batch}, f32(), false, normal);
    addArgument(kParameterAttr, {width, width}, f32(), true, normal);
    addArgument(kParameterAttr, {kEntries, width}, f32(), flip(70), normal);
    addArgument(kParameterAttr, {kEntries}, f32(), false, normal);
  }
  void addConstants() {
    SmallVector<int64_t> shapes[] = {{}, {batch}, {batch, 1}, shapeOfAny(), {batch, batch}};
    for (int64_t i = pick(0, 2); i > 0; --i)
      keep(splat(builder, here(), tensorOf(any(shapes), flip(70) ? f32() : i64()), double(pick(1, 2))));
    if (flip(10))
      addHalves();
    if (flip(40)) {
      SmallVector<int64_t> shape = any(shapes);
      if (!shape.empty())
        keep(IotaOp::create(builder, here(), tensorOf(shape, flip(70) ? f32() : i64()),
                            builder.getI64IntegerAttr(pick(0, int64_t(shape.size()) - 1)), builder.getF64FloatAttr(0), builder.getF64FloatAttr(1)));
    }
  }
  /// Halves of the batch that differ, and nothing in them does.
  void addHalves() {
    Value first = splat(builder, here(), tensorOf({batch / 2}, f32()), 1), second = splat(builder, here(), tensorOf({batch / 2}, f32()), 2);
    keep(ConcatOp::create(builder, here(), ValueRange{first, second}, 0));
  }
  SmallVector<int64_t> shapeOfAny() { return SmallVector<int64_t>(shapeOf(any(reals))); }

  //===-- operations --===//
  void grow() {
    switch (pick(0, 16)) {
    case 0: return unary();
    case 1: case 2: case 3: return binary();
    case 4: return transpose();
    case 5: case 6: return reshape();
    case 7: return slice();
    case 8: case 9: return reduce();
    case 10: return concat();
    case 11: case 12: return product();
    case 13: return lookUp();
    case 14: return broadcast();
    case 15: return choose();
    default: return alongRows();
    }
  }
  Value any() { return flip(80) || integers.empty() ? recent(reals) : recent(integers); }

  void unary() {
    Value x = recent(reals);
    switch (pick(0, 3)) {
    case 0: return keep(TanhOp::create(builder, here(), x));
    case 1: return keep(NegOp::create(builder, here(), x));
    case 2: return keep(SigmoidOp::create(builder, here(), x));
    default: return keep(mt::nn::castTo(builder, recent(truths.empty() || flip(50) ? integers : truths), f32()));
    }
  }
  /// Two values of one type that broadcast, after a few tries.
  std::pair<Value, Value> pair(const std::vector<Value> &list) {
    for (int i = 0; i < 8; ++i)
      if (Value a = recent(list), b = any(list); broadcastShapes(shapeOf(a), shapeOf(b)))
        return flip(50) ? std::pair(a, b) : std::pair(b, a);
    Value a = recent(list);
    return {a, a};
  }
  void binary() {
    auto [a, b] = pair(flip(80) || integers.empty() ? reals : integers);
    switch (pick(0, 7)) {
    case 0: case 1: return keep(AddOp::create(builder, here(), a, b));
    case 2: return keep(SubOp::create(builder, here(), a, b));
    case 3: case 4: return keep(MulOp::create(builder, here(), a, b));
    case 5: return keep(DivOp::create(builder, here(), a, AddOp::create(builder, here(), MulOp::create(builder, here(), b, b), scalarLike(builder, b, 1))));
    case 6: return keep(MaximumOp::create(builder, here(), a, b));
    default: return keep(CompareOp::create(builder, here(), a, b, flip(50) ? "lt" : "ge"));
    }
  }
  void choose() {
    if (truths.empty())
      return;
    Value condition = recent(truths);
    auto [a, b] = pair(reals);
    auto both = broadcastShapes(shapeOf(a), shapeOf(b));
    if (both && broadcastShapes(shapeOf(condition), *both))
      keep(SelectOp::create(builder, here(), condition, a, b));
  }
  void transpose() {
    Value x = any();
    SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, rankOf(x)));
    std::shuffle(order.begin(), order.end(), random);
    if (!order.empty())
      keep(TransposeOp::create(builder, here(), x, order));
  }
  void reshape() {
    Value x = any();
    SmallVector<int64_t> shape(shapeOf(x));
    if (flip(15) && !shape.empty()) // another order of the sizes: rows cut across
      std::shuffle(shape.begin(), shape.end(), random);
    else if (flip(50) && shape.size() > 1) { // two become one
      auto at = shape.begin() + pick(0, int64_t(shape.size()) - 2);
      *at *= at[1];
      shape.erase(at + 1);
    } else if (!shape.empty()) { // one becomes two
      auto at = shape.begin() + pick(0, int64_t(shape.size()) - 1);
      SmallVector<int64_t> divisors;
      for (int64_t d = 1; d <= *at; ++d)
        if (*at % d == 0)
          divisors.push_back(d);
      int64_t first = any(divisors);
      *at /= first;
      shape.insert(at, first);
    }
    if (shape.size() < 6)
      keep(reshapeTo(builder, x, shape));
  }
  void slice() {
    Value x = any();
    SmallVector<int64_t> sizes(shapeOf(x)), starts(sizes.size(), 0), strides(sizes.size(), 1);
    if (sizes.empty())
      return;
    size_t at = size_t(pick(0, int64_t(sizes.size()) - 1));
    starts[at] = pick(0, sizes[at] - 1);
    sizes[at] = pick(1, sizes[at] - starts[at]);
    keep(SliceOp::create(builder, here(), x, starts, sizes, strides));
  }
  void reduce() { keep(reduced(any(), false)); }
  Value reduced(Value x, bool all) {
    SmallVector<int64_t> axes;
    for (int64_t axis = 0; axis < rankOf(x); ++axis)
      if (all || flip(50))
        axes.push_back(axis);
    StringRef kinds[] = {"sum", "sum", "mean", "mean", "max"};
    return ReduceOp::create(builder, here(), x, kinds[pick(0, all ? 3 : 4)], axes, !all && flip(30));
  }
  void concat() {
    Value a = any();
    std::vector<Value> &list = isa<FloatType>(getElementTypeOrSelf(a.getType())) ? reals : integers;
    for (int i = 0; i < 6 && rankOf(a) > 0; ++i) {
      Value b = any(list);
      if (rankOf(b) != rankOf(a))
        continue;
      int64_t axis = pick(0, rankOf(a) - 1);
      SmallVector<int64_t> x(shapeOf(a)), y(shapeOf(b));
      x[axis] = y[axis] = 0;
      if (x == y)
        return keep(ConcatOp::create(builder, here(), ValueRange{a, b}, axis));
    }
  }
  void product() {
    for (int i = 0; i < 8; ++i) {
      Value a = recent(reals), b = any(reals);
      if (rankOf(a) < 2 || rankOf(b) < 2 || (rankOf(b) > 2 && rankOf(b) != rankOf(a)))
        continue;
      bool turnedLeft = flip(20), turnedRight = flip(40);
      ArrayRef<int64_t> l = shapeOf(a), r = shapeOf(b);
      bool sameBatch = r.size() == 2 || l.drop_back(2) == r.drop_back(2);
      if (sameBatch && l[l.size() - (turnedLeft ? 2 : 1)] == r[r.size() - (turnedRight ? 1 : 2)])
        return keep(MatmulOp::create(builder, here(), a, b, turnedLeft, turnedRight));
    }
  }
  void lookUp() {
    if (integers.empty())
      return;
    Value entry = ModOp::create(builder, here(), recent(integers), scalarLike(builder, integers.front(), 2)), data = recent(reals);
    switch (pick(0, 3)) {
    case 0:
      if (rankOf(data) == 2 && shapeOf(data)[0] > 1)
        keep(EmbeddingOp::create(builder, here(), data, entry, IntegerAttr()));
      return;
    case 1:
      for (int64_t axis = 0; axis < rankOf(data); ++axis)
        if (shapeOf(data)[axis] > 1 && flip(50) && rankOf(data) + rankOf(entry) < 6)
          return keep(GatherOp::create(builder, here(), data, entry, axis));
      return;
    case 2: { // the last dimension of the indices is the tuple
      if (rankOf(entry) + 1 >= 6)
        return;
      SmallVector<int64_t> shape(shapeOf(entry));
      shape.push_back(1);
      Value tuples = reshapeTo(builder, entry, shape);
      for (int64_t batched = pick(0, 2); batched >= 0; --batched)
        if (batched < rankOf(data) && batched < int64_t(shape.size()) && shapeOf(data)[batched] > 1 &&
            shapeOf(data).take_front(batched) == ArrayRef(shape).take_front(batched))
          return keep(GatherNdOp::create(builder, here(), data, tuples, batched));
      return;
    }
    default:
      for (int64_t axis = 0; axis < rankOf(data); ++axis)
        if (shapeOf(data) == shapeOf(entry) && shapeOf(data)[axis] > 1 && flip(60))
          return keep(GatherElementsOp::create(builder, here(), data, entry, axis));
    }
  }
  void broadcast() {
    Value x = any();
    SmallVector<int64_t> shape(shapeOf(x));
    for (int64_t &size : shape)
      if (size == 1 && flip(60))
        size = flip(50) ? batch : pick(1, 3);
    if (flip(40))
      shape.insert(shape.begin(), flip(70) ? batch : 2);
    if (shape.size() < 6)
      keep(BroadcastOp::create(builder, here(), tensorOf(shape, getElementTypeOrSelf(x.getType())), x));
  }
  void alongRows() {
    Value x = recent(reals);
    if (rankOf(x) == 0)
      return;
    switch (pick(0, 3)) {
    case 0: return keep(SoftmaxOp::create(builder, here(), x));
    case 1: return keep(LogSoftmaxOp::create(builder, here(), x));
    case 2: return keep(CumsumOp::create(builder, here(), x, pick(0, rankOf(x) - 1), false, false));
    default: {
      SmallVector<int64_t> zeros(size_t(rankOf(x)), 0), low = zeros;
      low[size_t(pick(0, rankOf(x) - 1))] = 1;
      return keep(PadOp::create(builder, here(), x, low, zeros, zeros, APFloat(0.5)));
    }
    }
  }

  /// One number out of the last values: reduced, then put together in linear ways, and in others.
  Value lossOf() {
    Value loss = number();
    for (int64_t i = pick(0, 2); i > 0; --i)
      loss = flip(75) ? linear(loss, number()) : other(loss, number());
    return loss;
  }
  Value linear(Value a, Value b) {
    switch (pick(0, 3)) {
    case 0: return AddOp::create(builder, here(), a, b);
    case 1: return SubOp::create(builder, here(), b, a);
    case 2: return MulOp::create(builder, here(), a, scalarLike(builder, a, 3));
    default: return DivOp::create(builder, here(), a, AddOp::create(builder, here(), MulOp::create(builder, here(), b, b), scalarLike(builder, b, 1)));
    }
  }
  Value other(Value a, Value b) {
    switch (pick(0, 3)) {
    case 0: return MulOp::create(builder, here(), a, b);
    case 1: return DivOp::create(builder, here(), a, b);
    case 2: return MaximumOp::create(builder, here(), a, b);
    default: return SelectOp::create(builder, here(), CompareOp::create(builder, here(), a, scalarLike(builder, a, 0), "lt"), a, b);
    }
  }
  Value reducedToNumber(Value x) { return reshapeTo(builder, rankOf(x) == 0 ? x : reduced(x, true), {}); }
  Value number() {
    if (flip(85) || truths.empty())
      return reducedToNumber(recent(reals));
    Value count = reducedToNumber(mt::nn::castTo(builder, recent(truths), i64())), two = scalarLike(builder, count, 2);
    if (flip(60))
      count = flip(50) ? DivOp::create(builder, here(), count, two).getResult() : AddOp::create(builder, here(), count, two).getResult();
    return mt::nn::castTo(builder, count, f32());
  }
};
} // namespace

LossCase randomLoss(MLIRContext &context, uint64_t seed) { return Generator(context, seed).make(); }

} // namespace mt::test
