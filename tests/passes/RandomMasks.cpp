#include "tests/passes/RandomMasks.h"

#include <limits>

using namespace mlir;
using namespace mt::nn;

namespace mt::test {
namespace {
constexpr int64_t kMore = 3; ///< entries that a longer table has
constexpr const char *kPredicates[] = {"le", "lt", "ge", "gt", "le", "gt", "eq", "ne"};

class Generator {
public:
  Generator(ModuleOp module, uint64_t seed) : random(seed), builder(module.getContext()), module(module) {}

  MaskCase make(const std::string &name) {
    sizes = {pick(1, 3), pick(1, 2), pick(1, 7), pick(1, 7)};
    if (flip(60))
      sizes.keys = sizes.queries;
    if (flip(10))
      sizes.batch = sizes.keys;
    builder.setInsertionPointToEnd(module.getBody());
    auto function = func::FuncOp::create(builder, builder.getUnknownLoc(), name, builder.getFunctionType({}, {}));
    body = function.addEntryBlock();
    builder.setInsertionPointToStart(body);
    addInputs();
    Value result = attention();
    func::ReturnOp::create(builder, here(), result);
    function.setFunctionType(builder.getFunctionType(body->getArgumentTypes(), result.getType()));
    return {function, sizes, scores, std::move(inputs)};
  }

private:
  std::mt19937_64 random;
  OpBuilder builder;
  ModuleOp module;
  MaskSizes sizes{};
  Block *body = nullptr;
  std::vector<Tensor> inputs;
  Value scores, query, key, value;
  Value pad, padBoolean, padLong, padTransposed, ids, segmentsOfQueries, segmentsOfKeys, soft, halves, perHead;

  enum Axis { kBatch, kHead, kQuery, kKey };

  //===-- chance and types --===//
  int64_t pick(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  }
  bool flip(int64_t percent) { return pick(1, 100) <= percent; }
  Location here() { return builder.getUnknownLoc(); }
  Type i1() { return builder.getI1Type(); }
  Type i64() { return builder.getI64Type(); }
  Type f32() { return builder.getF32Type(); }
  int64_t sizeOf(Axis axis) const {
    return axis == kBatch ? sizes.batch : axis == kHead ? sizes.heads : axis == kQuery ? sizes.queries : sizes.keys;
  }

  Value input(std::vector<int64_t> shape, Type element, auto &&number) {
    Tensor tensor{shape, {}};
    int64_t total = 1;
    for (int64_t size : shape)
      total *= size;
    for (int64_t i = 0; i < total; ++i)
      tensor.values.push_back(number());
    inputs.push_back(std::move(tensor));
    return body->addArgument(tensorOf(shape, element), here());
  }
  void addInputs() {
    auto normal = [&] { return std::normal_distribution<float>()(random); };
    auto bit = [&] { return flip(80) ? 1.0 : 0.0; };
    auto small = [&] { return static_cast<double>(pick(-2, 4)); };
    auto segment = [&] { return static_cast<double>(pick(0, 2)); };
    query = input({sizes.batch, sizes.heads, sizes.queries, 2}, f32(), normal);
    key = input({sizes.batch, sizes.heads, sizes.keys, 2}, f32(), normal);
    value = input({sizes.batch, sizes.heads, sizes.keys, 2}, f32(), normal);
    pad = input({sizes.batch, sizes.keys}, i64(), bit);
    padBoolean = input({sizes.batch, sizes.keys}, i1(), bit);
    padLong = input({sizes.batch, sizes.keys + kMore}, i1(), bit);
    padTransposed = input({sizes.keys, sizes.batch}, i1(), bit);
    ids = input({sizes.batch, sizes.keys}, flip(70) ? i64() : builder.getIntegerType(8), small);
    Type segments = flip(80) ? i64() : builder.getI32Type();
    segmentsOfQueries = input({sizes.batch, sizes.queries}, segments, segment);
    segmentsOfKeys = input({sizes.batch, sizes.keys}, segments, segment);
    soft = input({sizes.batch, sizes.keys}, f32(), [&] { return 0.25 * static_cast<double>(pick(0, 4)); });
    constexpr double kHalves[] = {0, -std::numeric_limits<double>::infinity(), 2048, 2050, 1};
    halves = input({sizes.batch, sizes.keys}, builder.getF16Type(), [&] { return kHalves[pick(0, 4)]; });
    perHead = input({sizes.heads}, i64(), small);
  }

