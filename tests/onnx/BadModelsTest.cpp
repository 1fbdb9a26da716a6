// Files that must be refused, each with a message that says what is wrong, where, and what to do.
#include "compiler/onnx/ExternalData.h"
#include "tests/onnx/TestModel.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace mt::onnx::test {
namespace {

TestModel linear() {
  TestModel model;
  model.input("x", kFloat, {"batch", "16"}).output("y");
  model.weights("w", {16, 4});
  model.node("MatMul", {"x", "w"}, {"y"});
  return model;
}

void expectProblem(const Imported &result, std::initializer_list<std::string> snippets) {
  EXPECT_TRUE(result.text.empty()) << result.text;
  EXPECT_TRUE(result.complains(snippets)) << result.everything();
}

TEST(BadModels, MissingFile) { expectProblem(import("/nonexistent/model.onnx"), {"/nonexistent/model.onnx"}); }

TEST(BadModels, NoModelAtAll) {
  std::string path = scratchFolder() + "/text.onnx";
  std::ofstream(path) << "this is not a model";
  expectProblem(import(path), {"text.onnx", "no ONNX model"});
  std::ofstream(path, std::ios::trunc) << "";
  expectProblem(import(path), {"text.onnx", "no graph"});
}

TEST(BadModels, TruncatedAnywhere) {
  TestModel model = linear();
  std::string bytes = model.model.SerializeAsString();
  std::string path = scratchFolder() + "/cut.onnx";
  for (size_t length = 0; length < bytes.size(); length += 7) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes.substr(0, length);
    Imported result = import(path);
    EXPECT_TRUE(result.text.empty()) << length;
    EXPECT_FALSE(result.problems.empty()) << length;
  }
}

TEST(BadModels, EveryFlippedByteIsSurvived) {
  TestModel model = linear();
  std::string bytes = model.model.SerializeAsString();
  std::string path = scratchFolder() + "/flipped.onnx";
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << damaged;
    Imported result = import(path);
    EXPECT_TRUE(!result.text.empty() || !result.problems.empty()) << at;
  }
}

TEST(BadModels, AllUnsupportedOperatorsAtOnce) {
  TestModel model;
  model.input("x", kFloat, {"batch", "16"}).output("y");
  model.node("Frobnicate", {"x"}, {"a"});
  model.node("Relu", {"a"}, {"b"});
  model.node("Quux", {"b"}, {"c"}, "com.example");
  model.node("Loop", {"", "", "x"}, {"d"});
  model.node("Add", {"c", "d"}, {"y"});
  Imported result = import(model);
  expectProblem(result, {"'n_a' (Frobnicate)", "not supported"});
  expectProblem(result, {"'n_c' (com.example.Quux)", "not supported"});
  expectProblem(result, {"'n_d' (Loop)", "body is missing"});
  EXPECT_EQ(result.problems.size(), 3U) << result.everything();
}

// With the types that exporters note, what is behind a node that cannot be converted is looked at as well.
TEST(BadModels, ProblemsBehindAnUnsupportedOperator) {
  TestModel model;
  model.input("x", kFloat, {"batch", "16"}).output("y");
  model.node("Frobnicate", {"x"}, {"a"});
  model.weights("w", {15, 4});
  model.node("MatMul", {"a", "w"}, {"b"});
  model.node("Reshape", {"x", "counted"}, {"c"});
  model.node("Count", {"x"}, {"counted"});
  model.node("Add", {"b", "c"}, {"y"});
  EXPECT_EQ(import(model).problems.size(), 2U) << import(model).everything();
  TestModel noted = model;
  for (const char *name : {"a", "counted"}) {
    auto *value = noted.graph().add_value_info();
    value->set_name(name);
    auto *tensor = value->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(name[0] == 'a' ? kFloat : kInt64);
    if (name[0] == 'a')
      tensor->mutable_shape()->add_dim()->set_dim_param("batch");
    tensor->mutable_shape()->add_dim()->set_dim_value(name[0] == 'a' ? 16 : 2);
  }
  Imported result = import(noted);
  expectProblem(result, {"'n_a' (Frobnicate)", "not supported"});
  expectProblem(result, {"'n_counted' (Count)", "not supported"});
  expectProblem(result, {"'n_b' (MatMul)", "contracts dimensions of different size: 16 and 15"});
  EXPECT_EQ(result.problems.size(), 3U) << result.everything(); // nothing of what only depends on unknown numbers
}

