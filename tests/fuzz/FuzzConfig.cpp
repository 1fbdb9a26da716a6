// config.json of a checkpoint folder that holds the tensors of a GPT-2 and a Llama of one layer.
#include "models/FromHf.h"
#include "runtime/train/Elements.h"
#include "runtime/train/Safetensors.h"
#include "tests/fuzz/Bytes.h"
#include "tests/fuzz/MemoryFolder.h"

#include <cstdlib>

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

std::string weightsFile() {
  std::vector<train::TensorInfo> all = tensors();
  size_t count = 0;
  for (const train::TensorInfo &tensor : all)
    count += static_cast<size_t>(train::elementCount(tensor.dims).value_or(0));
  auto header = train::safetensorsHeader("model.safetensors", all);
  if (!header.ok())
    std::abort();
  return *header + std::string(4 * count, '\0');
}

/// A folder with that file and no config.json yet.
struct Folder : fuzz::MemoryFolder {
  Folder() {
    const std::string weights = weightsFile();
    write("model.safetensors", {reinterpret_cast<const uint8_t *>(weights.data()), weights.size()});
  }
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static Folder folder;
  folder.write("config.json", {data, size});
  (void)models::importCheckpoint(folder.path(), folder.path() + "/model.onnx", size % 2 ? 23 : 20, size % 4 > 1);
  return 0;
}
