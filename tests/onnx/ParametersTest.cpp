// Which tensors are trained: by what the exporter says, else by use and values; and what users override.
#include "tests/onnx/TestModel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

namespace mt::onnx::test {
namespace {

using Names = std::vector<std::string>;

TEST(Parameters, WeightsByUse) {
  TestModel model;
  model.input("ids", kInt64, {"b", "s"}).output("y");
  model.weights("table", {32, 8});
  model.weights("places", {64, 8});
  model.weights("gain", {8});
  model.weights("bias", {8});
  model.weights("w", {8, 32});
  model.integers("zero", {}, {0});
  model.integers("one", {}, {1});
  model.integers("length", {}, {256});
  model.node("Gather", {"table", "ids"}, {"tokens"});
  model.integers("sixty", {}, {64});
  model.node("Range", {"zero", "length", "one"}, {"range"});
  model.node("Mod", {"range", "sixty"}, {"position"});
  model.node("Gather", {"places", "position"}, {"placed"});
  model.node("Add", {"tokens", "placed"}, {"x"});
  setInt(model.node("LayerNormalization", {"x", "gain", "bias"}, {"n"}), "axis", -1);
  model.node("MatMul", {"n", "w"}, {"y"});
  Imported result = import(model);
  EXPECT_EQ(result.trained(), (Names{"bias", "gain", "places", "table", "w"})) << result.everything();
  EXPECT_TRUE(result.has("nn.embedding"));
}

// What is looked up and given out as it is, whatever the data.
TEST(Parameters, OfOutputsThatNeedNoInput) {
  TestModel model;
  model.input("x", kFloat, {"b", "4"}).output("y").output("table");
  model.weights("table", {16, 8});
  model.integers("places", {2}, {3, 5});
  model.node("Gather", {"table", "places"}, {"y"});
  EXPECT_TRUE(import(model).has("nn.")) << import(model).everything();
}

// Angles are positions times frequencies; sines and cosines of them turn the activations.
TEST(Parameters, FrequenciesAreNot) {
  TestModel model;
  model.input("x", kFloat, {"b", "4", "32"}).output("y");
  model.weights("w", {32, 32});
  model.weights("frequencies", {32});
  std::vector<int64_t> positions{0, 1, 2, 3};
  model.integers("positions", {4, 1}, positions);
  setInt(model.node("Cast", {"positions"}, {"p"}), "to", kFloat);
  model.node("Mul", {"p", "frequencies"}, {"angles"});
  model.node("Cos", {"angles"}, {"cos"});
  model.node("MatMul", {"x", "w"}, {"q"});
  model.node("Mul", {"q", "cos"}, {"y"});
  EXPECT_EQ(import(model).trained(), Names{"w"});
}

TEST(Parameters, GridsOfPointsAreNot) {
  TestModel model(22);
  model.input("theta", kFloat, {"b", "2", "3"}).output("y").output("z");
  std::vector<float> points, others;
  for (int i = 0; i < 3 * 20; ++i)
    points.push_back(i < 20   ? -1 + 0.5f * static_cast<float>(i % 5)
                     : i < 40 ? -1 + static_cast<float>(i % 20 / 5) / 1.5f
                              : 1);
  others = points;
  std::swap(others[3], others[9]);
  model.weights("points", {3, 20}, points);
  model.weights("others", {3, 20}, others);
  model.node("MatMul", {"theta", "points"}, {"y"});
  model.node("MatMul", {"theta", "others"}, {"z"});
  EXPECT_EQ(import(model).trained(), Names{"others"});
}

// A static export folds the rotary tables; their squares add up to one.
TEST(Parameters, RotaryTablesAndMasksAreNot) {
  TestModel model;
  model.input("x", kFloat, {"b", "6", "32"}).output("y");
  model.weights("w", {32, 32});
  std::vector<float> cosines, sines, mask;
  for (int row = 0; row < 6; ++row)
    for (int i = 0; i < 32; ++i) {
      double angle = row * std::pow(10.0, -(i % 16) / 16.0);
      cosines.push_back(static_cast<float>(std::cos(angle)));
      sines.push_back(static_cast<float>(std::sin(angle)));
    }
  for (int i = 0; i < 36; ++i)
    mask.push_back(i % 6 <= i / 6 ? 0.F : -3.4e38F);
  model.weights("cosines", {1, 6, 32}, cosines);
  model.weights("sines", {1, 6, 32}, sines);
  model.weights("mask", {1, 6, 6}, mask);
  model.weights("learned", {1, 6, 32});
  model.node("Add", {"x", "learned"}, {"x1"});
  model.node("MatMul", {"x1", "w"}, {"q"});
  model.node("Mul", {"q", "cosines"}, {"qc"});
  model.node("Mul", {"q", "sines"}, {"qs"});
  model.node("Add", {"qc", "qs"}, {"r"});
  setInts(model.node("Transpose", {"r"}, {"rt"}), "perm", {0, 2, 1});
  model.node("MatMul", {"r", "rt"}, {"scores"});
  model.node("Add", {"scores", "mask"}, {"masked"});
  model.node("Softmax", {"masked"}, {"p"});
  model.node("MatMul", {"p", "r"}, {"y"});
  Imported result = import(model);
  EXPECT_EQ(result.trained(), (Names{"learned", "w"})) << result.everything();
  EXPECT_TRUE(result.has("nn.compare")) << "the mask follows a rule";
  EXPECT_EQ(result.parameters.size(), 4U) << "the mask is no argument";
}

// Zeros and ones hide what they multiply, and nothing that they are added to: weights begin so, too.
TEST(Parameters, ZerosAndOnesThatAreAddedAreTrained) {
  TestModel model;
  model.input("x", kFloat, {"b", "2", "3"}).output("y");
  const std::vector<float> zerosAndOnes = {1, 1, 0, 0, 0, 1};
  model.weights("added", {2, 3}, zerosAndOnes);
  model.weights("factor", {2, 3}, zerosAndOnes);
  model.node("Mul", {"x", "factor"}, {"masked"});
  model.node("Add", {"masked", "added"}, {"y"});
  EXPECT_EQ(import(model).trained(), Names{"added"});
  model.node("Softmax", {"y"}, {"p"}); // then they are of scores: which pairs there are
  model.output("p");
  EXPECT_EQ(import(model).trained(), Names{});
}

// Zeros that an exporter made for the first states of a recurrent layer.
TEST(Parameters, FirstStatesOfZerosAreNot) {
  TestModel model{22};
  model.input("x", kFloat, {"5", "n", "3"}).output("y");
  model.weights("w", {1, 16, 3});
  model.weights("r", {1, 16, 4});
  model.weights("states", {1, 2, 4}, std::vector<float>(8, 0));
  auto &node = model.node("LSTM", {"x", "w", "r", "", "", "states", "states"}, {"y"});
  setInt(node, "hidden_size", 4);
  ImportOptions options;
  options.batch = 5, options.dims["n"] = 2;
  EXPECT_EQ(import(model.save(), options).trained(), (Names{"r", "w"}));
}

TEST(Parameters, RunningStatisticsAreNot) {
  TestModel model;
  model.input("x", kFloat, {"b", "40", "6"}).output("y");
  for (const char *name : {"gain", "bias", "mean", "variance"})
    model.weights(name, {40});
  model.node("BatchNormalization", {"x", "gain", "bias", "mean", "variance"}, {"y"});
  Imported result = import(model);
  EXPECT_EQ(result.trained(), (Names{"bias", "gain"})) << result.everything();
}

/// In training form a step moves them.
TEST(Parameters, RunningStatisticsInTrainingAre) {
  TestModel model(17);
  model.input("x", kFloat, {"b", "40", "6"}).output("y");
  for (const char *name : {"gain", "bias", "mean", "variance"})
    model.weights(name, {40});
  setInt(model.node("BatchNormalization", {"x", "gain", "bias", "mean", "variance"}, {"z", "m", "v"}), "training_mode",
         1);
  TestModel twice = model;
  model.node("Relu", {"z"}, {"y"});
  Imported result = import(model);
  EXPECT_EQ(result.trained(), (Names{"bias", "gain", "mean", "variance"})) << result.everything();
  EXPECT_TRUE(result.has("nn.running_statistic") && result.has("nn.scalars")) << result.everything();
  EXPECT_EQ(std::ranges::count_if(result.parameters, &ImportedParameter::isRunning), 2);
  setInt(twice.node("BatchNormalization", {"z", "gain", "bias", "mean", "variance"}, {"y", "n", "w"}), "training_mode",
         1);
  EXPECT_TRUE(
      import(twice).complains({"'n_y' (BatchNormalization)", "running statistics 'mean' are another node's too"}));
}

TEST(Parameters, ScalesOfQuantizedWeightsAreNot) {
  TestModel model;
  model.input("x", kFloat, {"b", "32"}).output("y");
  model.weights("w", {32, 32});
  model.weights("scale", {32});
  model.integers("stored", {32, 32}, std::vector<int64_t>(1024, 3)).set_data_type(::onnx::TensorProto::INT32);
  model.graph().mutable_initializer(2)->clear_int64_data();
  for (int i = 0; i < 1024; ++i)
    model.graph().mutable_initializer(2)->add_int32_data(i % 7);
  model.node("DequantizeLinear", {"stored", "scale"}, {"wide"});
  model.node("MatMul", {"x", "wide"}, {"h"});
  model.node("MatMul", {"h", "w"}, {"y"});
  Imported result = import(model);
  EXPECT_EQ(result.trained(), Names{"w"}) << result.everything();
}

TEST(Parameters, OnlyWhatReachesAFloatOutputDifferentiably) {
  TestModel model;
  model.input("x", kFloat, {"b", "32"}).output("y").output("best");
  model.weights("w", {32, 32});
  model.weights("threshold", {32});
  model.weights("v", {32, 20});
  model.node("MatMul", {"x", "w"}, {"h"});
  model.node("Greater", {"h", "threshold"}, {"on"});
  model.scalar("zero", 0);
  model.node("Where", {"on", "h", "zero"}, {"y"});
  model.node("MatMul", {"h", "v"}, {"votes"});
  setInt(model.node("ArgMax", {"votes"}, {"best"}), "axis", 1);
  EXPECT_EQ(import(model).trained(), Names{"w"});
}

TEST(Parameters, SmallConstantsStayConstants) {
  TestModel model;
  model.input("x", kFloat, {"b", "32"}).output("y");
  model.weights("scale", {1}, {0.5F});
  model.scalar("shift", 2);
  model.node("Mul", {"x", "scale"}, {"a"});
  model.node("Add", {"a", "shift"}, {"b"});
  model.node("Relu", {"b"}, {"y"});
  Imported result = import(model);
  EXPECT_TRUE(result.parameters.empty()) << result.everything();
  EXPECT_TRUE(result.has("5.000000e-01"));
}

TEST(Parameters, SingleNumbersThatAreWeights) {
  TestModel model;
  model.input("x", kFloat, {"b", "4", "32"}).output("y");
  model.weights("slope", {1}, {0.25F});
  model.weights("w", {32, 1});
  model.weights("bias", {1}, {0.5F});
  model.node("PRelu", {"x", "slope"}, {"a"});
  model.node("MatMul", {"a", "w"}, {"h"});
  model.node("Add", {"h", "bias"}, {"y"});
  EXPECT_EQ(import(model).trained(), (Names{"bias", "slope", "w"}));
}

// Constant folding stores the head's matrix, tied to the table, a second time. Weights that once had few bits have few
// different values; tables of two, such as masks, may be equal by chance.
TEST(Parameters, TransposedCopiesAreTiedAgain) {
  for (float steps : {1e6F, 64.0F, 1.0F}) {
    TestModel model;
    model.input("ids", kInt64, {"b", "s"}).output("y");
    std::vector<float> table, head(64 * 32);
    for (int i = 0; i < 64 * 32; ++i)
      table.push_back(std::round(steps * static_cast<float>(std::sin(i * i))) / steps);
    for (int i = 0; i < 64 * 32; ++i)
      head[static_cast<size_t>(i % 32 * 64 + i / 32)] = table[static_cast<size_t>(i)];
    model.weights("table", {64, 32}, table);
    model.weights("head", {32, 64}, head);
    model.node("Gather", {"table", "ids"}, {"x"});
    model.node("MatMul", {"x", "head"}, {"y"});
    Imported result = import(model);
    if (steps == 1) {
      EXPECT_EQ(result.trained(), (Names{"head", "table"}));
      continue;
    }
    EXPECT_EQ(result.trained(), Names{"table"}) << result.everything();
    ASSERT_EQ(result.warnings.size(), 1U);
    EXPECT_NE(result.warnings[0].find("transposed copy of 'table'"), std::string::npos);
  }
}

// A layer used twice, its matrix transposed by constant folding: stored once for each use. Equal tensors that the
// metadata does not speak about stay apart: layers may start as copies of each other.
TEST(Parameters, CopiesAreTiedAgain) {
  std::vector<float> numbers;
  for (int i = 0; i < 32 * 32; ++i)
    numbers.push_back(static_cast<float>(std::sin(i * i)));
  for (bool told : {true, false}) {
    TestModel model;
    model.input("x", kFloat, {"b", "32"}).output("y");
    model.weights("val_1", {32, 32}, numbers);
    model.weights("val_2", {32, 32}, numbers);
    for (auto [input, weight, output] : {std::tuple("x", "val_1", "h"), std::tuple("h", "val_2", "y")}) {
      auto &node = model.node("MatMul", {input, weight}, {output});
      auto *fx = node.add_metadata_props();
      fx->set_key("pkg.torch.onnx.fx_node");
      fx->set_value("%linear : call_function[target=aten.linear](args = (%a, %p_net_w), kwargs = {})");
    }
    if (told) {
      auto *signature = model.graph().add_metadata_props();
      signature->set_key("pkg.torch.export.ExportedProgram.graph_signature");
      signature->set_value("\n# inputs\np_net_w: PARAMETER target='net.w'\nx: USER_INPUT\n");
    }
    Imported result = import(model);
    EXPECT_EQ(result.trained(), told ? Names{"val_1"} : (Names{"val_1", "val_2"})) << result.everything();
    ASSERT_EQ(result.warnings.size(), told ? 1U : 0U);
    if (told) {
      EXPECT_NE(result.warnings[0].find("'val_1' and 'val_2' are copies of one parameter, 'net.w'"), std::string::npos);
    }
  }
}

/// PyTorch's embeddings do not train the row of their padding, which only its own note says.
TEST(Parameters, RowsOfPadding) {
  for (auto [arguments, padding] :
       {std::pair("%p_w, %ids, 3", "{padding = 3 : i64}"), std::pair("%p_w, %ids, 3, True", "{padding = 3 : i64}"),
        std::pair("%p_w, %ids", ""), std::pair("%p_w, %ids, -1", ""), std::pair("%p_w, %ids, 900", ""),
        std::pair("%p_w, %ids, 3x", ""), std::pair("%p_w", "")}) {
    TestModel model;
    model.input("ids", kInt64, {"b", "6"}).output("y");
    model.weights("w", {32, 8});
    auto *fx = model.node("Gather", {"w", "ids"}, {"y"}).add_metadata_props();
    fx->set_key("pkg.torch.onnx.fx_node");
    fx->set_value(std::string("%embedding : call_function[target=torch.ops.aten.embedding.default](args = (") +
                  arguments + "), kwargs = {})");
    Imported result = import(model);
    EXPECT_TRUE(result.has("nn.embedding %arg1, %arg0 " + std::string(padding) + (*padding ? " :" : ":")))
        << arguments << result.everything();
  }
}

TEST(Parameters, MatricesOfSeveralLayers) {
  for (const char *second : {"/layers.1/linear/MatMul", "/layers.0_1/linear/MatMul", "/head/linear/MatMul"}) {
    TestModel model;
    model.input("x", kFloat, {"b", "32"}).output("y");
    model.weights("w", {32, 32});
    model.node("MatMul", {"x", "w"}, {"h"}).set_name("/layers.0/linear/MatMul");
    model.node("MatMul", {"h", "w"}, {"y"}).set_name(second);
    Imported result = import(model);
    bool merged = std::string(second).find("layers.1") != std::string::npos;
    ASSERT_EQ(result.warnings.size(), merged ? 1U : 0U) << second;
    if (merged) {
      EXPECT_NE(result.warnings[0].find(
                    "'w' serves /layers.0/linear/MatMul, /layers.1/linear/MatMul and will be trained as one"),
                std::string::npos);
    }
  }
}

/// Group normalization as an exporter writes it: gains and biases of its instance norm are nobody's.
TEST(Parameters, WhatAnExporterFillsIn) {
  for (bool told : {true, false}) {
    TestModel model;
    model.input("x", kFloat, {"b", "32", "6"}).output("y");
    model.weights("val_1", {32}, std::vector<float>(32, 1));
    model.weights("val_2", {32}, std::vector<float>(32, 0));
    model.weights("net.gain", {32, 1});
    model.node("InstanceNormalization", {"x", "val_1", "val_2"}, {"n"});
    model.node("Mul", {"n", "net.gain"}, {"y"});
    auto *signature = model.graph().add_metadata_props();
    signature->set_key("pkg.torch.export.ExportedProgram.graph_signature");
    signature->set_value("\n# inputs\np_net_gain: PARAMETER target='net.gain'\nx: USER_INPUT\n");
    if (!told)
      model.graph().clear_metadata_props();
    Imported result = import(model);
    EXPECT_EQ(result.trained(), told ? Names{"net.gain"} : (Names{"net.gain", "val_1", "val_2"}))
        << result.everything();
  }
}

TEST(Parameters, TheExporterKnowsBest) {
  TestModel model;
  model.input("x", kFloat, {"b", "32"}).output("y");
  model.weights("net.w", {32, 32});
  model.weights("val_7", {32, 32});
  model.weights("net.statistics", {32});
  model.node("MatMul", {"x", "net.w"}, {"a"});
  auto &second = model.node("MatMul", {"a", "val_7"}, {"b"});
  auto *fx = second.add_metadata_props();
  fx->set_key("pkg.torch.onnx.fx_node");
  fx->set_value("%linear : call_function[target=aten.linear](args = (%a, %p_net_v), kwargs = {})");
  model.node("Mul", {"b", "net.statistics"}, {"y"});
  auto *signature = model.graph().add_metadata_props();
  signature->set_key("pkg.torch.export.ExportedProgram.graph_signature");
  signature->set_value("\n# inputs\np_net_w: PARAMETER target='net.w'\np_net_v: PARAMETER target='net.v'\n"
                       "b_net_statistics: BUFFER target='net.statistics' persistent=True\nx: USER_INPUT\n");
  Imported result = import(model);
  EXPECT_EQ(result.trained(), (Names{"net.w", "val_7"})) << result.everything();
  for (const ImportedParameter &parameter : result.parameters)
    if (parameter.name == "val_7") {
      EXPECT_EQ(parameter.aliases, (std::vector<Alias>{{Alias::Kind::module, "net.v", true}}));
    }
}

/// x * alpha, plus beta in a module's own, of a file that does not say which variables are parameters.
TestModel singleNumbers(const std::string &producer, const std::string &node, const std::string &alpha,
                        const std::string &beta) {
  TestModel model;
  model.model.set_producer_name(producer);
  model.input("x", kFloat, {"b", "8"}).output("y");
  model.weights("w", {8, 8});
  model.scalar(alpha, 0.5F);
  model.weights(beta, {1}, {0.25F});
  model.node("MatMul", {"x", "w"}, {"a"}).set_name(node);
  model.node("Mul", {"a", alpha}, {"scaled"});
  model.node("Add", {"scaled", beta}, {"y"});
  return model;
}

// A single number is in the model's code, unless the exporter names it after a variable of the model's.
TEST(Parameters, SingleNumbersByName) {
  Imported older = import(singleNumbers("pytorch", "/net/MatMul", "alpha", "net.beta"));
  EXPECT_EQ(older.trained(), (Names{"alpha", "net.beta", "w"})) << older.everything();
  ASSERT_EQ(older.warnings.size(), 1U) << older.everything();
  EXPECT_NE(older.warnings[0].find("'alpha', 'net.beta' are single numbers with names of the model's own: trained"),
            std::string::npos)
      << older.warnings[0];
  Imported newer = import(singleNumbers("pytorch", "node_matmul", "scalar_tensor_2", "net.beta"));
  EXPECT_EQ(newer.trained(), (Names{"net.beta", "w"})) << newer.everything();
  Imported made = import(singleNumbers("pytorch", "/net/MatMul", "/net/Constant_output_0", "onnx::Add_12"));
  EXPECT_EQ(made.trained(), Names{"w"}) << made.everything();
  EXPECT_TRUE(made.warnings.empty()) << made.everything();
  for (const char *name : {"_v_31", "const_3", "ortshared_1_0_1_0_token_5", "17", "net.Constant_3"})
    EXPECT_EQ(import(singleNumbers("pytorch", "/net/MatMul", name, "/net/Constant_output_0")).trained(), Names{"w"})
        << name;
  for (const char *name : {"_scale", "constraint.alpha", "net.layers.3", "ConstantScale.p"})
    EXPECT_EQ(import(singleNumbers("pytorch", "/net/MatMul", name, "/net/Constant_output_0")).trained().size(), 2U)
        << name;
  Imported keras = import(singleNumbers("tf2onnx", "net/MatMul", "net/attention/Mul/ReadVariableOp:0", "net/add/y:0"));
  EXPECT_EQ(keras.trained(), (Names{"net/attention/Mul/ReadVariableOp:0", "w"})) << keras.everything();
  Imported other = import(singleNumbers("", "MatMul_0", "net.alpha", "net.beta"));
  EXPECT_EQ(other.trained(), Names{"w"}) << other.everything();
}

/// x @ w, and what `build` makes of "a" with the number "net.p".
Imported withNumber(float value, void (*build)(TestModel &), const ImportOptions &options = {}) {
  TestModel model;
  model.model.set_producer_name("pytorch");
  model.input("x", kFloat, {"b", "8"}).output("y");
  model.weights("w", {8, 8});
  model.scalar("net.p", value);
  model.node("MatMul", {"x", "w"}, {"a"}).set_name("/net/MatMul");
  build(model);
  return import(model, 2, options);
}

// Exponents and bounds are trained; what hides in a mask, and what keeps a number from zero, is not.
TEST(Parameters, SingleNumbersByUse) {
  auto power = [](TestModel &m) {
    m.node("Abs", {"a"}, {"size"});
    m.node("Pow", {"size", "net.p"}, {"y"});
  };
  EXPECT_EQ(withNumber(3, power).trained(), (Names{"net.p", "w"}));
  auto bound = [](TestModel &m) { m.node("Max", {"a", "net.p"}, {"y"}); };
  EXPECT_EQ(withNumber(0.1F, bound).trained(), (Names{"net.p", "w"}));
  auto guard = [](TestModel &m) {
    m.node("Mul", {"a", "a"}, {"square"});
    m.node("Add", {"square", "net.p"}, {"some"});
    m.node("Sqrt", {"some"}, {"y"});
  };
  EXPECT_EQ(withNumber(1e-5F, guard).trained(), Names{"w"});
  EXPECT_EQ(withNumber(0.5F, guard).trained(), (Names{"net.p", "w"})) << "too large for a guard";
  auto shift = [](TestModel &m) {
    m.scalar("onnx::Pow_2", 2);
    m.node("Add", {"a", "net.p"}, {"some"});
    m.node("Pow", {"some", "onnx::Pow_2"}, {"y"});
  };
  EXPECT_EQ(withNumber(1e-5F, shift).trained(), (Names{"net.p", "w"}));
  auto masked = [](TestModel &m) {
    m.node("Greater", {"x", "a"}, {"seen"});
    m.node("Where", {"seen", "a", "net.p"}, {"y"});
  };
  Imported hides = withNumber(-1e9F, masked);
  EXPECT_EQ(hides.trained(), Names{"w"}) << hides.everything();
  EXPECT_TRUE(hides.has("dense<-1.000000e+09>")) << "it stays a number that masks are known by\n" << hides.everything();
  ImportOptions held;
  held.freeze = {"net.p"};
  EXPECT_TRUE(withNumber(3, power, held).has("dense<3.0")) << "what is held is a number of the code";
}

TEST(Parameters, OfAFreshNormalizationMerged) {
  TestModel model;
  model.input("x", kFloat, {"b", "4", "8"}).output("y");
  model.weights("ones", {4}, {1, 1, 1, 1});
  model.weights("zeros", {4}, {0, 0, 0, 0});
  model.weights("w", {8, 8});
  model.node("MatMul", {"x", "w"}, {"a"});
  model.node("BatchNormalization", {"a", "ones", "zeros", "zeros", "ones"}, {"y"});
  Imported result = import(model);
  EXPECT_EQ(result.trained(), Names{"w"}) << result.everything();
  ASSERT_EQ(result.warnings.size(), 1U) << result.everything();
  EXPECT_NE(result.warnings[0].find("are both a weight and a statistic of one normalization: not trained"),
            std::string::npos)
      << result.warnings[0];
}

TEST(Parameters, SingleNumbersAsAsked) {
  ImportOptions options;
  options.freeze = {"alpha"};
  options.train = {"net.beta"};
  Imported result = import(singleNumbers("pytorch", "/net/MatMul", "alpha", "net.beta"), 2, options);
  EXPECT_EQ(result.trained(), (Names{"net.beta", "w"})) << result.everything();
  EXPECT_TRUE(result.warnings.empty()) << result.everything();
}

// A model's positions as sines and cosines, with a row of zeros for the padding: what the three layouts have in common.
enum class Layout { halves, quarters, neighbours };
std::vector<float> sinusoids(int64_t rows, int64_t width, Layout layout) {
  std::vector<float> table;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < width; ++i) {
      int64_t block = layout == Layout::halves ? width / 2 : layout == Layout::quarters ? width / 4 : 1;
      int64_t frequency = layout == Layout::neighbours ? i / 2 : i % block;
      int64_t place = layout == Layout::quarters && i >= width / 2 ? row % 4 : row;
      double angle = static_cast<double>(place) * std::pow(100.0, -2.0 * static_cast<double>(frequency) / static_cast<double>(width));
      bool sine = i / block % 2 == 0;
      table.push_back(row == 2 ? 0.F : static_cast<float>(sine ? std::sin(angle) : std::cos(angle)));
    }
  return table;
}
void sign(TestModel &model, const std::string &lines) {
  auto *signature = model.graph().add_metadata_props();
  signature->set_key("pkg.torch.export.ExportedProgram.graph_signature");
  signature->set_value("\n# inputs\n" + lines + "x: USER_INPUT\n");
}
/// Tokens, and positions that are looked up and added.
TestModel withPositions(const std::vector<float> &places) {
  TestModel model;
  model.input("ids", kInt64, {"b", "16"}).output("y");
  model.weights("net.tokens", {32, 8});
  model.weights("net.places", {16, 8}, places);
  model.weights("net.w", {8, 8});
  std::vector<int64_t> range(16);
  for (size_t i = 0; i < range.size(); ++i)
    range[i] = static_cast<int64_t>(i);
  model.integers("range", {16}, range);
  model.node("Gather", {"net.tokens", "ids"}, {"tokens"});
  model.node("Gather", {"net.places", "range"}, {"placed"});
  model.node("Add", {"tokens", "placed"}, {"x"});
  model.node("MatMul", {"x", "net.w"}, {"y"});
  sign(model, "p_tokens: PARAMETER target='net.tokens'\np_places: PARAMETER target='net.places'\np_w: PARAMETER target='net.w'\n");
  return model;
}
bool warns(const Imported &result, std::initializer_list<std::string> snippets) {
  for (const std::string &warning : result.warnings)
    if (std::all_of(snippets.begin(), snippets.end(), [&](auto &snippet) { return warning.find(snippet) != std::string::npos; }))
      return true;
  return false;
}

// PyTorch holds them fixed (requires_grad), and its exporter calls them parameters all the same.
TEST(Parameters, SinusoidsOfPositionsAreNot) {
  for (Layout layout : {Layout::halves, Layout::quarters, Layout::neighbours}) {
    Imported result = import(withPositions(sinusoids(16, 8, layout)));
    EXPECT_EQ(result.trained(), (Names{"net.tokens", "net.w"})) << result.everything();
    EXPECT_TRUE(warns(result, {"'net.places' holds sines and cosines of positions", "--train 'net.places'"})) << result.everything();
  }
}

TEST(Parameters, SinusoidsAreTrainedOnRequest) {
  std::string path = withPositions(sinusoids(16, 8, Layout::halves)).save();
  ImportOptions options;
  options.train = {"net.places"};
  Imported trained = import(path, options);
  EXPECT_EQ(trained.trained(), (Names{"net.places", "net.tokens", "net.w"}));
  EXPECT_TRUE(trained.warnings.empty()) << trained.everything();
  options.train = {};
  options.freeze = {"net.places"};
  EXPECT_TRUE(import(path, options).warnings.empty()) << "the user has decided";
}

TEST(Parameters, WhatWasTrainedFromSinusoidsIs) {
  std::vector<float> places = sinusoids(16, 8, Layout::halves);
  places[37] += 0.01F;
  Imported result = import(withPositions(places));
  EXPECT_EQ(result.trained(), (Names{"net.places", "net.tokens", "net.w"})) << result.everything();
  EXPECT_TRUE(result.warnings.empty()) << result.everything();
}

// RoFormer's: the exporter reads rows of the table in place of looking them up, and they turn queries and keys.
TEST(Parameters, SinusoidsThatTurnAreNot) {
  TestModel model;
  model.input("x", kFloat, {"b", "16", "8"}).output("y");
  model.weights("net.w", {8, 8});
  model.weights("net.places", {32, 8}, sinusoids(32, 8, Layout::halves));
  model.integers("begin", {1}, {0});
  model.integers("end", {1}, {16});
  model.node("MatMul", {"x", "net.w"}, {"q"});
  model.node("Slice", {"net.places", "begin", "end"}, {"rows"});
  model.node("Mul", {"q", "rows"}, {"y"});
  sign(model, "p_w: PARAMETER target='net.w'\np_places: PARAMETER target='net.places'\n");
  EXPECT_EQ(import(model).trained(), Names{"net.w"});
}

// A table that is a factor of a product is a weight, such as that of a Fourier transform.
TEST(Parameters, SinusoidsInProductsAreWeights) {
  TestModel model;
  model.input("x", kFloat, {"b", "16"}).output("y");
  model.weights("net.w", {16, 8}, sinusoids(16, 8, Layout::halves));
  model.node("MatMul", {"x", "net.w"}, {"y"});
  sign(model, "p_w: PARAMETER target='net.w'\n");
  EXPECT_EQ(import(model).trained(), Names{"net.w"});
}

// exp of a parameter, computed by the exporter: the number that is left is no parameter, and nothing names the one it was.
TEST(Parameters, FoldedParametersAreWarnedAbout) {
  TestModel model;
  model.input("x", kFloat, {"b", "32"}).output("y");
  model.weights("net.w", {32, 32});
  model.scalar("exp", 14.3F);
  model.node("MatMul", {"x", "net.w"}, {"a"});
  auto *fx = model.node("Mul", {"a", "exp"}, {"y"}).add_metadata_props();
  fx->set_key("pkg.torch.onnx.fx_node");
  fx->set_value("%mul : call_function[target=aten.mul](args = (%a, %exp), kwargs = {})");
  sign(model, "p_w: PARAMETER target='net.w'\np_logit_scale: PARAMETER target='net.logit_scale'\n");
  Imported result = import(model);
  EXPECT_TRUE(warns(result, {"'exp' (not trained)", "net.logit_scale", "optimize=False"})) << result.everything();
}

// Two names of one tensor: only one is there, and nothing was computed.
TEST(Parameters, TiedParametersAreNotWarnedAbout) {
  TestModel model = withPositions({});
  model.graph().mutable_metadata_props()->Clear();
  sign(model, "p_tokens: PARAMETER target='net.tokens'\np_places: PARAMETER target='net.places'\np_w: PARAMETER target='net.w'\n"
              "p_head: PARAMETER target='net.head'\n");
  EXPECT_TRUE(import(model).warnings.empty());
}

// Values that repeat nowhere, transposed if asked for.
std::vector<float> varied(int64_t rows, int64_t columns, bool transposed = false) {
  std::vector<float> values(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      values[static_cast<size_t>(transposed ? j * rows + i : i * columns + j)] = static_cast<float>(std::sin(i * columns + j));
  return values;
}
void trace(::onnx::NodeProto &node, const std::string &scopes, const std::string &target, const std::string &arguments) {
  for (const auto &[key, value] : {std::pair("name_scopes", scopes), std::pair("fx_node", "%v : call_function[target=torch.ops." + target + "](args = (" + arguments + "), kwargs = {})")}) {
    auto *pair = node.add_metadata_props();
    pair->set_key(std::string("pkg.torch.onnx.") + key);
    pair->set_value(value);
  }
}
const ImportedParameter *find(const Imported &result, const std::string &name) {
  for (const ImportedParameter &parameter : result.parameters)
    if (parameter.name == name)
      return &parameter;
  return nullptr;
}
using Aliases = std::vector<Alias>;
constexpr Alias::Kind kInitializer = Alias::Kind::initializer, kModule = Alias::Kind::module;

void note(::onnx::NodeProto &node, const std::string &name, const std::string &function, const std::string &arguments) {
  auto *fx = node.add_metadata_props();
  fx->set_key("pkg.torch.onnx.fx_node");
  fx->set_value("%" + name + " : [num_users=1] = call_function[target=torch.ops.aten." + function + "](args = (" +
                arguments + "), kwargs = {})");
}
/// x v as "linear", of which `last` makes y with w.
Imported detaching(const std::function<void(TestModel &)> &last) {
  TestModel model;
  model.input("x", kFloat, {"b", "32"}).output("y");
  model.weights("v", {32, 32}, varied(32, 32));
  model.weights("w", {32, 32}, varied(32, 32, true));
  sign(model, "p_w: PARAMETER target='w'\n");
  note(model.node("MatMul", {"x", "v"}, {"linear"}), "linear", "linear.default", "%x, %p_v");
  last(model);
  return import(model);
}

// The exporter writes PyTorch's detach as an Identity with a note, or optimizes it away: then notes of what takes it
// tell.
TEST(Parameters, DetachedValuesCarryNoGradient) {
  Imported kept = detaching([](TestModel &model) {
    note(model.node("Identity", {"linear"}, {"d"}), "detach_2", "detach.default", "%linear");
    note(model.node("MatMul", {"d", "w"}, {"y"}), "linear_1", "linear.default", "%detach_2, %p_w");
  });
  Imported lost = detaching([](TestModel &model) {
    note(model.node("MatMul", {"linear", "w"}, {"y"}), "linear_1", "linear.default", "%detach, %p_w");
  });
  for (const Imported &result : {std::cref(kept), std::cref(lost)}) {
    EXPECT_TRUE(result.has("nn.detach")) << result.everything();
    EXPECT_EQ(result.trained(), Names{"w"});
    EXPECT_TRUE(result.warnings.empty()) << result.everything();
  }
}

void expectUnplaced(const Imported &result, const std::string &names) {
  ASSERT_EQ(result.warnings.size(), 1U) << result.everything();
  EXPECT_NE(result.warnings[0].find("detaches values (" + names + ")"), std::string::npos) << result.everything();
}
/// y of what `before` makes as "s".
Imported detachingBefore(const std::function<void(TestModel &)> &before) {
  return detaching([&](TestModel &model) {
    before(model);
    note(model.node("MatMul", {"s", "w"}, {"y"}), "linear_1", "linear.default", "%s, %p_w");
  });
}

TEST(Parameters, DetachesThatWereLeftOutAreFoundByPlaceOrByName) {
  // One value twice: the second of two operands, of which the difference has the gradient of the first.
  Imported placed = detachingBefore([](TestModel &model) {
    note(model.node("Sub", {"linear", "linear"}, {"s"}), "s", "sub.Tensor", "%linear, %detach");
  });
  EXPECT_TRUE(placed.has("nn.sub %0, %1")) << placed.everything();
  EXPECT_EQ(placed.trained(), (Names{"v", "w"}));
  EXPECT_TRUE(placed.warnings.empty()) << placed.everything();
  // A call that became two nodes, which take one of its values twice, and in another order: what x is not.
  Imported named = detachingBefore([](TestModel &model) {
    note(model.node("Mul", {"linear", "linear"}, {"square"}), "s", "addcmul.default", "%x, %detach, %sym_size_int_3");
    note(model.node("Add", {"square", "x"}, {"s"}), "s", "addcmul.default", "%x, %detach, %sym_size_int_3");
  });
  EXPECT_EQ(named.trained(), Names{"w"}) << named.everything();
  EXPECT_TRUE(named.warnings.empty()) << named.everything();
  // Tensors of the module are arguments as well.
  Imported weight = detachingBefore([](TestModel &model) {
    note(model.node("MatMul", {"linear", "w"}, {"s"}), "s", "linear.default", "%linear, %detach");
  });
  EXPECT_TRUE(weight.has("nn.detach %arg2")) << weight.everything();
  EXPECT_TRUE(weight.warnings.empty()) << weight.everything();
}

// A single number, whose value is known; and a matrix that the exporter wrote down again under the detach's name.
TEST(Parameters, DetachedParametersAreTheseParameters) {
  Imported number = detachingBefore([](TestModel &model) {
    model.scalar("g", 2);
    auto *signature = model.graph().mutable_metadata_props(0);
    signature->set_value(signature->value() + "p_g: PARAMETER target='g'\n");
    note(model.node("Mul", {"linear", "g"}, {"mul"}), "mul", "mul.Tensor", "%linear, %detach");
    note(model.node("Mul", {"mul", "g"}, {"s"}), "s", "mul.Tensor", "%mul, %p_g");
  });
  EXPECT_TRUE(number.has("nn.detach")) << number.everything();
  EXPECT_EQ(number.trained(), (Names{"g", "v", "w"})) << number.everything();
  Imported matrix = detachingBefore([](TestModel &model) {
    model.weights("detach", {32, 32}, varied(32, 32, true)); // as w
    note(model.node("MatMul", {"linear", "detach"}, {"s"}), "s", "mm.default", "%linear, %detach");
  });
  EXPECT_TRUE(matrix.has("nn.detach %arg2")) << matrix.everything();
  EXPECT_EQ(matrix.trained(), (Names{"v", "w"})) << matrix.everything();
  EXPECT_TRUE(matrix.warnings.empty()) << matrix.everything();
}

TEST(Parameters, DetachesThatMayBeOthersAreWarnedAbout) {
  expectUnplaced(
      detachingBefore([](TestModel &model) { // three operands for two arguments of one value
        note(model.node("Mul", {"linear", "linear"}, {"square"}), "s", "addcmul.default", "%linear, %detach");
        note(model.node("Add", {"square", "linear"}, {"s"}), "s", "addcmul.default", "%linear, %detach");
      }),
      "detach");
  expectUnplaced(detachingBefore([](TestModel &model) { // an argument of which no node is left
                   note(model.node("Sub", {"linear", "x"}, {"s"}), "s", "rsub.Tensor", "%detach, %clone");
                 }),
                 "detach");
  expectUnplaced(detachingBefore([](TestModel &model) { // the nodes of a call are another's, which has its operands
                   note(model.node("Sub", {"linear", "x"}, {"sub"}), "sub", "sub.Tensor", "%linear, %x");
                   note(model.node("Mul", {"sub", "sub"}, {"s"}), "s", "mse_loss.default", "%linear, %detach");
                 }),
                 "detach");
  expectUnplaced(detachingBefore([](TestModel &model) { // a call that detaches nothing was merged into one that does
                   note(model.node("Tanh", {"linear"}, {"tanh"}), "tanh", "tanh.default", "%detach");
                   note(model.node("Tanh", {"tanh"}, {"tanh_1"}), "tanh_1", "tanh.default", "%tanh");
                   note(model.node("Mul", {"tanh_1", "x"}, {"s"}), "s", "mul.Tensor", "%tanh_3, %x");
                 }),
                 "detach");
  Imported first = detachingBefore([](TestModel &model) { // the first one went with such a call
    note(model.node("Tanh", {"linear"}, {"s"}), "s", "tanh.default", "%detach_1");
  });
  EXPECT_TRUE(first.has("nn.detach")) << first.everything();
  expectUnplaced(first, "detach");
  expectUnplaced(detachingBefore([](TestModel &model) { // what is decided on the way is no operand of a kernel
                   auto &node = model.node("If", {"flag"}, {"s"});
                   note(node, "s", "cond.default", "%detach, %x");
                   auto *flag = model.graph().add_initializer();
                   flag->set_name("flag");
                   flag->set_data_type(::onnx::TensorProto::BOOL);
                   flag->set_raw_data(std::string(1, 1));
                   auto *attribute = node.add_attribute();
                   for (const char *name : {"then_branch", "else_branch"}) {
                     attribute = name[0] == 't' ? attribute : node.add_attribute();
                     attribute->set_name(name);
                     attribute->set_type(::onnx::AttributeProto::GRAPH);
                     auto *tanh = attribute->mutable_g()->add_node();
                     tanh->set_op_type("Tanh");
                     tanh->add_input("linear");
                     tanh->add_output("inside");
                     attribute->mutable_g()->add_output()->set_name("inside");
                   }
                 }),
                 "detach");
}

// Notes are text that anybody wrote.
TEST(Parameters, NotesOfHugeNumbersAreNoDetaches) {
  for (const char *name : {"%detach_2000000000", "%detach_99999999999999999999", "%detach_-1", "%detach_", "%"}) {
    Imported result = detachingBefore(
        [&](TestModel &model) { note(model.node("Tanh", {"linear"}, {"s"}), "s", "tanh.default", name); });
    EXPECT_FALSE(result.has("nn.detach")) << result.everything();
    EXPECT_TRUE(result.warnings.empty()) << result.everything();
  }
}

// The name of what the exporter computed is that of the call: of one that takes no tensors, or detaches, it is no
// parameter. Nor is what it computed of such a call's, which has no name.
TEST(Parameters, WhatIsMadeOfNumbersIsHeld) {
  const std::pair<const char *, const char *> cases[] = {{"eye", "eye"},
                                                         {"full_like_2", "full_like_2"},
                                                         {"detach_3", "detach_3"},
                                                         {"val_5", "zeros_like"},
                                                         {"val_5", "mul"}};
  for (auto [name, call] : cases) {
    TestModel model;
    model.input("x", kFloat, {"b", "32"}).output("y");
    model.weights("net.w", {32, 32});
    model.weights(name, {32, 32}, varied(32, 32, true));
    model.node("MatMul", {"x", "net.w"}, {"a"});
    note(model.node("MatMul", {"a", name}, {"y"}), "mm", "mm.default", std::string("%a, %") + call);
    sign(model, "p_net_w: PARAMETER target='net.w'\np_net_lost: PARAMETER target='net.lost'\n");
    EXPECT_EQ(import(model).trained(), call == std::string("mul") ? (Names{"net.w", "val_5"}) : Names{"net.w"}) << call;
  }
}

// A matrix that the exporter computed, where it carries all parameters: the model's code made it. Without a signature
// it may be one.
TEST(Parameters, ComputedValuesAreHeldWhereNoParameterIsMissing) {
  for (bool told : {true, false}) {
    TestModel model;
    model.input("x", kFloat, {"b", "32"}).output("y");
    model.weights("net.w", {32, 32});
    model.weights("_to_copy", {32, 32}, varied(32, 32, true));
    model.node("MatMul", {"x", "net.w"}, {"a"});
    note(model.node("MatMul", {"a", "_to_copy"}, {"y"}), "mm", "mm.default", "%a, %_to_copy");
    if (told)
      sign(model, "p_net_w: PARAMETER target='net.w'\n");
    Imported result = import(model);
    EXPECT_EQ(result.trained(), told ? Names{"net.w"} : (Names{"_to_copy", "net.w"})) << result.everything();
    EXPECT_TRUE(told ? warns(result, {"computed '_to_copy'", "no parameter is missing: held as it is",
                                      "--train '_to_copy' trains it"})
                     : warns(result, {"computed '_to_copy'", "trained as it is", "--freeze '_to_copy' holds it"}))
        << result.everything();
    ImportOptions asked;
    (told ? asked.train : asked.freeze).push_back("_to_copy");
    result = import(model, 2, asked);
    EXPECT_EQ(result.trained(), told ? (Names{"_to_copy", "net.w"}) : Names{"net.w"}) << result.everything();
    EXPECT_TRUE(result.warnings.empty()) << result.everything();
  }
}

// A matrix that is used plainly and, as the exporter computed, transposed.
TEST(Parameters, ComputedTransposesAreTheirParameters) {
  std::vector<float> w, turned(32 * 48);
  for (int i = 0; i < 32 * 48; ++i)
    w.push_back(static_cast<float>(std::sin(i * i)));
  for (int i = 0; i < 32 * 48; ++i)
    turned[static_cast<size_t>(i % 48 * 32 + i / 48)] = w[static_cast<size_t>(i)];
  TestModel model;
  model.input("x", kFloat, {"b", "32"}).output("y");
  model.weights("w", {32, 48}, w);
  model.weights("permute", {48, 32}, turned);
  model.node("MatMul", {"x", "w"}, {"h"});
  note(model.node("MatMul", {"h", "permute"}, {"y"}), "mm", "mm.default", "%h, %permute");
  sign(model, "p_w: PARAMETER target='w'\n");
  Imported result = import(model);
  EXPECT_EQ(result.trained(), Names{"w"}) << result.everything();
  EXPECT_TRUE(result.has("nn.transpose %arg1")) << result.everything();
  ASSERT_EQ(result.warnings.size(), 1U) << result.everything();
  EXPECT_NE(result.warnings[0].find("transposed copy of 'w'"), std::string::npos);
}

// The older exporter names what it computed of a matrix by the product that takes it.
TEST(Parameters, TransposesByTheOlderExporterAreTheirMatrices) {
  for (const char *name : {"onnx::MatMul_19", "other"}) {
    std::vector<float> w, turned(32 * 48);
    for (int i = 0; i < 32 * 48; ++i)
      w.push_back(static_cast<float>(std::sin(i * i)));
    for (int i = 0; i < 32 * 48; ++i)
      turned[static_cast<size_t>(i % 48 * 32 + i / 48)] = w[static_cast<size_t>(i)];
    TestModel model;
    model.input("x", kFloat, {"b", "32"}).output("y");
    model.weights("w", {32, 48}, w);
    model.weights(name, {48, 32}, turned);
    model.node("MatMul", {"x", "w"}, {"h"});
    model.node("MatMul", {"h", name}, {"y"});
    Imported result = import(model);
    const bool isOther = name == std::string("other");
    EXPECT_EQ(result.trained(), isOther ? (Names{"other", "w"}) : Names{"w"}) << result.everything();
    EXPECT_TRUE(isOther || warns(result, {name, "is a transposed copy of 'w'"})) << result.everything();
  }
}

// Of modules that begin as copies an optimizer keeps one tensor; the notes on nodes name the other.
TEST(Parameters, MergedCopiesAreWarnedAbout) {
  for (const char *second : {"p_te_w", "p_st_w"}) {
    TestModel model;
    model.input("x", kFloat, {"b", "32"}).output("y");
    model.weights("st.w", {32, 32});
    model.weights("st.b", {32});
    note(model.node("MatMul", {"x", "st.w"}, {"h"}), "mm", "mm.default", "%x, %p_st_w");
    note(model.node("Add", {"h", "st.b"}, {"a"}), "add", "add.Tensor", "%h, %p_st_b");
    note(model.node("MatMul", {"a", "st.w"}, {"k"}), "mm_1", "mm.default", std::string("%a, %") + second);
    note(model.node("Add", {"k", "st.b"}, {"y"}), "add_1", "add.Tensor", "%k, %p_st_b");
    sign(model, "p_st_w: PARAMETER target='st.w'\np_st_b: PARAMETER target='st.b'\np_te_w: PARAMETER target='te.w'\n");
    Imported result = import(model);
    EXPECT_EQ(result.trained(), (Names{"st.b", "st.w"})) << result.everything();
    if (second == std::string("p_te_w"))
      EXPECT_TRUE(warns(result, {"are one initializer ('te.w' in 'st.w')", "trained as one tensor", "optimize=False"}))
          << result.everything();
    else
      EXPECT_TRUE(result.warnings.empty()) << result.everything();
  }
}

// A penalty of weights that the exporter computed once and for all.
TEST(Parameters, ComputedNumbersAreWarnedAbout) {
  for (const char *name : {"mul_4", "full_1"}) {
    TestModel model;
    model.input("x", kFloat, {"b", "32"}).output("y");
    model.weights("w", {32, 32});
    model.weights(name, {}, {0.5F});
    note(model.node("MatMul", {"x", "w"}, {"mm"}), "mm", "mm.default", "%x, %p_w");
    note(model.node("Add", {"mm", name}, {"y"}), "add", "add.Tensor", std::string("%mm, %") + name);
    sign(model, "p_w: PARAMETER target='w'\n");
    Imported result = import(model);
    EXPECT_EQ(result.trained(), Names{"w"}) << result.everything();
    if (name == std::string("mul_4"))
      EXPECT_TRUE(warns(result, {"computed 'mul_4', of one element", "held as it is", "no gradient goes through it"}))
          << result.everything();
    else
      EXPECT_TRUE(result.warnings.empty()) << result.everything();
  }
}

// The older exporter writes tensors of the code as constants of nodes, and parameters as initializers; some exporters
// have no initializers.
TEST(Parameters, ConstantsOfNodesAreNotWhereInitializersAre) {
  for (bool initializer : {true, false}) {
    TestModel model;
    model.input("x", kFloat, {"b", "32"}).output("y");
    for (const char *name : {"w", "c"}) {
      model.weights(name, {32, 32}, varied(32, 32, *name == 'c'));
      if (*name == 'c' || !initializer) {
        auto *value = model.node("Constant", {}, {name}).add_attribute();
        value->set_name("value");
        value->set_type(::onnx::AttributeProto::TENSOR);
        *value->mutable_t() = model.graph().initializer(model.graph().initializer_size() - 1);
        model.graph().mutable_initializer()->RemoveLast();
      }
    }
    model.node("MatMul", {"x", "c"}, {"h"});
    model.node("MatMul", {"h", "w"}, {"y"});
    Imported result = import(model);
    EXPECT_EQ(result.trained(), initializer ? Names{"w"} : (Names{"c", "w"})) << result.everything();
    EXPECT_EQ(result.warnings.size(), initializer ? 1U : 0U) << result.everything();
    EXPECT_TRUE(!initializer || warns(result, {"'c' is the constant of a node", "not trained. --train 'c' trains it"}))
        << result.everything();
  }
}

// x += w, where x is detached: the exporter writes the detach behind the sum.
TEST(Parameters, DetachedParametersAreWarnedAbout) {
  TestModel model;
  model.input("x", kFloat, {"b", "32"}).output("y");
  model.weights("net.v", {32, 32}, varied(32, 32));
  model.weights("net.w", {32}, varied(32, 1));
  model.weights("net.idle", {32}, varied(32, 1, true));
  model.node("Add", {"x", "net.w"}, {"h"});
  auto *fx = model.node("Identity", {"h"}, {"d"}).add_metadata_props();
  fx->set_key("pkg.torch.onnx.fx_node");
  fx->set_value(
      "%detach_1 : [num_users=1] = call_function[target=torch.ops.aten.detach.default](args = (%h,), kwargs = {})");
  model.node("MatMul", {"d", "net.v"}, {"y"});
  sign(model, "p_v: PARAMETER target='net.v'\np_w: PARAMETER target='net.w'\np_idle: PARAMETER target='net.idle'\n");
  Imported result = import(model);
  EXPECT_EQ(result.trained(), Names{"net.v"});
  ASSERT_EQ(result.warnings.size(), 1U) << result.everything();
  EXPECT_NE(result.warnings[0].find("'net.w' is a parameter, and only detached values depend on it: not trained"),
            std::string::npos)
      << result.everything();
  ImportOptions options;
  options.freeze = {"net.w"};
  EXPECT_TRUE(import(model, 2, options).warnings.empty());
}

/// What torch.onnx writes of a table that is also the head, and of a linear layer used under two names.
TestModel withTiedNames() {
  TestModel model;
  model.input("ids", kInt64, {"b", "16"}).output("y");
  model.weights("head.weight", {64, 32});
  model.weights("val_0", {32, 32}); // folded: b.weight, transposed
  trace(model.node("Gather", {"head.weight", "ids"}, {"x"}), "['', 'net', 'net.embed', 'embedding']", "aten.embedding.default", "%p_head, %ids");
  trace(model.node("MatMul", {"x", "val_0"}, {"a"}), "['', 'a', 'linear']", "aten.linear.default", "%x, %p_b");
  trace(model.node("MatMul", {"a", "val_0"}, {"b"}), "['', 'b@1', 'linear_1']", "aten.linear.default", "%a, %p_b");
  setInts(model.node("Transpose", {"head.weight"}, {"t"}), "perm", {1, 0});
  trace(model.node("MatMul", {"b", "t"}, {"y"}), "['', 'head', 'linear_2']", "aten.linear.default", "%b, %p_head");
  sign(model, "p_embed: PARAMETER target='net.embed.weight'\np_a: PARAMETER target='a.weight'\np_b: PARAMETER target='b.weight'\n"
              "p_other: PARAMETER target='other.weight'\np_head: PARAMETER target='head.weight'\n");
  return model;
}

// A tied tensor is written once, and the signature has all its names: the module in which a node runs tells whose they are.
TEST(Parameters, TiedNamesAreFoundByModule) {
  Imported result = import(withTiedNames());
  ASSERT_EQ(result.trained(), (Names{"head.weight", "val_0"})) << result.everything();
  EXPECT_EQ(find(result, "head.weight")->aliases, (Aliases{{kModule, "net.embed.weight", false}}));
  EXPECT_EQ(find(result, "val_0")->aliases, (Aliases{{kModule, "b.weight", true}, {kModule, "a.weight", true}}));
}

TEST(Parameters, PatternsMeanEveryName) {
  std::string path = withTiedNames().save();
  for (const char *name : {"net.embed.weight", "head.weight"}) {
    ImportOptions options;
    options.freeze = {name};
    EXPECT_EQ(import(path, options).trained(), Names{"val_0"}) << name;
  }
}

// Three of one parameter: another node's copy, and one in the layout of products.
TEST(Parameters, CopiesBecomeOneTensorWithTheirNames) {
  TestModel model;
  model.input("x", kFloat, {"b", "48"}).output("y");
  model.weights("net.w", {32, 48}, varied(32, 48));
  model.weights("val_1", {48, 32}, varied(32, 48, true));
  model.weights("val_2", {48, 32}, varied(32, 48, true));
  setInts(model.node("Transpose", {"net.w"}, {"t"}), "perm", {1, 0});
  trace(model.node("MatMul", {"x", "val_1"}, {"a"}), "['', 'net', 'linear']", "aten.linear.default", "%x, %p_w");
  model.node("MatMul", {"a", "net.w"}, {"b"});
  trace(model.node("MatMul", {"b", "val_2"}, {"y"}), "['', 'net', 'linear_1']", "aten.linear.default", "%b, %p_w");
  sign(model, "p_w: PARAMETER target='net.v'\n");
  Imported result = import(model);
  ASSERT_EQ(result.trained(), (Names{"net.w", "val_1"})) << result.everything();
  EXPECT_EQ(find(result, "val_1")->aliases, (Aliases{{kModule, "net.v", true}, {kInitializer, "val_2", false}}));
  EXPECT_TRUE(find(result, "net.w")->aliases.empty());
}

/// Initializers that are one range of a file.
TestModel withTwins(const std::vector<float> &values) {
  TestModel model;
  model.input("ids", kInt64, {"b", "16"}).output("y");
  std::ofstream(scratchFolder() + "/twins.bin", std::ios::binary)
      .write(reinterpret_cast<const char *>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(float)));
  for (const char *name : {"embed", "head"}) {
    auto &tensor = model.weights(name, {64, 32});
    tensor.clear_raw_data();
    tensor.set_data_location(::onnx::TensorProto::EXTERNAL);
    auto *location = tensor.add_external_data();
    location->set_key("location");
    location->set_value("twins.bin");
  }
  model.node("Gather", {"embed", "ids"}, {"x"});
  setInts(model.node("Transpose", {"head"}, {"t"}), "perm", {1, 0});
  model.node("MatMul", {"x", "t"}, {"y"});
  return model;
}

TEST(Parameters, TwinsInAFileAreOneTensor) {
  Imported result = import(withTwins(varied(64, 32)));
  EXPECT_EQ(result.trained(), Names{"embed"}) << result.everything();
  EXPECT_EQ(find(result, "embed")->aliases, (Aliases{{kInitializer, "head", false}}));
  EXPECT_TRUE(warns(result, {"'embed' and 'head' are the same bytes of", "twins.bin", "trained as one tensor"})) << result.everything();
}

// A writer that stores equal tensors once says nothing about those that are only equal yet.
TEST(Parameters, TwinsOfOneValueStayApart) {
  Imported result = import(withTwins(std::vector<float>(2048, 1.F)));
  EXPECT_EQ(result.trained(), (Names{"embed", "head"})) << result.everything();
}

// A norm without a gain is exported with ones for it: every value its FX node takes is there already.
TEST(Parameters, WhatTheExporterMadeIsConstant) {
  TestModel model;
  model.input("x", kFloat, {"b", "32"}).output("y");
  model.weights("net.w", {32, 32});
  model.weights("val_3", {32});
  model.weights("val_4", {32});
  model.node("MatMul", {"x", "net.w"}, {"a"});
  auto describe = [](auto &node, const char *text) {
    auto *fx = node.add_metadata_props();
    fx->set_key("pkg.torch.onnx.fx_node");
    fx->set_value(text);
  };
  describe(model.node("LayerNormalization", {"a", "val_3"}, {"b"}),
           "%layer_norm : call_function[target=aten.layer_norm](args = (%a, [32], None, None, 1e-05), kwargs = {})");
  describe(model.node("Mul", {"b", "val_4"}, {"y"}),
           "%mul : call_function[target=aten.mul](args = (%b, %add_1), kwargs = {})"); // folded, of a parameter maybe
  auto *signature = model.graph().add_metadata_props();
  signature->set_key("pkg.torch.export.ExportedProgram.graph_signature");
  signature->set_value("\n# inputs\np_net_w: PARAMETER target='net.w'\nx: USER_INPUT\n");
  Imported result = import(model);
  EXPECT_EQ(result.trained(), (Names{"net.w", "val_4"})) << result.everything();
}

TEST(Parameters, UsersOverride) {
  TestModel model;
  model.input("x", kFloat, {"b", "32"}).output("y");
  model.weights("a.w", {32, 32});
  model.weights("b.w", {32, 32});
  model.node("MatMul", {"x", "a.w"}, {"h"});
  model.node("MatMul", {"h", "b.w"}, {"y"});
  ImportOptions options;
  options.freeze = {"*"};
  options.train = {"b.*"};
  EXPECT_EQ(import(model.save(), options).trained(), Names{"b.w"});
  options.train = {"nothing*"};
  EXPECT_TRUE(import(model.save(), options).complains({"--train nothing*"}));
}

// What is frozen stays a weight, whatever its size and values; what is none is a buffer, or a constant.
TEST(Parameters, FrozenWeightsAreNoBuffers) {
  TestModel model;
  model.input("x", kFloat, {"b", "4", "32"}).output("y");
  model.weights("w", {32, 32});
  model.weights("gain", {32}, std::vector<float>(32, 1.F));
  model.weights("small", {32, 1}, std::vector<float>(32, 0.5F));
  model.weights("frequencies", {32});
  model.integers("positions", {4, 1}, {0, 1, 2, 3});
  setInt(model.node("Cast", {"positions"}, {"p"}), "to", kFloat);
  model.node("Mul", {"p", "frequencies"}, {"angles"});
  model.node("Cos", {"angles"}, {"cos"});
  model.node("LayerNormalization", {"x", "gain"}, {"n"});
  model.node("MatMul", {"n", "w"}, {"q"});
  model.node("Mul", {"q", "cos"}, {"r"});
  model.node("MatMul", {"r", "small"}, {"y"});
  ImportOptions options;
  options.freeze = {"*"};
  options.train = {"w"};
  Imported result = import(model.save(), options);
  EXPECT_EQ(result.trained(), Names{"w"}) << result.everything();
  EXPECT_TRUE(result.has("{nn.parameter = \"w\", nn.trainable}")) << result.text;
  EXPECT_TRUE(result.has("{nn.parameter = \"gain\"}")) << result.text;
  EXPECT_TRUE(result.has("{nn.parameter = \"small\"}")) << result.text;
  EXPECT_TRUE(result.has("{nn.buffer, nn.parameter = \"frequencies\"}")) << result.text;
}

TEST(Parameters, TiedWeightsAreOneArgument) {
  TestModel model;
  model.input("ids", kInt64, {"b", "s"}).output("y");
  model.weights("table", {32, 8});
  model.node("Gather", {"table", "ids"}, {"x"});
  setInts(model.node("Transpose", {"table"}, {"head"}), "perm", {1, 0});
  model.node("MatMul", {"x", "head"}, {"y"});
  Imported result = import(model);
  EXPECT_EQ(result.parameters.size(), 1U);
  EXPECT_TRUE(result.warnings.empty()) << result.everything();
}

// Loading converts them, so that training has all of their 32 bits.
TEST(Parameters, StoredIn16BitsComputedWithIn32) {
  TestModel model;
  model.input("x", kFloat, {"b", "32"}).output("y");
  ::onnx::TensorProto &stored = model.weights("w", {32, 8});
  stored.set_data_type(::onnx::TensorProto::BFLOAT16);
  stored.set_raw_data(std::string(32 * 8 * 2, '\x3e'));
  setInt(model.node("Cast", {"w"}, {"full"}), "to", kFloat);
  model.node("MatMul", {"x", "full"}, {"y"});
  Imported result = import(model);
  EXPECT_EQ(result.trained(), Names{"w"}) << result.everything();
  EXPECT_TRUE(result.has("tensor<32x8xf32> {nn.parameter = \"w\"")) << result.text;
  EXPECT_FALSE(result.has("bf16")) << result.text;
  ASSERT_EQ(result.parameters.size(), 1U);
  EXPECT_EQ(result.parameters[0].storedType, kernels::DType::bf16);
}

/// Frozen, a model keeps its type; trained, it is one of 32 bits, whose weights are stored as they are.
TEST(Parameters, OtherTypesAreTrainedIn32Bits) {
  for (bool freeze : {false, true}) {
    TestModel model;
    model.input("x", ::onnx::TensorProto::FLOAT16, {"b", "32"}).output("y");
    for (const char *name : {"w", "v"}) {
      ::onnx::TensorProto &stored = model.weights(name, {32, 32});
      stored.set_data_type(::onnx::TensorProto::FLOAT16);
      stored.set_raw_data(std::string(32 * 32 * 2, '\x3e'));
    }
    model.node("MatMul", {"x", "w"}, {"h"});
    model.node("MatMul", {"h", "v"}, {"y"});
    ImportOptions options;
    if (freeze)
      options.freeze = {"*"};
    Imported result = import(model, 2, options);
    EXPECT_TRUE(result.problems.empty()) << result.everything();
    EXPECT_EQ(result.has("f16"), freeze) << result.text;
    EXPECT_EQ(result.everything().find("'w' is f16, and so may others be: the model is computed in 32 bits") !=
                  std::string::npos,
              !freeze)
        << result.everything();
    ASSERT_EQ(result.parameters.size(), 2U);
    EXPECT_EQ(result.parameters[0].storedType, kernels::DType::f16);
  }
}

TEST(Parameters, MergedGainsAreWarnedAbout) {
  TestModel model;
  model.input("x", kFloat, {"b", "32"}).output("y");
  model.weights("gain", {32});
  model.weights("w1", {32, 32});
  model.weights("w2", {32, 32});
  model.node("LayerNormalization", {"x", "gain"}, {"a"});
  model.node("MatMul", {"a", "w1"}, {"b"});
  model.node("LayerNormalization", {"b", "gain"}, {"c"});
  model.node("MatMul", {"c", "w2"}, {"y"});
  Imported result = import(model);
  ASSERT_EQ(result.warnings.size(), 1U) << result.everything();
  EXPECT_NE(result.warnings[0].find("'gain'"), std::string::npos);
  EXPECT_NE(result.warnings[0].find("optimize=False"), std::string::npos);
}

// Blocks that share everything (as ALBERT's do) share their matrices too.
TEST(Parameters, SharedBlocksAreNotWarnedAbout) {
  TestModel model;
  model.input("x", kFloat, {"b", "32"}).output("y");
  model.weights("gain", {32});
  model.weights("w", {32, 32});
  model.node("LayerNormalization", {"x", "gain"}, {"a"});
  model.node("MatMul", {"a", "w"}, {"b"});
  model.node("LayerNormalization", {"b", "gain"}, {"c"});
  model.node("MatMul", {"c", "w"}, {"y"});
  EXPECT_TRUE(import(model).warnings.empty());
}

TEST(Parameters, LargePayloadsAreNotLoaded) {
  TestModel model;
  model.input("x", kFloat, {"b", "512"}).output("y");
  model.weights("w", {512, 512});
  model.weights("v", {512, 4});
  model.node("MatMul", {"x", "w"}, {"h"});
  model.node("MatMul", {"h", "v"}, {"y"});
  Imported result = import(model);
  ASSERT_EQ(result.parameters.size(), 2U) << result.everything();
  EXPECT_EQ(result.parameters[0].length, 512U * 512 * 4);
  EXPECT_GT(result.parameters[1].offset, result.parameters[0].offset + result.parameters[0].length - 1);
}

// The digest is of the graph: a trained copy has the same, another graph another.
TEST(Parameters, DigestIgnoresWeights) {
  auto build = [](float value, const char *op) {
    TestModel model;
    model.input("x", kFloat, {"b", "2"}).output("y");
    model.weights("w", {2, 2}, {value, 1, 2, 3});
    model.node("MatMul", {"x", "w"}, {"h"});
    model.node(op, {"h"}, {"y"});
    return import(model).digest;
  };
  EXPECT_EQ(build(1, "Relu"), build(2, "Relu"));
  EXPECT_NE(build(1, "Relu"), build(1, "Tanh"));
}

} // namespace
} // namespace mt::onnx::test