TEST(BadModels, UnsupportedNodesThatNothingNeedsDoNotMatter) {
  TestModel model = linear();
  model.node("Frobnicate", {"x"}, {"unused"});
  EXPECT_TRUE(import(model).has("nn.matmul"));
}

TEST(BadModels, Cycle) {
  TestModel model;
  model.input("x", kFloat, {"batch", "16"}).output("y");
  model.node("Add", {"x", "c"}, {"b"});
  model.node("Relu", {"b"}, {"c"});
  model.node("Relu", {"c"}, {"y"});
  expectProblem(import(model), {"cycle", "n_b", "n_c"});
}

TEST(BadModels, NodesOutOfOrderAreFine) {
  TestModel model;
  model.input("x", kFloat, {"batch", "16"}).output("y");
  model.node("Relu", {"a"}, {"y"});
  model.node("Tanh", {"x"}, {"a"});
  EXPECT_TRUE(import(model).has("nn.relu"));
}

TEST(BadModels, DanglingInput) {
  TestModel model = linear();
  model.graph().mutable_node(0)->set_input(1, "gone");
  expectProblem(import(model), {"'n_y' (MatMul)", "'gone'"});
}

TEST(BadModels, DuplicateNames) {
  TestModel model = linear();
  model.weights("w", {16, 4});
  model.node("Relu", {"x"}, {"y"});
  Imported result = import(model);
  expectProblem(result, {"'w'", "one definition"});
  expectProblem(result, {"'y'", "one definition"});
}

TEST(BadModels, OutputNobodyDefines) {
  TestModel model = linear();
  model.output("z");
  expectProblem(import(model), {"graph output 'z'"});
}

TEST(BadModels, WeightsOfTheWrongSize) {
  TestModel model = linear();
  model.graph().mutable_initializer(0)->set_raw_data(std::string(12, 'x'));
  expectProblem(import(model), {"'w'", "12 bytes", "256"});
}

TEST(BadModels, AbsurdDimensions) {
  TestModel model = linear();
  model.graph().mutable_initializer(0)->set_dims(0, INT64_MAX);
  model.graph().mutable_initializer(0)->set_dims(1, INT64_MAX);
  expectProblem(import(model), {"'w'", "absurdly large"});
  TestModel wide;
  wide.input("x", kFloat, {"batch", "4611686018427387904", "4"}).output("y");
  wide.node("Relu", {"x"}, {"y"});
  expectProblem(import(wide), {"'x'", "absurdly large"});
  TestModel empty; // no elements, but strides that no integer holds
  empty.input("x", kFloat, {"batch", "0", "72057594037927936", "256"}).output("y");
  empty.node("Relu", {"x"}, {"y"});
  expectProblem(import(empty), {"'x'", "absurdly large"});
  TestModel least; // and nothing computes with that size
  least.input("x", kFloat, {"batch", "3", "-9223372036854775808"}).output("y");
  least.weights("w", {4, 3, 2});
  least.node("Conv", {"x", "w"}, {"y"});
  expectProblem(import(least), {"'x'", "negative"});
  TestModel grown;
  grown.input("x", kFloat, {"batch", "16"}).output("y");
  grown.integers("times", {2}, {INT64_MAX / 2, INT64_MAX / 2});
  grown.node("Tile", {"x", "times"}, {"y"});
  expectProblem(import(grown), {"'n_y' (Tile)"});
  TestModel expanded;
  expanded.input("x", kFloat, {"batch", "16"}).output("y");
  expanded.integers("shape", {3}, {INT64_MAX / 2, 2, 16});
  expanded.node("Expand", {"x", "shape"}, {"y"});
  expectProblem(import(expanded), {"'n_y' (Expand)"});
}

