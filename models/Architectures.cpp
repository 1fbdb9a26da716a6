#include "models/Architectures.h"

#include "models/Decoder.h"
#include "models/Gpt2.h"
#include "models/RopeScaling.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace mt::models {
namespace {

using Config = CheckpointConfig;

constexpr int64_t kMostLayers = 1 << 16, kWidestHead = 1 << 16;

/// What transformers takes where config.json is silent.
struct Defaults {
  double epsilon = 1e-6;
  bool tied = false;
  int64_t headDim = 0; ///< 0: hidden / heads
  const char *activationName = "hidden_act", *activation = "silu";
  RopeDefaults rope = {};
};

//===-- pieces that several say ----------------------------------------------------------------------------------===//

Activation activationOf(Config &config, const char *name, const char *otherwise) {
  const std::string said = config.textOr(name, otherwise);
  config.require(said == "silu" || said == "swish" || said == "gelu" || said == "gelu_new" ||
                     said == "gelu_pytorch_tanh" || said == "relu",
                 name, "silu, gelu, gelu_new, gelu_pytorch_tanh, relu");
  return said == "gelu"             ? Activation::gelu
         : said == "relu"           ? Activation::relu
         : said.starts_with("gelu") ? Activation::geluTanh
                                    : Activation::silu;
}

void readBiases(Config &config, Decoder &d) { d.inputBias = d.outputBias = config.flagOr("attention_bias", false); }

void readMlpBias(Config &config, Decoder &d) { d.mlpBias = config.flagOr("mlp_bias", false); }

/// Keys that a query sees; null means all.
int64_t windowOr(Config &config, int64_t otherwise) {
  return config.countOr("sliding_window", config.mentions("sliding_window") ? 0 : otherwise);
}

/// A window in every layer.
void readWindow(Config &config, Decoder &d, int64_t otherwise = 0) {
  const int64_t window = windowOr(config, otherwise);
  for (DecoderLayer &layer : d.layers)
    layer.window = window;
}

/// A window in layers of the type `sliding_attention`; `usual` says which those are where `layer_types` does not.
template <typename Usual> void readLayerTypes(Config &config, Decoder &d, int64_t window, Usual usual) {
  std::vector<std::string> types;
  for (size_t i = 0; i < d.layers.size(); ++i)
    types.push_back(usual(i) ? "sliding_attention" : "full_attention");
  types = config.textsOr("layer_types", types);
  config.require(types.size() == d.layers.size(), "layer_types", "as many as num_hidden_layers");
  for (size_t i = 0; i < std::min(types.size(), d.layers.size()); ++i) {
    const bool sliding = types[i] == "sliding_attention";
    config.require(sliding || types[i] == "full_attention", "layer_types", "full_attention, sliding_attention");
    d.layers[i].window = sliding ? window : 0;
  }
}

/// The window that Qwen's and SmolLM3's configurations switch on; 0: none.
int64_t switchedWindow(Config &config) {
  const bool used = config.flagOr("use_sliding_window", false);
  const int64_t window = windowOr(config, 4096);
  return used ? window : 0;
}

void readQwenWindows(Config &config, Decoder &d) {
  const int64_t window = switchedWindow(config), from = config.countOr("max_window_layers", 28);
  readLayerTypes(config, d, window, [&](size_t i) { return window > 0 && int64_t(i) >= from; });
}

void readMultipliers(Config &config, Decoder &d) {
  d.embeddingScale = config.realOr("embedding_multiplier", 1);
  d.attentionScale = config.realOr("attention_multiplier", 1);
  d.residualScale = config.realOr("residual_multiplier", 1);
  d.headScale = 1 / config.positiveOr("logits_scaling", 1);
}

void readExperts(Config &config, Decoder &d, const char *width) {
  Experts &e = d.experts;
  const int64_t named = config.integerOr("num_experts", 0); // either name, of any of them
  e.count = named ? named : config.integer("num_local_experts");
  e.perToken = config.integer("num_experts_per_tok");
  e.width = config.integer(width);
  config.require(e.perToken <= e.count, "num_experts_per_tok", "at most the number of experts");
  config.require(!config.flagOr("output_router_logits", false), "output_router_logits",
                 "false, as the loss has no part for routers");
  for (DecoderLayer &layer : d.layers)
    layer.routed = true;
}

/// Layers that keep an ordinary MLP.
void readSparseLayers(Config &config, Decoder &d) {
  const int64_t step = config.integerOr("decoder_sparse_step", 1);
  const std::vector<int64_t> dense = config.integersOr("mlp_only_layers", {});
  for (size_t i = 0; i < d.layers.size(); ++i)
    d.layers[i].routed = (int64_t(i) + 1) % step == 0 && std::ranges::find(dense, int64_t(i)) == dense.end();
}

//===-- what each says -------------------------------------------------------------------------------------------===//

void llama(Config &config, Decoder &d) {
  readBiases(config, d);
  readMlpBias(config, d);
}

void mistral(Config &config, Decoder &d) {
  readWindow(config, d, 4096);
  config.require(!config.has("layer_types"), "layer_types", "null");
}

void qwen2(Config &config, Decoder &d) {
  d.inputBias = true;
  readQwenWindows(config, d);
}

void qwen3(Config &config, Decoder &d) {
  d.headNorms = HeadNorms::each;
  readBiases(config, d);
  readQwenWindows(config, d);
}

void gemma(Config &config, Decoder &d) {
  if (d.activation == Activation::gelu)
    d.activation = Activation::geluTanh; // what the first configurations mean
  const std::string second = config.textOr("hidden_activation", "gelu_pytorch_tanh");
  config.require(second == "gelu_pytorch_tanh", "hidden_activation", "gelu_pytorch_tanh");
  d.gainPlusOne = true;
  d.embeddingScale = std::sqrt(double(d.shape.hidden));
  readBiases(config, d);
  config.require(!config.flagOr("use_bidirectional_attention", false), "use_bidirectional_attention", "false");
}

/// What Gemma 2 and 3 add to the first.
void laterGemma(Config &config, Decoder &d) {
  d.gainPlusOne = true;
  d.embeddingScale = std::sqrt(double(d.shape.hidden));
  d.norms = {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"};
  d.attentionScale = 1 / std::sqrt(config.positiveOr("query_pre_attn_scalar", 256));
  readBiases(config, d);
  config.require(!config.flagOr("use_bidirectional_attention", false), "use_bidirectional_attention", "false");
}

double capOr(Config &config, const char *name, double otherwise) {
  return config.positiveOr(name, config.mentions(name) ? 0 : otherwise);
}

void gemma2(Config &config, Decoder &d) {
  laterGemma(config, d);
  d.attentionCap = capOr(config, "attn_logit_softcapping", 50);
  d.logitCap = capOr(config, "final_logit_softcapping", 30);
  readLayerTypes(config, d, windowOr(config, 4096), [](size_t i) { return i % 2 == 0; });
}

void gemma3(Config &config, Decoder &d) {
  laterGemma(config, d);
  d.headNorms = HeadNorms::each;
  d.logitCap = config.positiveOr("final_logit_softcapping", 0);
  config.require(!config.has("attn_logit_softcapping"), "attn_logit_softcapping", "null");
  const size_t period = size_t(config.integerOr("sliding_window_pattern", 6));
  readLayerTypes(config, d, windowOr(config, 4096), [&](size_t i) { return (i + 1) % period != 0; });
  Config nested = config.inner("rope_parameters");
  const bool scaled = config.has("rope_scaling");
  Config global = scaled ? config.inner("rope_scaling") : nested.inner("full_attention"),
         local = nested.inner("sliding_attention");
  d.rotaries = {readRotary(config, global, d.headDim, {.theta = 1e6})}; // of layers that see everything
  d.rotaries.push_back(readRotary(config, local, d.headDim, {.thetaName = "rope_local_base_freq"}));
  for (DecoderLayer &layer : d.layers)
    layer.rotary = layer.window > 0;
}

void phi3(Config &config, Decoder &d) {
  d.fusedInput = d.fusedGate = true;
  readWindow(config, d);
}

void smollm3(Config &config, Decoder &d) {
  llama(config, d);
  const int64_t window = switchedWindow(config), interval = config.integerOr("no_rope_layer_interval", 4);
  std::vector<int64_t> turned;
  for (size_t i = 0; i < d.layers.size(); ++i)
    turned.push_back((int64_t(i) + 1) % interval != 0);
  turned = config.integersOr("no_rope_layers", turned); // 1 where there are rotary positions
  config.require(turned.size() == d.layers.size(), "no_rope_layers", "as many as num_hidden_layers");
  turned.resize(d.layers.size());
  readLayerTypes(config, d, window, [&](size_t i) { return window > 0 && !turned[i]; });
  for (size_t i = 0; i < d.layers.size(); ++i)
    d.layers[i].rotary = turned[i] ? 0 : DecoderLayer::kNoRotary;
}

void olmo2(Config &config, Decoder &d) {
  d.headNorms = HeadNorms::all;
  d.norms = {"", "post_attention_layernorm", "", "post_feedforward_layernorm"};
  readBiases(config, d);
}

void granite(Config &config, Decoder &d) {
  llama(config, d);
  readMultipliers(config, d);
}

void mixtral(Config &config, Decoder &d) {
  readWindow(config, d);
  readExperts(config, d, "intermediate_size");
  config.require(config.realOr("router_jitter_noise", 0) == 0, "router_jitter_noise", "0");
  d.experts.normalized = true;
  d.experts.block = "block_sparse_moe";
  d.experts.gate = "w1";
  d.experts.up = "w3";
  d.experts.down = "w2";
}

void qwen2Moe(Config &config, Decoder &d) {
  d.inputBias = config.flagOr("qkv_bias", true);
  const int64_t window = switchedWindow(config), until = config.countOr("max_window_layers", 28);
  readLayerTypes(config, d, window, [&](size_t i) { return window > 0 && i % 2 == 0 && int64_t(i) < until; });
  readExperts(config, d, "moe_intermediate_size");
  readSparseLayers(config, d);
  d.experts.normalized = config.flagOr("norm_topk_prob", false);
  d.experts.sharedWidth = config.integer("shared_expert_intermediate_size");
}

void qwen3Moe(Config &config, Decoder &d) {
  d.headNorms = HeadNorms::each;
  readBiases(config, d);
  const int64_t window = switchedWindow(config);
  for (DecoderLayer &layer : d.layers)
    layer.window = window;
  readExperts(config, d, "moe_intermediate_size");
  readSparseLayers(config, d);
  d.experts.normalized = config.flagOr("norm_topk_prob", false);
}

void olmoe(Config &config, Decoder &d) {
  d.headNorms = HeadNorms::all;
  readBiases(config, d);
  config.require(!config.has("clip_qkv"), "clip_qkv", "null");
  readExperts(config, d, "intermediate_size");
  d.experts.normalized = config.flagOr("norm_topk_prob", false);
}

void graniteMoe(Config &config, Decoder &d) {
  readBiases(config, d);
  readMultipliers(config, d);
  readExperts(config, d, "intermediate_size");
  d.experts.normalized = true; // a softmax over those that are picked
  d.experts.block = "block_sparse_moe";
  d.experts.router = "router.layer";
  d.experts.fusedGate = "input_linear";
  d.experts.fusedDown = "output_linear";
}

//===-- the table ------------------------------------------------------------------------------------------------===//

struct Architecture {
  const char *name, *models;
  void (*honour)(Config &, Decoder &); ///< null: GPT-2
  Defaults defaults = {};
};

constexpr const char *kTanh = "gelu_pytorch_tanh";
constexpr Architecture kArchitectures[] = {
    {"GPT2LMHeadModel", "GPT-2, DistilGPT-2", nullptr},
    {"LlamaForCausalLM", "Llama 1 to 3.3, SmolLM 1 and 2, Yi, and others of that form", llama},
    {"MistralForCausalLM", "Mistral, Zephyr", mistral},
    {"Qwen2ForCausalLM", "Qwen 1.5 to 2.5, QwQ", qwen2},
    {"Qwen3ForCausalLM", "Qwen 3", qwen3, {.headDim = 128}},
    {"GemmaForCausalLM", "Gemma 1", gemma, {.tied = true, .headDim = 256, .activation = kTanh}},
    {"Gemma2ForCausalLM",
     "Gemma 2",
     gemma2,
     {.tied = true, .headDim = 256, .activationName = "hidden_activation", .activation = kTanh}},
    {"Gemma3ForCausalLM",
     "Gemma 3, text",
     gemma3,
     {.tied = true, .headDim = 256, .activationName = "hidden_activation", .activation = kTanh}},
    {"Phi3ForCausalLM", "Phi-3, Phi-3.5, Phi-4", phi3, {.epsilon = 1e-5, .rope = {.partial = true, .renamed = true}}},
    {"SmolLM3ForCausalLM", "SmolLM 3", smollm3, {.tied = true, .rope = {.theta = 2e6}}},
    {"Olmo2ForCausalLM", "OLMo 2", olmo2, {.epsilon = 1e-5}},
    {"GraniteForCausalLM", "Granite 3", granite},
    {"MixtralForCausalLM", "Mixtral", mixtral, {.epsilon = 1e-5, .rope = {.theta = 1e6}}},
    {"Qwen2MoeForCausalLM", "Qwen 1.5 and 2 with experts", qwen2Moe},
    {"Qwen3MoeForCausalLM", "Qwen 3 with experts", qwen3Moe},
    {"OlmoeForCausalLM", "OLMoE", olmoe, {.epsilon = 1e-5}},
    {"GraniteMoeForCausalLM", "Granite 3 with experts", graniteMoe},
};

Gpt2Config readGpt2(Config &config) {
  Gpt2Config model;
  model.shape.hidden = config.integer("n_embd");
  model.shape.layers = config.integer("n_layer");
  model.shape.heads = config.integer("n_head");
  model.shape.intermediate = config.integerOr("n_inner", 4 * model.shape.hidden);
  model.shape.vocab = config.integer("vocab_size");
  model.shape.seq = config.integer("n_positions");
  model.epsilon = config.positiveOr("layer_norm_epsilon", 1e-5);
  model.activation = activationOf(config, "activation_function", "gelu_new");
  model.tiedHead = config.flagOr("tie_word_embeddings", true);
  config.require(config.flagOr("scale_attn_weights", true), "scale_attn_weights", "true");
  config.require(!config.flagOr("scale_attn_by_inverse_layer_idx", false), "scale_attn_by_inverse_layer_idx", "false");
  config.require(!config.flagOr("add_cross_attention", false), "add_cross_attention", "false");
  config.require(model.shape.layers <= kMostLayers, "n_layer", fmt::format("at most {}", kMostLayers));
  config.require(model.shape.hidden % model.shape.heads == 0, "n_head", "a divisor of n_embd");
  return model;
}

Decoder readDecoder(Config &config, const Architecture &architecture) {
  const Defaults &defaults = architecture.defaults;
  Decoder d;
  Shape &s = d.shape;
  s.hidden = config.integer("hidden_size");
  s.layers = config.integer("num_hidden_layers");
  s.heads = config.integer("num_attention_heads");
  s.kvHeads = config.integerOr("num_key_value_heads", s.heads);
  s.intermediate = config.integer("intermediate_size");
  s.vocab = config.integer("vocab_size");
  config.require(s.layers <= kMostLayers, "num_hidden_layers", fmt::format("at most {}", kMostLayers));
  config.require(s.heads % s.kvHeads == 0, "num_key_value_heads", "a divisor of num_attention_heads");
  d.headDim =
      config.integerOr("head_dim", defaults.headDim ? defaults.headDim : std::max<int64_t>(1, s.hidden / s.heads));
  config.require(d.headDim <= kWidestHead, "head_dim", fmt::format("at most {}", kWidestHead));
  d.headDim = std::min(d.headDim, kWidestHead);
  d.layers.resize(static_cast<size_t>(std::min(s.layers, kMostLayers)));
  d.epsilon = config.positiveOr("rms_norm_eps", defaults.epsilon);
  d.activation = activationOf(config, defaults.activationName, defaults.activation);
  d.tiedHead = config.flagOr("tie_word_embeddings", defaults.tied);
  d.attentionScale = 1 / std::sqrt(double(d.headDim));
  architecture.honour(config, d);
  if (d.rotaries.empty())
    d.rotaries = {readRotary(config, ropeOf(config), d.headDim, defaults.rope)};
  return d;
}

void refuseQuantized(Config &config) {
  config.require(!config.has("quantization_config"), "quantization_config",
                 "null; load a checkpoint of full precision");
}

Status build(Config &config, const Architecture &architecture, GraphBuilder &b) {
  refuseQuantized(config);
  if (!architecture.honour) {
    Gpt2Config model = readGpt2(config);
    MT_TRY(config.status());
    model.prefix = b.hasParameter("transformer.wte.weight") ? "transformer." : "";
    b.modulePrefix = model.prefix.empty() ? "transformer." : "";
    buildGpt2(b, model);
    return {};
  }
  const Decoder decoder = readDecoder(config, architecture);
  MT_TRY(config.status());
  buildDecoder(b, decoder);
  return {};
}

/// The one that `architectures` names, or null.
const Architecture *find(const Config &config) {
  for (const Architecture &architecture : kArchitectures)
    if (config.text("architectures") == fmt::format("[\"{}\"]", architecture.name))
      return &architecture;
  return nullptr;
}

/// What is asked of an architecture's config.json, and what has to be something.
Config everythingAsked(const Architecture &architecture) {
  Config config;
  refuseQuantized(config);
  if (architecture.honour)
    (void)readDecoder(config, architecture);
  else
    (void)readGpt2(config);
  return config;
}

/// Names in backticks, but for those of `without` and of inner objects.
std::string listed(const std::set<std::string> &names, const std::set<std::string> &without) {
  std::vector<std::string> texts;
  for (const std::string &name : names)
    if (!without.contains(name) && name.find('.') == std::string::npos)
      texts.push_back(fmt::format("`{}`", name));
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// What all decoders ask for.
std::set<std::string> askedByAll() {
  std::set<std::string> common;
  for (const Architecture &architecture : kArchitectures) {
    if (!architecture.honour)
      continue;
    const std::set<std::string> asked = everythingAsked(architecture).asked();
    if (common.empty())
      common = asked;
    std::erase_if(common, [&](const std::string &name) { return !asked.contains(name); });
  }
  return common;
}

} // namespace

std::string architecturesPage() {
  constexpr size_t kMostNamed = 8;
  const std::set<std::string> common = askedByAll();
  std::string page = "# What is read of a checkpoint\n\n"
                     "Written by `tools/docs.sh` from `models/Architectures.cpp` and `models/RopeScaling.cpp`. Which "
                     "files are read, and what else\n"
                     "there is to know: [models](models.md#checkpoint-folders). Whether a folder can be trained, it "
                     "tells itself:\n\n"
                     "```sh\n"
                     "python3 examples/finetune/make_base.py folder    # in place of one of the hub\n"
                     "mtc check folder\n"
                     "```\n\n## Architectures\n\n"
                     "`architectures` of `config.json` names one of these.\n\n"
                     "| architecture | models | fields that are read, beside those of all |\n| --- | --- | --- |\n";
  std::map<std::string, std::map<std::string, std::vector<std::string>>>
      required; // field, what is supported, of which models
  for (const Architecture &architecture : kArchitectures) {
    const Config config = everythingAsked(architecture);
    page += fmt::format("| `{}` | {} | {} |\n", architecture.name, architecture.models,
                        listed(config.asked(), architecture.honour ? common : std::set<std::string>()));
    for (const auto &[name, supported] : config.required())
      required[name][supported].push_back(architecture.models);
  }
  page += fmt::format("\nOf all but GPT-2: {}, and the rotary positions.\n", listed(common, {}));
  page += "\n## Refused\n\nOther values of these fields are refused by name.\n\n| field | supported | of |\n| --- | "
          "--- | --- |\n";
  for (const auto &[name, values] : required)
    for (const auto &[supported, models] : values) {
      const bool many = models.size() > kMostNamed;
      page += fmt::format("| `{}` | {} | {} |\n", name, supported,
                          !many               ? fmt::format("{}", fmt::join(models, "; "))
                          : values.size() > 1 ? "all others"
                                              : "all that have it");
    }
  page += "\n## Rotary positions\n\n`rope_parameters`, as transformers 5 writes them, or `rope_theta` and "
          "`rope_scaling`, as 4 did. Kinds\n"
          "(`rope_type`, or `type`):\n\n| kind | reads |\n| --- | --- |\n" +
          ropeKinds();
  return page;
}

Status checkArchitecture(Config &config) {
  if (find(config))
    return {};
  std::vector<std::string> names;
  for (const Architecture &architecture : kArchitectures)
    names.push_back(architecture.name);
  config.refuse("'architectures' is {}; supported: {}. Export the model with torch.onnx.export instead",
                config.text("architectures"), fmt::join(names, ", "));
  return config.status();
}

Status buildArchitecture(Config &config, GraphBuilder &b) {
  MT_TRY(checkArchitecture(config));
  return build(config, *find(config), b);
}

} // namespace mt::models
