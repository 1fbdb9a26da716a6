// Cases of elementwise operations: every way in which shapes broadcast, and every flag.
#include "tests/nn/GradientCheck.h"

#include <cmath>

using namespace mlir;

namespace mt::nn::test {
namespace {

using Pair = std::pair<Index, Index>;
const std::vector<Pair> kBroadcasts = {
    {{2, 3}, {2, 3}}, {{2, 3}, {3}},       {{3}, {2, 3}},          {{2, 1}, {1, 3}}, {{}, {2, 3}},
    {{2, 3}, {}},     {{2, 1, 3}, {4, 1}}, {{2, 2, 3}, {2, 1, 1}}, {{}, {}},         {{1, 3}, {2, 1, 3}}};
const std::vector<Index> kShapes = {{}, {5}, {2, 3}, {2, 1, 3}, {2, 2, 1, 2}};

std::string textOf(const Index &dims) {
  std::string text = "[";
  for (int64_t size : dims)
    text += (text.size() > 1 ? "," : "") + std::to_string(size);
  return text + "]";
}
std::string textOf(const Pair &shapes) { return textOf(shapes.first) + " with " + textOf(shapes.second); }

using Draw = std::function<Input(Index)>;

/// Of two numbers alone the loss may follow one: then `chooses`.
template <typename Op> void addBinary(Cases &cases, const Draw &left, const Draw &right, bool chooses = false) {
  std::string group = Op::getOperationName().drop_front(3).str();
  auto body = [](Graph g) { return SmallVector<Value>{g.make<Op>(g.in[0], g.in[1])}; };
  for (const Pair &shapes : kBroadcasts)
    cases[group].push_back({textOf(shapes),
                            {left(shapes.first), right(shapes.second)},
                            body,
                            false,
                            chooses && (shapes.first.empty() || shapes.second.empty())});
}

template <typename Op> void addUnary(Cases &cases, const Draw &draw) {
  std::string group = Op::getOperationName().drop_front(3).str();
  auto body = [](Graph g) { return SmallVector<Value>{g.make<Op>(g.in[0])}; };
  for (const Index &shape : kShapes)
    cases[group].push_back({textOf(shape), {draw(shape)}, body});
}

void addBinaries(Cases &cases) {
  Draw any = [](Index dims) { return real(std::move(dims)); };
  Draw away = [](Index dims) { return apart(std::move(dims)); };
  Draw shifted = [](Index dims) { return apart(std::move(dims), 1); };
  addBinary<AddOp>(cases, any, any);
  addBinary<SubOp>(cases, any, any);
  addBinary<MulOp>(cases, any, any);
  addBinary<DivOp>(cases, any, away);
  addBinary<PowOp>(cases, positive, any);
  addBinary<MaximumOp>(cases, away, shifted, true);
  addBinary<MinimumOp>(cases, away, shifted, true);
  cases["mul"].push_back(
      {"a square", {real({2, 3})}, [](Graph g) { return SmallVector<Value>{g.make<MulOp>(g.in[0], g.in[0])}; }});
  cases["sub"].push_back({"of itself",
                          {real({2, 3})},
                          [](Graph g) { return SmallVector<Value>{g.make<SubOp>(g.in[0], g.in[0])}; },
                          false,
                          true});
  cases["div"].push_back({"by its square", {apart({2, 3})}, [](Graph g) {
                            return SmallVector<Value>{g.make<DivOp>(g.in[0], g.make<MulOp>(g.in[0], g.in[0]))};
                          }});
  for (double exponent : {-2.0, -1.0, 1.0, 2.0, 3.0})
    cases["pow"].push_back({"of both signs to " + std::to_string(exponent), {apart({2, 3})}, [=](Graph g) {
                              return SmallVector<Value>{
                                  g.make<PowOp>(g.in[0], scalarLike(g.builder, g.in[0], exponent))};
                            }});
  cases["pow"].push_back({"of zeros", {given({4}, {0, 0.5, 0, 0.7}), given({4}, {2, 0, 3, 1.5})}, [](Graph g) {
                            return SmallVector<Value>{g.make<PowOp>(g.in[0], g.in[1])};
                          }});
}

void addSelects(Cases &cases) {
  const std::vector<std::array<Index, 3>> shapes = {{{{2, 3}, {2, 3}, {2, 3}}}, {{{3}, {2, 3}, {2, 1}}},
                                                    {{{2, 3}, {}, {3}}},        {{{2, 3}, {3}, {}}},
                                                    {{{}, {2, 3}, {}}},         {{{2, 1, 3}, {4, 1}, {1, 3}}}};
  for (const auto &[condition, left, right] : shapes)
    cases["select"].push_back({textOf(condition) + " of " + textOf({left, right}),
                               {booleans(condition), real(left), real(right)},
                               [](Graph g) { return SmallVector<Value>{g.make<SelectOp>(g.in[0], g.in[1], g.in[2])}; },
                               false,
                               condition.empty()});
}

void addUnaries(Cases &cases) {
  Draw any = [](Index dims) { return real(std::move(dims)); };
  Draw wide = [](Index dims) { return real(std::move(dims), -5, 5); };
  Draw away = [](Index dims) { return apart(std::move(dims)); };
  addUnary<NegOp>(cases, any);
  addUnary<AbsOp>(cases, away);
  addUnary<ExpOp>(cases, any);
  addUnary<LogOp>(cases, positive);
  addUnary<SqrtOp>(cases, positive);
  addUnary<RsqrtOp>(cases, positive);
  addUnary<ReciprocalOp>(cases, away);
  addUnary<TanhOp>(cases, any);
  addUnary<SigmoidOp>(cases, wide);
  addUnary<SoftplusOp>(cases, wide);
  addUnary<ErfOp>(cases, any);
  addUnary<SinOp>(cases, wide);
  addUnary<CosOp>(cases, wide);
  addUnary<AtanOp>(cases, wide);
  addUnary<ReluOp>(cases, away);
  addUnary<SiluOp>(cases, wide);
  for (StringRef form : {"erf", "tanh", "sigmoid"})
    for (const Index &shape : kShapes)
      cases["gelu"].push_back({form.str() + " " + textOf(shape), {real(shape, -3, 3)}, [form](Graph g) {
                                 return SmallVector<Value>{g.make<GeluOp>(g.in[0], form)};
                               }});
}

void addGatedProducts(Cases &cases) {
  for (StringRef name : {"silu", "gelu_erf", "gelu_tanh", "gelu_sigmoid", "relu", "sigmoid"})
    for (const Index &shape : kShapes)
      cases["gated_product"].push_back({name.str() + " " + textOf(shape), {apart(shape), real(shape)}, [name](Graph g) {
                                          return SmallVector<Value>{g.make<GatedProductOp>(g.in[0], g.in[1], name)};
                                        }});
}

void addExpressions(Cases &cases) {
  const StringRef text = "constant 0.5:f32, mul 0 1:f32, add 3 2:f32, gelu.tanh 4:f32, tanh 5:f32, mul 6 0:f32 -> 7 4";
  for (const Index &shape : kShapes)
    cases["elementwise"].push_back({textOf(shape), {fixed(shape), fixed({})}, [=](Graph g) {
                                      const SmallVector<Type> types(2, g.in[0].getType());
                                      auto op = g.make<ElementwiseOp>(TypeRange(types), ValueRange(g.in), g.builder.getStringAttr(text));
                                      return SmallVector<Value>(op.getResults());
                                    }});
}

void addExpressionSums(Cases &cases) {
  const StringRef text = "mul 0 1:f32, add 2 0:f32, tanh 3:f32 -> 3 2 4";
  for (const Index &axes : {Index{0}, Index{1}, Index{0, 2}, Index{0, 1, 2}})
    for (StringRef kind : {"sum", "mean"})
      cases["elementwise_sums"].push_back(
          {(kind + " " + textOf(axes)).str(), {fixed({2, 3, 4}), fixed({4})}, [=](Graph g) {
             SmallVector<int64_t> kept;
             for (int64_t d = 0; d < 3; ++d)
               if (!llvm::is_contained(axes, d))
                 kept.push_back(d + 2);
             const Type sum = tensorOf(kept, g.builder.getF32Type());
             const SmallVector<Type> types = {g.in[0].getType(), sum, sum};
             auto op = g.make<ElementwiseSumsOp>(TypeRange(types), ValueRange(g.in), text, 2, kind, axes);
             return SmallVector<Value>(op.getResults());
           }});
}

/// Sums of what is made of distances from a mean: the mean's gradient is none where that is of the same elements and
/// the slopes are the same for all of them but for the distance.
void addDistances(Cases &cases) {
  using Made = Value (*)(Graph, Value x, Value other);
  const std::pair<StringRef, Made> made[] = {
      {"squared", [](Graph g, Value d, Value) -> Value { return g.make<MulOp>(d, d); }},
      {"times a value", [](Graph g, Value d, Value x) -> Value { return g.make<MulOp>(d, x); }},
      {"squared, times a row",
       [](Graph g, Value d, Value) -> Value { return g.make<MulOp>(g.make<MulOp>(d, d), g.in[1]); }},
      {"squared and with a value",
       [](Graph g, Value d, Value x) -> Value { return g.make<AddOp>(g.make<MulOp>(d, d), g.make<MulOp>(d, x)); }},
  };
  const std::pair<StringRef, Made> means[] = {{"their mean", [](Graph, Value x, Value) -> Value { return x; }},
                                              {"another's mean", [](Graph g, Value x, Value) -> Value {
                                                 return g.make<TransposeOp>(x, ArrayRef<int64_t>{1, 0});
                                               }}};
  for (const Index &axes : {Index{0}, Index{1}, Index{0, 1}})
    for (const auto &[what, make] : made)
      for (const auto &[whose, from] : means) {
        std::vector<Input> inputs = {real({3, 3})};
        if (what.contains("row"))
          inputs.push_back(real({3}));
        cases["sub"].push_back(
            {(whose + " of " + textOf(axes) + ", " + what).str(), inputs, [=, make = make, from = from](Graph g) {
               Value x = g.in[0], mean = g.make<ReduceOp>(from(g, x, x), "mean", axes, true);
               Value each = make(g, g.make<SubOp>(x, mean), x);
               return SmallVector<Value>{g.make<ReduceOp>(each, "sum", axes, true)};
             }});
      }
  cases["sub"].push_back({"the mean of rows, for columns", {real({3, 3})}, [](Graph g) {
                            Value mean = g.make<ReduceOp>(g.in[0], "mean", ArrayRef<int64_t>{0}, false);
                            Value column = reshapeTo(g.builder, mean, {3, 1}), d = g.make<SubOp>(g.in[0], column);
                            return SmallVector<Value>{
                                g.make<ReduceOp>(g.make<MulOp>(d, d), "sum", ArrayRef<int64_t>{1}, true)};
                          }});
}

void addCasts(Cases &cases) {
  for (const Index &shape : kShapes)
    for (int bits : {16, 32, 64})
      cases["cast"].push_back({textOf(shape) + " to " + std::to_string(bits) + " bits", {real(shape)}, [=](Graph g) {
                                 Type type = bits == 16   ? Type(g.builder.getBF16Type())
                                             : bits == 32 ? Type(g.builder.getF32Type())
                                                          : Type(g.builder.getF64Type());
                                 return SmallVector<Value>{g.make<CastOp>(tensorOf(shapeOf(g.in[0]), type), g.in[0])};
                               }});
}

/// Operations without gradient: what they give, against their kernels.
SmallVector<Value> inFloats(Graph g, Value value) { return {castTo(g.builder, value, g.builder.getF32Type())}; }

Input without(Input input) {
  input.kind = input.kind == Input::real ? Input::fixed : input.kind;
  return input;
}

template <typename Op> void addFlat(Cases &cases, const Draw &draw) {
  std::string group = Op::getOperationName().drop_front(3).str();
  for (const Index &shape : kShapes)
    cases[group].push_back(
        {textOf(shape), {without(draw(shape))}, [](Graph g) { return inFloats(g, g.make<Op>(g.in[0])); }});
}
template <typename Op> void addFlatBinary(Cases &cases, const Draw &left, const Draw &right) {
  std::string group = Op::getOperationName().drop_front(3).str();
  for (const Pair &shapes : kBroadcasts)
    cases[group].push_back({textOf(shapes), {without(left(shapes.first)), without(right(shapes.second))}, [](Graph g) {
                              return inFloats(g, g.make<Op>(g.in[0], g.in[1]));
                            }});
}

void addFlats(Cases &cases) {
  Draw away = [](Index dims) { return apart(std::move(dims)); };
  Draw wide = [](Index dims) { return real(std::move(dims), -5, 5); };
  Draw whole = [](Index dims) { return integers(std::move(dims), -7, 8); };
  Draw divisor = [](Index dims) { return integers(std::move(dims), 2, 5); };
  addFlat<SignOp>(cases, away);
  addFlat<FloorOp>(cases, wide);
  addFlat<CeilOp>(cases, wide);
  addFlat<RoundOp>(cases, wide);
  addFlat<DetachOp>(cases, wide);
  addFlat<NotOp>(cases, booleans);
  addFlatBinary<AndOp>(cases, booleans, booleans);
  addFlatBinary<OrOp>(cases, booleans, booleans);
  addFlatBinary<XorOp>(cases, booleans, booleans);
  addFlatBinary<ModOp>(cases, wide, away);
  cases["mod"].push_back({"between jumps",
                          {given({2, 3}, {7.3, -1.6, 0.4, 2.2, -5.3, 9.1}), given({3}, {2, 3, -1.5})},
                          [](Graph g) { return SmallVector<Value>{g.make<ModOp>(g.in[0], g.in[1])}; }});
  addFlatBinary<ModOp>(cases, whole, divisor);
  addFlatBinary<DivOp>(cases, whole, divisor); // truncates
  cases["round"].push_back({"halves", {without(given({4}, {-1.5, -0.5, 0.5, 2.5}))}, [](Graph g) {
                              return inFloats(g, g.make<RoundOp>(g.in[0]));
                            }});
  cases["is_nan"].push_back({"one of three", {without(given({3}, {0, std::nan(""), 1}))}, [](Graph g) {
                               return inFloats(g, g.make<IsNanOp>(g.in[0]));
                             }});
  for (StringRef predicate : {"eq", "ne", "lt", "le", "gt", "ge"})
    for (const Pair &shapes : kBroadcasts)
      cases["compare"].push_back(
          {predicate.str() + " " + textOf(shapes),
           {integers(shapes.first, 0, 2), integers(shapes.second, 0, 2)},
           [predicate](Graph g) { return inFloats(g, g.make<CompareOp>(g.in[0], g.in[1], predicate)); }});
}

} // namespace

void addElementwiseCases(Cases &cases) {
  addBinaries(cases);
  addSelects(cases);
  addUnaries(cases);
  addGatedProducts(cases);
  addExpressions(cases);
  addExpressionSums(cases);
  addDistances(cases);
  addCasts(cases);
  addFlats(cases);
}

} // namespace mt::nn::test