TEST(BadModels, RanksThatConvertersDoNotExpect) {
  TestModel rotary;
  rotary.input("x", kFloat, {"batch", "4", "8"}).input("ids", kInt64, {"batch", "4"}).output("y");
  rotary.scalar("table", 1);
  rotary.node("RotaryEmbedding", {"x", "ids", "table", "table"}, {"y"}, "com.microsoft");
  expectProblem(import(rotary), {"'n_y'", "its tables must both have the shape"});
  TestModel heads;
  heads.input("x", kFloat, {"batch", "4", "8"}).output("y");
  auto &packed = heads.node("GroupQueryAttention", {"x"}, {"y"}, "com.microsoft");
  setInt(packed, "num_heads", 2);
  setInt(packed, "kv_num_heads", INT64_MAX); // 2 + 2 * INT64_MAX wraps to zero
  expectProblem(import(heads), {"'n_y'", "packed input"});
  TestModel bias;
  bias.input("x", kFloat, {"batch", "4", "8"}).output("y");
  bias.scalar("bias", 1);
  setInt(bias.node("MultiHeadAttention", {"x", "x", "x", "bias"}, {"y"}, "com.microsoft"), "num_heads", 2);
  expectProblem(import(bias), {"'n_y'", "must have columns"});
  TestModel group(21);
  group.scalar("value", 1);
  group.input("x", kFloat, {"batch"}).output("y");
  group.weights("gain", {1});
  group.node("GroupNormalization", {"x", "gain", "gain"}, {"y"});
  expectProblem(import(group), {"'n_y'", "rank two or more"});
  TestModel loss;
  loss.input("x", kFloat, {"batch"}).input("labels", kInt64, {"batch"}).output("y");
  loss.scalar("logs", 1);
  loss.node("NegativeLogLikelihoodLoss", {"logs", "labels"}, {"y"});
  expectProblem(import(loss), {"'n_y'", "dimension of classes"});
}

TEST(BadModels, ShapesThatDoNotFit) {
  TestModel model;
  model.input("x", kFloat, {"batch", "16"}).output("y").output("z");
  model.weights("w", {15, 4});
  model.weights("b", {3});
  model.node("MatMul", {"x", "w"}, {"y"});
  model.node("Add", {"x", "b"}, {"z"});
  Imported result = import(model);
  expectProblem(result, {"'n_y' (MatMul)"});
  expectProblem(result, {"'n_z' (Add)", "broadcast"});
}

TEST(BadModels, NamesThatAreNoText) {
  TestModel model;
  model.input("x", kFloat, {"batch", "16"}).output("y");
  model.weights("w\xff", {16, 16});
  model.node("MatMul", {"x", "w\xff"}, {"y"});
  expectProblem(import(model), {"the name of initializer 0 is not UTF-8 text"});
}

TEST(BadModels, ShapesThatDependOnData) {
  TestModel model;
  model.input("x", kFloat, {"batch", "16"}).input("n", kInt64, {"batch"}).output("y");
  model.node("Reshape", {"x", "n"}, {"y"});
  expectProblem(import(model), {"'n_y' (Reshape)", "'n'", "known when compiling"});
}

