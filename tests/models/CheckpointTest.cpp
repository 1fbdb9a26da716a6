// Checkpoint folders: where tensors are found, and what is refused.
#include "models/Architectures.h"
#include "models/FromHf.h"
#include "models/StoredTensors.h"

#include <fmt/ranges.h>
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
  /// The error of a Llama of one layer whose config.json says this besides.
  std::string configError(const std::string &more, const std::string &architecture = "LlamaForCausalLM") {
    writeConfig(
        fmt::format(R"({{"architectures":["{}"],{}"hidden_size":8,"num_attention_heads":2,"num_hidden_layers":1,)"
                    R"("intermediate_size":8,"vocab_size":5}})",
                    architecture, more.empty() ? "" : more + ","));
    return importError();
  }
  /// Tensors of zeros.
  void writeZeros(const std::string &file, const std::map<std::string, Dims> &tensors) {
    std::string header;
    int64_t offset = 0;
    for (const auto &[name, dims] : tensors) {
      int64_t end = offset + 4;
      for (int64_t dim : dims)
        end = offset + (end - offset) * dim;
      header += fmt::format(R"({}"{}":{{"dtype":"F32","shape":[{}],"data_offsets":[{},{}]}})",
                            header.empty() ? "" : ",", name, fmt::join(dims, ","), offset, end);
      offset = end;
    }
    writeTensors(file, "{" + header + "}", static_cast<size_t>(offset));
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
  writeZeros("a.safetensors", {{"x", {1}}});
  writeConfig(R"({"architectures":["LlamaForCausalLM"],"hidden_size":8})");
  EXPECT_TRUE(contains(importError(), "num_hidden_layers"));
  EXPECT_TRUE(contains(configError(""), "no tensor 'model.embed_tokens.weight'"));
  EXPECT_TRUE(contains(importError("inner/m.onnx"), "write it into that folder"));
}

TEST_F(Checkpoint, WhatTheGraphWouldNotHonourIsRefused) {
  writeZeros("a.safetensors", {{"x", {1}}});
  struct Refused {
    const char *architecture, *field, *says;
  };
  constexpr Refused kRefused[] = {
      {"LlamaForCausalLM", R"("hidden_act":"mish")", "'hidden_act' is \"mish\"; supported: silu"},
      {"LlamaForCausalLM", R"("quantization_config":{"bits":4})", "'quantization_config'"},
      {"LlamaForCausalLM", R"("partial_rotary_factor":0.5)", "'partial_rotary_factor' is 0.5; supported: 1"},
      {"LlamaForCausalLM", R"("rope_scaling":{"type":"mrope"})",
       "of kind 'mrope'; supported: default, linear, dynamic"},
      {"LlamaForCausalLM", R"("rope_scaling":[1])", "'rope_scaling' is [1]; it must be an object"},
      {"LlamaForCausalLM", R"("rope_parameters":{"rope_type":"linear"})", "'rope_parameters.factor' is missing"},
      {"MistralForCausalLM", R"("layer_types":["full_attention"])", "'layer_types'"},
      {"Qwen2ForCausalLM", R"("layer_types":["strange"])", "supported: full_attention, sliding_attention"},
      {"Qwen2ForCausalLM", R"("layer_types":[])", "as many as num_hidden_layers"},
      {"Gemma2ForCausalLM", R"("use_bidirectional_attention":true)", "'use_bidirectional_attention' is true"},
      {"Gemma3ForCausalLM", R"("attn_logit_softcapping":50)", "'attn_logit_softcapping' is 50"},
      {"OlmoeForCausalLM", R"("clip_qkv":8,"num_experts":4,"num_experts_per_tok":2)", "'clip_qkv' is 8"},
      {"MixtralForCausalLM", R"("num_local_experts":4,"num_experts_per_tok":5)", "'num_experts_per_tok' is 5"},
      {"MixtralForCausalLM", R"("num_local_experts":4,"num_experts_per_tok":2,"output_router_logits":true)",
       "'output_router_logits'"},
  };
  for (const Refused &refused : kRefused)
    EXPECT_TRUE(contains(configError(refused.field, refused.architecture), refused.says))
        << refused.field << ": " << configError(refused.field, refused.architecture);
}

