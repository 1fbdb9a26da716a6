// Recurrent layers: what nn operations they become.
#include "tests/onnx/TestModel.h"

#include <gtest/gtest.h>

namespace mt::onnx::test {
namespace {

/// A layer of width 4 on x [steps, n, 3] or, batch first, [n, steps, 3].
struct Layer {
  TestModel model{22};
  ::onnx::NodeProto *node = nullptr;
  std::string op;
  int64_t gates, directions;

  Layer(const std::string &op, int64_t gates, int64_t directions = 1, bool batchFirst = false,
        std::initializer_list<std::string> inputs = {"x", "W", "R", "B"},
        std::initializer_list<std::string> outputs = {"y"})
      : op(op), gates(gates), directions(directions) {
    if (batchFirst)
      model.input("x", kFloat, {"n", "5", "3"});
    else
      model.input("x", kFloat, {"5", "n", "3"});
    model.weights("W", {directions, gates * 4, 3});
    model.weights("R", {directions, gates * 4, 4});
    model.weights("B", {directions, 2 * gates * 4});
    node = &model.node(op, inputs, outputs);
    setInt(*node, "hidden_size", 4);
    if (batchFirst)
      setInt(*node, "layout", 1);
    if (directions == 2)
      setText(*node, "direction", "bidirectional");
    for (const std::string &output : outputs)
      if (!output.empty())
        model.output(output);
  }
};

void texts(::onnx::NodeProto &node, const std::string &name, std::initializer_list<std::string> values) {
  auto *attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(::onnx::AttributeProto::STRINGS);
  for (const std::string &value : values)
    attribute->add_strings(value);
}

void expect(const Imported &result, std::initializer_list<std::string> snippets) {
  for (const std::string &snippet : snippets)
    EXPECT_TRUE(result.has(snippet)) << snippet << "\n" << result.everything();
}

Imported named(Layer &layer) {
  ImportOptions options;
  options.dims["n"] = 2;
  return import(layer.model, 5, options);
}

TEST(Recurrence, ProductsOfAllStepsAreOne) {
  Layer lstm("LSTM", 4);
  expect(named(lstm), {"(tensor<5x2x3xf32>, tensor<16x3xf32>, tensor<16xf32>) -> tensor<5x2x16xf32>", "kind = \"lstm\"",
                       "-> (tensor<5x2x4xf32>, tensor<5x2x4xf32>)", "tensor<5x1x2x4xf32>"});
  Layer rnn("RNN", 1);
  expect(named(rnn), {"kind = \"rnn\"", "-> tensor<5x2x4xf32>"});
}

TEST(Recurrence, BiasesOfAGruStayApart) {
  Layer gru("GRU", 3);
  setInt(*gru.node, "linear_before_reset", 1);
  Imported result = named(gru);
  expect(result, {"linearBeforeReset = true", "operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>"});
  EXPECT_FALSE(result.has("nn.add")) << result.everything();
  EXPECT_EQ(result.trained(), (std::vector<std::string>{"B", "R", "W"}));
}

TEST(Recurrence, BothDirectionsBatchFirst) {
  Layer lstm("LSTM", 4, 2, true, {"x", "W", "R"}, {"y", "h", "c"});
  Imported result = import(lstm.model, 2);
  expect(result, {"nn.recurrence", "reverse = true", "tensor<2x5x2x4xf32>", "tensor<2x2x4xf32>"});
}

TEST(Recurrence, LengthsStatesAndPeepholes) {
  Layer lstm("LSTM", 4, 1, true, {"x", "W", "R", "B", "lengths", "h0", "c0", "P"}, {"y", "", "c"});
  lstm.model.input("lengths", kInt64, {"n"});
  lstm.model.weights("h0", {2, 1, 4});
  lstm.model.weights("c0", {2, 1, 4}, std::vector<float>(8, 0.0F));
  lstm.model.weights("P", {1, 12});
  setInt(*lstm.node, "input_forget", 1);
  setFloat(*lstm.node, "clip", 2);
  Imported result = import(lstm.model, 2);
  expect(result, {"coupled = true", "clip = 2.000000e+00", "predicate = \"lt\"", "nn.select", "tensor<2x1x4xf32>"});
}

TEST(Recurrence, ActivationsByName) {
  Layer gru("GRU", 3);
  texts(*gru.node, "activations", {"Sigmoid", "Relu"});
  expect(named(gru), {"candidate = \"relu\""});
  Layer elu("GRU", 3);
  texts(*elu.node, "activations", {"HardSigmoid", "Tanh"});
  EXPECT_TRUE(named(elu).complains({"'n_y' (GRU)", "activation HardSigmoid is not supported"}));
  Layer few("LSTM", 4);
  texts(*few.node, "activations", {"Sigmoid"});
  EXPECT_TRUE(named(few).complains({"'n_y' (LSTM)", "each needs 3"}));
}

TEST(Recurrence, WhatDoesNotFitIsRefused) {
  Layer wide("GRU", 4);
  EXPECT_TRUE(named(wide).complains({"'n_y' (GRU)", "do not fit together"}));
  Layer direction("RNN", 1);
  setText(*direction.node, "direction", "sideways");
  EXPECT_TRUE(named(direction).complains({"'sideways'"}));
  Layer layout("RNN", 1);
  setInt(*layout.node, "layout", 2);
  EXPECT_TRUE(named(layout).complains({"layout is 2"}));
  Layer state("RNN", 1, 1, false, {"x", "W", "R", "", "", "h0"});
  state.model.weights("h0", {1, 3, 4});
  EXPECT_TRUE(named(state).complains({"its input 5 has the shape 1x3x4, not 1x2x4"})) << named(state).everything();
}

} // namespace
} // namespace mt::onnx::test
