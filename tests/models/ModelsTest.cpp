// The models that mtmodel writes: sizes, names, generators in metadata, and weights equal to the runtime's generator.
#include "models/Families.h"
#include "models/WriteModel.h"
#include "runtime/base/MappedFile.h"
#include "runtime/host/Generator.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <set>

namespace mt::models {
namespace {

namespace fs = std::filesystem;

/// A folder that goes with the test.
struct Folder {
  fs::path path = fs::path(testing::TempDir()) / fmt::format("models-{}", ::getpid());
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  std::string operator/(const char *name) const { return (path / name).string(); }
};

onnx::ModelProto build(std::string_view family, const Shape &given, int64_t opset, uint64_t seed = 0) {
  const Family *found = findFamily(family);
  auto shape = completeShape(*found, given);
  EXPECT_TRUE(shape.ok()) << shape.status().message();
  GeneratedWeights weights("m.onnx", seed);
  GraphBuilder builder("test", opset, weights);
  EXPECT_TRUE(found->build(builder, *shape).ok());
  auto model = builder.finish();
  EXPECT_TRUE(model.ok());
  return *model;
}

uint64_t elements(const onnx::TensorProto &tensor) {
  uint64_t count = 1;
  for (int64_t dim : tensor.dims())
    count *= static_cast<uint64_t>(dim);
  return count;
}

uint64_t parameters(const onnx::ModelProto &model) {
  uint64_t count = 0;
  for (const onnx::TensorProto &tensor : model.graph().initializer())
    count += elements(tensor);
  return count;
}

std::set<std::string> operators(const onnx::ModelProto &model) {
  std::set<std::string> names;
  for (const onnx::NodeProto &node : model.graph().node())
    names.insert(node.op_type());
  return names;
}

TEST(Models, EveryInputOfANodeIsMadeBeforeIt) {
  for (const Family &family : families()) {
    for (int64_t opset : {20, 23}) {
      const onnx::ModelProto model = build(family.name, {}, opset);
      std::set<std::string> known;
      for (const auto &input : model.graph().input())
        known.insert(input.name());
      for (const auto &tensor : model.graph().initializer())
        EXPECT_TRUE(known.insert(tensor.name()).second) << tensor.name();
      std::set<std::string> names;
      for (const auto &node : model.graph().node()) {
        EXPECT_TRUE(names.insert(node.name()).second) << node.name();
        for (const auto &input : node.input())
          EXPECT_TRUE(known.count(input)) << family.name << " opset " << opset << ": " << node.name() << " uses " << input;
        for (const auto &output : node.output())
          EXPECT_TRUE(known.insert(output).second) << output;
      }
      EXPECT_TRUE(known.count(model.graph().output(0).name()));
    }
  }
}

TEST(Models, Gpt2HasTheKnownSize) {
  // 50257*768 + 1024*768 + 12 * (12*768^2 + 13*768) + 2*768: the 124 M of the published model, head tied.
  EXPECT_EQ(parameters(build("gpt2", {}, 23)), 124439808u);
}

TEST(Models, LlamaOf119BillionIsKilobytes) {
  const onnx::ModelProto model = build("llama", {84, 12288, 28672, 96, 8, 128256, 0}, 23);
  // 84 * (12288*12288*2 + 12288*1024*2 + 3*12288*28672 + 2*12288) + 2*128256*12288 + 12288.
  EXPECT_EQ(parameters(model), 119420203008u);
  EXPECT_LT(model.ByteSizeLong(), 1u << 20);
}

TEST(Models, FormsDifferInTheirOperators) {
  const std::set<std::string> fused = operators(build("llama", {}, 23)), decomposed = operators(build("llama", {}, 20));
  for (const char *op : {"Attention", "RMSNormalization", "RotaryEmbedding"}) {
    EXPECT_TRUE(fused.count(op)) << op;
    EXPECT_FALSE(decomposed.count(op)) << op;
  }
  for (const char *op : {"Softmax", "LessOrEqual", "Where", "Range"})
    EXPECT_TRUE(decomposed.count(op)) << op;
}

TEST(Models, GeneratorsAreInTheMetadata) {
  const onnx::ModelProto model = build("gpt2", {1, 8, 16, 2, 0, 11, 4}, 23, 7);
  std::map<std::string, const onnx::TensorProto *> tensors;
  for (const auto &tensor : model.graph().initializer())
    tensors[tensor.name()] = &tensor;
  const onnx::TensorProto &embedding = *tensors.at("transformer.wte.weight");
  EXPECT_EQ(embedding.data_location(), onnx::TensorProto::EXTERNAL);
  EXPECT_EQ(externalValue(embedding, "location"), "m.onnx");
  EXPECT_EQ(externalValue(embedding, "length"), std::to_string(11 * 8 * 4));
  EXPECT_EQ(externalValue(embedding, "mt.generator"), "normal");
  EXPECT_EQ(externalValue(embedding, "mt.seed"), "7");
  EXPECT_EQ(externalValue(embedding, "mt.deviation"), "0.02");
  EXPECT_EQ(externalValue(*tensors.at("transformer.ln_f.weight"), "mt.generator"), "ones");
  EXPECT_EQ(externalValue(*tensors.at("transformer.ln_f.bias"), "mt.generator"), "zeros");
}

TEST(Models, WrittenWeightsAreTheGenerators) {
  Folder folder;
  const Family &family = *findFamily("llama");
  auto shape = completeShape(family, {2, 16, 24, 4, 2, 19, 0});
  ASSERT_TRUE(shape.ok());
  auto written = writeFamily(family, *shape, {.output = folder / "m.onnx", .seed = 5, .weights = true});
  ASSERT_TRUE(written.ok()) << written.status().message();

  onnx::ModelProto model;
  auto file = MappedFile::open(folder / "m.onnx");
  ASSERT_TRUE(file.ok() && model.ParseFromArray(file->bytes().data(), static_cast<int>(file->size())));
  auto data = MappedFile::open(folder / "m.onnx.data");
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(data->size(), written->weightBytes);
  for (const onnx::TensorProto &tensor : model.graph().initializer()) {
    EXPECT_EQ(externalValue(tensor, "location"), "m.onnx.data");
    EXPECT_EQ(externalValue(tensor, "mt.generator"), "");
    if (tensor.dims_size() < 2)
      continue;
    std::vector<float> want(elements(tensor));
    const bool residual = tensor.name().ends_with("o_proj.weight") || tensor.name().ends_with("down_proj.weight");
    host::generateNormal(host::generatorKey(tensor.name(), 5), 0, 0, residual ? 0.01 : 0.02, want); // 0.02 / sqrt(2 * 2)
    const auto *stored = data->bytes().data() + std::stoull(externalValue(tensor, "offset"));
    EXPECT_EQ(std::memcmp(stored, want.data(), want.size() * sizeof(float)), 0) << tensor.name();
  }
}

TEST(Models, ImpossibleSizesAreRefused) {
  EXPECT_NE(completeShape(*findFamily("gpt2"), {0, 10, 0, 3, 0, 0, 0}).status().message().find("--heads 3"), std::string::npos);
  EXPECT_NE(completeShape(*findFamily("llama"), {0, 64, 0, 4, 3, 0, 0}).status().message().find("--kv-heads 3"),
            std::string::npos);
  EXPECT_EQ(findFamily("nothing"), nullptr);
}

TEST(Models, NothingIsLeftWhereWritingFails) {
  const Family &family = *findFamily("mlp");
  auto written = writeFamily(family, family.defaults, {.output = "/nonexistent/folder/m.onnx", .weights = true});
  ASSERT_FALSE(written.ok());
  EXPECT_NE(written.status().message().find("/nonexistent/folder/m.onnx"), std::string::npos);
}

} // namespace
} // namespace mt::models