  //===-- building blocks --===//
  template <typename Op> Value binary(Value a, Value b) {
    if constexpr (std::is_base_of_v<OpTrait::IsCommutative<Op>, Op>)
      if (flip(50))
        std::swap(a, b);
    return Op::create(builder, here(), a, b);
  }
  Value number(Value like, double x) { return scalarLike(builder, like, x); }
  Value compared(Value a, Value b, StringRef predicate) { return CompareOp::create(builder, here(), a, b, predicate); }
  Value compared(Value a, Value b) { return compared(a, b, kPredicates[pick(0, 7)]); }
  Value chosen(Value condition, Value yes, Value no) { return SelectOp::create(builder, here(), condition, yes, no); }
  Value castTo(Value x, Type element) { return mt::nn::castTo(builder, x, element); }
  Value reshaped(Value x, ArrayRef<int64_t> shape) { return reshapeTo(builder, x, shape); }
  Value broadcast(Value x, ArrayRef<int64_t> shape) {
    return shapeOf(x) == shape
               ? x
               : BroadcastOp::create(builder, here(), tensorOf(shape, getElementTypeOrSelf(x.getType())), x)
                     .getResult();
  }
  Value slice(Value x, int64_t start, int64_t size, int64_t stride) { // of a vector
    return SliceOp::create(builder, here(), x, ArrayRef{start}, ArrayRef{size}, ArrayRef{stride});
  }
  Value splatOf(ArrayRef<int64_t> shape, Type element, double x) {
    return splat(builder, here(), tensorOf(shape, element), x);
  }
  Value iota(int64_t size, Type element, double start = 0, double step = 1) {
    return IotaOp::create(builder, here(), tensorOf({size}, element), builder.getI64IntegerAttr(0),
                          builder.getF64FloatAttr(start), builder.getF64FloatAttr(step));
  }
  /// [size] or [B, size] as something that broadcasts to the scores along `axis` (and the batch).
  Value along(Value x, Axis axis) {
    int64_t size = shapeOf(x).back();
    bool batched = shapeOf(x).size() == 2;
    SmallVector<int64_t> shape{batched ? sizes.batch : 1, 1, 1, 1};
    shape[axis] = size;
    if (!batched)
      shape.erase(shape.begin(), shape.begin() + pick(0, axis));
    return reshaped(x, shape);
  }

