// The catalogue: its checks refuse what a damaged plan could hold, its numbers are right, its page is fresh.
#include "kernels/Reference.h"
#include "kernels/Samples.h"
#include "kernels/SignatureText.h"
#include "kernels/cpu/CpuKernels.h"
#include "kernels/cpu/ThreadPool.h"
#include "tests/kernels/Harness.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace mt::kernels::test {
namespace {

OperandType in(Dims dims, DType type = DType::f32) { return {type, std::move(dims), Effect::read, true}; }
OperandType out(Dims dims, DType type = DType::f32) { return {type, std::move(dims), Effect::write, true}; }
OperandType updated(Dims dims, DType type = DType::f32) { return {type, std::move(dims), Effect::update, true}; }
OperandType none(Effect effect = Effect::read) { return {DType::f32, {}, effect, false}; }
OperandType scratch(int64_t bytes) { return {DType::u8, {bytes}, Effect::scratch, true}; }

struct Refusal {
  Signature call;
  const char *message;
};

const OperandType kStep = in({Scalars::kCount}, DType::f64);

Attributes windowOf(std::vector<int64_t> strides, std::vector<int64_t> pads) {
  return {{"strides", strides}, {"dilations", std::vector<int64_t>{1}}, {"low", pads}, {"high", pads}};
}
Attributes poolOf(const char *kind) {
  Attributes attributes = windowOf({1}, {0});
  attributes["kind"] = std::string(kind);
  attributes["size"] = std::vector<int64_t>{3};
  return attributes;
}

/// A call of one operand and one result.
Signature summed(std::string expression, int64_t sums, std::vector<int64_t> axes, OperandType sum) {
  return {
      "elementwise_sums",
      {{"expression", std::move(expression)}, {"sums", sums}, {"kind", std::string("sum")}, {"axes", std::move(axes)}},
      {in({2, 3}), out({2, 3}), std::move(sum)}};
}
Signature fused(std::string expression) { return {"elementwise", {{"expression", std::move(expression)}}, {in({2}), out({2})}}; }
std::string many(int instructions) {
  std::string text = "exp 0:f32";
  for (int i = 1; i < instructions; ++i)
    text += fmt::format(", exp {}:f32", i);
  return text + " -> 1";
}

const Refusal kRefusals[] = {
    {{"frobnicate", {}, {}}, "unknown kernel \"frobnicate\""},
    {{"add", {}, {in({2}), in({2})}}, "add: 2 operands, want 3"},
    {fused(""), "elementwise: the expression has no results: they follow an arrow ->"},
    {fused(" -> 1"), "elementwise: the expression's results are no values"},
    {fused("mul 0 0:f32 -> 1 x"), "elementwise: the expression's results are no values"},
    {fused("mul 0 0 -> 1"), "elementwise: 'mul 0 0' is no instruction; one is written as mul 0 1:f32"},
    {fused("mul 0 y:f32 -> 1"), "elementwise: 'mul 0 y:f32' has operands that are no numbers"},
    {fused("matmul 0 0:f32 -> 1"), "elementwise: \"matmul\" is no elementwise kernel"},
    {fused("elementwise 0:f32 -> 1"), "elementwise: \"elementwise\" is no elementwise kernel"},
    {summed("neg 0:f32 -> 1 1", 0, {0}, out({3})),
     "elementwise_sums: attribute sums must be at least 1 and at most the number of results, 2"},
    {summed("neg 0:f32 -> 1 1", 3, {0}, out({3})),
     "elementwise_sums: attribute sums must be at least 1 and at most the number of results, 2"},
    {summed("neg 0:f32 -> 1 1", 1, {}, out({3})),
     "elementwise_sums: attribute axes must name dimensions of [2, 3] in ascending order"},
    {summed("neg 0:f32 -> 1 1", 1, {2}, out({3})),
     "elementwise_sums: attribute axes must name dimensions of [2, 3] in ascending order"},
    {summed("neg 0:f32 -> 1 1", 1, {1, 0}, out({})),
     "elementwise_sums: attribute axes must name dimensions of [2, 3] in ascending order"},
    {summed("neg 0:f32 -> 1 1", 1, {0}, out({2})), "elementwise_sums: result 1 must be f32[3]"},
    {summed("neg 0:f32 -> 1 1", 1, {1}, out({2}, DType::bf16)), "elementwise_sums: result 1 must be f32[2]"},
    {summed("neg 0:f32, cast 0:i32 -> 1 2", 1, {1}, out({2}, DType::i32)),
     "elementwise_sums: a sum of i32: values that are summed are f32 or bf16"},
    {{"elementwise_sums",
      {{"expression", std::string("mul 0 1:f32 -> 2")},
       {"sums", int64_t{1}},
       {"kind", std::string("sum")},
       {"axes", std::vector<int64_t>{0}}},
      {in({2, 1}), in({1, 3}), out({3})}},
     "elementwise_sums: no operand has all elements that are summed, [2, 3]: sums of what is repeated have no bound"},
    {summed("neg 0:f32 -> 1 0", 1, {0}, out({3})),
     "elementwise_sums: the expression names 2 results, for 2 operands: each another value that it computes"},
    {fused("mul 0 1:f32 -> 1"), "elementwise: mul takes value 1, of 1 before it"},
    {fused("mul 0:f32 -> 1"), "elementwise: mul: 2 operands, want 3"},
    {fused("mul.erf 0 0:f32 -> 1"), "elementwise: mul has no choice of functions"},
    {fused("gelu.erg 0:f32 -> 1"), "elementwise: gelu: attribute form must be one of erf|tanh|sigmoid"},
    {fused("exp 0:bf16 -> 1"), "elementwise: exp: operand 1 (result) is bf16, want f32"},
    {fused("constant 0.5:i64, cast 0:f32 -> 2"), "elementwise: a constant of type i64 cannot be 0.5"},
    {fused("constant -1:u8, cast 0:f32 -> 2"), "elementwise: a constant of type u8 cannot be -1"},
    {fused("constant -129:i8, cast 0:f32 -> 2"), "elementwise: a constant of type i8 cannot be -129"},
    {fused("constant 128:i8, cast 0:f32 -> 2"), "elementwise: a constant of type i8 cannot be 128"},
    {fused("constant 1e300:f32, cast 0:f32 -> 2"), "elementwise: a constant of type f32 cannot be 1e+300"},
    {fused("exp 0:f32 -> 0"),
     "elementwise: the expression names 1 results, for 1 operands: each another value that it computes"},
    {fused("constant 1:f32 -> 1"),
     "elementwise: the expression names 1 results, for 1 operands: each another value that it computes"},
    {fused("exp 0:f32 -> 1 1"),
     "elementwise: the expression names 2 results, for 1 operands: each another value that it computes"},
    {fused("cast 0:bf16 -> 1"), "elementwise: result 0 must be bf16[2]"},
    {fused(many(33)), "elementwise: the expression has more than 32 instructions"},
    {{"elementwise", {{"expression", std::string("exp 0:f32 -> 1")}}, {in({3}), out({2})}},
     "elementwise: operand 0 (inputs) is [3], which does not broadcast to [2]"},
    {{"elementwise",
      {{"expression", std::string("exp 0:f32 -> 13")}},
      {in({}), in({}), in({}), in({}), in({}), in({}), in({}), in({}), in({}), in({}), in({}), in({}), in({}),
       out({})}},
     "elementwise: 13 operands and 1 results; 12 and 6 are the most"},
    {{"elementwise", {{"expression", int64_t{1}}}, {in({2}), out({2})}},
     "elementwise: attribute expression must be text"},
    {{"add", {}, {in({2}), in({3}), out({3})}}, "add: the operands' dimensions do not broadcast"},
    {{"add", {}, {in({2}), in({2}), out({3})}}, "add: operand 2 (result) is [3], want [2]"},
    {{"add", {}, {in({2}), in({2}, DType::f64), out({2})}}, "add: operand 1 (rhs) is f64, want f32"},
    {{"add", {}, {in({2}), in({2}), in({2})}}, "add: operand 2 (result) has the wrong effect"},
    {{"add", {}, {in({2}), none(), out({2})}}, "add: operand 1 (rhs) is missing"},
    {{"add", {}, {in({0}), in({2}), out({2})}}, "add: operand 0 (lhs) is [0]: every dimension must be at least 1"},
    {{"add", {}, {in({-2}), in({2}), out({2})}}, "add: operand 0 (lhs) is [-2]: every dimension must be at least 1"},
    {{"add", {}, {in({1l << 40, 1l << 40}), in({2}), out({2})}},
     "add: operand 0 (lhs) is [1099511627776, 1099511627776]: too many elements"},
    {{"add", {}, {in(Dims(13, 1)), in({2}), out({2})}},
     "add: operand 0 (lhs) has 13 dimensions, at most 12 are possible"},
    {{"add", {}, {in({2}, static_cast<DType>(77)), in({2}), out({2})}},
     "add: operand 0 (lhs) has an unknown element type"},
    {{"add", {{"speed", int64_t{1}}}, {in({2}), in({2}), out({2})}}, "add: unknown attribute speed"},
    {{"exp", {}, {in({2}, DType::i64), out({2}, DType::i64)}},
     "exp: operand 0 (operand) is i64, want a floating-point type"},
    {{"and", {}, {in({2}), in({2}), out({2})}}, "and: floating-point operands have no logic"},
    {{"compare", {}, {in({2}), in({2}), out({2}, DType::boolean)}}, "compare: attribute predicate is missing"},
    {{"compare", {{"predicate", std::string("eq|ne")}}, {in({2}), in({2}), out({2}, DType::boolean)}},
     "compare: attribute predicate must be one of eq|ne|lt|le|gt|ge"},
    {{"compare", {{"predicate", int64_t{1}}}, {in({2}), in({2}), out({2}, DType::boolean)}},
     "compare: attribute predicate must be one of eq|ne|lt|le|gt|ge"},
    {{"transpose", {{"permutation", std::vector<int64_t>{0, 0}}}, {in({2, 3}), out({2, 2})}},
     "transpose: attribute permutation must name every dimension once"},
    {{"slice",
      {{"starts", std::vector<int64_t>{1}},
       {"sizes", std::vector<int64_t>{2}},
       {"strides", std::vector<int64_t>{INT64_MAX}}},
      {in({9}), out({2})}},
     "slice: the slice leaves dimension 0 of [9]"},
    {{"slice",
      {{"starts", std::vector<int64_t>{1}}, {"sizes", std::vector<int64_t>{3}}, {"strides", std::vector<int64_t>{-1}}},
      {in({9}), out({3})}},
     "slice: the slice leaves dimension 0 of [9]"},
    {{"pad",
      {{"low", std::vector<int64_t>{-1}}, {"high", std::vector<int64_t>{0}}, {"interior", std::vector<int64_t>{0}}},
      {in({9}), out({8})}},
     "pad: the padding of dimension 0 is negative or too large"},
    {{"concat", {{"axis", int64_t{1}}}, {in({2, 3}), in({3, 3}), out({2, 6})}},
     "concat: the inputs must agree in every dimension but the axis"},
    {{"concat", {{"axis", int64_t{0}}}, {out({2, 6})}}, "concat: 1 operands, want at least 2"},
    {{"reduce",
      {{"kind", std::string("sum")}, {"axes", std::vector<int64_t>{1, 0}}, {"keepDims", int64_t{0}}},
      {in({2, 3}), out({})}},
     "reduce: attribute axes must name dimensions of the operand in ascending order"},
    {{"reduce",
      {{"kind", std::string("sum")}, {"axes", std::vector<int64_t>{0}}, {"keepDims", int64_t{2}}},
      {in({2, 3}), out({3})}},
     "reduce: attribute keepDims must be 0 or 1"},
    {{"gather", {{"axis", int64_t{2}}}, {in({2, 3}), in({1}, DType::i64), out({2, 3})}},
     "gather: attribute axis is no dimension of the data"},
    {{"embedding", {}, {in({5, 3}), in({2}), out({2, 3})}}, "embedding: operand 1 (ids) is f32, want i64 or i32"},
    {{"scatter", {{"axis", int64_t{1}}}, {in({5}), in({2}, DType::i64), in({2}), out({5})}},
     "scatter: attribute axis is no dimension of the data"},
    {{"scatter_elements", {{"axis", int64_t{0}}}, {in({5, 2}), in({2, 3}, DType::i64), in({2, 3}), out({5, 2})}},
     "scatter_elements: the indices exceed the data in dimension 1"},
    {{"scatter_elements", {{"axis", int64_t{0}}}, {in({5}), in({2, 3}, DType::i64), in({2, 3}), out({5})}},
     "scatter_elements: attribute axis is no dimension of the data, or the indices have another number of dimensions"},
    {{"dequantize", {{"bits", int64_t{3}}}, {in({2}, DType::u8), in({}), none(), out({5})}},
     "dequantize: attribute bits must be 2, 4 or 8"},
    {{"dequantize", {{"bits", int64_t{4}}}, {in({2}, DType::i64), in({}), none(), out({4})}},
     "dequantize: the values must be bytes"},
    {{"dequantize", {{"bits", int64_t{4}}}, {in({2}, DType::u8), in({}), none(), out({4}, DType::f64)}},
     "dequantize: scales, zeros and result must be floats of at most 32 bits"},
    {{"dequantize",
      {{"bits", int64_t{4}}, {"axis", int64_t{1}}, {"block", int64_t{2}}},
      {in({8}, DType::u8), in({4, 3}), none(), out({4, 4})}},
     "dequantize: the scales must be one, one for each block along axis, or one for each block of every line along it"},
    {{"dequantize", {{"bits", int64_t{4}}}, {in({2}, DType::u8), in({}), none(), out({5})}},
     "dequantize: the values must be as many bytes as the result needs"},
    {{"dequantize",
      {{"bits", int64_t{2}}, {"levels", std::vector<double>(16)}},
      {in({2}, DType::u8), in({}), none(), out({8})}},
     "dequantize: there must be a level for each value of 2 or 4 bits"},
    {{"dequantize",
      {{"bits", int64_t{8}}, {"levels", std::vector<double>(256)}},
      {in({2}, DType::u8), in({}), none(), out({2})}},
     "dequantize: there must be a level for each value of 2 or 4 bits"},
    {{"dequantize",
      {{"bits", int64_t{2}}, {"zero", int64_t{1}}, {"levels", std::vector<double>(4)}},
      {in({2}, DType::u8), in({}), none(), out({8})}},
     "dequantize: values with levels have no sign and no zero"},
    {{"dequantize",
      {{"bits", int64_t{2}}, {"levels", std::vector<double>{0, 1, 2, HUGE_VAL}}},
      {in({2}, DType::u8), in({}), none(), out({8})}},
     "dequantize: the levels must be finite"},
    {{"top_k", {{"k", int64_t{4}}}, {in({2, 3}), out({2, 4}, DType::i64)}},
     "top_k: attribute k must be 1 to the size of the last dimension"},
    {{"expert_matmul", {}, {in({2, 3}), in({4, 5, 6}), in({2}, DType::i64), out({2, 6})}},
     "expert_matmul: rows [2, 3] and matrices [4, 5, 6] do not fit"},
    {{"expert_matmul_grad", {}, {in({2, 6}), in({2, 3}), in({2}, DType::i64), none(Effect::write)}},
     "expert_matmul_grad: the result is missing"},
    {{"conv", windowOf({1}, {0}), {in({1, 3, 8}), in({4, 2, 3}), none(), out({1, 4, 6})}},
     "conv: a kernel [4, 2, 3] in 1 groups does not lead from images [1, 3, 8] to [1, 4, 6]"},
    {{"conv", windowOf({1}, {0}), {in({1, 2, 8}), in({4, 2, 3}), none(), out({1, 4, 7})}},
     "conv: windows over 8 elements of dimension 0 do not give 7"},
    {{"conv", windowOf({0}, {0}), {in({1, 2, 8}), in({4, 2, 3}), none(), out({1, 4, 6})}},
     "conv: the window of dimension 0 has no size, or one beyond all bounds"},
    {{"conv", windowOf({1, 1}, {0}), {in({1, 2, 8}), in({4, 2, 3}), none(), out({1, 4, 6})}},
     "conv: windows have one to three dimensions, with one size, stride, dilation and pad for each"},
    {{"conv_data_grad", windowOf({1}, {0}), {in({2, 4, 6}), in({4, 2, 3}), out({1, 2, 8})}},
     "conv_data_grad: images and results differ in their number"},
    {{"conv_weight_grad", windowOf({1}, {0}), {in({1, 4, 6}), in({1, 2, 8}), none(Effect::write)}},
     "conv_weight_grad: image, kernel and result must be there"},
    {{"pool", poolOf("max"), {in({1, 2, 8}), out({1, 3, 6})}}, "pool: images [1, 2, 8] do not pool to [1, 3, 6]"},
    {{"pool_grad", poolOf("sum"), {in({1, 2, 6}), in({1, 2, 8}), out({1, 2, 8})}},
     "pool_grad: the operand is there for max alone"},
    {{"pool_grad", poolOf("max"), {in({1, 2, 6}), in({1, 2, 8}), none(Effect::write)}},
     "pool_grad: the result is missing"},
    {{"matmul", {}, {in({2, 3}), in({4, 5}), none(), out({2, 5})}},
     "matmul: lhs [2, 3] and rhs [4, 5] do not agree in the summed dimension"},
    {{"matmul", {}, {in({2, 2, 3}), in({3, 3, 5}), none(), out({2, 2, 5})}},
     "matmul: lhs [2, 2, 3] and rhs [3, 3, 5] do not agree in the batch dimensions"},
    {{"matmul", {}, {in({2, 3}), in({3, 5}), in({4}), out({2, 5})}}, "matmul: operand 2 (bias) is [4], want [5]"},
    {{"matmul", {}, {in({3}), in({3, 5}), none(), out({5})}}, "matmul: lhs and rhs need at least two dimensions"},
    {{"layer_norm", {{"epsilon", 1e-5}}, {in({2, 3}), in({2}), none(), out({2, 3}), out({2}), out({2})}},
     "layer_norm: gain, bias and their gradients must have the size of the last dimension"},
    {{"layer_norm", {{"epsilon", 1e-5}}, {in({}), none(), none(), out({}), out({}), out({})}},
     "layer_norm: the operand needs a dimension"},
    {{"recurrence",
      {{"kind", std::string("gru")}},
      {in({2, 2, 9}), in({8, 3}), none(), none(), none(), none(), none(), out({2, 2, 3}), none(Effect::write)}},
     "recurrence: weight must have a row for each gate and column"},
    {{"recurrence",
      {{"kind", std::string("gru")}},
      {in({2, 2, 8}), in({9, 3}), none(), none(), none(), none(), none(), out({2, 2, 3}), none(Effect::write)}},
     "recurrence: operand 0 (gates) is [2, 2, 8], want [2, 2, 9]"},
    {{"recurrence",
      {{"kind", std::string("rnn")}},
      {in({2, 2, 3}), in({3, 3}), none(), none(), none(), none(), in({9}), out({2, 2, 3}), none(Effect::write)}},
     "recurrence: only lstm has a peephole"},
    {{"recurrence",
      {{"kind", std::string("rnn")}, {"coupled", int64_t{1}}},
      {in({2, 2, 3}), in({3, 3}), none(), none(), none(), none(), none(), out({2, 2, 3}), none(Effect::write)}},
     "recurrence: only lstm couples gates"},
    {{"recurrence",
      {{"kind", std::string("rnn")}, {"linearBeforeReset", int64_t{1}}},
      {in({2, 2, 3}), in({3, 3}), none(), none(), none(), none(), none(), out({2, 2, 3}), none(Effect::write)}},
     "recurrence: only gru has a reset gate"},
    {{"recurrence",
      {{"kind", std::string("rnn")}, {"clip", -1.0}},
      {in({2, 2, 3}), in({3, 3}), none(), none(), none(), none(), none(), out({2, 2, 3}), none(Effect::write)}},
     "recurrence: attribute clip must not be negative"},
    {{"recurrence",
      {{"kind", std::string("rnn")}},
      {in({2, 2, 3}), in({3, 3}), none(), none(), none(), none(), none(), out({2, 2, 3}), out({2, 2, 3})}},
     "recurrence: only lstm has cells"},
    {{"recurrence",
      {{"kind", std::string("rnn")}},
      {in({2, 2, 3}), in({3, 3}), none(), none(), none(), in({3}, DType::i64), none(), out({2, 2, 3}),
       none(Effect::write)}},
     "recurrence: operand 5 (lengths) is [3], want [2]"},
    {{"recurrence_grad",
      {{"kind", std::string("lstm")}},
      {in({2, 2, 3}), none(), in({2, 2, 12}), in({2, 2, 12}), in({12, 3}), in({2, 2, 3}), none(), none(), none(),
       out({2, 2, 12}), none(Effect::write), none(Effect::write), none(Effect::write)}},
     "recurrence_grad: lstm, and nothing else, needs the cells before each step"},
    {{"recurrence_grad",
      {{"kind", std::string("rnn")}},
      {in({2, 2, 3}), none(), in({2, 2, 3}), in({2, 2, 3}), in({3, 3}), in({2, 2, 3}), none(), none(), none(),
       out({2, 2, 3}), none(Effect::write), none(Effect::write), out({2, 3})}},
     "recurrence_grad: only lstm has cells"},
    {{"softmax", {}, {in({2, 3}), out({3, 2})}}, "softmax: operand 1 (result) is [3, 2], want [2, 3]"},
    {{"squared_norm", {}, {in({5}), out({1}, DType::f64), in({8}, DType::u8)}}, "squared_norm: 3 operands, want 2"},
    {{"squared_norm", {}, {in({5}), out({1}, DType::f64), {DType::f32, {8}, Effect::scratch, true}}},
     "squared_norm: scratch must be u8 of one dimension"},
    {{"dropout", {{"ratio", 1.5}}, {in({4, 5}), none(), kStep, in({}, DType::i64), out({4, 5})}},
     "dropout: attribute ratio must be between 0 and 1"},
    {{"dropout", {{"ratio", 0.5}}, {in({4, 5}), in({3}, DType::i64), kStep, in({}, DType::i64), out({4, 5})}},
     "dropout: the elements are not so many for each row"},
    {{"dropout", {{"ratio", 0.5}}, {in({4, 5}), in({4}, DType::i32), kStep, in({}, DType::i64), out({4, 5})}},
     "dropout: operand 1 (rows) is i32, want i64"},
    {{"random",
      {{"kind", std::string("normal")}, {"outer", int64_t{0}}},
      {none(), kStep, in({}, DType::i64), out({4, 5})}},
     "random: attribute outer must be positive"},
    {{"random", {{"kind", std::string("normal")}}, {none(), kStep, in({1}, DType::i64), out({4, 5})}},
     "random: operand 2 (node) is [1], want []"},
    {{"random", {{"kind", std::string("normal")}}, {none(), kStep, in({}, DType::i64), out({4, 5}, DType::i64)}},
     "random: operand 3 (result) is i64, want a floating-point type"},
    {{"cross_entropy", {}, {in({4, 5}), in({3}, DType::i64), kStep, out({}), scratch(64)}},
     "cross_entropy: operand 1 (labels) is [3], want [4]"},
    {{"cross_entropy", {}, {in({4, 5}), in({4}, DType::i64), in({3}, DType::f64), out({}), scratch(64)}},
     "cross_entropy: operand 2 (scalars) is [3], want [16]"},
    {{"linear_cross_entropy",
      {{"chunk", int64_t{-1}}},
      {in({4, 8}), in({5, 8}), none(), in({4}, DType::i64), kStep, out({}), scratch(64)}},
     "linear_cross_entropy: attribute chunk must not be negative"},
    {{"cross_entropy", {{"labelSmoothing", 1.5}}, {in({4, 5}), in({4}, DType::i64), kStep, out({}), scratch(64)}},
     "cross_entropy: attribute labelSmoothing must be from 0 to 1"},
    {{"linear_cross_entropy",
      {{"zLoss", -1.0}},
      {in({4, 8}), in({5, 8}), none(), in({4}, DType::i64), kStep, out({}), scratch(64)}},
     "linear_cross_entropy: attribute zLoss must be finite and not negative"},
    {{"attention",
      {{"scale", 1.0}},
      {in({1, 4, 3, 8}), in({1, 4, 2, 8}), in({1, 4, 2, 8}), none(), none(), none(), none(), none(), none(), none(),
       out({1, 4, 3, 8}), out({1, 3, 4})}},
     "attention: the query's heads must be a multiple of the key's"},
    {{"attention",
      {{"scale", 1.0}},
      {in({1, 4, 2, 8}), in({1, 4, 2, 8}), in({1, 4, 2, 8}), none(), none(), in({1, 4}, DType::i64), none(), none(),
       none(), none(), out({1, 4, 2, 8}), out({1, 2, 4})}},
     "attention: segments need both sides"},
    {{"attention",
      {{"scale", 1.0}, {"minDistance", int64_t{3}}, {"maxDistance", int64_t{1}}},
      {in({1, 4, 2, 8}), in({1, 4, 2, 8}), in({1, 4, 2, 8}), none(), none(), none(), none(), none(), none(), none(),
       out({1, 4, 2, 8}), out({1, 2, 4})}},
     "attention: attribute minDistance exceeds maxDistance"},
    {{"attention",
      {{"scale", 1.0}},
      {in({1, 4, 2, 8}), in({1, 4, 2, 8}), in({1, 4, 2, 8}), none(), none(), none(), none(), in({4}, DType::i64),
       in({4}, DType::i64), none(), out({1, 4, 2, 8}), out({1, 2, 4})}},
     "attention: places need both sides and a bias"},
    {{"attention",
      {{"scale", 1.0}, {"dilation", int64_t{0}}},
      {in({1, 4, 2, 8}), in({1, 4, 2, 8}), in({1, 4, 2, 8}), none(), none(), none(), none(), none(), none(), none(),
       out({1, 4, 2, 8}), out({1, 2, 4})}},
     "attention: attribute dilation must be positive"},
    {{"attention",
      {{"scale", 1.0}, {"segmentBias", 1.0}},
      {in({1, 4, 2, 8}), in({1, 4, 2, 8}), in({1, 4, 2, 8}), none(), none(), none(), none(), none(), none(), none(),
       out({1, 4, 2, 8}), out({1, 2, 4})}},
     "attention: attribute segmentBias must not be positive"},
    {{"attention_grad",
      {{"scale", 1.0}},
      {in({1, 4, 2, 8}), in({1, 4, 2, 8}), in({1, 4, 2, 8}), in({1, 4, 2, 8}), none(), none(), none(), none(), none(),
       none(), none(), in({1, 4, 2, 8}), in({1, 2, 4}), out({1, 4, 2, 8}), out({1, 4, 2, 8}), out({1, 4, 2, 8}),
       none(Effect::write), out({2})}},
     "attention_grad: dsink without a sink"},
    {{"rotary", {}, {in({1, 4, 2, 8}), in({1, 4, 5}), in({1, 4, 5}), out({1, 4, 2, 8})}},
     "rotary: cos and sin must be [batch or 1, sequence, at most half the head]"},
    {{"adamw", {{"parameter", int64_t{0}}}, {in({2}), in({1}, DType::f64), kStep, out({2}), out({2}), out({2})}},
     "adamw: 5 operands, want 6, and an average or none"},
    {{"adamw",
      {{"parameter", int64_t{0}}},
      {in({2}), in({1}, DType::f64), kStep, out({2}), updated({2}), updated({2})}},
     "adamw: it updates what it does not read"},
    {{"adamw", {}, {}}, "adamw: attribute parameter is missing"},
    {{"sgd",
      {{"parameter", int64_t{0}}},
      {in({2}), in({1}, DType::f64), kStep, updated({2}), updated({2}), updated({2}), updated({2})}},
     "sgd: 7 operands, want 5, and an average or none"},
    {{"adamw_split",
      {{"parameter", int64_t{0}}},
      {in({2}), in({1}, DType::f64), kStep, updated({2}), updated({2}, DType::i16), updated({2}), updated({2})}},
     "adamw_split: operand 3 (weight) is f32, want bf16"},
    {{"sgd_split",
      {{"parameter", int64_t{0}}},
      {in({2}), in({1}, DType::f64), kStep, updated({2}, DType::bf16), updated({3}, DType::i16), updated({2})}},
     "sgd_split: operand 4 (remainder) is [3], want [2]"},
    {{"sgd_split",
      {{"parameter", int64_t{0}}},
      {in({2}), in({1}, DType::f64), kStep, updated({2}, DType::bf16), updated({2}, DType::bf16), updated({2})}},
     "sgd_split: operand 4 (remainder) is bf16, want i16"},
    {{"pairwise_sum", {}, {in({2}), in({3}), updated({2})}}, "pairwise_sum: operand 1 (terms) is [3], want [2]"},
    {{"pairwise_sum", {}, {in({2}), updated({2}, DType::f64)}}, "pairwise_sum: operand 1 (sum) is f64, want f32"},
    {{"tree_sum", {}, {out({2})}}, "tree_sum: 1 operands, want at least 2"},
    {{"tree_sum", {}, {in({2}), {DType::f32, {2}, Effect::write, false}}}, "tree_sum: its sum has no place"},
    {{"tree_sum", {}, {in({2}, DType::f16), out({2})}}, "tree_sum: terms are neither f32 nor bf16"},
    {{"tree_sum", {}, {in({2}), in({2}, DType::bf16), out({2})}}, "tree_sum: operand 1 (terms) is bf16, want f32"},
    {{"tree_sum", {}, {in({2}, DType::bf16), out({2}, DType::bf16)}}, "tree_sum: operand 1 (sum) is bf16, want f32"},
    {{"matmul", {}, {in({2, 3}, DType::bf16), in({3, 5}), none(), out({2, 5})}},
     "matmul: operand 1 (rhs) is f32, want bf16"},
    {{"matmul", {}, {in({2, 3}), in({3, 5}), none(), out({2, 5}, DType::bf16)}},
     "matmul: operand 3 (result) is bf16, want f32"},
    {{"softmax", {}, {in({2, 3}, DType::bf16), out({2, 3}, DType::f16)}},
     "softmax: operand 1 (result) is f16, want bf16 or f32"},
    {{"rms_norm", {{"epsilon", 1e-5}}, {in({2, 3}), none(), out({2, 3}, DType::f64), out({2})}},
     "rms_norm: operand 2 (result) is f64, want f32 or bf16"},
    {{"rms_norm", {{"epsilon", 1e-5}}, {in({2, 3}), none(), out({2, 3}), out({2}, DType::bf16)}},
     "rms_norm: operand 3 (rstd) is bf16, want f32"},
    {{"reduce",
      {{"kind", std::string("max")}, {"axes", std::vector<int64_t>{0}}, {"keepDims", int64_t{0}}},
      {in({2, 3}, DType::bf16), out({3})}},
     "reduce: operand 1 (result) is f32, want bf16"},
    {{"embedding_grad", {}, {in({4}, DType::i64), in({4, 3}), out({9, 3}, DType::bf16)}},
     "embedding_grad: operand 2 (result) is bf16, want f32"}};

const DType kNarrow = DType::bf16;

/// Calls that take or give two types at once.
const Signature kMixed[] = {
    {"matmul", {}, {in({2, 3}, kNarrow), in({3, 5}, kNarrow), in({5}), out({2, 5}, kNarrow)}},
    {"matmul", {}, {in({2, 3}, kNarrow), in({3, 5}, kNarrow), in({5}, kNarrow), out({2, 5})}},
    {"layer_norm",
     {{"epsilon", 1e-5}},
     {in({2, 3}, kNarrow), in({3}), in({3}, kNarrow), out({2, 3}), out({2}), out({2})}},
    {"layer_norm",
     {{"epsilon", 1e-5}},
     {in({2, 3}), in({3}, kNarrow), in({3}), out({2, 3}, kNarrow), out({2}), out({2})}},
    {"rms_norm_grad",
     {},
     {in({2, 3}), in({2, 3}, kNarrow), in({2}), in({3}, kNarrow), in({2, 3}, kNarrow), out({2, 3}, kNarrow), out({3}),
      scratch(24)}},
    {"recurrence",
     {{"kind", std::string("gru")}},
     {in({2, 2, 9}, kNarrow), in({9, 3}), in({9}, kNarrow), in({2, 3}), none(), none(), none(), out({2, 2, 3}),
      none(Effect::write), scratch(1)}},
    {"softmax", {}, {in({2, 3}, kNarrow), out({2, 3})}},
    {"softmax_grad", {}, {in({2, 3}), in({2, 3}), out({2, 3}, kNarrow)}},
    {"rotary", {}, {in({1, 4, 2, 8}, kNarrow), in({1, 4, 4}), in({1, 4, 4}), out({1, 4, 2, 8}, kNarrow)}},
    {"embedding_grad", {}, {in({4}, DType::i64), in({4, 3}, kNarrow), out({9, 3})}},
    {"reduce",
     {{"kind", std::string("mean")}, {"axes", std::vector<int64_t>{0}}, {"keepDims", int64_t{0}}},
     {in({2, 3}, kNarrow), out({3})}},
    {"linear_cross_entropy_grad",
     {},
     {in({4, 8}, kNarrow), in({5, 8}, kNarrow), in({5}), in({4}, DType::i64), kStep, out({}), out({4, 8}, kNarrow),
      out({5, 8}), out({5}), scratch(4 * 5 * 4 + 4 * 8)}},
    {"linear_cross_entropy_grad",
     {},
     {in({4, 8}, kNarrow), in({5, 8}, kNarrow), in({5}), in({4}, DType::i64), kStep, out({}), out({4, 8}, kNarrow),
      out({5, 8}, kNarrow), out({5}), scratch(4 * 5 * 4 + 4 * 8 + 5 * 8 * 4)}},
    {"adamw_split",
     {{"parameter", int64_t{0}}},
     {in({2}), in({1}, DType::f64), kStep, updated({2}, kNarrow), updated({2}, DType::i16), updated({2}),
      updated({2})}}};

TEST(Catalogue, TypesThatMayDiffer) {
  for (const Signature &call : kMixed)
    EXPECT_EQ(check(call), "");
}

TEST(Catalogue, Refusals) {
  for (const Refusal &refusal : kRefusals)
    EXPECT_EQ(check(refusal.call), refusal.message);
}

TEST(Catalogue, ScratchByBackend) {
  Signature norm{"squared_norm", {}, {in({5}), out({1}, DType::f64)}};
  EXPECT_EQ(check(norm), "");
  EXPECT_EQ(checkWorkspace(norm, Backend::cpu), "squared_norm: no scratch operand, want one of 8 bytes");
  norm.operands.push_back(scratch(7));
  EXPECT_EQ(check(norm), "");
  EXPECT_EQ(checkWorkspace(norm, Backend::cpu), "squared_norm: scratch has 7 bytes, want 8");
  EXPECT_EQ(cpu::prepare(norm).status().message(), "squared_norm: scratch has 7 bytes, want 8");
  norm.operands.back() = scratch(8);
  EXPECT_EQ(checkWorkspace(norm, Backend::cpu), "");
  Signature product{"matmul", {}, {in({2, 3}), in({3, 5}), none(), out({2, 5})}};
  EXPECT_EQ(checkWorkspace(product, Backend::cpu), "");
  EXPECT_EQ(checkWorkspace(product, Backend::cuda), "matmul: no scratch operand, want one of 1024 bytes");
}

/// No check may fall over, whatever operands and attributes a kernel is given.
TEST(Catalogue, ChecksSurviveAnything) {
  const OperandType odd[] = {in({}),
                             in({1}),
                             in({2, 3}, DType::i64),
                             in({1, 2, 3, 4}),
                             in({INT64_MAX, 2}),
                             none(),
                             out({2, 3}),
                             out({1, 2, 3, 4}),
                             none(Effect::write),
                             scratch(1),
                             in({Scalars::kCount}, DType::f64)};
  uint64_t state = 1;
  auto next = [&](size_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>(state >> 33) % below;
  };
  const Attribute values[] = {
      int64_t{1}, INT64_MIN, 0.5, std::string("sum"), std::vector<int64_t>{0, 1}, std::vector<int64_t>{}};
  for (const Kernel &kernel : all())
    for (int round = 0; round < 3000; ++round) {
      Signature call{std::string(kernel.name), {}, {}};
      size_t count = next(4) == 0
                         ? next(6)
                         : static_cast<size_t>(std::max(kernel.reads, 0) + std::max(kernel.writes, 0)) + next(2);
      for (size_t i = 0; i < count; ++i)
        call.operands.push_back(odd[next(std::size(odd))]);
      for (size_t i = 0; i < count && next(2) == 0; ++i) // sides as they should be, so that more is reached
        call.operands[i].effect = static_cast<int>(i) < kernel.reads ? Effect::read : Effect::write;
      for (const AttributeSpec &spec : kernel.attributes)
        if (next(4) != 0)
          call.attributes[std::string(spec.name)] = values[next(std::size(values))];
      if (check(call).empty())
        for (Backend backend : {Backend::cpu, Backend::cuda})
          (void)checkWorkspace(call, backend);
    }
}

TEST(Catalogue, Numbers) {
  Signature product{"matmul", {}, {in({4, 8, 16}), in({16, 32}), none(), out({4, 8, 32})}};
  EXPECT_EQ(check(product), "");
  EXPECT_EQ(flops(product), 2.0 * 4 * 8 * 16 * 32);
  EXPECT_EQ(traffic(product), 4.0 * (4 * 8 * 16 + 16 * 32 + 4 * 8 * 32));
  EXPECT_EQ(workspaceBytes(product, Backend::cpu), 0u);
  Signature attention{"attention",
                      {{"scale", 1.0}, {"minDistance", int64_t{0}}},
                      {in({2, 64, 4, 8}), in({2, 64, 4, 8}), in({2, 64, 4, 8}), none(), none(), none(), none(), none(),
                       none(), none(), out({2, 64, 4, 8}), out({2, 4, 64})}};
  EXPECT_EQ(check(attention), "");
  EXPECT_EQ(flops(attention), 2.0 * 2 * 4 * (64 * 65 / 2) * (8 + 8));
  Signature table{"embedding", {}, {in({1000, 8}), in({3}, DType::i64), out({3, 8})}};
  EXPECT_EQ(traffic(table), 2.0 * 3 * 8 * 4);
  EXPECT_EQ(find("matmul")->accumulates, 1u);
  EXPECT_EQ(find("layer_norm")->accumulates, 1u);
  EXPECT_EQ(find("linear_cross_entropy_grad")->accumulates, 15u);
  EXPECT_EQ(find("linear_cross_entropy_grad")->optional, 4u);
  EXPECT_EQ(find("nonsense"), nullptr);
}

/// What a GPU's kernels keep between two launches; nothing that depends on the device.
TEST(Catalogue, ScratchOnAGpu) {
  auto bytes = [](const Signature &call) { return workspaceBytes(call, Backend::cuda); };
  Signature ids{"embedding_grad", {}, {in({1000}, DType::i64), in({1000, 8}), out({50, 8})}};
  EXPECT_EQ(bytes(ids), 16000u) << "two sets of keys";
  EXPECT_EQ(workspaceBytes(ids, Backend::cpu), 8000u) << "places of the ids";
  auto reduce = [](Dims dims, std::vector<int64_t> axes, Dims result) {
    return Signature{
        "reduce", {{"kind", std::string("sum")}, {"axes", axes}, {"keepDims", int64_t{0}}}, {in(dims), out(result)}};
  };
  EXPECT_EQ(bytes(reduce({64, 4096}, {1}, {64})), 16u * 64 * 8);
  EXPECT_EQ(bytes(reduce({1 << 20}, {0}, {})), 256u * 8);
  EXPECT_EQ(bytes(reduce({1 << 15, 64}, {1}, {1 << 15})), 0u);
  Dims rows = {8192, 768};
  Signature norm{"rms_norm_grad", {}, {in(rows), in(rows), in({8192}), in({768}), in(rows), out(rows), out({768})}};
  EXPECT_EQ(bytes(norm), 1171u * 768 * 4) << "chunks of seven rows";
}

/// Every kernel but those of the training loop and of the network has code.
TEST(Catalogue, CpuHasEveryKernel) {
  std::set<std::string_view> without;
  for (const Kernel &kernel : all())
    if (!cpu::supports(kernel.name))
      without.insert(kernel.name);
  EXPECT_EQ(without, (std::set<std::string_view>{"all_gather", "all_to_all", "feed", "report"}));
  EXPECT_EQ(cpu::prepare({"feed", {}, {out({1})}}).status().message(), "feed: the CPU has no such kernel");
  const std::vector<int64_t> ones = {1, 1}, zeros = {0, 0};
  EXPECT_EQ(cpu::prepare({"pool_grad",
                          {{"kind", std::string("max")},
                           {"size", ones},
                           {"strides", ones},
                           {"dilations", ones},
                           {"low", zeros},
                           {"high", zeros}},
                          {in({1, 1, 65536, 32768}), in({1, 1, 65536, 32768}), out({1, 1, 65536, 32768})}})
                .status()
                .message(),
            "pool_grad: planes of images have less than 2^31 places each, not 2147483648");
}

TEST(Catalogue, CpuRefusesOtherTypes) {
  Tensor x = random({1, 4, 2, 8}, 1, 1, DType::f16);
  Call call{"attention",
            {{"scale", 1.0}},
            {x, x, x, absent(), absent(), absent(), absent(), absent(), absent(), absent()},
            {{DType::f16, x.dims}, {DType::f32, {1, 2, 4}}}};
  EXPECT_EQ(runError(call), "attention: operand 0 is f16, and the CPU computes it in 32 bits: export the model in f32");
}

/// A call whose only result is absent does nothing, whatever the kernel.
TEST(Catalogue, NothingUsedNothingDone) {
  Call call{"squared_norm", {}, {random({5}, 1)}, {{DType::f64, {1}}}};
  Outcome outcome = run(call, 1, 0, 1);
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.message();
}

TEST(Catalogue, PageIsFresh) {
  std::ifstream file(MT_SOURCE_DIR "/docs/kernels.md");
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_TRUE(page.str() == referencePage())
      << "docs/kernels.md is stale; write it with tools/docs.sh";
}

TEST(ThreadPool, EveryChunkOnce) {
  cpu::ThreadPool pool(4);
  for (int64_t chunks : {0, 1, 2, 3, 1000}) {
    std::vector<std::atomic<int>> seen(static_cast<size_t>(chunks));
    pool.parallelFor(chunks, [&](int64_t chunk) { ++seen[static_cast<size_t>(chunk)]; });
    for (auto &times : seen)
      EXPECT_EQ(times, 1);
  }
}

TEST(ThreadPool, SeveralCallersAtOnce) {
  cpu::ThreadPool pool(3);
  std::atomic<int64_t> total = 0;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([&] {
      for (int round = 0; round < 300; ++round)
        pool.parallelFor(17, [&](int64_t chunk) {
          int64_t *own = cpu::ThreadPool::scratchOf<int64_t>(64);
          own[0] = chunk;
          total += own[0];
        });
    });
  for (std::thread &caller : callers)
    caller.join();
  EXPECT_EQ(total, 4 * 300 * (16 * 17 / 2));
}

TEST(SignatureText, ReadsWhatItWrites) {
  for (std::vector<Signature> calls : {sampleCalls(1e12, 1e9), sampleUpdates(1e9)})
    for (const Signature &call : calls) {
      Signature again;
      ASSERT_EQ(parse(print(call), again), "") << print(call);
      EXPECT_EQ(print(again), print(call));
      EXPECT_EQ(again.attributes, call.attributes);
    }
}

TEST(SignatureText, SaysWhatIsWrong) {
  auto problemOf = [](std::string_view text) {
    Signature call;
    return parse(text, call);
  };
  EXPECT_EQ(problemOf(""), "unknown kernel \"\"");
  EXPECT_EQ(problemOf("add f32[2] f32[2] -> f32[2"), "add: 'f32[2' is no operand; one is written as f32[2,3]");
  EXPECT_EQ(problemOf("add f32[2] f33[2] -> f32[2]"), "add: 'f33[2]' is no operand; one is written as f32[2,3]");
  EXPECT_EQ(problemOf("add f32[2] f32[2,] -> f32[2]").substr(0, 4), "add:");
  EXPECT_EQ(problemOf("add{x=1} f32[2] f32[2] -> f32[2]"), "add: unknown attribute x");
  EXPECT_EQ(problemOf("softmax{} f32[2] -> f32[3]").substr(0, 8), "softmax:");
  EXPECT_EQ(problemOf("matmul{transposeRhs=yes} f32[2,2] f32[2,2] - -> f32[2,2]"), "matmul: attribute transposeRhs cannot be 'yes'");
  EXPECT_EQ(problemOf("add f32[99999999999999999999]").substr(0, 4), "add:");
  EXPECT_EQ(problemOf("add f32[-2] f32[-2] -> f32[-2]").substr(0, 4), "add:");
  EXPECT_EQ(problemOf(std::string(5000, 'x')), "a call of 5000 characters; 4096 are the most");
}

/// What is neither sampled nor made of what is: the cost model has a roofline for it.
TEST(Samples, AreOfEveryKernelThatTakesTime) {
  const std::set<std::string_view> few = {"and",
                                          "or",
                                          "xor",
                                          "not",
                                          "compare",
                                          "is_nan",
                                          "constant",
                                          "iota",
                                          "feed",
                                          "report",
                                          "step_norm",
                                          "squared_norm_parts",
                                          "squared_norm_sum",
                                          "all_to_all",
                                          "all_gather",
                                          "pairwise_sum",
                                          "tree_sum",
                                          "gather_grad",
                                          "gather_nd",
                                          "gather_elements",
                                          "scatter",
                                          "scatter_elements",
                                          "top_k",
                                          "dequantize",
                                          "running_statistic",
                                          "conv",
                                          "conv_data_grad",
                                          "conv_weight_grad",
                                          "pool",
                                          "pool_grad",
                                          "expert_matmul",
                                          "expert_matmul_grad",
                                          "cumsum",
                                          "squared_error",
                                          "squared_error_grad"};
  std::set<std::string_view> sampled;
  const std::vector<Signature> calls = sampleCalls(1e12, 1e9), updates = sampleUpdates(1e9);
  for (const Signature &call : calls)
    sampled.insert(call.kernel);
  for (const Signature &call : updates)
    sampled.insert(call.kernel);
  for (const Kernel &kernel : all())
    EXPECT_NE(sampled.contains(kernel.name) || kernel.pieces, few.contains(kernel.name)) << kernel.name;
}

TEST(Samples, KeepWithinWhatTheyMayTake) {
  for (const Signature &call : sampleCalls(1e9, 1e7)) {
    EXPECT_LE(flops(call), 1e9);
    EXPECT_LE(traffic(call), 1e7);
  }
}

/// Pieces are calls of the catalogue, but that they may add to what they write.
TEST(Pieces, AreValidCalls) {
  Signature head{"linear_cross_entropy_grad",
                 {{"chunk", int64_t{64}}},
                 {{DType::bf16, {256, 64}}, {DType::bf16, {64, 1000}}, {DType::f32, {}, Effect::read, false}, {DType::i64, {256}},
                  {DType::f64, {16}}, {DType::f32, {}, Effect::write}, {DType::bf16, {256, 64}, Effect::write},
                  {DType::f32, {64, 1000}, Effect::write}, {DType::f32, {}, Effect::write, false}}};
  head.attributes["transposed"] = int64_t{1};
  ASSERT_EQ(check(head), "");
  double flopsOfPieces = 0;
  for (const Piece &piece : piecesOf(head)) {
    Signature call = piece.call;
    for (OperandType &operand : call.operands)
      operand.effect = operand.effect == Effect::update ? Effect::write : operand.effect;
    EXPECT_EQ(check(call), "") << print(call);
    flopsOfPieces += piece.times * (call.kernel == "matmul" ? flops(call) : 0);
  }
  EXPECT_DOUBLE_EQ(flopsOfPieces, flops(head));
}

} // namespace
} // namespace mt::kernels::test
