// Every dimension of every input gets a size, or a message says which one is missing or contradicts another.
#include "tests/onnx/TestModel.h"

#include <gtest/gtest.h>

namespace mt::onnx::test {
namespace {

TestModel tokens(std::initializer_list<std::string> ids, std::initializer_list<std::string> mask) {
  TestModel model;
  model.input("ids", kInt64, ids).input("mask", kInt64, mask).output("y");
  model.node("Mul", {"ids", "mask"}, {"y"});
  return model;
}
Imported bound(const TestModel &model, int64_t batch, std::optional<int64_t> sequence,
              std::map<std::string, int64_t> dims = {}) {
  ImportOptions options;
  options.batch = batch;
  options.sequence = sequence;
  options.dims = std::move(dims);
  return import(model.save(), options);
}

TEST(Dimensions, BatchAndSequenceWhateverTheirSymbols) {
  Imported result = bound(tokens({"s72", "s70"}, {"n", "t"}), 4, 32);
  EXPECT_TRUE(result.has("tensor<4x32xi64> {nn.input = \"ids\"}")) << result.everything();
  EXPECT_TRUE(result.has("{nn.output = \"y\"}"));
  EXPECT_EQ(result.sequence, 32);
  EXPECT_EQ(result.inputs[1].dims, (Dims{4, 32}));
}

TEST(Dimensions, NegativeSizesAreOpen) { // as Paddle's exporter writes them
  Imported result = bound(tokens({"-1", "-1"}, {"-1", "-1"}), 4, 32);
  EXPECT_TRUE(result.has("tensor<4x32xi64> {nn.input = \"ids\"}")) << result.everything();
}

TEST(Dimensions, QuestionMarksAreNoSymbol) { // of two dimensions that have one size
  TestModel model;
  model.input("x", kFloat, {"-1", "3", "?", "?"}).output("y");
  model.node("Relu", {"x"}, {"y"});
  EXPECT_TRUE(bound(model, 4, std::nullopt, {{"x:2", 32}, {"x:3", 64}}).has("tensor<4x3x32x64xf32>"));
  EXPECT_TRUE(bound(model, 4, std::nullopt).complains({"dimension 2 of input 'x' ('x:2') has no size", "--dim x:2=N"}));
}

TEST(Dimensions, SequenceOfTheModelOrTheDefault) {
  EXPECT_EQ(bound(tokens({"b", "12"}, {"b", "t"}), 4, std::nullopt).sequence, 12);
  EXPECT_EQ(bound(tokens({"b", "s"}, {"b", "s"}), 4, std::nullopt).sequence, kDefaultSequence);
}

/// Two sequences that never meet.
TestModel apart(const std::string &encoder, const std::string &decoder) {
  TestModel model = tokens({"b", encoder}, {"b", decoder});
  model.graph().clear_node();
  model.graph().clear_output();
  model.output("y").output("z");
  model.node("Neg", {"ids"}, {"y"});
  model.node("Neg", {"mask"}, {"z"});
  return model;
}

TEST(Dimensions, SequencesOfTheirOwnAreAsTheModelFixesThem) {
  Imported result = bound(apart("12", "7"), 4, std::nullopt);
  EXPECT_TRUE(result.has("tensor<4x12xi64>") && result.has("tensor<4x7xi64>")) << result.everything();
  EXPECT_EQ(result.sequence, 7);
  EXPECT_TRUE(bound(apart("12", "7"), 4, 7).complains({"dimension 1 of input 'ids' is 12 in the model, but 7"}));
}

TEST(Dimensions, SequencesOfTheirOwnAreBoundByName) {
  TestModel model = apart("encoder", "decoder");
  Imported result = bound(model, 4, std::nullopt, {{"encoder", 12}, {"decoder", 7}});
  EXPECT_TRUE(result.has("tensor<4x12xi64>") && result.has("tensor<4x7xi64>")) << result.everything();
  EXPECT_EQ(result.sequence, 7);
  result = bound(model, 4, 7, {{"encoder", 12}});
  EXPECT_TRUE(result.complains({"--seq 7", "--dim encoder=12", "dimension 1 of input 'ids'", "--dim decoder=N --dim encoder=N"}))
      << result.everything();
  EXPECT_EQ(result.problems.size(), 1U) << result.everything();
  EXPECT_EQ(bound(model, 4, 12, {{"encoder", 12}}).sequence, 12);
  result = bound(model, 4, std::nullopt, {{"ids:1", 12}, {"mask:1", 7}}); // --seq ids=12 --seq mask=7
  EXPECT_TRUE(result.has("tensor<4x12xi64>") && result.has("tensor<4x7xi64>")) << result.everything();
  result = bound(model, 4, std::nullopt, {{"ids:1", 12}, {"nobody:1", 7}});
  EXPECT_TRUE(result.complains({"nobody:1"})) << result.everything();
}

/// A layer of a recurrent model: tokens, and states whose first dimension is the layers'.
TestModel recurrent(std::initializer_list<std::string> ids, std::initializer_list<std::string> state) {
  TestModel model;
  model.input("ids", kInt64, ids).input("h0", kFloat, state).output("y").output("z");
  model.node("Neg", {"ids"}, {"y"});
  model.node("Neg", {"h0"}, {"z"});
  return model;
}
Imported withBatchDims(const TestModel &model, std::map<std::string, int64_t> batchDims) {
  ImportOptions options;
  options.batch = 4, options.sequence = 32, options.batchDims = std::move(batchDims);
  return import(model.save(), options);
}

TEST(Dimensions, TheBatchIsWhereSymbolsSay) {
  Imported result = withBatchDims(recurrent({"seq", "Batch_Size"}, {"2", "Batch_Size", "8"}), {});
  EXPECT_TRUE(result.has("tensor<4x32xi64> {nn.input = \"ids\"}")) << result.everything();
  EXPECT_TRUE(result.has("tensor<4x2x8xf32> {nn.input = \"h0\"}")) << result.everything();
  EXPECT_TRUE(result.has("(tensor<4x32xi64>) -> tensor<32x4xi64>")) << result.everything();
  EXPECT_TRUE(result.has("(tensor<4x2x8xf32>) -> tensor<2x4x8xf32>")) << result.everything();
  ASSERT_EQ(result.warnings.size(), 2U);
  EXPECT_TRUE(result.warnings[1].starts_with("dimension 1 of input 'h0' ('Batch_Size') is taken as the batch"))
      << result.warnings[1];
  EXPECT_EQ(result.sequence, 32);
  // a state whose layers are fixed has the batch where the tokens' symbol is; tokens have no sign, and are as ever
  result = withBatchDims(recurrent({"s0", "s1"}, {"2", "s0", "8"}), {});
  EXPECT_TRUE(result.has("tensor<4x32xi64> {nn.input = \"ids\"}")) << result.everything();
  EXPECT_TRUE(result.has("tensor<4x2x8xf32> {nn.input = \"h0\"}")) << result.everything();
  result = withBatchDims(recurrent({"s0", "s1"}, {"s0", "s1", "s1"}), {});
  EXPECT_FALSE(result.has("nn.transpose")) << result.everything();
}

TEST(Dimensions, ASymbolThatIsKnownToBeNoBatchIsNone) { // whatever it is called
  Imported result = bound(recurrent({"N", "s"}, {"N", "b", "8"}), 4, 32, {{"b", 3}});
  EXPECT_TRUE(result.has("tensor<4x3x8xf32> {nn.input = \"h0\"}")) << result.everything();
  TestModel bands = recurrent({"batch", "s"}, {"batch", "b", "8"});
  bands.input("bands", kFloat, {"n", "b"});
  bands.node("Neg", {"bands"}, {"w"});
  bands.output("w");
  result = bound(bands, 4, 32, {{"b", 3}});
  EXPECT_TRUE(result.has("tensor<4x3xf32> {nn.input = \"bands\"}")) << result.everything();
  EXPECT_FALSE(result.has("nn.transpose")) << result.everything();
}

// States have the batch's symbol where the user says that tokens have it.
TEST(Dimensions, StatesFollowWhatTheUserSaysOfTokens) {
  Imported result = withBatchDims(recurrent({"s0", "s1"}, {"2", "s1", "8"}), {{"ids", 1}});
  EXPECT_TRUE(result.has("tensor<4x2x8xf32> {nn.input = \"h0\"}")) << result.everything();
}

TEST(Dimensions, TheBatchIsWhereTheUserSays) {
  const TestModel fixed = recurrent({"32", "4"}, {"2", "4", "8"});
  EXPECT_TRUE(withBatchDims(fixed, {}).complains({"dimension 0 of input 'h0' is 2", "--batch-dim h0=N"}));
  for (std::map<std::string, int64_t> dims : {std::map<std::string, int64_t>{{"", 1}}, {{"ids", 1}, {"h0", 1}}}) {
    Imported result = withBatchDims(fixed, dims);
    EXPECT_TRUE(result.has("tensor<4x32xi64> {nn.input = \"ids\"}")) << result.everything();
    EXPECT_TRUE(result.has("tensor<4x2x8xf32> {nn.input = \"h0\"}")) << result.everything();
    EXPECT_TRUE(result.warnings.empty());
  }
  Imported result = withBatchDims(recurrent({"batch", "s1"}, {"s1", "batch", "8"}), {{"", 0}});
  EXPECT_TRUE(result.complains({"dimension 's1' would be 4", "and 32"})) << result.everything();
  EXPECT_TRUE(withBatchDims(fixed, {{"", 1}, {"h0", 3}}).complains({"--batch-dim h0=3: input 'h0' has 3 dimensions"}));
  EXPECT_TRUE(
      withBatchDims(fixed, {{"", 1}, {"h1", 1}}).complains({"--batch-dim h1: the model has no input of that name"}));
}

TEST(Dimensions, StaticSizesMustAgree) {
  EXPECT_TRUE(bound(tokens({"2", "12"}, {"2", "12"}), 4, 12).complains({"dimension 0", "'ids'", "--batch"}));
  EXPECT_TRUE(bound(tokens({"2", "12"}, {"2", "12"}), 2, 16).complains({"dimension 1", "'mask'", "--seq 12"}));
}

TEST(Dimensions, OneSymbolOneSize) {
  Imported result = bound(tokens({"n", "n"}, {"n", "n"}), 4, 32);
  EXPECT_TRUE(result.complains({"'n'", "4", "32", "agree"})) << result.everything();
}

TEST(Dimensions, OtherSymbolsNeedASize) {
  TestModel model;
  model.input("x", kFloat, {"batch", "features", ""}).output("y");
  model.node("Relu", {"x"}, {"y"});
  Imported result = bound(model, 2, std::nullopt);
  EXPECT_TRUE(result.complains({"'features'", "--dim features=N"})) << result.everything();
  EXPECT_TRUE(result.complains({"'x:2'", "--dim x:2=N"})) << result.everything();
  result = bound(model, 2, std::nullopt, {{"features", 5}, {"x:2", 3}});
  EXPECT_TRUE(result.has("tensor<2x5x3xf32>")) << result.everything();
  EXPECT_TRUE(bound(model, 2, std::nullopt, {{"features", 5}, {"x:2", 3}, {"width", 1}}).complains({"--dim width"}));
  EXPECT_TRUE(bound(model, 2, std::nullopt, {{"features", -5}, {"x:2", 3}}).complains({"--dim features=-5", "positive"}));
}

TEST(Dimensions, ASymbolIsBoundOnce) {
  TestModel model;
  model.input("ids", kInt64, {"b", "s"}).input("x", kFloat, {"b", "s", "8"}).output("y").output("z");
  model.node("Relu", {"x"}, {"y"});
  model.node("Neg", {"ids"}, {"z"});
  EXPECT_TRUE(bound(model, 2, 7).has("tensor<2x7x8xf32>"));
}

/// repeat_interleave as the older exporter writes it: factors of a Tile made by OneHot, dimensions of a Transpose from the
/// end.
TEST(Dimensions, RepeatsThatOneHotPlaces) {
  TestModel model;
  model.input("x", kFloat, {"b", "3"}).output("y");
  model.integers("one", {1}, {1});
  model.integers("depth", {}, {3});
  model.integers("values", {2}, {1, 4});
  model.integers("axes", {1}, {1});
  model.node("OneHot", {"one", "depth", "values"}, {"factors"});
  model.integers("all", {1}, {-1});
  model.node("Reshape", {"factors", "all"}, {"times"});
  model.node("Unsqueeze", {"x", "axes"}, {"wide"});
  model.node("Tile", {"wide", "times"}, {"tiled"});
  setInts(model.node("Transpose", {"tiled"}, {"y"}), "perm", {0, -1, 1});
  Imported result = import(model);
  EXPECT_TRUE(result.has("tensor<2x4x3xf32>") && result.has("permutation = array<i64: 0, 2, 1>")) << result.everything();
}

TEST(Dimensions, ShapeArithmeticFolds) {
  TestModel model;
  model.input("x", kFloat, {"b", "8"}).output("y");
  model.integers("two", {1}, {2});
  model.integers("minus", {1}, {-1});
  setInt(model.node("Shape", {"x"}, {"rows"}), "end", 1);
  model.node("Mul", {"rows", "two"}, {"twice"});
  setInt(model.node("Concat", {"twice", "minus"}, {"target"}), "axis", 0);
  model.node("Reshape", {"x", "target"}, {"y"});
  Imported result = import(model, 3);
  EXPECT_TRUE(result.has("-> tensor<6x4xf32>")) << result.everything();
  EXPECT_FALSE(result.has("nn.mul"));
  EXPECT_FALSE(result.has("nn.constant"));
}

// Shapes out of fractions: twice 0.5, 1.5, 2.5.
TEST(Dimensions, PositionsMayBeFractions) {
  TestModel model;
  model.input("x", kFloat, {"b", "8"}).output("y");
  model.weights("w", {15});
  model.scalar("half", 0.5f);
  model.scalar("end", 3);
  model.scalar("one", 1);
  model.scalar("two", 2);
  model.node("Range", {"half", "end", "one"}, {"positions"});
  model.node("Mul", {"positions", "two"}, {"odd"});
  setInt(model.node("Cast", {"odd"}, {"shape"}), "to", kInt64);
  model.node("Reshape", {"w", "shape"}, {"y"});
  Imported result = import(model);
  EXPECT_TRUE(result.has("-> tensor<1x3x5xf32>")) << result.everything();
}

// 3 to the power of 39 is no double, and what does not fit wraps.
TEST(Dimensions, PowersOfIntegers) {
  auto shapeOf = [](int64_t base, int64_t exponent, int64_t modulus) {
    TestModel model;
    model.input("x", kFloat, {"b", "8"}).output("y");
    model.weights("w", {1});
    model.integers("base", {1}, {base});
    model.integers("exponent", {1}, {exponent});
    model.integers("modulus", {1}, {modulus});
    model.node("Pow", {"base", "exponent"}, {"power"});
    model.node("Mod", {"power", "modulus"}, {"size"});
    model.node("Expand", {"w", "size"}, {"y"});
    return import(model);
  };
  EXPECT_TRUE(shapeOf(3, 39, 1000).has("-> tensor<267xf32>"));
  EXPECT_TRUE(shapeOf(2, 64, 7).has("tensor<0xf32>"));
  EXPECT_TRUE(shapeOf(-1, -3, 7).has("-> tensor<6xf32>"));
  EXPECT_TRUE(shapeOf(INT64_MIN, 2, 7).has("tensor<0xf32>"));
}

// The number of positions must not change the form of what is computed from them.
TEST(Dimensions, PositionsStayOperations) {
  for (int64_t sequence : {2, 131072}) {
    TestModel model;
    model.input("ids", kInt64, {"b", "s"}).output("y");
    model.integers("zero", {}, {0});
    model.integers("one", {}, {1});
    model.integers("axis", {1}, {1});
    model.integers("axes", {1}, {0});
    setInt(model.node("Shape", {"ids"}, {"length1"}), "start", 1);
    model.node("Squeeze", {"length1"}, {"length"});
    model.node("Range", {"zero", "length", "one"}, {"positions"});
    model.node("Unsqueeze", {"positions", "axis"}, {"rows"});
    model.node("Unsqueeze", {"positions", "axes"}, {"columns"});
    model.node("LessOrEqual", {"columns", "rows"}, {"y"});
    ImportOptions options;
    options.sequence = sequence;
    Imported result = import(model.save(), options);
    EXPECT_TRUE(result.has("nn.iota")) << result.everything();
    EXPECT_TRUE(result.has("predicate = \"le\"")) << result.everything();
    EXPECT_FALSE(result.has("nn.constant")) << result.everything();
  }
}

TEST(Dimensions, StoredPositionsAndMasksBecomeTheirRule) {
  TestModel model;
  model.input("x", kFloat, {"b", "4", "4"}).output("y").output("p");
  std::vector<int64_t> positions;
  std::string mask;
  for (int i = 0; i < 40; ++i)
    positions.push_back(i);
  for (int i = 0; i < 16; ++i)
    mask.push_back(i % 4 <= i / 4 ? 1 : 0);
  model.integers("positions", {1, 40}, positions);
  auto *tensor = model.graph().add_initializer();
  tensor->set_name("mask");
  tensor->set_data_type(kBool);
  for (int64_t dim : {1, 4, 4})
    tensor->add_dims(dim);
  tensor->set_raw_data(mask);
  model.scalar("zero", 0);
  model.node("Where", {"mask", "x", "zero"}, {"y"});
  model.node("Neg", {"positions"}, {"p"});
  Imported result = import(model);
  EXPECT_TRUE(result.has("nn.iota") && result.has("nn.compare")) << result.everything();
  EXPECT_TRUE(result.has("tensor<1x40xi64>")) << result.everything();
  EXPECT_FALSE(result.has("dense<[[")) << result.everything();
}

} // namespace
} // namespace mt::onnx::test
