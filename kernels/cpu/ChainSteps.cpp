#include "kernels/cpu/ChainSteps.h"

#if defined(__x86_64__)
#include "kernels/cpu/Activations-inl.h"

#include <bit>
#include <map>

namespace mt::kernels::cpu {
namespace trace {

/// Notes operations, each once.
class Tracer {
public:
  Tracer(size_t reads, std::vector<Step> &steps) : reads(reads), steps(steps) {}

  size_t add(std::string_view name, std::vector<size_t> in, uint32_t bits = 0) {
    const auto [known, isNew] = numbers.try_emplace(Step{name, std::move(in), bits}, reads + steps.size());
    if (isNew)
      steps.push_back(known->first);
    return known->second;
  }

private:
  const size_t reads;
  std::vector<Step> &steps;
  std::map<Step, size_t> numbers;
};

/// A value that formulas are told of in place of a vector: what they do with it is noted.
struct Traced {
  Tracer *tracer;
  size_t value;
};
/// Of a < b.
struct Mask {
  Traced a, b;
};
/// In place of a vector's tag.
struct Tag {
  Tracer *tracer;
};

Traced noted(std::string_view name, Traced a) { return {a.tracer, a.tracer->add(name, {a.value})}; }
Traced noted(std::string_view name, Traced a, Traced b) { return {a.tracer, a.tracer->add(name, {a.value, b.value})}; }
Traced noted(std::string_view name, Traced a, Traced b, Traced c) {
  return {a.tracer, a.tracer->add(name, {a.value, b.value, c.value})};
}

Traced Set(Tag tag, float value) {
  return {tag.tracer, tag.tracer->add(Step::kNumber, {}, std::bit_cast<uint32_t>(value))};
}
Traced Add(Traced a, Traced b) { return noted("add", a, b); }
Traced Sub(Traced a, Traced b) { return noted("sub", a, b); }
Traced Mul(Traced a, Traced b) { return noted("mul", a, b); }
Traced Div(Traced a, Traced b) { return noted("div", a, b); }
Traced Neg(Traced x) { return noted("neg", x); }
Traced Abs(Traced x) { return noted("abs", x); }
Traced MulAdd(Traced a, Traced b, Traced c) { return noted(".mul_add", a, b, c); }
Traced NegMulAdd(Traced a, Traced b, Traced c) { return noted(".neg_mul_add", a, b, c); }
Traced Min(Traced a, Traced b) { return noted(".min", a, b); }
Traced Max(Traced a, Traced b) { return noted(".max", a, b); }
Traced CopySign(Traced size, Traced sign) { return noted(".copy_sign", size, sign); }
Traced timesPowerOfTwo(Tag tag, Traced y, Traced n, float least) {
  return noted(".times_power_of_two", y, n, Set(tag, least));
}
Mask Lt(Traced a, Traced b) { return {a, b}; }
Traced IfThenElse(Mask mask, Traced yes, Traced no) {
  return {yes.tracer, yes.tracer->add(".select_less", {mask.a.value, mask.b.value, yes.value, no.value})};
}

} // namespace trace

namespace {

using trace::Tag, trace::Traced, trace::Tracer;
using In = std::vector<Traced>;
using Formula = std::vector<Traced> (*)(Tag, const In &);
namespace formulas = HWY_NAMESPACE;

template <class F> std::vector<Traced> one(Tag tag, const In &in) { return {F()(tag, in[0])}; }
template <class F> std::vector<Traced> two(Tag tag, const In &in) { return {F()(tag, in[0], in[1])}; }
template <class A> std::vector<Traced> gateGrad(Tag tag, const In &in) {
  return {formulas::GateGrad<A>::toGate(tag, in[0], in[1], in[2]), formulas::GateGrad<A>::toUp(tag, in[0], in[2])};
}

struct ExpF {
  Traced operator()(Tag tag, Traced x) const { return formulas::expOf(tag, x); }
};
struct ErfF {
  Traced operator()(Tag tag, Traced x) const { return formulas::erfOf(tag, x); }
};

template <class A> void add(const char *value, const std::string &gate, std::map<std::string, Formula> &all) {
  all[value] = one<formulas::Value<A>>;
  all["activation_grad." + gate] = two<formulas::Slope<A>>;
  all["gated_product." + gate] = two<formulas::Gate<A>>;
  all["gated_product_grad." + gate] = gateGrad<A>;
}

std::map<std::string, Formula> makeFormulas() {
  std::map<std::string, Formula> all = {{"exp", one<ExpF>}, {"erf", one<ErfF>}};
  add<formulas::Swish<1000>>("silu", "silu", all);
  add<formulas::Swish<1702>>("gelu.sigmoid", "gelu_sigmoid", all);
  add<formulas::Sigmoid>("sigmoid", "sigmoid", all);
  add<formulas::GeluErf>("gelu.erf", "gelu_erf", all);
  add<formulas::GeluTanh>("gelu.tanh", "gelu_tanh", all);
  return all;
}

const std::map<std::string, Formula> &formulasByName() {
  static const std::map<std::string, Formula> all = makeFormulas();
  return all;
}

} // namespace

ChainSteps::ChainSteps(const Chain &chain) {
  Tracer tracer(chain.readsBf16.size(), steps);
  for (size_t i = 0; i < chain.readsBf16.size(); ++i)
    values.push_back(i);
  for (const Chain::Operation &operation : chain.operations) {
    std::vector<size_t> results;
    if (const auto found = formulasByName().find(operation.function); found != formulasByName().end()) {
      In in;
      for (size_t value : operation.operands)
        in.push_back({&tracer, values[value]});
      for (const Traced &result : found->second({&tracer}, in))
        results.push_back(result.value);
    } else {
      std::vector<size_t> in;
      for (size_t value : operation.operands)
        in.push_back(values[value]);
      results = {tracer.add(operation.function, std::move(in))};
    }
    for (size_t result : results)
      values.push_back(operation.isRounded ? tracer.add(".to_bf16", {result}) : result);
  }
}

bool isOfSteps(const std::string &function) { return formulasByName().contains(function); }

} // namespace mt::kernels::cpu

#else

namespace mt::kernels::cpu {

ChainSteps::ChainSteps(const Chain &) {}
bool isOfSteps(const std::string &) { return false; }

} // namespace mt::kernels::cpu
#endif
