#include "models/FromHf.h"

#include "models/Gpt2.h"
#include "models/Llama.h"
#include "models/StoredTensors.h"
#include "runtime/base/Json.h"
#include "runtime/base/MappedFile.h"

#include <nlohmann/json.hpp>

#include <filesystem>

namespace mt::models {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// Parameters as the checkpoint stores them.
class StoredWeights : public Weights {
public:
  StoredWeights(StoredTensors tensors, fs::path base) : tensors(std::move(tensors)), base(std::move(base)) {}

  bool has(const std::string &name) const override { return tensors.count(name) != 0; }

  Status locate(onnx::TensorProto &tensor, const Generator &) override {
    auto found = tensors.find(tensor.name());
    if (found == tensors.end())
      return fail("the checkpoint has no tensor '{}'", tensor.name());
    const StoredTensor &stored = found->second;
    const Dims dims(tensor.dims().begin(), tensor.dims().end());
    if (stored.dims != dims)
      return fail("{}: tensor '{}' is [{}], but config.json makes it [{}]", stored.file, tensor.name(),
                  fmt::join(stored.dims, ", "), fmt::join(dims, ", "));
    tensor.set_data_type(stored.type);
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    addExternal(tensor, "location", fs::absolute(stored.file).lexically_relative(base).generic_string());
    addExternal(tensor, "offset", std::to_string(stored.offset));
    addExternal(tensor, "length", std::to_string(stored.length));
    return {};
  }

private:
  StoredTensors tensors;
  fs::path base;
};

/// config.json, read field by field; the first field that is missing or of another kind is the error.
class Config {
public:
  static Result<Config> read(const std::string &path) {
    Result<MappedFile> file = MappedFile::open(path);
    if (!file)
      return fail("{}; from-hf takes a checkpoint folder with config.json", file.status().message());
    Result<Json> json = parseJson({reinterpret_cast<const char *>(file->bytes().data()), file->size()});
    if (!json || !json->is_object())
      return fail("{}: is not a JSON object{}", path, json ? "" : ": " + json.status().message());
    Config config;
    config.path = path;
    config.json = std::move(*json);
    return config;
  }

  int64_t integer(const char *name) {
    if (json.contains(name) && json[name].is_number_integer() && json[name].get<int64_t>() > 0)
      return json[name];
    note("'{}' is missing or not a positive integer", name);
    return 1;
  }
  int64_t integerOr(const char *name, int64_t otherwise) { return isNull(name) ? otherwise : integer(name); }
  double realOr(const char *name, double otherwise) {
    return json.contains(name) && json[name].is_number() ? json[name].get<double>() : otherwise;
  }
  bool flagOr(const char *name, bool otherwise) {
    return json.contains(name) && json[name].is_boolean() ? json[name].get<bool>() : otherwise;
  }
  std::string textOr(const char *name, const std::string &otherwise) {
    return json.contains(name) && json[name].is_string() ? json[name].get<std::string>() : otherwise;
  }
  bool isNull(const char *name) const { return !json.contains(name) || json[name].is_null(); }
  const Json &raw() const { return json; }

