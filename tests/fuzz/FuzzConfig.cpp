// config.json of a checkpoint folder that holds the tensors of a GPT-2 and a Llama of one layer.
#include "models/FromHf.h"
#include "runtime/train/Safetensors.h"
#include "tests/fuzz/Bytes.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace {

using namespace mt;

/// Width 8, 2 heads, inner width 16, 12 tokens, 6 positions.
std::vector<train::TensorInfo> tensors() {
  const std::string gpt = "transformer.h.0.", llama = "model.layers.0.";
  std::vector<train::TensorInfo> all;
  auto add = [&](const std::string &name, kernels::Dims dims) { all.push_back({name, kernels::DType::f32, std::move(dims)}); };
  add("transformer.wte.weight", {12, 8});
  add("transformer.wpe.weight", {6, 8});
  for (const char *norm : {"ln_1", "ln_2"})
    for (const char *part : {".weight", ".bias"})
      add(gpt + norm + part, {8});
  for (const char *part : {".weight", ".bias"})
    add(std::string("transformer.ln_f") + part, {8});
  add(gpt + "attn.c_attn.weight", {8, 24});
  add(gpt + "attn.c_attn.bias", {24});
  add(gpt + "attn.c_proj.weight", {8, 8});
  add(gpt + "attn.c_proj.bias", {8});
  add(gpt + "mlp.c_fc.weight", {8, 16});
  add(gpt + "mlp.c_fc.bias", {16});
  add(gpt + "mlp.c_proj.weight", {16, 8});
  add(gpt + "mlp.c_proj.bias", {8});
  add("model.embed_tokens.weight", {12, 8});
  add("lm_head.weight", {12, 8});
  add("model.norm.weight", {8});
  for (const char *norm : {"input_layernorm", "post_attention_layernorm"})
    add(llama + norm + ".weight", {8});
  for (const char *product : {"q_proj", "k_proj", "v_proj", "o_proj"})
    add(llama + "self_attn." + product + ".weight", {8, 8});
  for (const char *product : {"gate_proj", "up_proj"})
    add(llama + "mlp." + product + ".weight", {16, 8});
  add(llama + "mlp.down_proj.weight", {8, 16});
  return all;
}

struct Folder {
  std::string path = (std::filesystem::temp_directory_path() / ("mt-fuzz-" + std::to_string(::getpid()))).string();
  Folder() {
    std::filesystem::create_directories(path);
    std::vector<train::TensorInfo> all = tensors();
    auto writer = train::SafetensorsWriter::create(path + "/model.safetensors", all);
    for (const train::TensorInfo &tensor : all) {
      size_t count = 1;
      for (int64_t dim : tensor.dims)
        count *= static_cast<size_t>(dim);
      if (!writer.ok() || !writer->write(std::vector<std::byte>(4 * count)))
        std::exit(1);
    }
    if (!writer->finish())
      std::exit(1);
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const Folder folder;
  std::ofstream(folder.path + "/config.json", std::ios::binary).write(reinterpret_cast<const char *>(data), static_cast<std::streamsize>(size));
  (void)models::importCheckpoint(folder.path, folder.path + "/model.onnx", size % 2 ? 23 : 20);
  return 0;
}
