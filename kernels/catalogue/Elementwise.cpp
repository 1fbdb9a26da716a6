// Elementwise kernels: binary and unary arithmetic, comparisons, activations and their gradients.
#include "kernels/Blocks.h"
#include "kernels/Expression.h"
#include "kernels/catalogue/Checker.h"
#include "kernels/catalogue/Entry.h"

#include <algorithm>

namespace mt::kernels {
namespace {

using Kind = AttributeSpec::Kind;

std::string checkBroadcast(const Signature &call, int first, int results, DType result) {
  Checker checker(call);
  std::optional<Dims> dims = broadcast(checker.at(first).dims, checker.at(first + 1).dims);
  for (int i = 0; i < first && dims; ++i)
    dims = broadcast(*dims, checker.at(i).dims);
  checker.sameType(first + 1, first)
      .require(dims.has_value(), "the operands' dimensions do not broadcast")
      .then([&](Checker &c) { c.dims(results, *dims).type(results, result); });
  return checker.result();
}

std::string checkBinary(const Signature &call) { return checkBroadcast(call, 0, 2, call.operands[0].type); }

std::string checkArithmetic(const Signature &call) {
  return Checker(call)
      .require(call.operands[0].type != DType::boolean, "booleans have no arithmetic")
      .also(checkBinary(call))
      .result();
}

std::string checkLogical(const Signature &call) {
  return Checker(call)
      .require(!isFloat(call.operands[0].type), "floating-point operands have no logic")
      .also(checkBinary(call))
      .result();
}

std::string checkCompare(const Signature &call) { return checkBroadcast(call, 0, 2, DType::boolean); }

std::string checkSelect(const Signature &call) {
  return Checker(call).type(0, DType::boolean).also(checkBroadcast(call, 1, 3, call.operands[1].type)).result();
}

std::string checkUnary(const Signature &call) {
  return Checker(call)
      .require(call.operands[0].type != DType::boolean, "booleans have no arithmetic")
      .like(1, 0)
      .result();
}
std::string checkFloatUnary(const Signature &call) { return Checker(call).floating(0).like(1, 0).result(); }
std::string checkNot(const Signature &call) { return Checker(call).type(0, DType::boolean).like(1, 0).result(); }
std::string checkIsNan(const Signature &call) {
  return Checker(call).floating(0).type(1, DType::boolean).sameDims(1, 0).result();
}
std::string checkThree(const Signature &call) { return Checker(call).floating(0).like(1, 0).like(2, 0).result(); }
std::string checkGatedGrad(const Signature &call) {
  return Checker(call).floating(0).like(1, 0).like(2, 0).like(3, 0).like(4, 0).result();
}

constexpr AttributeSpec kPredicate[] = {{"predicate", Kind::choice, true, "eq|ne|lt|le|gt|ge", "the comparison"}};
constexpr AttributeSpec kForm[] = {
    {"form", Kind::choice, false, "erf|tanh|sigmoid", "exact, or one of two approximations"}};
constexpr AttributeSpec kActivation[] = {
    {"activation", Kind::choice, true, "relu|silu|gelu_erf|gelu_tanh|gelu_sigmoid|softplus|sigmoid", "the function f"}};
constexpr AttributeSpec kGate[] = {
    {"activation", Kind::choice, true, "silu|gelu_erf|gelu_tanh|gelu_sigmoid|relu|sigmoid", "the function f"}};

Kernel binary(std::string_view name, std::string_view summary, std::string_view formula,
              std::string (*check)(const Signature &) = checkArithmetic) {
  return entry(name, "lhs rhs -> result+", summary, formula, flopsPerResult, check);
}

Kernel unary(std::string_view name, std::string_view formula,
             std::string (*check)(const Signature &) = checkFloatUnary) {
  return entry(name, "operand -> result+", "Elementwise function of one operand.", formula, flopsPerResult, check);
}

std::vector<Kernel> binaries() {
  std::string_view text = "Elementwise, operands broadcast as NumPy's do.";
  return {binary("add", text, "lhs + rhs"),
          binary("sub", text, "lhs - rhs"),
          binary("mul", text, "lhs * rhs"),
          binary("div", text, "lhs / rhs; integers truncate, and x / 0 = 0"),
          binary("pow", text, "lhs ^ rhs"),
          binary("maximum", text, "max(lhs, rhs); NaN if either is"),
          binary("minimum", text, "min(lhs, rhs); NaN if either is"),
          binary("mod", text, "lhs - rhs * floor(lhs / rhs); integers: x mod 0 = 0"),
          binary("and", text, "lhs and rhs, bit by bit for integers", checkLogical),
          binary("or", text, "lhs or rhs, bit by bit for integers", checkLogical),
          binary("xor", text, "lhs xor rhs, bit by bit for integers", checkLogical),
          entry("compare", "lhs rhs -> result", "Comparison, operands broadcast as NumPy's do.", "lhs predicate rhs",
                flopsPerResult, checkCompare, {.attributes = kPredicate}),
          entry("select", "condition lhs rhs -> result+", "Choice, all operands broadcast as NumPy's do.",
                "condition ? lhs : rhs", flopsPerResult, checkSelect)};
}

std::vector<Kernel> unaries() {
  return {unary("neg", "-x", checkUnary),
          unary("abs", "|x|", checkUnary),
          unary("sign", "-1, 0 or 1 as x is below, at or above 0", checkUnary),
          unary("exp", "e^x"),
          unary("log", "ln x"),
          unary("sqrt", "x^(1/2)"),
          unary("rsqrt", "x^(-1/2)"),
          unary("reciprocal", "1 / x"),
          unary("tanh", "tanh x"),
          unary("sigmoid", "1 / (1 + e^-x)"),
          unary("softplus", "ln(1 + e^x)"),
          unary("erf", "2 / sqrt(pi) * integral of e^(-t^2) from 0 to x"),
          unary("sin", "sin x"),
          unary("cos", "cos x"),
          unary("atan", "the angle between -pi/2 and pi/2 whose tangent is x"),
          unary("floor", "the largest integer not above x", checkUnary),
          unary("ceil", "the smallest integer not below x", checkUnary),
          unary("round", "the nearest integer, halves to even", checkUnary),
          unary("relu", "max(x, 0)", checkUnary),
          unary("silu", "x / (1 + e^-x)"),
          unary("not", "not x", checkNot),
          entry("is_nan", "operand -> result", "Elementwise test.", "x is not a number", flopsPerResult, checkIsNan)};
}

std::vector<Kernel> activations() {
  return {entry("gelu", "operand -> result+", "Gaussian error linear unit.",
                "erf: x * (1 + erf(x / sqrt 2)) / 2; tanh: x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2; "
                "sigmoid: x / (1 + e^(-1.702 x)). Hendrycks and Gimpel, arXiv 1606.08415",
                flopsPerResult, checkFloatUnary, {.attributes = kForm}),
          entry("activation_grad", "operand gradient -> result+", "Gradient of an activation, from its operand.",
                "f'(x) * gradient", flopsPerResult, checkThree, {.attributes = kActivation}),
          entry("gated_product", "gate up -> result+", "What gated feed-forward layers compute between their products.",
                "f(gate) * up. Shazeer, arXiv 2002.05202", flopsPerResult, checkThree, {.attributes = kGate}),
          entry("gated_product_grad", "gate up gradient -> dgate+ dup+",
                "Gradients of both factors of a gated product.",
                "dgate = f'(gate) * up * gradient; dup = f(gate) * gradient", flopsPerResult, checkGatedGrad,
                {.attributes = kGate})};
}

constexpr AttributeSpec kExpression[] = {
    {"expression", Kind::expression, true, {}, "the calls and, after ->, which values are written"}};
constexpr AttributeSpec kSummed[] = {{"expression",
                                      Kind::expression,
                                      true,
                                      {},
                                      "the calls and, after ->, which values are written, then those that are summed"},
                                     {"sums", Kind::integer, true, {}, "how many are summed"},
                                     {"kind", Kind::choice, true, "sum|mean", "what is made of those"},
                                     {"axes", Kind::integers, true, {}, "dimensions that are summed, ascending"}};

double elementsOf(const Dims &dims) { return static_cast<double>(OperandType{.dims = dims}.elements()); }

double expressionFlops(const Signature &call) {
  const std::vector<Instruction> instructions = expressionOf(call).instructions;
  const auto calls = std::ranges::count_if(instructions, [](const Instruction &one) { return one.kernel != kConstant; });
  return static_cast<double>(calls + call.integer("sums")) * elementsOf(domainOf(call));
}

/// What parts of every sum come to, in 64 bits, as of `reduce`.
uint64_t sumsWorkspace(const Signature &call) {
  return static_cast<uint64_t>(call.integer("sums")) * reducePartBytes(domainOf(call), call.integers("axes"));
}
uint64_t noWorkspace(const Signature &) { return 0; }

/// What is moved, and what is computed: functions that are no single instruction of a processor count for several.
std::vector<double> expressionExtents(const Signature &call) {
  constexpr double kLong = 8;
  constexpr std::string_view kShort[] = {"add", "sub",     "mul",     "neg",    "abs",  "maximum", "minimum", "and", "or",   "xor",
                                         "not", "compare", "select",  "relu",   "cast", "floor",   "ceil",    "round", "sign", "is_nan"};
  double work = 0;
  for (const Instruction &one : expressionOf(call).instructions)
    work += one.kernel == kConstant ? 0 : std::ranges::find(kShort, one.kernel) != std::end(kShort) ? 1 : kLong;
  return {traffic(call), work * elementsOf(domainOf(call))};
}

} // namespace

std::span<const Kernel> elementwiseKernels() {
  static const std::vector<Kernel> kernels = [] {
    std::vector<Kernel> all = binaries();
    for (const auto &family : {unaries(), activations()})
      all.insert(all.end(), family.begin(), family.end());
    return all;
  }();
  return kernels;
}

std::span<const Kernel> expressionKernels() {
  static const std::vector<Kernel> kernels = {
      entry("elementwise", "inputs* -> results*+",
            "Several elementwise calls in one pass over memory; inputs broadcast as NumPy's do.",
            "values are numbered, inputs first; `mul 0 1:f32, silu 2:f32 -> 3` is a product and what silu makes of it, "
            "which "
            "is written. Each value is rounded to its type: the bits are those of the calls one after another",
            expressionFlops, checkExpression, {.attributes = kExpression, .extents = expressionExtents}),
      entry(kSums, "inputs* -> results*+",
            "Several elementwise calls, and sums of some of their results, in one pass over memory.",
            "as elementwise computes them, and as reduce sums: the bits are those of the calls one after another; sums "
            "are f32",
            expressionFlops, checkExpression,
            {.attributes = kSummed,
             .workspace = sumsWorkspace,
             .cudaWorkspace = noWorkspace,
             .extents = expressionExtents})};
  return kernels;
}

} // namespace mt::kernels