  /// Positions 0, 1, 2, ... of so many entries, found in one of many ways, now and then with a slip.
  Value positions(int64_t size, Type element) {
    int64_t shift = pick(0, kMore);
    switch (pick(0, 11)) {
    case 0:
      return binary<SubOp>(iota(size, element, static_cast<double>(shift)),
                           splatOf({}, element, static_cast<double>(shift)));
    case 1: {
      Value ones = splatOf({size}, element, 1);
      bool exclusive = flip(50);
      Value sum = CumsumOp::create(builder, here(), ones, 0, exclusive, flip(5));
      return exclusive ? sum : binary<SubOp>(sum, number(sum, 1));
    }
    case 2:
      return binary<SubOp>(slice(iota(size + kMore, element), shift, size, 1),
                           splatOf({}, element, static_cast<double>(shift)));
    case 3: { // looked up, counted from the end too
      Value at = iota(size, i64(), flip(50) ? 0 : static_cast<double>(-size));
      return GatherOp::create(builder, here(), iota(size, element), at, 0);
    }
    case 4:
      if (size > 1) {
        Value first = splatOf({1}, element, 0), rest = iota(size - 1, element, flip(90) ? 1 : 2);
        return ConcatOp::create(builder, here(), ValueRange{first, rest}, 0);
      }
      return iota(size, element);
    case 5:
      return slice(iota(2 * size, element, 0, 0.5 * static_cast<double>(pick(1, 2))), 0, size, 2);
    case 6: // backward and back
      return binary<SubOp>(splatOf({}, element, static_cast<double>(size - 1)),
                           slice(iota(size, element), size - 1, size, -1));
    case 7:
      return castTo(castTo(iota(size, i64()), flip(50) ? builder.getI32Type() : f32()), element);
    case 8: // how many came before, of some of the entries only
      return flip(30) ? slice(CumsumOp::create(
                                  builder, here(),
                                  castTo(compared(iota(size + kMore, i64()), splatOf({}, i64(), 2), "lt"), element), 0,
                                  false, false),
                              shift, size, 1)
                      : iota(size, element);
    case 9:
      return NegOp::create(builder, here(), iota(size, element, 0, -1));
    default:
      return iota(size, element);
    }
  }
  Value position(Axis axis, Type element) { return along(positions(sizeOf(axis), element), axis); }
  Type anyNumber() {
    int64_t chance = pick(1, 20);
    return chance <= 14   ? i64()
           : chance <= 16 ? builder.getI32Type()
           : chance <= 18 ? f32()
           : chance == 19 ? Type(builder.getBF16Type())
                          : builder.getIntegerType(8);
  }

  /// To which the type can hardly add a position without wrapping around or rounding.
  static double nearlyTooLarge(Type type) {
    return type.isInteger(8)    ? 126
           : type.isInteger(32) ? 2147483645.0
           : type.isF32()       ? 16777214.0
           : type.isBF16()      ? 254
                                : 1e15;
  }