/// Dropout whose ratio or form nobody knows, or that is none.
TEST(BadModels, Dropout) {
  auto expect = [](std::initializer_list<std::string> inputs, std::initializer_list<std::string> snippets) {
    TestModel model;
    model.input("x", kFloat, {"batch", "16"})
        .input("ratio_input", kFloat, {})
        .input("training_input", kBool, {})
        .output("y");
    model.input("ids", kInt64, {"batch", "16"});
    model.scalar("ratio", 0.1F);
    model.scalar("large", 1.5F);
    auto *flag = model.graph().add_initializer();
    flag->set_name("training");
    flag->set_data_type(kBool);
    flag->set_raw_data(std::string(1, '\1'));
    model.node("Dropout", inputs, {"y"});
    expectProblem(import(model), snippets);
  };
  expect({"x", "large", "training"}, {"'n_y' (Dropout)", "its ratio is 1.5, and must be at least 0 and below 1"});
  expect({"x", "ratio_input", "training"}, {"'n_y' (Dropout)", "its ratio (input 1, 'ratio_input')", "as a constant"});
  expect({"x", "ratio", "training_input"},
         {"'n_y' (Dropout)", "whether it drops anything (input 2, 'training_input')", "as a constant"});
  expect({"ids", "ratio", "training"}, {"'n_y' (Dropout)", "dropout is of floats"});
}

TEST(BadModels, RandomNumbers) {
  auto expect = [](const char *op, std::initializer_list<std::string> inputs, int64_t dtype,
                   std::initializer_list<std::string> snippets) {
    TestModel model;
    model.input("x", kFloat, {"batch", "16"}).input("ids", kInt64, {"batch", "16"}).output("y");
    auto &node = model.node(op, inputs, {"y"});
    if (dtype)
      setInt(node, "dtype", dtype);
    expectProblem(import(model), snippets);
  };
  expect("RandomNormal", {}, 0, {"'n_y' (RandomNormal)", "needs an attribute shape of positive sizes"});
  expect("RandomNormalLike", {"x"}, kInt64, {"'n_y' (RandomNormalLike)", "of a type that is no float"});
  expect("Bernoulli", {"x"}, 8, {"'n_y' (Bernoulli)", "of a type that is not known"});
  expect("Bernoulli", {"ids"}, 0, {"'n_y' (Bernoulli)", "probabilities that are floats"});
}

// A failure without a reason of its own is still a message.
TEST(BadModels, InputsOfTheWrongForm) {
  TestModel model;
  model.input("x", kFloat, {"batch", "16"}).output("y").output("z");
  model.integers("axes", {3}, {0, 1, 2});
  model.node("CumSum", {"x", "axes"}, {"y"});
  model.node("Gather", {"x"}, {"z"});
  Imported result = import(model);
  expectProblem(result, {"'n_y' (CumSum)"});
  expectProblem(result, {"'n_z' (Gather)"});
}

TEST(BadModels, FunctionsThatDefineNothing) {
  TestModel model;
  model.input("x", kFloat, {"batch", "16"}).output("y");
  model.node("F", {"x"}, {"y"}, "local");
  auto *function = model.model.add_functions();
  function->set_name("F");
  function->set_domain("local");
  function->add_output("b");
  expectProblem(import(model), {"'y'", "damaged"});
}

TEST(BadModels, OldOpset) {
  TestModel model(6);
  model.input("x", kFloat, {"batch", "16"}).output("y");
  model.node("Relu", {"x"}, {"y"});
  expectProblem(import(model), {"opset 6", "oldest supported: 7"});
}

TEST(BadModels, RecursiveFunction) {
  TestModel model;
  model.input("x", kFloat, {"batch", "16"}).output("y");
  model.node("F", {"x"}, {"y"}, "local");
  auto *function = model.model.add_functions();
  function->set_name("F");
  function->set_domain("local");
  function->add_input("a");
  function->add_output("b");
  auto *node = function->add_node();
  node->set_op_type("F");
  node->set_domain("local");
  node->add_input("a");
  node->add_output("b");
  expectProblem(import(model), {"levels deep"});
}

//===-- external data ---------------------------------------------------------------------------------------------===//

