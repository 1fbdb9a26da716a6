#include "runtime/train/ExportAdapter.h"

#include "runtime/base/AtomicFolder.h"
#include "runtime/base/Files.h"
#include "runtime/base/Json.h"
#include "runtime/train/FolderTensors.h"

#include <algorithm>
#include <filesystem>

namespace mt::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::string_view kDown = ".lora_A.weight";

/// An adapter, and the module that it is beside as transformers calls it.
struct Entry {
  const StoredAdapter *adapter;
  std::string module;
  int64_t rank;
  double alpha;
  bool transposed; ///< the module's weight is of [in, out]
};

class AdapterExporter {
public:
  AdapterExporter(const TrainedWeights &trained, const std::string &like, const std::string &output)
      : trained(trained), like(like), output(output) {}

  Result<uint64_t> run() {
    if (trained.parameters() != 2 * trained.adapters().size())
      return fail("--like {}: the run trained {} parameters beside its adapters, which PEFT's format has no place for: "
                  "write the whole model with --merge",
                  like, trained.parameters() - 2 * trained.adapters().size());
    MT_ASSIGN(const FolderTensors tensors, FolderTensors::open(like));
    MT_TRY(match(tensors));
    MT_ASSIGN(AtomicFolder folder, AtomicFolder::create(output));
    MT_ASSIGN(const std::string config, configText(tensors));
    MT_TRY(writeFileAtomically(folder.file("adapter_config.json"), config));
    MT_TRY(writeTensors(folder.file("adapter_model.safetensors")));
    std::error_code error;
    const uint64_t bytes = config.size() + fs::file_size(folder.file("adapter_model.safetensors"), error);
    MT_TRY(folder.commit());
    return bytes;
  }

private:
  const TrainedWeights &trained;
  const std::string &like, &output;
  std::vector<Entry> entries;

  /// Every adapter's weight is a tensor of the folder; modules have the folder's names, or those that were exported.
  Status match(const FolderTensors &tensors) {
    std::set<std::string_view> names;
    for (const StoredAdapter &adapter : trained.adapters()) {
      names.insert(adapter.weight);
      for (const plan::Alias &alias : adapter.aliases)
        names.insert(alias.name);
    }
    const std::string prefix = tensors.prefixOf(names);
    auto isThere = [&](std::string_view name) {
      return tensors.places().contains(name) ||
             (name.starts_with(prefix) && tensors.places().contains(name.substr(prefix.size())));
    };
    for (const StoredAdapter &adapter : trained.adapters()) {
      if (!isThere(adapter.weight) &&
          std::ranges::none_of(adapter.aliases, [&](const plan::Alias &alias) { return isThere(alias.name); }))
        return fail("--like {}: has no tensor '{}': name the folder that was trained", like, adapter.weight);
      std::string module = adapter.down.substr(0, adapter.down.size() - kDown.size());
      if (module.starts_with(prefix))
        module.erase(0, prefix.size());
      const int64_t rank = trained.tensors().find(adapter.down)->second.dims[0];
      const auto original = std::ranges::find(adapter.aliases, plan::Alias::Kind::module, &plan::Alias::kind);
      entries.push_back({&adapter, module, rank, adapter.scale * static_cast<double>(rank),
                         adapter.transposed != (original != adapter.aliases.end() && original->transposed)});
    }
    return {};
  }

  static std::string lastPart(const std::string &module) { return module.substr(module.rfind('.') + 1); }

  /// Last parts of names where those mean the adapters' modules alone, as people write them; else whole names.
  std::vector<std::string> targetModules(const FolderTensors &tensors) const {
    std::map<std::string, size_t> ours, all;
    for (const Entry &entry : entries)
      ++ours[lastPart(entry.module)];
    constexpr std::string_view kWeight = ".weight";
    for (const auto &[name, place] : tensors.places())
      if (name.ends_with(kWeight))
        ++all[lastPart(name.substr(0, name.size() - kWeight.size()))];
    std::vector<std::string> names;
    if (std::ranges::all_of(ours, [&](const auto &part) { return all[part.first] == part.second; }))
      for (const auto &[part, count] : ours)
        names.push_back(part);
    else
      for (const Entry &entry : entries)
        names.push_back(entry.module);
    return names;
  }

  /// The model's task as PEFT calls it; null where config.json names none that is known.
  Result<ordered_json> taskType() const {
    MT_ASSIGN(const std::optional<std::string> text, readFile((fs::path(like) / "config.json").string()));
    const Result<nlohmann::json> config = parseJson(text.value_or("{}"));
    if (!config || !config->is_object())
      return fail("{}: is not a JSON object", (fs::path(like) / "config.json").string());
    const nlohmann::json names = config->value("architectures", nlohmann::json::array());
    const std::string name =
        names.is_array() && !names.empty() && names[0].is_string() ? names[0].get<std::string>() : "";
    constexpr std::pair<std::string_view, const char *> kTasks[] = {{"ForCausalLM", "CAUSAL_LM"},
                                                                    {"LMHeadModel", "CAUSAL_LM"},
                                                                    {"ForConditionalGeneration", "SEQ_2_SEQ_LM"},
                                                                    {"ForSequenceClassification", "SEQ_CLS"},
                                                                    {"ForTokenClassification", "TOKEN_CLS"}};
    for (const auto &[ending, task] : kTasks)
      if (name.ends_with(ending))
        return ordered_json(task);
    return ordered_json();
  }

  Result<std::string> configText(const FolderTensors &tensors) const {
    const Entry &usual = entries.front();
    ordered_json ranks = ordered_json::object(), alphas = ordered_json::object();
    for (const Entry &entry : entries) {
      if (entry.rank != usual.rank)
        ranks[entry.module] = entry.rank;
      if (entry.alpha != usual.alpha)
        alphas[entry.module] = entry.alpha;
    }
    MT_ASSIGN(const ordered_json task, taskType());
    const ordered_json config = {
        {"peft_type", "LORA"},
        {"task_type", task},
        {"base_model_name_or_path", like},
        {"r", usual.rank},
        {"lora_alpha", usual.alpha},
        {"lora_dropout", usual.adapter->dropout},
        {"target_modules", targetModules(tensors)},
        {"rank_pattern", ranks},
        {"alpha_pattern", alphas},
        {"fan_in_fan_out", std::ranges::all_of(entries, [](const Entry &entry) { return entry.transposed; })},
        {"bias", "none"},
        {"modules_to_save", nullptr},
        {"init_lora_weights", true},
        {"use_rslora", false},
        {"use_dora", false},
        {"inference_mode", true}};
    return config.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  }

  Status writeTensors(const std::string &path) const {
    std::vector<TensorInfo> tensors;
    std::vector<const std::string *> parameters;
    for (const Entry &entry : entries)
      for (const auto &[parameter, ending] :
           {std::pair(&entry.adapter->down, ".lora_A.weight"), {&entry.adapter->up, ".lora_B.weight"}}) {
        tensors.push_back(
            {"base_model.model." + entry.module + ending, DType::f32, trained.tensors().find(*parameter)->second.dims});
        parameters.push_back(parameter);
      }
    MT_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::create(path, tensors));
    for (const std::string *parameter : parameters) {
      MT_ASSIGN(const std::vector<float> values, trained.values(*parameter));
      MT_TRY(writer.write(std::as_bytes(std::span(values))));
    }
    return writer.finish();
  }
};

} // namespace

Result<uint64_t> exportAdapter(const TrainedWeights &trained, const std::string &like, const std::string &output) {
  return AdapterExporter(trained, like, output).run();
}

} // namespace mt::train
