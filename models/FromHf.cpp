#include "models/FromHf.h"

#include "models/Architectures.h"
#include "models/StoredTensors.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <set>

namespace mt::models {
namespace {

namespace fs = std::filesystem;

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
    if (stored.type == 0)
      return fail("{}: tensor '{}' must be f32, bf16 or f16; load a checkpoint of full precision", stored.file,
                  tensor.name());
    used.insert(tensor.name());
    tensor.set_data_type(stored.type);
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    addExternal(tensor, "location",
                fs::absolute(stored.file).lexically_normal().lexically_relative(base).generic_string());
    addExternal(tensor, "offset", std::to_string(stored.offset));
    addExternal(tensor, "length", std::to_string(stored.length));
    return {};
  }

  std::vector<std::string> unused() const {
    std::vector<std::string> names;
    for (const auto &[name, stored] : tensors)
      if (!used.contains(name))
        names.push_back(name);
    return names;
  }

private:
  StoredTensors tensors;
  fs::path base;
  std::set<std::string> used;
};

/// The folder that `output` lies in, if that is `folder` or above it.
Result<fs::path> baseFolder(const std::string &folder, const std::string &output) {
  const fs::path base = fs::absolute(output).lexically_normal().parent_path();
  const fs::path inner = (fs::absolute(folder) / "").lexically_normal().lexically_relative(base);
  if (inner.empty() || *inner.begin() == "..")
    return fail("{}: lies outside the folders above {}, so it cannot refer to the weights there; write it into that "
                "folder or one above it", output, folder);
  return base;
}

Result<CheckpointConfig> readConfig(const std::string &folder) {
  const fs::path path(folder);
  std::error_code error;
  if (!fs::is_directory(path, error))
    return fail("{}: is no folder; name the folder that holds config.json and *.safetensors", folder);
  if (fs::is_directory(path / "snapshots", error) && !fs::exists(path / "config.json", error))
    return fail("{}: is the hub's cache of a model; name one of the folders in {}", folder,
                (path / "snapshots").string());
  if (fs::exists(path / "adapter_config.json", error) && !fs::exists(path / "config.json", error))
    return fail("{}: holds an adapter alone; merge it into its model, and name the folder of the result", folder);
  Result<CheckpointConfig> config = CheckpointConfig::read((path / "config.json").string());
  if (!config && !fs::exists(path / "config.json", error))
    return fail("{}; a checkpoint folder holds config.json and *.safetensors", config.status().message());
  return config;
}

/// Says, as torch.export does, that every tensor is a parameter: what reads the graph need not look at their values.
void stateParameters(onnx::GraphProto &graph, const std::string &modulePrefix) {
  std::string signature;
  for (const onnx::TensorProto &tensor : graph.initializer())
    signature += fmt::format("{}: PARAMETER target='{}{}'\n", tensor.name(), modulePrefix, tensor.name());
  onnx::StringStringEntryProto *entry = graph.add_metadata_props();
  entry->set_key("pkg.torch.export.ExportedProgram.graph_signature");
  entry->set_value(signature);
}

std::string warnUnused(const std::string &folder, const std::vector<std::string> &names) {
  constexpr size_t kMost = 6;
  const size_t shown = std::min(names.size(), kMost);
  const std::string rest = names.size() > shown ? fmt::format(" and {} more", names.size() - shown) : "";
  return fmt::format("{}: the graph does not use {} of its tensors, which are left out: {}{}", folder, names.size(),
                     fmt::join(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", "), rest);
}

} // namespace

Result<CheckpointGraph> importCheckpoint(const std::string &folder, const std::string &output, int64_t opset,
                                         bool packed) {
  MT_ASSIGN(CheckpointConfig config, readConfig(folder));
  MT_ASSIGN(const fs::path base, baseFolder(folder, output));
  MT_TRY(checkArchitecture(config));
  MT_ASSIGN(StoredTensors tensors, listStoredTensors(folder));
  StoredWeights weights(std::move(tensors), base);
  GraphBuilder builder(config.textOr("model_type", "model"), opset, weights, packed);
  MT_TRY(buildArchitecture(config, builder));
  CheckpointGraph graph;
  Result<onnx::ModelProto> model = builder.finish();
  if (!model)
    return model.status().within(folder);
  graph.model = std::move(*model);
  stateParameters(*graph.model.mutable_graph(), builder.modulePrefix);
  if (const std::vector<std::string> unused = weights.unused(); !unused.empty())
    graph.warnings.push_back(warnUnused(folder, unused));
  return graph;
}

} // namespace mt::models