struct External : testing::Test {
  void SetUp() override {
    auto &tensor = *model.graph().mutable_initializer(0);
    tensor.clear_raw_data();
    tensor.set_data_location(::onnx::TensorProto::EXTERNAL);
    set("location", "weights.bin");
    std::filesystem::remove(scratchFolder() + "/weights.bin");
  }
  void set(const std::string &key, const std::string &value) {
    auto &tensor = *model.graph().mutable_initializer(0);
    for (auto &entry : *tensor.mutable_external_data())
      if (entry.key() == key)
        return entry.set_value(value);
    auto *entry = tensor.add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
  void writeWeights(size_t bytes) { std::ofstream(scratchFolder() + "/weights.bin") << std::string(bytes, 'w'); }
  TestModel model = linear();
};

TEST_F(External, IsReadInPlace) {
  writeWeights(300);
  set("offset", "44");
  Imported result = import(model);
  ASSERT_EQ(result.parameters.size(), 1U) << result.everything();
  EXPECT_EQ(result.parameters[0].offset, 44U);
  EXPECT_EQ(result.parameters[0].length, 256U);
  EXPECT_TRUE(result.parameters[0].path.ends_with("/weights.bin"));
}

TEST_F(External, MissingFile) { expectProblem(import(model), {"'w'", "weights.bin", "missing"}); }

TEST_F(External, TooShort) {
  writeWeights(100);
  expectProblem(import(model), {"'w'", "weights.bin", "100 bytes"});
  set("offset", "18446744073709551615");
  expectProblem(import(model), {"'w'"});
}

TEST_F(External, OffsetThatIsNoNumber) {
  writeWeights(300);
  set("offset", "-5");
  expectProblem(import(model), {"'w'", "'offset'"});
}

TEST_F(External, OutsideTheFolder) {
  set("location", "../weights.bin");
  expectProblem(import(model), {"'w'", "'..'"});
  set("location", "/etc/passwd");
  expectProblem(import(model), {"'w'", "relative"});
  set("location", "link.bin");
  std::filesystem::remove(scratchFolder() + "/link.bin");
  std::filesystem::create_symlink("/etc/passwd", scratchFolder() + "/link.bin");
  expectProblem(import(model), {"'w'", "link out of"});
}

TEST_F(External, LinksWithinTheHubsCache) {
  namespace fs = std::filesystem;
  const fs::path cache = fs::path(scratchFolder()) / "models--a--b", revision = cache / "snapshots" / "0123";
  fs::create_directories(revision);
  fs::create_directories(cache / "blobs");
  ::onnx::TensorProto tensor;
  auto locate = [&](const fs::path &to) {
    fs::remove(revision / "w");
    fs::create_symlink(to, revision / "w");
    return externalRange(tensor, revision.string(), 4);
  };
  auto *location = tensor.add_external_data();
  location->set_key("location");
  location->set_value("w");
  std::ofstream(cache / "blobs" / "hash") << "1234";
  std::ofstream(fs::path(scratchFolder()) / "outside") << "1234";
  Result<FileRange> range = locate("../../blobs/hash");
  ASSERT_TRUE(range.ok()) << range.status().message();
  EXPECT_EQ(range->path, fs::canonical(cache / "blobs" / "hash").string());
  EXPECT_NE(locate("../../../outside").status().message().find("is a link out of the model's folder in the cache"),
            std::string::npos);
  EXPECT_NE(locate("/etc/passwd").status().message().find("is a link out of"), std::string::npos);
  fs::remove_all(cache / "blobs"); // then it is a folder like any other
  std::ofstream(cache / "hash") << "1234";
  EXPECT_NE(locate("../../hash").status().message().find("is a link out of the model's folder"), std::string::npos);
}

TEST_F(External, GeneratorsNeedNoFile) {
  set("location", "");
  set("mt.generator", "normal");
  set("mt.seed", "7");
  set("mt.deviation", "0.02");
  Imported result = import(model);
  ASSERT_EQ(result.parameters.size(), 1U) << result.everything();
  EXPECT_EQ(result.parameters[0].generator, "normal");
  EXPECT_EQ(result.parameters[0].seed, 7U);
  EXPECT_DOUBLE_EQ(result.parameters[0].deviation, 0.02);
  set("mt.generator", "cauchy");
  expectProblem(import(model), {"'w'", "cauchy"});
}

} // namespace
} // namespace mt::onnx::test
