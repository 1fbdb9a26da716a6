// Converters: what nn operations an ONNX node becomes, family by family.
#include "tests/onnx/TestModel.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

namespace mt::onnx::test {
namespace {

struct Operators : testing::Test {
  TestModel model{23};
  Operators() { model.input("x", kFloat, {"b", "6", "8"}).output("y"); }
  Imported run() { return import(model); }
  void expect(std::initializer_list<std::string> snippets) {
    Imported result = run();
    for (const std::string &snippet : snippets)
      EXPECT_TRUE(result.has(snippet)) << snippet << "\n" << result.everything();
  }
};

void constant(TestModel &model, const std::string &name, std::initializer_list<int64_t> dims, float value) {
  auto *attribute = model.node("Constant", {}, {name}).add_attribute();
  attribute->set_name("value");
  attribute->set_type(::onnx::AttributeProto::TENSOR);
  attribute->mutable_t()->set_data_type(::onnx::TensorProto::FLOAT);
  int64_t count = 1;
  for (int64_t dim : dims) {
    attribute->mutable_t()->add_dims(dim);
    count *= dim;
  }
  for (int64_t i = 0; i < count; ++i)
    attribute->mutable_t()->add_float_data(value);
}
/// y = log(1 - sigmoid(x)), of a one of this shape and as log1p has it; bounded as a call of PyTorch's was, if that is
/// named.
Imported logOfRest(std::initializer_list<int64_t> ones, bool asLog1p, const std::string &call = "") {
  TestModel model{23};
  model.input("x", kFloat, {"b", "1"}).output("y");
  model.node("Sigmoid", {"x"}, {"p"});
  constant(model, "one", ones, 1);
  if (asLog1p) {
    model.node("Neg", {"p"}, {"n"});
    model.node("Add", {"n", "one"}, {"q"});
  } else {
    model.node("Sub", {"one", "p"}, {"q"});
  }
  model.node("Log", {"q"}, {call.empty() ? "y" : "log"});
  if (!call.empty()) {
    constant(model, "least", {}, -100);
    auto *fx = model.node("Max", {"log", "least"}, {"y"}).add_metadata_props();
    fx->set_key("pkg.torch.onnx.fx_node");
    fx->set_value("%m : [num_users=1] = call_function[target=torch.ops.aten." + call + ", kwargs = {})");
  }
  return import(model);
}

TEST_F(Operators, LogarithmsOfSigmoidsAreFinite) {
  for (bool asLog1p : {false, true}) {
    Imported result = logOfRest({}, asLog1p);
    EXPECT_TRUE(result.has("nn.softplus") && !result.has("nn.log ")) << result.everything();
    result = logOfRest({1, 4}, asLog1p); // as many ones, as many logarithms
    EXPECT_TRUE(result.has("nn.log ") && !result.has("nn.softplus")) << result.everything();
  }
  model.node("Exp", {"x"}, {"a"});
  model.node("Add", {"a", "a"}, {"sum"});
  model.node("Log", {"sum"}, {"y"});
  expect({"nn.maximum", "nn.softplus"});
}

// Its gradient is that of the probability; that of a clamp is the logarithm's.
TEST_F(Operators, BoundsOfCrossEntropyAreToldFromClamps) {
  for (bool asLog1p : {false, true}) {
    Imported result = logOfRest({}, asLog1p, "maximum.default](args = (%log1p, %new_full)");
    EXPECT_TRUE(result.has("nn.detach") && result.has("nn.div")) << result.everything();
    for (const char *other : {"maximum.default](args = (%log1p, %c_tensor)", "clamp.default](args = (%log1p, -100)"}) {
      result = logOfRest({}, asLog1p, other);
      EXPECT_FALSE(result.has("nn.detach")) << result.everything();
    }
  }
}

TEST_F(Operators, UnaryFamilies) {
  struct Case {
    const char *op, *expected;
  };
  for (Case c : {Case{"Relu", "nn.relu"},
                 Case{"Sigmoid", "nn.sigmoid"},
                 Case{"Tanh", "nn.tanh"},
                 Case{"Erf", "nn.erf"},
                 Case{"Softplus", "nn.softplus"},
                 Case{"Gelu", "nn.gelu"},
                 Case{"Swish", "nn.silu"},
                 Case{"HardSwish", "nn.select"},
                 Case{"HardSigmoid", "nn.select"},
                 Case{"Mish", "nn.softplus"},
                 Case{"Elu", "nn.exp"},
                 Case{"Selu", "nn.exp"},
                 Case{"Celu", "nn.exp"},
                 Case{"LeakyRelu", "nn.select"},
                 Case{"Softsign", "nn.abs"},
                 Case{"Neg", "nn.neg"},
                 Case{"Abs", "nn.abs"},
                 Case{"Sign", "nn.sign"},
                 Case{"Exp", "nn.exp"},
                 Case{"Log", "nn.log"},
                 Case{"Sqrt", "nn.sqrt"},
                 Case{"Sin", "nn.sin"},
                 Case{"Cos", "nn.cos"},
                 Case{"Asin", "nn.atan"},
                 Case{"Acos", "nn.atan"},
                 Case{"Atan", "nn.atan"},
                 Case{"Tan", "nn.div"},
                 Case{"Sinh", "nn.sub"},
                 Case{"Cosh", "nn.add"},
                 Case{"Reciprocal", "nn.reciprocal"},
                 Case{"Floor", "nn.floor"},
                 Case{"Ceil", "nn.ceil"},
                 Case{"Round", "nn.round"},
                 Case{"IsNaN", "nn.is_nan"},
                 Case{"IsInf", "nn.compare"},
                 Case{"Identity", "return %arg0"},
                 Case{"Dropout", "return %arg0"},
                 Case{"Softmax", "nn.softmax"},
                 Case{"LogSoftmax", "nn.log_softmax"},
                 Case{"ReduceL1", "nn.abs"},
                 Case{"ReduceL2", "nn.sqrt"},
                 Case{"ReduceSumSquare", "nn.mul"},
                 Case{"ReduceLogSum", "nn.log"},
                 Case{"ReduceLogSumExp", "nn.exp"},
                 Case{"ReduceMean", "kind = \"mean\""},
                 Case{"ReduceSum", "kind = \"sum\""},
                 Case{"ReduceMax", "kind = \"max\""},
                 Case{"ReduceMin", "kind = \"min\""},
                 Case{"ReduceProd", "kind = \"prod\""},
                 Case{"Mean", "nn.mul"},
                 Case{"Flatten", "tensor<2x48xf32>"},
                 Case{"Transpose", "tensor<8x6x2xf32>"},
                 Case{"ArgMax", "nn.iota"},
                 Case{"Trilu", "predicate = \"ge\""},
                 Case{"LpNormalization", "nn.div"}}) {
    TestModel one(23);
    one.input("x", kFloat, {"b", "6", "8"}).output("y");
    one.node(c.op, {"x"}, {"y"});
    Imported result = import(one);
    EXPECT_TRUE(result.has(c.expected)) << c.op << "\n" << result.everything();
  }
}

TEST_F(Operators, BinaryFamilies) {
  for (const char *op : {"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Equal", "Less", "LessOrEqual", "Greater",
                         "GreaterOrEqual", "Mod"}) {
    TestModel one(23);
    one.input("x", kFloat, {"b", "6", "8"}).input("z", kFloat, {"b", "1", "8"}).output("y");
    one.node(op, {"x", "z"}, {"y"});
    EXPECT_TRUE(import(one).has("tensor<2x6x8x")) << op << import(one).everything();
  }
}

::onnx::TensorProto &flag(TestModel &model, const std::string &name, bool value) {
  auto &made = *model.graph().add_initializer();
  made.set_name(name);
  made.set_data_type(kBool);
  made.set_raw_data(std::string(1, value ? '\1' : '\0'));
  return made;
}

/// Every node has a number, an argument that the plan makes: equal layers stay equal.
TEST_F(Operators, DropoutInTrainingForm) {
  model.scalar("ratio", 0.1F);
  flag(model, "training", true);
  model.node("Dropout", {"x", "ratio", "training"}, {"a", "mask"});
  model.node("Dropout", {"a", "", "training"}, {"b"});
  model.node("Where", {"mask", "b", "a"}, {"y"});
  Imported result = run();
  for (const char *snippet : {"{kind = \"keep\", ratio = 0.10000000149011612 : f64}",
                              "nn.dropout %arg0, %arg1, %arg2 {ratio = 0.10000000149011612 : f64}", "nn.cast",
                              "%arg1, %arg3 {ratio = 5.000000e-01 : f64}", "%arg1: tensor<16xf64> {nn.scalars}",
                              "%arg2: tensor<i64> {nn.buffer, nn.parameter = \"mt.draw.0\"}",
                              "%arg3: tensor<i64> {nn.buffer, nn.parameter = \"mt.draw.1\"}"})
    EXPECT_TRUE(result.has(snippet)) << snippet << "\n" << result.everything();
  ASSERT_EQ(result.parameters.size(), 2U);
  EXPECT_EQ(result.parameters[1].generator, "constant");
  EXPECT_EQ(result.parameters[1].value, 1);
  EXPECT_TRUE(result.warnings.empty());
}

TEST_F(Operators, DropoutThatDropsNothing) {
  model.scalar("ratio", 0.1F);
  model.scalar("none", 0);
  flag(model, "training", true);
  flag(model, "inference", false);
  model.node("Dropout", {"x", "none", "training"}, {"a"});
  model.node("Dropout", {"a", "ratio", "inference"}, {"b"});
  model.node("Dropout", {"b", "ratio"}, {"y"});
  expect({"return %arg0"});
}

/// As torch.onnx.export writes that of attention.
TEST_F(Operators, DropoutForInferenceBesideOthersIsSaid) {
  model.scalar("ratio", 0.1F);
  flag(model, "training", true);
  model.node("Dropout", {"x", "ratio"}, {"a"});
  model.node("Dropout", {"a", "ratio", "training"}, {"y"});
  Imported result = run();
  ASSERT_EQ(result.warnings.size(), 1U);
  EXPECT_TRUE(result.warnings[0].starts_with(
      "1 Dropout node ('n_a') is written for inference and drops nothing, beside others that train."))
      << result.warnings[0];
}

TEST_F(Operators, RandomNumbers) {
  model.output("u").output("v").output("w").output("z");
  auto &normal = model.node("RandomNormalLike", {"x"}, {"y"});
  setFloat(normal, "mean", 2);
  setFloat(normal, "scale", 3);
  auto &uniform = model.node("RandomUniformLike", {"x"}, {"u"});
  setFloat(uniform, "low", -1);
  setInt(uniform, "dtype", 11);
  setInts(model.node("RandomNormal", {}, {"v"}), "shape", {3, 4});
  setInts(model.node("RandomUniform", {}, {"w"}), "shape", {5});
  setInt(model.node("Bernoulli", {"x"}, {"z"}), "dtype", kBool);
  expect({"nn.random %arg0, %arg1, %arg2 {kind = \"normal\"} : (tensor<2x6x8xf32>, tensor<16xf64>, tensor<i64>) -> "
          "tensor<2x6x8xf32>",
          "dense<2.000000e+00>", "dense<3.000000e+00>", "kind = \"uniform\"", "tensor<2x6x8xf64>", "-> tensor<3x4xf32>",
          "-> tensor<5xf32>", "nn.compare", "mt.draw.4"});
}

TEST_F(Operators, LocationsNameTheNode) {
  model.node("Relu", {"x"}, {"y"});
  Imported result = run();
  EXPECT_TRUE(result.text.find("nn.relu") != std::string::npos);
}

TEST_F(Operators, ReshapesOfAllForms) {
  model.integers("target", {3}, {0, -1, 4});
  model.node("Reshape", {"x", "target"}, {"a"});
  model.integers("axes", {2}, {0, -1});
  model.node("Unsqueeze", {"a", "axes"}, {"c"});
  model.node("Squeeze", {"c", "axes"}, {"d"});
  model.integers("wide", {4}, {3, 1, 1, 1});
  model.node("Expand", {"d", "wide"}, {"e"});
  model.integers("times", {4}, {1, 2, 1, 3});
  model.node("Tile", {"e", "times"}, {"y"});
  expect({"tensor<2x12x4xf32>", "tensor<1x2x12x4x1xf32>", "tensor<3x2x12x4xf32>", "tensor<3x4x12x12xf32>"});
}

TEST_F(Operators, SlicesBackwardsAndSplits) {
  model.integers("start", {1}, {-1});
  model.integers("end", {1}, {INT64_MIN});
  model.integers("axis", {1}, {1});
  model.integers("step", {1}, {-2});
  model.node("Slice", {"x", "start", "end", "axis", "step"}, {"a"});
  auto &split = model.node("Split", {"a"}, {"p", "q"});
  setInt(split, "axis", -1);
  setInt(split, "num_outputs", 2);
  setInt(model.node("Concat", {"q", "p"}, {"y"}), "axis", 2);
  expect({"starts = array<i64: 0, 5, 0>", "sizes = array<i64: 2, 3, 8>", "strides = array<i64: 1, -2, 1>",
          "starts = array<i64: 0, 0, 4>", "nn.concat"});
}

TEST_F(Operators, SequencesOfParts) {
  model.integers("third", {}, {-1});
  auto &split = model.node("SplitToSequence", {"x"}, {"parts"});
  setInt(split, "axis", 1);
  setInt(split, "keepdims", 0);
  model.node("SequenceAt", {"parts", "third"}, {"y"});
  expect({"starts = array<i64: 0, 5, 0>", "-> tensor<2x8xf32>"});
}

TEST_F(Operators, GathersOfKnownIndicesAreSlices) {
  model.integers("first", {}, {0});
  setInt(model.node("Gather", {"x", "first"}, {"y"}), "axis", 1);
  expect({"nn.slice", "nn.reshape"});
}

TEST_F(Operators, PadsAndCrops) {
  model.integers("pads", {6}, {0, 1, -2, 0, 2, 0});
  model.node("Pad", {"x", "pads"}, {"y"});
  expect({"nn.slice", "low = array<i64: 0, 1, 0>", "high = array<i64: 0, 2, 0>", "tensor<2x9x6xf32>"});
}

TEST_F(Operators, ProductsOfAllRanks) {
  model.weights("v", {8});
  model.weights("m", {5, 8, 3});
  model.integers("one", {1}, {1});
  model.node("MatMul", {"x", "v"}, {"a"});
  model.node("Unsqueeze", {"x", "one"}, {"wide"});
  model.node("MatMul", {"wide", "m"}, {"b"});
  model.output("b");
  model.node("Relu", {"a"}, {"y"});
  expect({"tensor<2x6x1xf32>", "tensor<2x6xf32>", "nn.broadcast", "tensor<2x5x6x3xf32>"});
}

TEST_F(Operators, GemmFoldsARowOfBiases) {
  TestModel one;
  one.input("x", kFloat, {"b", "8"}).output("y").output("z");
  one.weights("w", {4, 8});
  one.weights("bias", {4});
  setInt(one.node("Gemm", {"x", "w", "bias"}, {"y"}), "transB", 1);
  auto &scaled = one.node("Gemm", {"x", "w", "bias"}, {"z"});
  setInt(scaled, "transB", 1);
  setFloat(scaled, "alpha", 0.5F);
  setFloat(scaled, "beta", 2);
  Imported result = import(one);
  EXPECT_TRUE(result.has("(tensor<2x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<2x4xf32>")) << result.everything();
  EXPECT_TRUE(result.has("nn.mul")) << result.everything();
}

TEST_F(Operators, EinsumsByProducts) {
  struct Case {
    const char *equation, *result;
  };
  for (Case c : {Case{"bij,bkj->bik", "tensor<2x6x6xf32>"}, Case{"bij,bkj->bki", "tensor<2x6x6xf32>"},
                 Case{"bij,bij->b", "tensor<2xf32>"}, Case{"...j,...j->...", "tensor<2x6xf32>"},
                 Case{"bij,cij", "tensor<2x2xf32>"}, Case{"abi,cdi->acbd", "tensor<2x2x6x6xf32>"},
                 Case{"...i,b...j->b...ij", "tensor<2x2x6x8x8xf32>"}}) {
    TestModel one;
    one.input("x", kFloat, {"b", "6", "8"}).output("y");
    setText(one.node("Einsum", {"x", "x"}, {"y"}), "equation", c.equation);
    Imported result = import(one);
    EXPECT_TRUE(result.has(std::string("-> (") + c.result)) << c.equation << "\n" << result.everything();
  }
  TestModel square; // a diagonal
  square.input("x", kFloat, {"b", "6", "6"}).output("y");
  setText(square.node("Einsum", {"x"}, {"y"}), "equation", "bii->bi");
  EXPECT_TRUE(import(square).has("strides = array<i64: 1, 7>")) << import(square).everything();
  model.node("Einsum", {"x"}, {"y"});
  setText(*model.graph().mutable_node(0), "equation", "bii->bi");
  EXPECT_TRUE(run().complains({"'n_y' (Einsum)", "same label"})) << run().everything();
}

// An ellipsis in one of the operands only; sizes of one beside others, behind an ellipsis and under a letter.
TEST_F(Operators, EinsumsBroadcast) {
  auto expectResult = [](const char *equation, std::initializer_list<int64_t> dims, const char *type) {
    TestModel one;
    one.input("x", kFloat, {"b", "6", "8"}).output("y");
    one.weights("w", dims);
    setText(one.node("Einsum", {"x", "w"}, {"y"}), "equation", equation);
    Imported result = import(one);
    EXPECT_TRUE(result.has(std::string("-> (") + type)) << equation << "\n" << result.everything();
  };
  expectResult("...,f->...f", {5}, "tensor<2x6x8x5xf32>");
  expectResult("...j,jk->...k", {8, 3}, "tensor<2x6x3xf32>");
  expectResult("...j,...j->...j", {1, 8}, "tensor<2x6x8xf32>");
  expectResult("bij,bkj->bik", {1, 4, 8}, "tensor<2x6x4xf32>");
  expectResult("bij,bij->bij", {1, 1, 1}, "tensor<2x6x8xf32>");
  expectResult("bij,bij", {1, 6, 8}, "tensor<f32>");
}

TEST_F(Operators, EinsumsOfIntegersAndFloats) { // which PyTorch takes, and its exporter writes
  TestModel one;
  one.input("x", kInt64, {"b", "6"}).output("y");
  one.weights("w", {5});
  setText(one.node("Einsum", {"x", "w"}, {"y"}), "equation", "bi,f->bif");
  EXPECT_TRUE(import(one).has("nn.cast")) << import(one).everything();
}

// Two more things that PyTorch takes and its exporter writes down as they are.
TEST_F(Operators, ConcatsOfIntegersAndFloats) {
  TestModel one;
  one.input("x", kInt64, {"b", "6"}).output("y");
  one.weights("w", {2, 5});
  setInt(one.node("Concat", {"x", "w"}, {"y"}), "axis", 1);
  EXPECT_TRUE(import(one).has("(tensor<2x6xf32>, tensor<2x5xf32>) -> tensor<2x11xf32>")) << import(one).everything();
}

TEST_F(Operators, SqueezesLeaveOtherSizes) {
  TestModel one{11};
  one.input("x", kFloat, {"b", "6", "1"}).output("y");
  setInts(one.node("Squeeze", {"x"}, {"y"}), "axes", {1, 2});
  EXPECT_TRUE(import(one).has("-> tensor<2x6xf32>")) << import(one).everything();
}

TEST_F(Operators, SoftmaxOverAnotherAxis) {
  setInt(model.node("Softmax", {"x"}, {"y"}), "axis", 1);
  expect({"permutation = array<i64: 0, 2, 1>", "nn.softmax"});
}

TEST_F(Operators, NormalizationOverSeveralAxes) {
  model.weights("gain", {6, 8});
  setInt(model.node("LayerNormalization", {"x", "gain"}, {"y"}), "axis", 1);
  expect({"tensor<2x48xf32>", "nn.layer_norm", "epsilon = "});
}

TEST_F(Operators, RmsNormalization) {
  model.weights("gain", {8});
  model.node("RMSNormalization", {"x", "gain"}, {"y"});
  expect({"nn.rms_norm"});
}

TEST_F(Operators, AttentionOfThreeDimensions) {
  auto &node = model.node("Attention", {"x", "x", "x"}, {"y"});
  setInt(node, "q_num_heads", 4);
  setInt(node, "kv_num_heads", 4);
  setInt(node, "is_causal", 1);
  setFloat(node, "softcap", 5);
  expect({"nn.attention", "tensor<2x6x4x2xf32>", "minDistance = 0", "softCap = 5.0"});
}

TEST_F(Operators, AttentionOfFourDimensionsWithAMask) {
  TestModel one(23);
  one.input("q", kFloat, {"b", "4", "6", "8"}).input("k", kFloat, {"b", "2", "6", "8"}).input("m", kBool, {"b", "1", "6", "6"});
  one.output("y");
  one.node("Attention", {"q", "k", "k", "m"}, {"y"});
  Imported result = import(one);
  EXPECT_TRUE(result.has("permutation = array<i64: 0, 2, 1, 3>")) << result.everything();
  EXPECT_TRUE(result.has("nn.select")) << result.everything();
  EXPECT_TRUE(result.has("tensor<2x4x6x8xf32>")) << result.everything();
}

TEST_F(Operators, AttentionBehindACache) {
  TestModel one(24);
  one.input("q", kFloat, {"b", "4", "6", "8"}).input("p", kFloat, {"b", "4", "3", "8"}).output("y").output("keys");
  setInt(one.node("Attention", {"q", "q", "q", "", "p", "p"}, {"y", "keys"}), "is_causal", 1);
  Imported result = import(one);
  EXPECT_TRUE(result.has("offset = 3")) << result.everything();
  EXPECT_TRUE(result.has("tensor<2x4x9x8xf32>")) << result.everything();
  TestModel half(24);
  half.input("q", kFloat, {"b", "4", "6", "8"}).input("p", kFloat, {"b", "4", "3", "8"}).output("y");
  half.node("Attention", {"q", "q", "q", "", "p"}, {"y"});
  EXPECT_TRUE(import(half).complains({"'n_y' (Attention)", "past keys without past values"}));
}

TEST_F(Operators, RotaryEmbeddingByPositions) {
  TestModel one(23);
  one.input("x", kFloat, {"b", "6", "32"}).input("p", kInt64, {"b", "6"}).output("y");
  one.weights("cos", {64, 4});
  one.weights("sin", {64, 4});
  auto &node = one.node("RotaryEmbedding", {"x", "cos", "sin", "p"}, {"y"});
  setInt(node, "num_heads", 4);
  Imported result = import(one);
  EXPECT_TRUE(result.has("nn.rotary")) << result.everything();
  EXPECT_TRUE(result.has("tensor<2x6x4xf32>")) << result.everything();
  EXPECT_TRUE(result.trained().empty()) << "tables are no parameters";
}

TEST_F(Operators, ContribOperators) {
  TestModel one;
  one.model.add_opset_import()->set_domain("com.microsoft");
  one.input("x", kFloat, {"b", "6", "8"}).output("y");
  one.weights("gain", {8});
  one.weights("bias", {8});
  one.node("SkipLayerNormalization", {"x", "x", "gain", "bias"}, {"a", "", "", "sum"}, "com.microsoft");
  one.node("BiasGelu", {"a", "bias"}, {"b"}, "com.microsoft");
  setInt(one.node("MultiHeadAttention", {"b", "a", "sum"}, {"c"}, "com.microsoft"), "num_heads", 2);
  one.node("FastGelu", {"c"}, {"d"}, "com.microsoft");
  one.node("QuickGelu", {"d"}, {"y"}, "com.microsoft");
  Imported result = import(one);
  for (const char *snippet : {"nn.layer_norm", "nn.gelu", "nn.attention", "form = \"tanh\"", "form = \"sigmoid\""})
    EXPECT_TRUE(result.has(snippet)) << result.everything();
}

TEST_F(Operators, FunctionsAreInlined) {
  model.node("Twice", {"x"}, {"y"}, "local");
  setFloat(*model.graph().mutable_node(0), "factor", 3);
  auto *function = model.model.add_functions();
  function->set_name("Twice");
  function->set_domain("local");
  function->add_input("a");
  function->add_output("c");
  function->add_attribute("factor");
  function->add_opset_import()->set_version(23);
  auto *constant = function->add_node();
  constant->set_op_type("Constant");
  constant->add_output("f");
  auto *attribute = constant->add_attribute();
  attribute->set_name("value_float");
  attribute->set_ref_attr_name("factor");
  attribute->set_type(::onnx::AttributeProto::FLOAT);
  auto *product = function->add_node();
  product->set_op_type("Mul");
  product->add_input("a");
  product->add_input("f");
  product->add_output("c");
  expect({"dense<3.0", "nn.mul"});
}

TEST_F(Operators, FunctionsMayBeCalledWithoutOptionalInputs) {
  model.node("Norm", {"x", "", ""}, {"y"}, "local");
  auto *function = model.model.add_functions();
  function->set_name("Norm");
  function->set_domain("local");
  for (const char *name : {"a", "low", "high"})
    function->add_input(name);
  function->add_output("c");
  auto *clip = function->add_node();
  clip->set_op_type("Clip");
  for (const char *name : {"a", "low", "high"})
    clip->add_input(name);
  clip->add_output("c");
  expect({"return %arg0"});
}

TEST_F(Operators, Convolutions) {
  model.weights("apart", {4, 6, 2});
  model.weights("bias", {4});
  setInts(model.node("Conv", {"x", "apart", "bias"}, {"y"}), "strides", {2});
  model.weights("over", {5, 6, 3});
  auto &over = model.node("Conv", {"x", "over"}, {"z"});
  setInts(over, "pads", {1, 1});
  model.output("z");
  expect({"tensor<2x4x12xf32>", "tensor<2x4x4xf32>", "nn.conv", "low = array<i64: 1>", "tensor<2x5x8xf32>"});
}

TEST_F(Operators, ConvolutionsInGroupsAndTransposed) {
  model.weights("w", {4, 3, 2});
  setInt(model.node("Conv", {"x", "w"}, {"y"}), "group", 2);
  model.weights("t", {6, 5, 3});
  model.weights("bias", {5});
  auto &wide = model.node("ConvTranspose", {"x", "t", "bias"}, {"z"});
  setInts(wide, "strides", {2});
  setInts(wide, "pads", {1, 2});
  setInts(wide, "output_padding", {1});
  model.output("z");
  // One of the two that are cut off behind is wanted back.
  expect({"groups = 2 : i64", "tensor<2x4x7xf32>", "nn.conv_data_grad", "high = array<i64: 1>, low = array<i64: 1>",
          "tensor<2x5x15xf32>", "nn.add"});
}

TEST_F(Operators, TransposedConvolutionsToAShape) {
  model.weights("t", {6, 5, 3});
  auto &same = model.node("ConvTranspose", {"x", "t"}, {"y"});
  setInts(same, "strides", {2});
  setText(same, "auto_pad", "SAME_UPPER");
  auto &shaped = model.node("ConvTranspose", {"x", "t"}, {"z"});
  setInts(shaped, "output_shape", {12}); // two more than there is
  model.output("z");
  expect({"tensor<2x5x16xf32>", "nn.pad", "tensor<2x5x12xf32>"});
}

TEST_F(Operators, KernelsThatDoNotFit) {
  model.weights("w", {4, 5, 2});
  for (const char *op : {"Conv", "ConvTranspose"}) {
    TestModel one = model;
    one.node(op, {"x", "w"}, {"y"});
    EXPECT_TRUE(
        import(one).complains({op, "its kernel of shape 4x5x2 in 1 groups does not fit the image of shape 2x6x8"}));
  }
}

TEST_F(Operators, Pools) {
  auto pool = [&](const char *op, const char *result) -> ::onnx::NodeProto & {
    auto &node = model.node(op, {"x"}, {result});
    setInts(node, "kernel_shape", {3});
    setInts(node, "strides", {3});
    model.output(result);
    return node;
  };
  setInt(pool("MaxPool", "y"), "ceil_mode", 1); // a third window reaches one beyond
  auto &mean = pool("AveragePool", "z");
  setInts(mean, "pads", {1, 1});
  setInt(mean, "count_include_pad", 1);
  pool("LpPool", "n");
  model.node("GlobalMaxPool", {"x"}, {"g"});
  model.output("g");
  expect({"high = array<i64: 1>, kind = \"max\"", "tensor<2x6x3xf32>", "nn.pad", "kind = \"mean\"", "kind = \"sum\"",
          "nn.sqrt", "tensor<2x6x1xf32>"});
}

TEST_F(Operators, PlacesOfTheLargest) {
  TestModel with(22);
  with.input("x", kFloat, {"b", "6", "8"}).output("places");
  auto &pool = with.node("MaxPool", {"x"}, {"y", "places"});
  setInts(pool, "kernel_shape", {2});
  setInts(pool, "strides", {2});
  setInts(pool, "pads", {1, 1});
  Imported result = import(with);
  for (const char *part :
       {"value = 0xFFF0000000000000", "nn.pool", "predicate = \"eq\"", "nn.select", "nn.minimum", "tensor<2x6x5xi64>"})
    EXPECT_TRUE(result.has(part)) << part << result.everything();
  auto &unpool = with.node("MaxUnpool", {"y", "places"}, {"z"});
  setInts(unpool, "kernel_shape", {2});
  setInts(unpool, "strides", {2});
  setInts(unpool, "pads", {1, 1});
  with.output("z");
  Imported both = import(with);
  EXPECT_TRUE(both.has("nn.scatter") && both.has("tensor<2x6x8xf32>")) << both.everything();
}

TEST_F(Operators, SamplesOfAGrid) {
  auto sampled = [](const char *mode, const char *padding, int64_t opset) {
    TestModel one(opset);
    one.input("x", kFloat, {"b", "3", "6", "8"}).input("g", kFloat, {"b", "5", "4", "2"}).output("y");
    auto &node = one.node("GridSample", {"x", "g"}, {"y"});
    setText(node, "mode", mode);
    setText(node, "padding_mode", padding);
    return import(one);
  };
  for (auto [mode, old, taps] : {std::tuple("linear", "bilinear", "tensor<2x20x4x3xf32>"),
                                 std::tuple("cubic", "bicubic", "tensor<2x20x16x3xf32>"),
                                 std::tuple("nearest", "nearest", "tensor<2x20x1x3xf32>")})
    for (const char *padding : {"zeros", "border", "reflection"})
      for (Imported result : {sampled(mode, padding, 22), sampled(old, padding, 16)}) {
        EXPECT_TRUE(result.has("nn.gather_nd") && result.has(taps) && result.has("-> tensor<2x3x5x4xf32>"))
            << mode << padding << result.everything();
        EXPECT_EQ(result.has("nn.detach"), std::string_view(padding) != "zeros") << mode << padding;
      }
  EXPECT_TRUE(sampled("area", "zeros", 22).complains({"(GridSample)", "mode 'area' with padding_mode 'zeros'"}));
  EXPECT_TRUE(sampled("linear", "wrap", 22).complains({"(GridSample)", "padding_mode 'wrap' is not supported"}));
}

TEST_F(Operators, TheOnlyWindowMayReachBeyond) {
  auto pooled = [&](int64_t ceil, int64_t stride) {
    TestModel one = model;
    auto &node = one.node("AveragePool", {"x"}, {"y"});
    setInts(node, "kernel_shape", {320});
    setInts(node, "strides", {stride});
    setInt(node, "ceil_mode", ceil);
    return import(one);
  };
  Imported whole = pooled(1, 320);
  EXPECT_TRUE(whole.has("tensor<2x6x1xf32>") && whole.has("size = array<i64: 8>")) << whole.everything();
  EXPECT_TRUE(pooled(0, 320).complains({"AveragePool", "its kernel is larger than the padded image"}));
  EXPECT_TRUE(pooled(1, 16).complains({"AveragePool", "its kernel is larger than the padded image"}));
}

TEST_F(Operators, WindowsOfManyDimensions) {
  TestModel one(23);
  one.input("x", kFloat, {"b", "2", "3", "3", "3", "3"}).output("y");
  setInts(one.node("MaxPool", {"x"}, {"y"}), "kernel_shape", {1, 1, 1, 1});
  EXPECT_TRUE(import(one).complains({"MaxPool", "its windows have 4 dimensions; one to three are supported"}));
}

TEST_F(Operators, PutsAtPlaces) {
  model.integers("tuples", {2, 2}, {0, -1, 1, 2});
  model.weights("rows", {2, 8});
  setText(model.node("ScatterND", {"x", "tuples", "rows"}, {"y"}), "reduction", "add");
  model.integers("places", {2, 1, 8}, std::vector<int64_t>(16, 3));
  model.weights("lines", {2, 1, 8});
  setInt(model.node("ScatterElements", {"x", "places", "lines"}, {"z"}), "axis", 1);
  model.output("z");
  expect({"tensor<12x8xf32>", "nn.scatter", "kind = \"add\"", "nn.scatter_elements", "axis = 1 : i64"});
}

/// What PyTorch's masked_scatter becomes: x with features in order where a mask of tokens holds, row by row where there
/// are as many for each, and fewer than places: as many as places are one for each place of all.
TEST_F(Operators, PutsWhatAMaskSelects) {
  for (int64_t features : {6, 5, 12}) {
    const bool perRow = features == 6;
    TestModel one(20);
    one.input("x", kFloat, {"2", "6", "8"}).input("tokens", kInt64, {"2", "6"}).output("y");
    one.weights("features", {features, 8});
    one.integers("image", {}, {7});
    one.integers("last", {1}, {-1});
    one.integers("wide", {3}, {2, 6, 8});
    one.integers("zero", {1}, {0});
    one.node("Equal", {"tokens", "image"}, {"is"});
    one.node("Unsqueeze", {"is", "last"}, {"column"});
    one.node("Expand", {"column", "wide"}, {"mask"});
    one.node("NonZero", {"mask"}, {"places"});
    setInts(one.node("Transpose", {"places"}, {"tuples"}), "perm", {1, 0});
    one.node("Reshape", {"features", "last"}, {"flat"});
    one.node("Shape", {"tuples"}, {"sizes"});
    one.node("Gather", {"sizes", "zero"}, {"count"});
    one.node("Slice", {"flat", "zero", "count", "zero"}, {"taken"});
    one.node("ScatterND", {"x", "tuples", "taken"}, {"y"});
    Imported result = import(one);
    EXPECT_TRUE(result.has(fmt::format("(tensor<{}x8xf32>, tensor<{}x1xi64>)",
                                       perRow ? "2x3" : "1x" + std::to_string(features), perRow ? "2x6" : "1x12")))
        << result.everything();
    EXPECT_TRUE(result.has("nn.cumsum")) << result.everything();
  }
}

/// PyTorch's exporter gives conv3d without a bias one of zeros, in a shape that fits nothing. One that is stored is
/// one.
TEST_F(Operators, ConvolutionsWithABiasOfZeros) {
  for (bool stored : {false, true}) {
    TestModel one(20);
    one.input("x", kFloat, {"b", "3", "4", "4", "4"}).output("y");
    one.weights("w", {5, 3, 3, 3, 3});
    one.integers("shape", {2}, {5, 2});
    one.node("ConstantOfShape", {"shape"}, {"zeros"});
    one.weights("bias", {5});
    one.node("Conv", {"x", "w", stored ? "bias" : "zeros"}, {"y"});
    EXPECT_TRUE(import(one).has(stored ? "tensor<5xf32>) -> tensor<2x5x2x2x2xf32>" : "nn.conv"))
        << import(one).everything();
  }
}

/// x with tanh(x w) of the tokens that a mask selects in place of these: what is computed of them is computed of all.
TEST_F(Operators, RowsThatAMaskSelects) {
  model.input("tokens", kInt64, {"b", "6"});
  model.integers("seven", {}, {7});
  model.weights("w", {8, 8});
  model.node("Greater", {"tokens", "seven"}, {"mask"});
  model.node("NonZero", {"mask"}, {"places"});
  setInts(model.node("Transpose", {"places"}, {"tuples"}), "perm", {1, 0});
  model.node("GatherND", {"x", "tuples"}, {"rows"});
  model.node("MatMul", {"rows", "w"}, {"products"});
  model.node("Tanh", {"products"}, {"new"});
  model.node("ScatterND", {"x", "tuples", "new"}, {"y"});
  expect({"nn.matmul", "(tensor<12x8xf32>) -> tensor<12x8xf32>", "nn.select",
          "(tensor<2x6x1xi1>, tensor<2x6x8xf32>, tensor<2x6x8xf32>) -> tensor<2x6x8xf32>"});
  EXPECT_FALSE(run().has("nn.gather") || run().has("nn.scatter")) << run().everything();
}

/// Means of what is selected divide by how much that is; logarithms never see the rest.
TEST_F(Operators, MeansOfWhatAMaskSelects) {
  model.weights("none", {1});
  model.node("Greater", {"x", "none"}, {"mask"});
  model.node("NonZero", {"mask"}, {"places"});
  model.node("Transpose", {"places"}, {"tuples"});
  model.node("GatherND", {"x", "tuples"}, {"large"});
  model.node("Log", {"large"}, {"logs"});
  setInt(model.node("ReduceMean", {"logs"}, {"y"}), "keepdims", 0);
  expect({"nn.constant dense<9.600000e+01> : tensor<f32>", "nn.log", "kind = \"mean\"", "kind = \"sum\"",
          "(tensor<96xi1>, tensor<96xf32>, tensor<f32>) -> tensor<96xf32>"});
}

/// What an integer is divided by is the number that the data say, not that of all places, by which it would be nothing.
TEST_F(Operators, QuotientsByWhatAMaskSelects) {
  model.input("tokens", kInt64, {"b", "6"});
  model.integers("seven", {}, {7});
  model.integers("one", {1}, {1});
  model.integers("five", {1}, {5});
  model.node("Greater", {"tokens", "seven"}, {"mask"});
  model.node("NonZero", {"mask"}, {"places"});
  model.node("Shape", {"places"}, {"sizes"});
  model.node("Gather", {"sizes", "one"}, {"count"});
  model.node("Div", {"five", "count"}, {"share"});
  setInt(model.node("Cast", {"share"}, {"real"}), "to", kFloat);
  model.node("Mul", {"x", "real"}, {"y"});
  expect({"kind = \"sum\"", "nn.div"});
}

/// Views of chosen rows: as many columns as there are rows, whatever the number of places is, is another matrix.
TEST_F(Operators, ViewsByTheNumberOfWhatAMaskSelects) {
  for (bool columns : {true, false}) {
    TestModel one;
    one.input("x", kFloat, {"b", "6", "8"}).output("y");
    one.weights("none", {1});
    one.integers("zero", {1}, {0});
    one.integers("rest", {1}, {-1});
    auto &largest = one.node("ReduceMax", {"x"}, {"whole"});
    setInts(largest, "axes", {1, 2});
    setInt(largest, "keepdims", 0);
    one.node("Greater", {"whole", "none"}, {"mask"});
    one.node("NonZero", {"mask"}, {"places"});
    one.node("Transpose", {"places"}, {"tuples"});
    one.node("GatherND", {"x", "tuples"}, {"rows"});
    one.node("Shape", {"rows"}, {"sizes"});
    one.node("Gather", {"sizes", "zero"}, {"count"});
    setInt(columns ? one.node("Concat", {"rest", "count"}, {"shape"})
                   : one.node("Concat", {"count", "rest"}, {"shape"}),
           "axis", 0);
    one.node("Reshape", {"rows", "shape"}, {"view"});
    setInt(one.node("ReduceSum", {"view"}, {"y"}), "keepdims", 0);
    Imported result = import(one);
    EXPECT_EQ(columns, result.complains({"(Reshape)", "takes what NonZero selects"})) << result.everything();
  }
}

/// Places that are looked up by what a mask selects: entries of the others go behind the end, which is cut off again.
TEST_F(Operators, PutsRowsElsewhere) {
  model.integers("zero", {}, {0});
  model.integers("one", {}, {1});
  model.integers("column", {1}, {1});
  model.integers("where", {2}, {1, 0});
  model.node("ReduceMax", {"x"}, {"whole"});
  setInts(*model.graph().mutable_node(model.graph().node_size() - 1), "axes", {1, 2});
  setInt(*model.graph().mutable_node(model.graph().node_size() - 1), "keepdims", 0);
  model.weights("limit", {1});
  model.node("Greater", {"whole", "limit"}, {"mask"});
  model.node("NonZero", {"mask"}, {"places"});
  setInts(model.node("Squeeze", {"places", "axis"}, {"rows"}), "unused", {});
  model.integers("axis", {1}, {0});
  model.node("Gather", {"where", "rows"}, {"elsewhere"});
  model.node("Gather", {"x", "rows"}, {"taken"});
  model.node("Unsqueeze", {"elsewhere", "column"}, {"tuples"});
  model.node("ScatterND", {"x", "tuples", "taken"}, {"y"});
  expect({"tensor<3x6x8xf32>", "nn.scatter", "nn.slice"});
}

/// Rows that are sorted, cut by counts of data, and joined again: of every row what its own part became.
TEST_F(Operators, PartsByCountsOfData) {
  model.input("counts", kInt64, {"b"});
  model.node("SplitToSequence", {"x", "counts"}, {"parts"});
  for (int64_t i : {0, 1}) {
    const std::string e = std::to_string(i);
    model.integers("at" + e, {}, {i});
    model.node("SequenceAt", {"parts", "at" + e}, {"part" + e});
    model.node(i == 1 ? "Tanh" : "Sigmoid", {"part" + e}, {"done" + e});
  }
  TestModel other = model;
  setInt(model.node("Concat", {"done0", "done1"}, {"y"}), "axis", 0);
  expect({"nn.cumsum", "predicate = \"ge\"", "predicate = \"eq\"", "nn.tanh", "nn.sigmoid", "nn.select"});
  setInt(other.node("Concat", {"done1", "done0"}, {"y"}), "axis", 0);
  EXPECT_TRUE(import(other).complains({"'n_y' (Concat)", "it takes what NonZero selects", "or SplitToSequence"}))
      << import(other).everything();
}

/// A loop over experts, each for the rows that chose it, is one product of rows with the matrices that they name.
TEST_F(Operators, LoopsOverExperts) {
  for (bool complete : {true, false}) {
    TestModel one(20);
    one.input("x", kFloat, {"b", "8"}).input("choice", kInt64, {"b"}).output("y");
    one.weights("none", {2, 4});
    std::string sum = "none";
    for (int64_t expert : {0, 1, 2}) {
      const std::string e = std::to_string(expert);
      one.integers("number" + e, {}, {complete || expert < 2 ? expert : 5});
      one.weights("w" + e, {8, 4});
      one.weights("b" + e, {4});
      one.node("Equal", {"choice", "number" + e}, {"mask" + e});
      one.node("NonZero", {"mask" + e}, {"places" + e});
      setInts(one.node("Transpose", {"places" + e}, {"tuples" + e}), "perm", {1, 0});
      one.node("GatherND", {"x", "tuples" + e}, {"rows" + e});
      one.node("MatMul", {"rows" + e, "w" + e}, {"products" + e});
      one.node("Add", {"products" + e, "b" + e}, {"biased" + e});
      one.node("Relu", {"biased" + e}, {"new" + e});
      const std::string next = expert == 2 ? "y" : "sum" + e;
      setText(one.node("ScatterND", {sum, "tuples" + e, "new" + e}, {next}), "reduction", "add");
      sum = next;
    }
    Imported result = import(one);
    EXPECT_EQ(result.has("nn.expert_matmul"), complete) << result.everything();
    EXPECT_EQ(result.has("nn.matmul"), !complete) << result.everything();
    EXPECT_FALSE(result.has("mt.rows") || result.has("mt.mask")) << result.everything();
  }
}

/// Empty pieces are legal, and nothing here has an empty tensor.
TEST_F(Operators, PutsAndJoinsNothing) {
  model.integers("none", {1}, {0});
  model.integers("last", {1}, {2});
  model.node("Slice", {"x", "none", "none", "last"}, {"empty"});
  setInt(model.node("Concat", {"x", "empty"}, {"joined"}), "axis", 2);
  model.node("Relu", {"joined"}, {"y"});
  Imported result = run();
  EXPECT_TRUE(result.has("nn.relu %arg0")) << result.everything();
}

TEST_F(Operators, PutsThatDoNotFit) {
  model.integers("tuples", {2, 4}, std::vector<int64_t>(8, 0));
  model.weights("rows", {2});
  TestModel other = model;
  model.node("ScatterND", {"x", "tuples", "rows"}, {"y"});
  EXPECT_TRUE(import(model).complains({"ScatterND", "its index tuples of shape 2x4 do not fit data of shape 2x6x8"}));
  setText(other.node("ScatterElements", {"x", "tuples", "rows"}, {"y"}), "reduction", "mean");
  EXPECT_TRUE(import(other).complains({"ScatterElements", "its reduction 'mean' is none of none, add, mul, max, min"}));
}

TEST_F(Operators, TheLargestElements) {
  model.integers("k", {1}, {3});
  auto &largest = model.node("TopK", {"x", "k"}, {"y", "places"});
  setInt(largest, "axis", 1);
  setInt(largest, "largest", 0);
  expect({"tensor<2x8x6xf32>", "nn.top_k", "k = 3 : i64, largest = false", "nn.gather_elements", "tensor<2x3x8xf32>"});
}

TEST_F(Operators, PadsByElements) {
  for (const char *mode : {"reflect", "edge", "wrap"}) {
    TestModel one(23);
    one.input("x", kFloat, {"b", "6", "8"}).output("y");
    one.integers("pads", {2}, {2, -1});
    one.integers("axes", {1}, {2});
    setText(one.node("Pad", {"x", "pads", "", "axes"}, {"y"}), "mode", mode);
    Imported result = import(one);
    std::string places = mode == std::string("reflect") ? "[2, 1, 0, 1, 2, 3, 4, 5, 6]"
                         : mode == std::string("edge")  ? "[0, 0, 0, 1, 2, 3, 4, 5, 6]"
                                                        : "[6, 7, 0, 1, 2, 3, 4, 5, 6]";
    EXPECT_TRUE(result.has(places) && result.has("nn.gather")) << mode << result.everything();
  }
  model.integers("pads", {6}, {0, 0, 0, 0, 0, 1});
  setText(model.node("Pad", {"x", "pads"}, {"y"}), "mode", "mirror");
  EXPECT_TRUE(import(model).complains({"Pad", "mode 'mirror' is none of constant, reflect, edge, wrap"}));
}

TEST_F(Operators, Resizes) {
  auto resized = [](const char *mode, const char *transformation, const std::vector<int64_t> &sizes) {
    TestModel one(23);
    one.input("x", kFloat, {"b", "6", "8"}).output("y");
    one.integers("sizes", {3}, sizes);
    auto &node = one.node("Resize", {"x", "", "", "sizes"}, {"y"});
    setText(node, "mode", mode);
    setText(node, "coordinate_transformation_mode", transformation);
    return import(one);
  };
  Imported nearest = resized("nearest", "asymmetric", {2, 6, 16});
  EXPECT_TRUE(nearest.has("nn.gather") && !nearest.has("nn.mul")) << nearest.everything();
  Imported half = resized("nearest", "asymmetric", {2, 6, 4});
  EXPECT_TRUE(half.has("nn.slice") && half.has("strides = array<i64: 1, 1, 2>")) << half.everything();
  Imported linear = resized("linear", "align_corners", {2, 11, 8});
  EXPECT_TRUE(linear.has("nn.mul") && linear.has("nn.add") && linear.has("tensor<2x11x8xf32>")) << linear.everything();
  EXPECT_TRUE(resized("area", "half_pixel", {2, 6, 8})
                  .complains({"Resize", "mode 'area' with 'half_pixel' and 'round_prefer_floor' is not supported"}));
  EXPECT_TRUE(resized("linear", "half_pixel", {2, 6, 0})
                  .complains({"Resize", "resizes dimension 2 of 8 elements to 0; 1 to 65536 are supported"}));
}

TEST_F(Operators, ResizesByScalesThatAreInitializers) {
  model.weights("scales", {3}, {1, 1, 2});
  model.node("Resize", {"x", "", "scales"}, {"y"});
  Imported result = import(model);
  EXPECT_TRUE(result.has("tensor<2x6x16xf32>") && !result.has("scales")) << result.everything();
}

TEST_F(Operators, SizesOfResultsAreBounded) {
  auto refuses = [](const std::vector<float> &scales, const char *mode, int64_t antialias, const char *complaint) {
    TestModel one(18);
    one.input("x", kFloat, {"b", "6", "8"}).output("y");
    one.weights("scales", {3}, scales);
    auto &node = one.node("Resize", {"x", "", "scales"}, {"y"});
    setText(node, "mode", mode);
    setInt(node, "antialias", antialias);
    return import(one).complains({"'n_y' (Resize)", complaint});
  };
  EXPECT_TRUE(refuses({1, 1, 1e30F}, "nearest", 0, "resizes dimension 2 of 8 elements to 65537"));
  EXPECT_TRUE(refuses({1, 1, NAN}, "nearest", 0, "resizes dimension 2 of 8 elements to 0"));
  EXPECT_TRUE(refuses({1, 1, -2}, "nearest", 0, "resizes dimension 2 of 8 elements to 0"));
  TestModel long_(18);
  long_.input("x", kFloat, {"b", "6", "4096"}).output("y");
  long_.weights("scales", {3}, {1, 1, 0.001F});
  auto &node = long_.node("Resize", {"x", "", "scales"}, {"y"});
  setText(node, "mode", "cubic");
  setInt(node, "antialias", 1);
  EXPECT_TRUE(
      import(long_).complains({"Resize", "makes one element of dimension 2 out of 4000; up to 64 are supported"}));
}

TEST_F(Operators, RegionsMayBeAnything) {
  for (float far : {1e30F, -1e30F, NAN, INFINITY}) {
    TestModel one(18);
    one.input("x", kFloat, {"b", "6", "8"}).output("y");
    one.weights("region", {6}, {0, 0, far, 1, 1, 1});
    one.integers("sizes", {3}, {2, 6, 4});
    auto &node = one.node("Resize", {"x", "region", "", "sizes"}, {"y"});
    setText(node, "mode", "linear");
    setText(node, "coordinate_transformation_mode", "tf_crop_and_resize");
    Imported result = import(one);
    EXPECT_TRUE(result.has("tensor<2x6x4xf32>")) << result.everything();
  }
}

TEST_F(Operators, TransposedConvolutionsOfAbsurdSizeAreRefused) {
  model.weights("w", {6, 4, 2});
  auto refuses = [&](const char *attribute) {
    TestModel one = model;
    setInts(one.node("ConvTranspose", {"x", "w"}, {"y"}), attribute, {INT64_MAX - 1});
    return import(one).complains({"'n_y' (ConvTranspose)", "must not be negative, nor above 2147483648"});
  };
  EXPECT_TRUE(refuses("output_padding"));
  EXPECT_TRUE(refuses("output_shape"));
}

TEST_F(Operators, PadsOfAbsurdSizeAreRefused) {
  for (int64_t pad : {INT64_MIN, INT64_MAX}) {
    TestModel one(23);
    one.input("x", kFloat, {"b", "6", "8"}).output("y");
    one.integers("pads", {6}, {0, 0, 0, 0, 0, pad});
    one.node("Pad", {"x", "pads"}, {"y"});
    EXPECT_TRUE(import(one).complains({"'n_y' (Pad)", "its pads must lie between -1099511627776 and 1099511627776"}));
  }
}

TEST_F(Operators, WindowsOfAbsurdSizeAreRefused) {
  model.weights("w", {4, 6, 2});
  auto refuses = [&](const char *attribute, std::initializer_list<int64_t> values) {
    TestModel one = model;
    setInts(one.node("Conv", {"x", "w"}, {"y"}), attribute, values);
    return import(one).complains({"'n_y' (Conv)", "none above 2147483648"});
  };
  EXPECT_TRUE(refuses("strides", {INT64_MAX - 1}));
  EXPECT_TRUE(refuses("dilations", {INT64_MAX - 1}));
  EXPECT_TRUE(refuses("pads", {INT64_MAX - 1, INT64_MAX - 1}));
}

TEST_F(Operators, TheTakenBranchIsInlined) {
  model.integers("eight", {1}, {8});
  setInt(model.node("Shape", {"x"}, {"width"}), "start", 2);
  model.node("Equal", {"width", "eight"}, {"fits"});
  auto &branch = model.node("If", {"fits"}, {"y"});
  for (const char *side : {"then_branch", "else_branch"}) {
    auto *attribute = branch.add_attribute();
    attribute->set_name(side);
    attribute->set_type(::onnx::AttributeProto::GRAPH);
    auto *node = attribute->mutable_g()->add_node();
    node->set_op_type(side[0] == 't' ? "Relu" : "Frobnicate");
    node->add_input("x");
    node->add_output(std::string(side) + "_out");
    attribute->mutable_g()->add_output()->set_name(std::string(side) + "_out");
  }
  expect({"nn.relu"});
}

/// If on data, or on another value that is above the bound, with branches of a node each.
struct Choice {
  TestModel model;
  explicit Choice(const std::string &compared = "most") {
    model.model.set_producer_name("pytorch");
    model.input("x", kFloat, {"b", "8"}).output("y");
    model.scalar("bound", 1);
    model.node("ReduceMax", {"x"}, {"most"}).set_name("/net/Max");
    model.node("Greater", {compared, "bound"}, {"high"});
    model.node("If", {"high"}, {"y"});
  }
  ::onnx::NodeProto &branch(const char *side, const std::string &op, std::initializer_list<std::string> inputs = {"x"},
                            int outputs = 1) {
    auto *attribute = model.graph().mutable_node(2)->add_attribute();
    attribute->set_name(side);
    attribute->set_type(::onnx::AttributeProto::GRAPH);
    auto *node = attribute->mutable_g()->add_node();
    node->set_op_type(op);
    for (const std::string &input : inputs)
      node->add_input(input);
    node->add_output(std::string(side) + "_out");
    for (int k = 0; k < outputs; ++k)
      attribute->mutable_g()->add_output()->set_name(node->output(0));
    return *node;
  }
};

/// Its branches compute these of x.
Imported chosen(const std::string &yes, const std::string &no, int outputs = 1) {
  Choice choice;
  choice.branch("then_branch", yes, {"x"}, outputs);
  if (!no.empty())
    choice.branch("else_branch", no, {"x"}, outputs);
  return import(choice.model);
}

size_t countOf(const Imported &result, const std::string &text) {
  size_t count = 0;
  for (size_t at = result.text.find(text); at != std::string::npos; at = result.text.find(text, at + 1))
    ++count;
  return count;
}

// Both are computed, of harmless numbers where the other one is taken.
TEST_F(Operators, DataChooseBetweenBranches) {
  Imported result = chosen("Log", "Tanh");
  for (const char *snippet : {"nn.log", "nn.tanh"})
    EXPECT_TRUE(result.has(snippet)) << result.everything();
  EXPECT_EQ(countOf(result, "nn.select"), 2U) << result.everything();
  EXPECT_TRUE(chosen("Log", "ReduceSum").complains({"'n_y' (If)", "do not give tensors of one shape and type"}));
  EXPECT_TRUE(chosen("Log", "Frobnicate").complains({"(Frobnicate)", "not supported"}));
  EXPECT_TRUE(chosen("Log", "").complains({"'n_y' (If)", "a branch of it is missing"}));
  EXPECT_TRUE(chosen("Log", "Tanh", 2).complains({"'n_y' (If)", "has other outputs than it"}));
  EXPECT_TRUE(chosen("NonZero", "NonZero").complains({"'n_y' (If)", "give what a mask selects"}));
  EXPECT_TRUE(chosen("SplitToSequence", "SplitToSequence").complains({"'n_y' (If)", "its branches give sequences"}));
  TestModel wide;
  wide.input("x", kFloat, {"b", "8"}).output("y");
  wide.node("If", {"x"}, {"y"});
  EXPECT_TRUE(import(wide).complains({"'n_y' (If)", "its condition is not one number"}));
}

// What guards a branch does not go by a parameter's first value, and parameters of equal values stay two.
TEST_F(Operators, DataChooseBetweenParameters) {
  Choice roots;
  roots.model.scalar("net.p", 0.5F);
  roots.branch("then_branch", "Pow", {"x", "net.p"});
  roots.branch("else_branch", "Tanh");
  EXPECT_EQ(countOf(import(roots.model), "nn.select"), 3U)
      << import(roots.model).everything(); // base, exponent, result
  Choice twins;
  twins.model.weights("one", {2, 8}, std::vector<float>(16, 1));
  twins.model.weights("two", {2, 8}, std::vector<float>(16, 1));
  twins.branch("then_branch", "Mul", {"x", "one"});
  twins.branch("else_branch", "Mul", {"x", "two"});
  EXPECT_EQ(import(twins.model).trained().size(), 2U) << import(twins.model).everything();
  Choice vectors;
  vectors.model.weights("one", {8}, std::vector<float>(8, 1));
  vectors.model.weights("two", {8}, std::vector<float>(8, 1));
  vectors.model.graph().mutable_node(2)->set_output(0, "gain");
  vectors.model.node("Mul", {"x", "gain"}, {"y"});
  vectors.branch("then_branch", "Identity", {"one"});
  vectors.branch("else_branch", "Identity", {"two"});
  EXPECT_EQ(import(vectors.model).trained().size(), 2U) << import(vectors.model).everything();
}

TEST_F(Operators, BranchesMoveNoStatistics) {
  Choice choice;
  for (const char *name : {"gain", "bias", "mean", "variance"})
    choice.model.weights(name, {8});
  setInt(choice.branch("then_branch", "BatchNormalization", {"x", "gain", "bias", "mean", "variance"}), "training_mode",
         1);
  auto *branch = choice.model.graph().mutable_node(2)->mutable_attribute(0)->mutable_g()->mutable_node(0);
  branch->add_output("moved_mean");
  branch->add_output("moved_variance");
  choice.branch("else_branch", "Tanh");
  EXPECT_TRUE(import(choice.model).complains({"(BatchNormalization)", "moves running statistics in a branch"}))
      << import(choice.model).everything();
}

// A parameter's first value does not decide for all steps.
TEST_F(Operators, ATrainedNumberChooses) {
  Choice choice("net.p");
  choice.model.scalar("net.p", 0.5F);
  choice.model.node("Mul", {"x", "net.p"}, {"a"});
  choice.branch("then_branch", "Relu", {"a"});
  choice.branch("else_branch", "Tanh", {"a"});
  Imported result = import(choice.model);
  EXPECT_TRUE(result.has("nn.relu") && result.has("nn.tanh")) << result.everything();
}

TEST_F(Operators, FunctionsHaveABound) { // each calls the next one twice
  model.node("F0", {"x"}, {"y"}, "local");
  for (int i = 0; i < 25; ++i) {
    auto *function = model.model.add_functions();
    function->set_name("F" + std::to_string(i));
    function->set_domain("local");
    function->add_input("a");
    function->add_output("c");
    auto *set = function->add_opset_import();
    set->set_version(23);
    set = function->add_opset_import();
    set->set_domain("local");
    set->set_version(1);
    for (const auto &[from, to] : {std::pair("a", "b"), std::pair("b", "c")}) {
      auto *node = function->add_node();
      node->set_op_type(i == 24 ? "Relu" : "F" + std::to_string(i + 1));
      node->set_domain(i == 24 ? "" : "local");
      node->add_input(from);
      node->add_output(to);
    }
  }
  EXPECT_TRUE(import(model).complains({"functions that call each other become more than 500000 nodes"}));
}

/// Numbers of few bits, as they lie in a file.
void packed(TestModel &model, const std::string &name, Type type, std::initializer_list<int64_t> dims, size_t bytes) {
  auto *tensor = model.graph().add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(type);
  for (int64_t size : dims)
    tensor->add_dims(size);
  tensor->set_raw_data(std::string(bytes, '\x21'));
}

TEST_F(Operators, NumbersOfFourBitsStayPacked) {
  packed(model, "q", ::onnx::TensorProto::INT4, {8, 3}, 12);
  packed(model, "zeros", ::onnx::TensorProto::INT4, {4, 3}, 6);
  model.weights("scales", {4, 3});
  auto &node = model.node("DequantizeLinear", {"q", "scales", "zeros"}, {"w"});
  setInt(node, "axis", 0);
  setInt(node, "block_size", 2);
  model.node("MatMul", {"x", "w"}, {"y"});
  Imported result = run();
  EXPECT_TRUE(result.has("nn.dequantize") && result.has("tensor<12xui8>") && result.has("bits = 4 : i64, block = 2") &&
              !result.has("nn.trainable"))
      << result.everything();
}

TEST_F(Operators, ZeroPointsMayBeListed) { // as ONNX Runtime's quantizer writes them
  packed(model, "q", ::onnx::TensorProto::INT8, {8, 3}, 24);
  auto *zeros = model.graph().add_initializer();
  zeros->set_name("zeros");
  zeros->set_data_type(::onnx::TensorProto::INT8);
  zeros->add_dims(3);
  for (int zero : {-7, 0, 7})
    zeros->add_int32_data(zero);
  model.weights("scales", {3});
  setInt(model.node("DequantizeLinear", {"q", "scales", "zeros"}, {"w"}), "axis", 1);
  model.node("MatMul", {"x", "w"}, {"y"});
  expect({"nn.dequantize", "dense<[-7, 0, 7]>"});
}

TEST_F(Operators, NumbersOfFourBitsAsBytes) {
  packed(model, "q", ::onnx::TensorProto::UINT4, {128, 3}, 192);
  setInt(model.node("Cast", {"q"}, {"y"}), "to", kFloat);
  expect({"nn.dequantize", "tensor<128x3xui8>", "tensor<128x3xf32>"});
}

TEST_F(Operators, PackedNumbersThatDoNotFit) {
  packed(model, "q", ::onnx::TensorProto::INT4, {8, 3}, 11);
  model.weights("scales", {4, 3});
  setInt(model.node("DequantizeLinear", {"q", "scales"}, {"y"}), "axis", 0);
  EXPECT_TRUE(import(model).complains({"'q'", "it has 11 bytes of values where its shape 12 needs 12"}));
  TestModel other(23);
  other.input("x", kFloat, {"b", "6", "8"}).output("y");
  packed(other, "q", ::onnx::TensorProto::INT4, {8, 3}, 12);
  other.weights("scales", {4, 3});
  setInt(other.node("DequantizeLinear", {"q", "scales"}, {"y"}), "axis", 0);
  EXPECT_TRUE(import(other).complains(
      {"'n_y' (DequantizeLinear)", "its scales of shape 4x3 do not fit blocks of 1 entries of 8x3"}));
}

TEST_F(Operators, ProductsWithPackedNumbers) {
  packed(model, "q", ::onnx::TensorProto::UINT8, {5, 1, 4}, 20);
  model.weights("scales", {5});
  auto product = [](TestModel &model, std::initializer_list<std::string> inputs) {
    auto &node = model.node("MatMulNBits", inputs, {"y"}, "com.microsoft");
    setInt(node, "N", 5);
    setInt(node, "K", 8);
    setInt(node, "block_size", 8);
  };
  TestModel ordered = model, other = model, stored = model;
  product(model, {"x", "q", "scales"});
  expect({"nn.dequantize", "zero = 8 : i64", "nn.matmul", "tensor<2x6x5xf32>"});
  packed(ordered, "order", ::onnx::TensorProto::UINT8, {8}, 8);
  product(ordered, {"x", "q", "scales", "", "order"});
  EXPECT_TRUE(import(ordered).complains(
      {"'n_y' (com.microsoft.MatMulNBits)", "its input g_idx, an order of the blocks, is not supported"}));
  other.weights("more", {6});
  product(other, {"x", "q", "more"});
  EXPECT_TRUE(import(other).complains(
      {"'n_y' (com.microsoft.MatMulNBits)", "its numbers and scales are not stored as 5 rows of 1 blocks of 8"}));
  auto &node = stored.node("MatMulNBits", {"x", "q", "scales"}, {"y"}, "com.microsoft");
  setInt(node, "N", 5);
  EXPECT_TRUE(import(stored).complains(
      {"'n_y' (com.microsoft.MatMulNBits)", "its N, K, bits and block_size must be positive"}));
}

TEST_F(Operators, RowsOfPackedNumbers) {
  auto picked = [](std::initializer_list<int64_t> scales, std::initializer_list<std::string> more, int64_t bits = 4) {
    TestModel one(23);
    one.input("ids", kInt64, {"b", "6"}).output("y");
    packed(one, "q", ::onnx::TensorProto::UINT8, {10, 16}, 160);
    packed(one, "zeros", ::onnx::TensorProto::UINT8, {10, 1}, 10);
    one.weights("scales", scales);
    auto &node = one.node("GatherBlockQuantized", {"q", "ids", "scales"}, {"y"}, "com.microsoft");
    for (const std::string &name : more)
      node.add_input(name);
    setInt(node, "block_size", 16);
    setInt(node, "bits", bits);
    return import(one);
  };
  Imported rows = picked({10, 2}, {});
  EXPECT_TRUE(rows.has("bits = 4 : i64") && rows.has("zero = 8 : i64") && rows.has("tensor<2x6x32xf32>") &&
              rows.trained().empty())
      << rows.everything();
  EXPECT_TRUE(picked({10, 2}, {"zeros"}).has("tensor<10x2xf32>"));
  EXPECT_TRUE(picked({10, 3}, {})
                  .complains({"'n_y' (com.microsoft.GatherBlockQuantized)",
                              "its scales of shape 10x3 do not fit blocks of 16 entries of 10x32"}));
  EXPECT_TRUE(picked({10, 4}, {"q"}, 2)
                  .complains({"(com.microsoft.GatherBlockQuantized)",
                              "zero points of shape 10x16 do not fit its scales of shape 10x4"}));
  EXPECT_TRUE(picked({10, 2}, {}, 3).complains({"(com.microsoft.GatherBlockQuantized)", "bits 2, 4 or 8"}));
}

TEST_F(Operators, LossesOfTheModel) {
  TestModel one;
  one.input("x", kFloat, {"b", "10", "6"}).input("l", kInt64, {"b", "6"}).output("y");
  setInt(one.node("SoftmaxCrossEntropyLoss", {"x", "l"}, {"y"}), "ignore_index", -100);
  ImportOptions options;
  options.batch = 2;
  options.sequence = 6;
  Imported result = import(one.save(), options);
  EXPECT_TRUE(result.has("nn.log_softmax")) << result.everything();
  EXPECT_TRUE(result.has("-> (tensor<f32>")) << result.everything();
}

TEST_F(Operators, LossesOfShares) { // of all classes, in place of one of them
  for (const char *reduction : {"none", "mean", "sum"}) {
    TestModel one;
    one.input("x", kFloat, {"b", "5", "3"}).input("l", kFloat, {"b", "5", "3"}).output("y");
    one.weights("w", {5});
    auto &node = one.node("SoftmaxCrossEntropyLoss", {"x", "l", "w"}, {"y"});
    setText(node, "reduction", reduction);
    setInt(node, "ignore_index", -100);
    Imported result = import(one, 2);
    EXPECT_TRUE(result.has("nn.log_softmax") && !result.has("nn.trainable")) << result.everything();
    EXPECT_TRUE(result.has(reduction == std::string("none") ? "-> (tensor<2x3xf32>" : "-> (tensor<f32>"))
        << result.everything();
  }
}

TEST_F(Operators, LabelsFitTheirPredictions) {
  for (bool real : {false, true}) {
    TestModel one;
    one.input("x", kFloat, {"b", "10", "6"}).input("l", real ? kFloat : kInt64, {"b", real ? "6" : "5"}).output("y");
    setInt(one.node("NegativeLogLikelihoodLoss", {"x", "l"}, {"y"}), "ignore_index", 5);
    Imported result = import(one, 2);
    EXPECT_TRUE(result.complains({"'n_y' (NegativeLogLikelihoodLoss)",
                                  real ? "its labels of shape 2x6" : "its labels of shape 2x5",
                                  "are not one integer for each prediction of shape 2x6x10"}))
        << result.everything();
  }
}

TEST_F(Operators, ClassWeightsOfALossAreNotTrained) {
  for (int64_t classes : {70000, 9}) {
    TestModel one;
    one.input("x", kFloat, {"b", "70000"}).input("l", kInt64, {"b"}).output("y");
    one.weights("w", {classes});
    one.node("SoftmaxCrossEntropyLoss", {"x", "l", "w"}, {"y"});
    Imported result = import(one, 2);
    if (classes == 9) {
      EXPECT_TRUE(result.complains({"its third input must hold a weight for each of 70000 classes"})) << result.everything();
      continue;
    }
    EXPECT_TRUE(result.has("nn.buffer")) << result.everything();
    EXPECT_FALSE(result.has("nn.trainable")) << result.everything();
  }
}

} // namespace
} // namespace mt::onnx::test