  //===-- conditions --===//
  Value distanceTest() {
    Type type = anyNumber();
    Value q = position(kQuery, type), k = position(kKey, type);
    double shift = flip(20) ? nearlyTooLarge(type) : static_cast<double>(pick(-3, 4));
    switch (pick(0, 5)) {
    case 0:
      return compared(binary<AddOp>(q, number(q, shift)), k);
    case 1:
      return compared(binary<SubOp>(q, k), number(q, shift));
    case 2:
      return compared(AbsOp::create(builder, here(), binary<SubOp>(flip(50) ? q : k, flip(50) ? k : q)),
                      number(q, shift));
    case 3:
      return flip(60) ? compared(k, q, "le")
                      : compared(binary<MulOp>(q, number(q, 2)), binary<AddOp>(k, number(k, shift)));
    case 4:
      return flip(70) ? compared(q, k, "ge") : compared(number(q, shift), binary<SubOp>(k, q));
    default:
      return compared(k, q, "le");
    }
  }
  Value placeTest() {
    Axis axis = flip(75) ? kKey : flip(70) ? kQuery : flip(50) ? kBatch : kHead;
    Value at = position(axis, anyNumber());
    return flip(70) ? compared(at, number(at, static_cast<double>(pick(-1, 5))))
                    : compared(number(at, static_cast<double>(pick(-1, 5))), at);
  }
  /// Index tuples [B, 1, 1, Sk, 2] into a [B, length] table.
  Value gatheredPad() {
    int64_t shift = pick(0, kMore);
    if (flip(50)) {
      Value at = iota(sizes.keys, i64(), static_cast<double>(flip(80) ? shift : shift - sizes.keys - kMore));
      return along(GatherOp::create(builder, here(), padLong, at, 1), kKey);
    }
    SmallVector<int64_t> shape{sizes.batch, 1, 1, sizes.keys, 1};
    Value b = broadcast(reshaped(iota(sizes.batch, i64()), {sizes.batch, 1, 1, 1, 1}), shape);
    Value k = broadcast(reshaped(iota(sizes.keys, i64(), static_cast<double>(shift)), {1, 1, 1, sizes.keys, 1}), shape);
    Value tuples = ConcatOp::create(builder, here(), ValueRange{b, k}, 4);
    return GatherNdOp::create(builder, here(), tensorOf({sizes.batch, 1, 1, sizes.keys}, i1()), padLong, tuples,
                              builder.getI64IntegerAttr(0));
  }
  /// What is fed, taken from a number or the reverse, before or after it is as wide as the scores.
  Value shiftedTest() {
    const bool narrow = flip(30); // wraps around
    Type type = !narrow    ? anyNumber()
                : flip(50) ? builder.getIntegerType(8)
                           : IntegerType::get(builder.getContext(), 8, IntegerType::Unsigned);
    Value at = flip(50)   ? along(pad, kKey)
               : flip(40) ? along(ids, kKey)
               : flip(50) ? condition(0)
                          : position(kKey, i64());
    if (flip(50) && shapeOf(at).size() == 4)
      at = broadcast(at, {sizes.batch, sizes.heads, sizes.queries, sizes.keys});
    at = castTo(at, type);
    const int64_t low = type.isUnsignedInteger() ? 0 : -128; // of narrow ones
    auto some = [&] {                                        // small, or where the type ends
      return static_cast<double>(narrow && flip(40) ? low + (flip(50) ? pick(0, 2) : pick(253, 255))
                                 : narrow           ? pick(std::max<int64_t>(-1, low), 2)
                                 : flip(80)         ? pick(-1, 2)
                                                    : pick(-200, 200));
    };
    Value shift = number(at, some());
    Value rest = flip(60) ? binary<SubOp>(shift, at) : flip(50) ? binary<SubOp>(at, shift) : binary<AddOp>(at, shift);
    if (flip(30)) // as transformers inverts its masks
      return castTo(chosen(castTo(rest, i1()), number(rest, flip(80) ? -100 : 0), rest), i1());
    return flip(30) ? castTo(rest, i1())
                    : compared(rest, number(rest, some()), kPredicates[flip(50) ? pick(6, 7) : pick(0, 7)]);
  }
  /// Reals of 16 bits that are widened before they are compared, with numbers that 16 bits do not have.
  Value widenedTest() {
    constexpr double kBounds[] = {-1e9, 2049, 2048, 0, -1, 2050};
    Value at = castTo(along(halves, kKey), flip(70) ? f32() : builder.getF64Type());
    return compared(at, number(at, kBounds[pick(0, 5)]), kPredicates[pick(0, 7)]);
  }
  Value paddingTest() {
    switch (pick(0, 10)) {
    case 8:
    case 9:
      return shiftedTest();
    case 10:
      return widenedTest();
    case 0:
      return compared(along(pad, kKey), splatOf({}, i64(), 0), flip(80) ? "ne" : "gt");
    case 1:
      return castTo(along(pad, kKey), i1());
    case 2:
      return along(padBoolean, kKey);
    case 3: {
      Value at = along(ids, kKey);
      if (flip(10)) // loses its upper bits
        at = castTo(binary<MulOp>(castTo(at, i64()), splatOf({}, i64(), 128)), builder.getIntegerType(8));
      else if (flip(40))
        at = castTo(at, flip(50) ? Type(f32()) : i64());
      return compared(at, number(at, static_cast<double>(pick(-2, 4))));
    }
    case 4:
      if (flip(40)) // whole, after truncation
        return compared(castTo(along(soft, kKey), i64()), splatOf({}, i64(), static_cast<double>(pick(0, 1))));
      return flip(30) ? castTo(along(soft, kKey), i1())
                      : compared(along(soft, kKey), splatOf({}, f32(), 0.25 * static_cast<double>(pick(0, 4))));
    case 5: {
      bool turned = flip(60);
      Value rows = turned ? TransposeOp::create(builder, here(), padTransposed, ArrayRef<int64_t>{1, 0}).getResult()
                          : reshaped(padTransposed, {sizes.batch, sizes.keys});
      return along(rows, kKey);
    }
    default:
      return gatheredPad();
    }
  }
  Value segmentTest() {
    Value q = along(segmentsOfQueries, kQuery), k = along(segmentsOfKeys, kKey);
    if (flip(20) && sizes.queries == sizes.keys) { // documents counted by their first tokens
      Value starts = castTo(compared(segmentsOfKeys, number(segmentsOfKeys, 0), "eq"), i64());
      Value documents = CumsumOp::create(builder, here(), starts, 1, false, false);
      q = along(documents, kQuery), k = along(documents, kKey);
    }
    if (flip(10))
      q = castTo(q, f32()), k = castTo(k, f32());
    return flip(50) ? compared(q, k, flip(85) ? "eq" : "ne") : compared(k, q, flip(85) ? "eq" : "le");
  }
  Value chunkOf(Value at, int64_t size, int64_t form) {
    switch (form) {
    case 0:
      return binary<DivOp>(at, number(at, static_cast<double>(size)));
    case 1:
      return binary<SubOp>(at, binary<ModOp>(at, number(at, static_cast<double>(size))));
    default:
      return FloorOp::create(builder, here(),
                             binary<DivOp>(castTo(at, f32()), splatOf({}, f32(), static_cast<double>(size))));
    }
  }
  Value chunkTest() {
    int64_t size = pick(1, 4), form = pick(0, 2);
    Value q = position(kQuery, i64()), k = position(kKey, i64());
    return compared(chunkOf(q, size, form), chunkOf(k, size, form), flip(90) ? "eq" : "le");
  }
  Value headTest() {
    Value q = position(kQuery, i64()), k = position(kKey, i64());
    return compared(binary<SubOp>(q, k), reshaped(perHead, {sizes.heads, 1, 1}), "le");
  }
  /// A finished mask, compared with a number.
  Value maskTest(int64_t depth) {
    Value mask = flip(50) ? chosen(condition(depth), splatOf({}, f32(), 0), splatOf({}, f32(), -1e9))
                          : added(std::max<int64_t>(0, depth - 1));
    if (flip(30))
      mask = binary<AddOp>(mask, castTo(along(flip(70) ? pad : ids, kKey), f32()));
    double bound = flip(10)   ? -std::numeric_limits<double>::infinity()
                   : flip(40) ? -1
                   : flip(90) ? 0
                   : flip(50) ? 1
                              : -1e9;
    return compared(mask, splatOf({}, f32(), bound), kPredicates[pick(0, 7)]);
  }
  Value atom() {
    int64_t chance = pick(1, 100);
    if (chance <= 42)
      return distanceTest();
    if (chance <= 54)
      return placeTest();
    if (chance <= 76)
      return paddingTest();
    if (chance <= 86)
      return segmentTest();
    if (chance <= 90)
      return chunkTest();
    if (chance <= 92)
      return headTest();
    return chance <= 95 ? splatOf({}, i1(), flip(50) ? 1 : 0)
                        : compared(position(kKey, i64()), position(kQuery, i64()), "le");
  }
  /// What models restrict attention to, joined as they do.
  Value plausible() {
    Type type = anyNumber();
    Value q = position(kQuery, type), k = position(kKey, type), seen;
    for (int64_t left = pick(1, 3); left > 0; --left) {
      Value next = plausiblePart(q, k);
      if (flip(15)) // De Morgan
        seen = !seen ? NotOp::create(builder, here(), NotOp::create(builder, here(), next)).getResult()
                     : NotOp::create(
                           builder, here(),
                           binary<OrOp>(NotOp::create(builder, here(), seen), NotOp::create(builder, here(), next)));
      else
        seen = seen ? binary<AndOp>(seen, next) : next;
    }
    return seen;
  }
  Value plausiblePart(Value q, Value k) {
    auto causal = [&] { return flip(50) ? compared(k, q, "le") : compared(binary<SubOp>(q, k), number(q, 0), "ge"); };
    auto window = [&] { return compared(binary<SubOp>(q, k), number(q, static_cast<double>(pick(1, 4))), "lt"); };
    auto first = [&] { return compared(k, number(k, static_cast<double>(pick(1, 4))), "lt"); };
    auto dilated = [&] {
      Value distance = binary<SubOp>(flip(50) ? q : k, flip(50) ? k : q);
      if (flip(30))
        distance = AbsOp::create(builder, here(), distance);
      return compared(binary<ModOp>(distance, number(q, static_cast<double>(pick(1, 4)))), number(q, flip(90) ? 0 : 1),
                      flip(90) ? "eq" : "ne");
    };
    switch (pick(0, 8)) {
    case 8:
      return dilated();
    case 0:
      return compared(AbsOp::create(builder, here(), binary<SubOp>(k, q)), number(q, static_cast<double>(pick(0, 4))),
                      "le");
    case 1:
      return binary<OrOp>(causal(), first());
    case 2:
      return binary<AndOp>(causal(), window());
    case 3:
      return flip(50) ? binary<OrOp>(binary<AndOp>(causal(), window()), first())
                      : binary<AndOp>(causal(), binary<OrOp>(window(), first()));
    case 4:
    case 5:
      return paddingTest();
    case 6:
      return flip(70) ? segmentTest() : chunkTest();
    default:
      return flip(85)
                 ? causal()
                 : compared(binary<AddOp>(q, number(q, nearlyTooLarge(getElementTypeOrSelf(q.getType())))), k, "ge");
    }
  }
  Value viewed(Value x) {
    if (flip(50))
      return CopyOp::create(builder, here(), x);
    SmallVector<int64_t> whole{sizes.batch, sizes.heads, sizes.queries, sizes.keys};
    Value wide = broadcast(x, whole);
    if (flip(50))
      return wide;
    Value turned = TransposeOp::create(builder, here(), wide, ArrayRef<int64_t>{3, 1, 0, 2});
    return TransposeOp::create(builder, here(), turned, ArrayRef<int64_t>{2, 1, 3, 0});
  }
  Value condition(int64_t depth) {
    if (depth >= 2 && flip(75))
      return plausible();
    int64_t chance = depth == 0 ? 0 : pick(1, 100);
    if (chance <= 25)
      return atom();
    if (chance <= 50)
      return binary<AndOp>(condition(depth - 1), condition(depth - 1));
    if (chance <= 66)
      return binary<OrOp>(condition(depth - 1), condition(depth - 1));
    if (chance <= 75)
      return NotOp::create(builder, here(), condition(depth - 1));
    if (chance <= 78)
      return binary<XorOp>(condition(depth - 1), condition(depth - 1));
    if (chance <= 82)
      return chosen(condition(depth - 1), condition(depth - 1), condition(depth - 1));
    if (chance <= 87) { // as numbers
      Type type = anyNumber();
      Value a = castTo(condition(depth - 1), type),
            b = flip(60) ? castTo(condition(depth - 1), type) : castTo(along(ids, kKey), type);
      Value both = binary<MulOp>(a, b);
      return flip(40) ? castTo(both, i1()) : compared(both, number(both, static_cast<double>(pick(0, 2))));
    }
    if (chance <= 92) {
      Value x = castTo(condition(depth - 1), anyNumber());
      return flip(60) ? compared(x, number(x, static_cast<double>(pick(-1, 2))))
                      : compared(number(x, static_cast<double>(pick(0, 2))), x);
    }
    if (chance <= 94) {
      Value one = splatOf({}, i64(), static_cast<double>(pick(0, 2))),
            other = splatOf({}, i64(), static_cast<double>(pick(0, 1)));
      return compared(chosen(condition(depth - 1), one, other), splatOf({}, i64(), static_cast<double>(pick(0, 2))));
    }
    return chance <= 97 ? maskTest(depth - 1) : viewed(condition(depth - 1));
  }