TEST_F(Checkpoint, HostileConfigsAreRefused) {
  writeZeros("a.safetensors", {{"x", {1}}});
  struct Refused {
    const char *field, *says;
  };
  constexpr Refused kRefused[] = {
      {R"("num_key_value_heads":0)", "'num_key_value_heads' is 0"},
      {R"("num_key_value_heads":3)", "a divisor of num_attention_heads"},
      {R"("head_dim":-2)", "'head_dim' is -2"},
      {R"("head_dim":3)", "an even number"},
      {R"("head_dim":1000000)", "at most 65536"},
      {R"("head_dim":9223372036854775807)", "at most 1073741824"},
      {R"("head_dim":1e3)", "'head_dim' is 1000.0; it must be a positive integer"},
      {R"("rms_norm_eps":-1)", "'rms_norm_eps' is -1; it must be a number above 0"},
      {R"("rms_norm_eps":"small")", "must be a number"},
      {R"("tie_word_embeddings":1)", "true or false"},
      {R"("rope_theta":0)", "'rope_theta' is 0"},
      {R"("rope_scaling":{"type":"linear","factor":1e-300})", "not finite"},
      {R"("rope_scaling":{"type":"longrope","short_factor":[1],"long_factor":[1,2]})",
       "'rope_scaling.short_factor' must be a list of 2"},
      {R"("rope_scaling":{"type":7})", "must be a text"},
  };
  for (const Refused &refused : kRefused)
    EXPECT_TRUE(contains(configError(refused.field), refused.says))
        << refused.field << ": " << configError(refused.field);
  writeConfig(R"({"architectures":["LlamaForCausalLM"],"hidden_size":8,"num_attention_heads":0,"num_hidden_layers":1,)"
              R"("intermediate_size":8,"vocab_size":5})");
  EXPECT_TRUE(contains(importError(), "'num_attention_heads' is 0"));
  writeConfig(
      R"({"architectures":["LlamaForCausalLM"],"hidden_size":8,"num_attention_heads":2,"num_hidden_layers":1000000000,)"
      R"("intermediate_size":8,"vocab_size":5})");
  EXPECT_TRUE(contains(importError(), "'num_hidden_layers' is 1000000000; supported: at most 65536"));
  writeConfig(
      R"({"architectures":["MixtralForCausalLM"],"hidden_size":8,"num_attention_heads":2,"num_hidden_layers":65536,)"
      R"("num_local_experts":1000000000,"num_experts_per_tok":1,"intermediate_size":8,"vocab_size":5})");
  EXPECT_TRUE(contains(importError(), "no tensor")) << importError();
}

TEST_F(Checkpoint, AnIndexSaysWhichFilesBelongTogether) {
  const auto index = [&](const std::string &text) { std::ofstream(folder / "model.safetensors.index.json") << text; };
  writeZeros("one.safetensors", {{"x", {1}}});
  writeZeros("other.safetensors", {{"x", {2}}, {"y", {3}}});
  EXPECT_TRUE(contains(listError(), "other.safetensors: tensor 'x' is also in")) << listError();
  index(R"({"weight_map":{"x":"one.safetensors"}})");
  auto tensors = listStoredTensors(folder.string());
  ASSERT_TRUE(tensors.ok()) << tensors.status().message();
  EXPECT_EQ(tensors->size(), 1u);
  index(R"({"weight_map":{"x":"one.safetensors","z":"one.safetensors"}})");
  EXPECT_TRUE(contains(listError(), "the tensor 'z', which no file holds"));
  index(R"({"weight_map":{"x":"third.safetensors"}})");
  EXPECT_TRUE(contains(listError(), "third.safetensors: is missing, and"));
  for (const char *name : {R"("../one.safetensors")", R"("/etc/passwd")", R"("..")", R"("")", "7"}) {
    index(fmt::format(R"({{"weight_map":{{"x":{}}}}})", name));
    EXPECT_TRUE(contains(listError(), "no .safetensors file of the folder")) << name << ": " << listError();
  }
  index("{}");
  EXPECT_TRUE(contains(listError(), "has no weight_map"));
  index("[");
  EXPECT_TRUE(contains(listError(), "has no weight_map: a syntax error"));
  fs::remove(folder / "model.safetensors.index.json");
  writeZeros("model.safetensors", {{"w", {1}}}); // others beside it are another form of the same
  tensors = listStoredTensors(folder.string());
  ASSERT_TRUE(tensors.ok()) << tensors.status().message();
  EXPECT_TRUE(tensors->contains("w") && tensors->size() == 1);
}

