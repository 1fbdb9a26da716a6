// The reference cases: they import, and exactly the tensors that their notes list are trained.
#include "tests/onnx/TestModel.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <regex>

namespace mt::onnx::test {
namespace {

struct Golden : testing::TestWithParam<const char *> {
  std::string folder = std::string(MT_GOLDEN) + "/" + GetParam();
  Imported importCase(std::optional<int64_t> sequence = std::nullopt) const {
    nlohmann::json notes = nlohmann::json::parse(std::ifstream(folder + "/case.json"));
    ImportOptions options;
    options.batch = notes["batch"];
    if (int64_t own = notes["seq"]; own > 0)
      options.sequence = sequence.value_or(own);
    return import(folder + "/model.onnx", options);
  }
};

TEST_P(Golden, TrainsExactlyTheParameters) {
  nlohmann::json notes = nlohmann::json::parse(std::ifstream(folder + "/case.json"));
  Imported result = importCase();
  ASSERT_TRUE(result.problems.empty()) << result.everything();
  std::vector<std::string> expected;
  for (const auto &[name, dims] : notes["parameters"].items())
    expected.push_back(name);
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(result.trained(), expected);
  EXPECT_TRUE(result.warnings.empty()) << result.everything();
  for (const ImportedParameter &parameter : result.parameters)
    if (parameter.trainable) {
      EXPECT_EQ(parameter.dims, notes["parameters"][parameter.name].get<Dims>());
    }
}

// Bytes are where the parameters say, and original names are found where the exporter renamed.
TEST_P(Golden, NamesBytesAndOriginals) {
  Imported result = importCase();
  std::string path = folder + "/model.onnx";
  std::ifstream file(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), {});
  ::onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(bytes));
  for (const auto &tensor : model.graph().initializer())
    for (const ImportedParameter &parameter : result.parameters)
      if (parameter.name == tensor.name()) {
        EXPECT_EQ(bytes.substr(parameter.offset, parameter.length), tensor.raw_data()) << tensor.name();
        if (parameter.trainable && parameter.name.starts_with("val_")) {
          ASSERT_EQ(parameter.aliases.size(), 1U) << parameter.name;
          EXPECT_TRUE(parameter.aliases[0].name.ends_with(".weight")) << parameter.name;
          EXPECT_TRUE(parameter.aliases[0].transposed) << parameter.name;
        }
      }
}

TEST_P(Golden, NothingGrowsWithTheSequence) {
  Imported result = importCase(64);
  Imported again = importCase(64);
  EXPECT_EQ(result.text, again.text);
  EXPECT_EQ(result.digest, again.digest);
  std::regex list("dense<\\[[^\\]]{400}"); // more than a few frequencies
  EXPECT_FALSE(std::regex_search(result.text, list)) << result.text;
}

INSTANTIATE_TEST_SUITE_P(Cases, Golden,
                         testing::Values("gpt2", "gpt2-clip", "llama", "llama-opset23", "lstm", "gru", "mlp", "vision"),
                         [](const auto &info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

} // namespace
} // namespace mt::onnx::test