  //===-- masks and attention --===//
  double veryNegative() {
    constexpr double kChoices[] = {-std::numeric_limits<double>::infinity(), -3.4028234663852886e38, -1e4, -1e9};
    return kChoices[pick(0, 3)];
  }
  Value zero() { return splatOf({}, f32(), 0); }
  Value hidden() { return splatOf({}, f32(), veryNegative()); }
  /// Numbers that are no mask.
  Value slopes() {
    Value k = castTo(position(kKey, i64()), f32());
    return binary<MulOp>(k, number(k, flip(70) ? 0.1 : -500));
  }
  Value product(Value hides) {
    return binary<MulOp>(hides, splatOf({}, f32(), flip(85) ? -1e9 : flip(50) ? -1e4 : -3.4e38));
  }
  Value added(int64_t depth) {
    if (flip(4)) // shifted windows
      return chosen(segmentTest(), zero(), splatOf({}, f32(), flip(80) ? -1.5 : 2));
    switch (depth > 0 && flip(40) ? pick(7, 14) : pick(0, 6)) {
    case 0:
      return chosen(NotOp::create(builder, here(), condition(2)), hidden(), zero());
    case 1:
      return product(binary<SubOp>(splatOf({}, f32(), 1), castTo(condition(2), f32())));
    case 2:
      return product(castTo(NotOp::create(builder, here(), condition(2)), f32()));
    case 3: { // as models extend their padding
      Value seen = castTo(along(pad, kKey), f32());
      if (flip(50))
        seen = binary<MulOp>(seen, castTo(condition(1), f32()));
      return product(binary<SubOp>(splatOf({}, f32(), 1), seen));
    }
    case 7:
      return flip(80) ? binary<AddOp>(added(depth - 1), added(depth - 1))
                      : binary<AddOp>(added(depth - 1),
                                      flip(50) ? hidden() : splatOf({}, f32(), static_cast<double>(pick(-3, 3))));
    case 8:
      return binary<AddOp>(added(depth - 1), added(depth - 1));
    case 9:
      return binary<MaximumOp>(added(depth - 1), splatOf({}, f32(), -3.4028234663852886e38));
    case 10:
      return flip(50) ? chosen(condition(2), added(depth - 1), hidden())
                      : chosen(condition(2), hidden(), added(depth - 1));
    case 12:
      return binary<MulOp>(binary<MaximumOp>(added(depth - 1), splatOf({}, f32(), -3.4028234663852886e38)),
                           castTo(condition(1), f32()));
    case 13:
    case 14: { // hides the padding of what is seen so far, as transformers extends a causal mask
      Value base = added(depth - 1);
      Value sum = binary<AddOp>(base, castTo(along(flip(80) ? pad : ids, kKey), f32()));
      return chosen(compared(sum, zero(), flip(90) ? "eq" : "ne"), hidden(), base);
    }
    case 11:
      return flip(50) ? binary<AddOp>(slopes(), added(depth - 1)) : chosen(condition(2), slopes(), hidden());
    default:
      return chosen(condition(3), zero(), hidden());
    }
  }
  Value masked(Value s) {
    auto fitted = [&](Value x) { return flip(30) ? broadcast(x, shapeOf(s)) : x; };
    if (flip(75))
      return binary<AddOp>(s, fitted(added(2)));
    Value where = fitted(condition(3));
    return flip(50) ? chosen(where, s, hidden()) : chosen(where, hidden(), s);
  }
  Value attention() {
    Value s = MatmulOp::create(builder, here(), query, key, false, true);
    if (flip(5))
      s = masked(s);
    if (flip(10)) {
      s = binary<MulOp>(s, number(s, 0.5));
      s = binary<MulOp>(TanhOp::create(builder, here(), s), number(s, 2));
    }
    s = masked(s);
    if (flip(15))
      s = binary<MulOp>(s, number(s, flip(50) ? 0.5 : 0.001));
    if (flip(15))
      s = masked(s);
    if (flip(10))
      s = binary<MaximumOp>(s, splatOf({}, f32(), flip(80) ? -3.4028234663852886e38 : -2));
    scores = s;
    Value p = SoftmaxOp::create(builder, here(), s);
    if (flip(30))
      p = chosen(IsNanOp::create(builder, here(), p), zero(), p);
    return MatmulOp::create(builder, here(), p, value, false, false);
  }
};
} // namespace

MaskCase randomMask(ModuleOp module, uint64_t seed) {
  return Generator(module, seed * 0x9e3779b97f4a7c15ull + 1).make("mask" + std::to_string(seed));
}

} // namespace mt::test