TEST_F(Checkpoint, FoldersThatAreNoCheckpoints) {
  EXPECT_TRUE(contains(importError(), "a checkpoint folder holds config.json"));
  std::ofstream(folder / "adapter_config.json") << "{}";
  EXPECT_TRUE(contains(importError(), "an adapter alone; merge it"));
  fs::create_directories(folder / "snapshots");
  EXPECT_TRUE(contains(importError(), "the hub's cache of a model; name one of the folders in"));
  EXPECT_TRUE(contains(configError(""), "holds no *.safetensors file"));
  std::ofstream(folder / "pytorch_model.bin") << "";
  EXPECT_TRUE(contains(importError(), "holds pytorch_model.bin and no *.safetensors file; load it with transformers"));
  const std::string file = (folder / "config.json").string();
  EXPECT_TRUE(contains(importCheckpoint(file, file, 23).status().message(), "is no folder"));
}

TEST_F(Checkpoint, TensorsThatTheGraphDoesNotUseAreNamed) {
  const std::string layer = "model.layers.0.";
  std::map<std::string, Dims> tensors = {
      {"model.embed_tokens.weight", {5, 8}}, {"lm_head.weight", {5, 8}}, {"model.norm.weight", {8}}};
  for (const char *name : {"input_layernorm", "post_attention_layernorm"})
    tensors[layer + name + ".weight"] = {8};
  for (const char *name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                           "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"})
    tensors[layer + name + ".weight"] = {8, 8};
  auto warnings = [&](const std::string &more) {
    writeZeros("model.safetensors", tensors);
    EXPECT_EQ(configError(more), "");
    return importCheckpoint(folder.string() + "/", (folder / "m.onnx").string(), 23)->warnings;
  };
  EXPECT_TRUE(warnings("").empty());
  ASSERT_EQ(warnings(R"("tie_word_embeddings":true)").size(), 1u);
  EXPECT_TRUE(contains(warnings(R"("tie_word_embeddings":true)")[0],
                       "does not use 1 of its tensors, which are left out: lm_head.weight"));
  for (int i = 1; i < 9; ++i)
    tensors[fmt::format("model.layers.{}.x", i)] = {1};
  EXPECT_TRUE(contains(warnings("")[0], "does not use 8 of its tensors, which are left out: model.layers.1.x, "))
      << warnings("")[0];
  EXPECT_TRUE(warnings("")[0].ends_with(" and 2 more"));
  writeTensors("model.safetensors",
               R"({"model.embed_tokens.weight":{"dtype":"I64","shape":[5,8],"data_offsets":[0,320]}})", 320);
  EXPECT_TRUE(contains(configError(""), "tensor 'model.embed_tokens.weight' must be f32, bf16 or f16"));
}

TEST_F(Checkpoint, BiasesAreWhatTheConfigurationSays) {
  writeZeros("model.safetensors", {{"model.embed_tokens.weight", {5, 8}},
                                   {"model.layers.0.input_layernorm.weight", {8}},
                                   {"model.layers.0.self_attn.q_proj.weight", {8, 8}}});
  EXPECT_TRUE(contains(configError(R"("attention_bias":true)"), "no tensor 'model.layers.0.self_attn.q_proj.bias'"));
}

TEST(Architectures, ThePageNamesEveryOne) {
  const std::string page = architecturesPage();
  for (const char *part :
       {"`Qwen3MoeForCausalLM`", "`num_experts_per_tok`", "| `llama3` |", "`clip_qkv`", "`sliding_window`"})
    EXPECT_TRUE(contains(page, part)) << part;
}

TEST_F(Checkpoint, ShapesMustBeThoseOfTheConfig) {
  writeTensors("a.safetensors", R"({"model.embed_tokens.weight":{"dtype":"F32","shape":[5,9],"data_offsets":[0,180]}})", 180);
  writeConfig(R"({"architectures":["LlamaForCausalLM"],"hidden_size":8,"num_hidden_layers":1,"num_attention_heads":2,)"
              R"("intermediate_size":8,"vocab_size":5})");
  EXPECT_TRUE(contains(importError(), "[5, 9]") && contains(importError(), "[5, 8]")) << importError();
}

} // namespace
} // namespace mt::models
