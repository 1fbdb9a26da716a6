// Checkpoint folders: where tensors are found, and what is refused.
#include "models/FromHf.h"
#include "models/StoredTensors.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>

namespace mt::models {
namespace {

namespace fs = std::filesystem;

class Checkpoint : public testing::Test {
protected:
  Checkpoint() { fs::create_directories(folder); }
  ~Checkpoint() override { fs::remove_all(folder); }

  void writeTensors(const std::string &name, const std::string &header, size_t dataBytes) {
    std::ofstream out(folder / name, std::ios::binary);
    const uint64_t length = header.size();
    out.write(reinterpret_cast<const char *>(&length), sizeof(length));
    out << header << std::string(dataBytes, '\0');
  }
  void writeConfig(const std::string &text) { std::ofstream(folder / "config.json") << text; }
  std::string listError() { return listStoredTensors(folder.string()).status().message(); }
  std::string importError(const std::string &output = "m.onnx") {
    return importCheckpoint(folder.string(), (folder / output).string(), 23).status().message();
  }

  fs::path folder = fs::path(testing::TempDir()) / fmt::format("checkpoint-{}", ::getpid());
};

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

TEST_F(Checkpoint, TensorsAreListedAcrossFiles) {
  writeTensors("a.safetensors", R"({"__metadata__":{},"x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})", 24);
  writeTensors("b.safetensors", R"({"y":{"dtype":"BF16","shape":[4],"data_offsets":[8,16]}})", 16);
  auto tensors = listStoredTensors(folder.string());
  ASSERT_TRUE(tensors.ok()) << tensors.status().message();
  ASSERT_EQ(tensors->size(), 2u);
  const StoredTensor &y = tensors->at("y");
  EXPECT_EQ(y.type, onnx::TensorProto::BFLOAT16);
  EXPECT_EQ(y.dims, Dims{4});
  EXPECT_EQ(y.length, 8u);
  EXPECT_EQ(y.offset, 8 + 56 + 8u); // header length, header, first byte
}

TEST_F(Checkpoint, BadFilesAreRefusedByName) {
  EXPECT_TRUE(contains(listError(), "holds no *.safetensors"));
  writeTensors("a.safetensors", R"({"x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})", 20);
  EXPECT_TRUE(contains(listError(), "a.safetensors: tensor 'x'") && contains(listError(), "outside the file"));
  writeTensors("a.safetensors", R"({"x":{"dtype":"I4","shape":[2],"data_offsets":[0,8]}})", 8);
  EXPECT_TRUE(contains(listError(), "not understood"));
  writeTensors("a.safetensors", R"({"x":{"shape":[2]}})", 8);
  EXPECT_TRUE(contains(listError(), "incomplete"));
  writeTensors("a.safetensors", "no json", 8);
  EXPECT_TRUE(contains(listError(), "header is damaged: a syntax error at line 1, column 2")) << listError();
  writeTensors("a.safetensors", R"({"x":)" + std::string(200000, '['), 8);
  EXPECT_TRUE(contains(listError(), "header is damaged: it nests deeper than 64 levels at line 1, column 69")) << listError();
  std::ofstream(folder / "a.safetensors", std::ios::binary) << "\xff\xff\xff\xff\xff\xff\xff\x7f";
  EXPECT_TRUE(contains(listError(), "a.safetensors"));
}

TEST_F(Checkpoint, ConfigsAreRefusedByFieldAndValue) {
  EXPECT_TRUE(contains(importError(), "config.json"));
  writeConfig(R"({"architectures":)" + std::string(200000, '[') + std::string(200000, ']') + "}");
  EXPECT_TRUE(contains(importError(), "config.json: is not a JSON object: it nests deeper than 64 levels at line 1, column 81"));
  writeConfig(R"({"architectures":["StrangeModel"]})");
  EXPECT_TRUE(contains(importError(), "StrangeModel") && contains(importError(), "LlamaForCausalLM"));
  writeTensors("a.safetensors", R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4);
  writeConfig(R"({"architectures":["LlamaForCausalLM"],"hidden_size":8})");
  EXPECT_TRUE(contains(importError(), "num_hidden_layers"));
  const std::string sizes = R"("hidden_size":8,"num_hidden_layers":1,"num_attention_heads":2,"intermediate_size":8,"vocab_size":5)";
  writeConfig(R"({"architectures":["LlamaForCausalLM"],"hidden_act":"gelu",)" + sizes + "}");
  EXPECT_TRUE(contains(importError(), "hidden_act") && contains(importError(), "silu"));
  writeConfig(R"({"architectures":["LlamaForCausalLM"],"rope_parameters":{"rope_type":"yarn"},)" + sizes + "}");
  EXPECT_TRUE(contains(importError(), "rope_parameters"));
  writeConfig(R"({"architectures":["LlamaForCausalLM"],)" + sizes + "}");
  EXPECT_TRUE(contains(importError(), "no tensor 'model.embed_tokens.weight'"));
  EXPECT_TRUE(contains(importError("inner/m.onnx"), "write it into that folder"));
}

TEST_F(Checkpoint, ShapesMustBeThoseOfTheConfig) {
  writeTensors("a.safetensors", R"({"model.embed_tokens.weight":{"dtype":"F32","shape":[5,9],"data_offsets":[0,180]}})", 180);
  writeConfig(R"({"architectures":["LlamaForCausalLM"],"hidden_size":8,"num_hidden_layers":1,"num_attention_heads":2,)"
              R"("intermediate_size":8,"vocab_size":5})");
  EXPECT_TRUE(contains(importError(), "[5, 9]") && contains(importError(), "[5, 8]")) << importError();
}

} // namespace
} // namespace mt::models