  /// Refuses a setting the graph would not honour.
  void require(bool holds, const char *name, const char *supported) {
    if (!holds)
      note("'{}' is {}; supported: {}", name, json.contains(name) ? json[name].dump() : "missing", supported);
  }
  Status status() const { return failure.within(path); }

private:
  template <typename... Args> void note(fmt::format_string<Args...> format, Args &&...args) {
    if (failure)
      failure = fail(format, std::forward<Args>(args)...);
  }
  std::string path;
  Json json;
  Status failure;
};

Status buildGpt2From(Config &config, GraphBuilder &b) {
  Gpt2Config model;
  model.shape.hidden = config.integer("n_embd");
  model.shape.layers = config.integer("n_layer");
  model.shape.heads = config.integer("n_head");
  model.shape.intermediate = config.integerOr("n_inner", 4 * model.shape.hidden);
  model.shape.vocab = config.integer("vocab_size");
  model.shape.seq = config.integer("n_positions");
  model.epsilon = config.realOr("layer_norm_epsilon", 1e-5);
  model.prefix = b.hasParameter("transformer.wte.weight") ? "transformer." : "";
  const std::string activation = config.textOr("activation_function", "gelu_new");
  config.require(activation == "gelu_new" || activation == "gelu_pytorch_tanh", "activation_function", "gelu_new");
  config.require(config.flagOr("scale_attn_weights", true), "scale_attn_weights", "true");
  config.require(!config.flagOr("scale_attn_by_inverse_layer_idx", false), "scale_attn_by_inverse_layer_idx", "false");
  config.require(config.flagOr("tie_word_embeddings", true), "tie_word_embeddings", "true");
  config.require(model.shape.hidden % model.shape.heads == 0, "n_head", "a divisor of n_embd");
  MT_TRY(config.status());
  buildGpt2(b, model);
  return {};
}

/// The base of the rotary frequencies: of its own, or inside `rope_parameters`.
double rotaryBase(Config &config) {
  const Json &raw = config.raw();
  if (!raw.contains("rope_parameters") || !raw["rope_parameters"].is_object()) {
    config.require(config.isNull("rope_scaling"), "rope_scaling", "null");
    return config.realOr("rope_theta", 10000);
  }
  const Json &rope = raw["rope_parameters"];
  config.require(rope.value("rope_type", Json("default")) == "default", "rope_parameters", "rope_type default");
  return rope.contains("rope_theta") && rope["rope_theta"].is_number() ? rope["rope_theta"].get<double>() : 10000;
}

Status buildLlamaFrom(Config &config, GraphBuilder &b) {
  LlamaConfig model;
  model.shape.hidden = config.integer("hidden_size");
  model.shape.layers = config.integer("num_hidden_layers");
  model.shape.heads = config.integer("num_attention_heads");
  model.shape.kvHeads = config.integerOr("num_key_value_heads", model.shape.heads);
  model.shape.intermediate = config.integer("intermediate_size");
  model.shape.vocab = config.integer("vocab_size");
  model.headDim = config.integerOr("head_dim", std::max<int64_t>(1, model.shape.hidden / model.shape.heads));
  model.epsilon = config.realOr("rms_norm_eps", 1e-6);
  model.theta = rotaryBase(config);
  model.tiedHead = config.flagOr("tie_word_embeddings", false);
  model.window = config.flagOr("use_sliding_window", true) ? config.integerOr("sliding_window", 0) : 0;
  config.require(config.textOr("hidden_act", "silu") == "silu", "hidden_act", "silu");
  config.require(model.headDim % 2 == 0, "head_dim", "an even size");
  config.require(model.shape.heads % model.shape.kvHeads == 0, "num_key_value_heads", "a divisor of num_attention_heads");
  MT_TRY(config.status());
  buildLlama(b, model);
  return {};
}

struct Architecture {
  const char *name;
  Status (*build)(Config &, GraphBuilder &);
};
constexpr Architecture kArchitectures[] = {
    {"GPT2LMHeadModel", buildGpt2From},
    {"LlamaForCausalLM", buildLlamaFrom},
    {"MistralForCausalLM", buildLlamaFrom},
    {"Qwen2ForCausalLM", buildLlamaFrom},
};

Result<const Architecture *> findArchitecture(const Config &config, const std::string &path) {
  const Json &raw = config.raw();
  std::string known;
  for (const Architecture &architecture : kArchitectures) {
    known += (known.empty() ? "" : ", ") + std::string(architecture.name);
    if (raw.contains("architectures") && raw["architectures"] == Json::array({architecture.name}))
      return &architecture;
  }
  return fail("{}: 'architectures' is {}; supported: {}. Export the model with torch.onnx.export instead", path,
              raw.contains("architectures") ? raw["architectures"].dump() : "missing", known);
}

/// The folder that `output` lies in, if that is `folder` or above it.
Result<fs::path> baseFolder(const std::string &folder, const std::string &output) {
  const fs::path base = fs::absolute(output).lexically_normal().parent_path();
  const fs::path inner = fs::absolute(folder).lexically_normal().lexically_relative(base);
  if (inner.empty() || *inner.begin() == "..")
    return fail("{}: lies outside the folders above {}, so it cannot refer to the weights there; write it into that "
                "folder or one above it", output, folder);
  return base;
}

} // namespace

Result<onnx::ModelProto> importCheckpoint(const std::string &folder, const std::string &output, int64_t opset) {
  const std::string path = folder + "/config.json";
  MT_ASSIGN(Config config, Config::read(path));
  MT_ASSIGN(const Architecture *architecture, findArchitecture(config, path));
  MT_ASSIGN(const fs::path base, baseFolder(folder, output));
  MT_ASSIGN(StoredTensors tensors, listStoredTensors(folder));
  StoredWeights weights(std::move(tensors), base);
  GraphBuilder builder(config.textOr("model_type", "model"), opset, weights);
  MT_TRY(architecture->build(config, builder));
  return builder.finish();
}

} // namespace mt::models
