#include "models/WriteModel.h"

#include "models/FromHf.h"
#include "runtime/base/AtomicFile.h"
#include "runtime/host/Generator.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

namespace mt::models {
namespace {

constexpr uint64_t kBlock = 1 << 18; ///< elements generated at a time

template <typename T> T number(const onnx::TensorProto &tensor, const char *key) {
  const std::string text = externalValue(tensor, key);
  T value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

Status writeTensor(AtomicFile &file, const onnx::TensorProto &tensor) {
  const std::vector<std::byte> padding(number<uint64_t>(tensor, "offset") - file.written());
  MT_TRY(file.write(padding));
  const uint64_t count = elements(tensor);
  const std::string kind = externalValue(tensor, "mt.generator");
  const host::Generator generator = {kind, host::generatorKey(tensor.name(), number<uint64_t>(tensor, "mt.seed")), 0,
                                     number<double>(tensor, "mt.deviation")};
  std::vector<float> block;
  for (uint64_t first = 0; first < count; first += block.size()) {
    block.resize(std::min(kBlock, count - first));
    if (!host::generate(generator, first, block))
      return fail("{}: there is no generator '{}'", tensor.name(), kind);
    MT_TRY(file.write(std::as_bytes(std::span(block))));
  }
  return {};
}

/// Replaces generators by their values in a file that becomes `path` once it is committed. `graph` is the model's own
/// file.
Result<AtomicFile> writeWeights(onnx::ModelProto &model, const std::string &path, const AtomicFile &graph) {
  if (!graph.isFile())
    return fail("--weights: the values go into {}, beside the model: name a file with -o, no device or pipe", path);
  MT_ASSIGN(AtomicFile file, AtomicFile::create(path));
  for (onnx::TensorProto &tensor : *model.mutable_graph()->mutable_initializer()) {
    MT_TRY(writeTensor(file, tensor));
    auto *entries = tensor.mutable_external_data();
    entries->erase(std::remove_if(entries->begin(), entries->end(),
                                  [](const auto &entry) { return entry.key().starts_with("mt."); }),
                   entries->end());
  }
  return file;
}

Result<Written> writeGraph(const onnx::ModelProto &model, AtomicFile &file) {
  Written written;
  for (const onnx::TensorProto &tensor : model.graph().initializer())
    written.parameters += elements(tensor);
  const std::string bytes = model.SerializeAsString();
  written.graphBytes = bytes.size();
  MT_TRY(file.write(std::as_bytes(std::span(bytes))));
  return written;
}

} // namespace

Result<Written> writeFamily(const Family &family, const Shape &shape, const WriteOptions &options) {
  const std::string name = std::filesystem::path(options.output).filename().string();
  GeneratedWeights weights(options.weights ? name + ".data" : name, options.seed);
  GraphBuilder builder(std::string(family.name), options.opset, weights);
  MT_TRY(family.build(builder, shape));
  MT_ASSIGN(onnx::ModelProto model, builder.finish());
  MT_ASSIGN(AtomicFile file, AtomicFile::create(options.output));
  std::optional<AtomicFile> values;
  if (options.weights) {
    MT_ASSIGN(AtomicFile made, writeWeights(model, options.output + ".data", file));
    values.emplace(std::move(made));
  }
  MT_ASSIGN(Written written, writeGraph(model, file));
  written.weightBytes = values ? values->written() : 0;
  MT_TRY(values ? AtomicFile::commit(*values, file) : file.commit());
  return written;
}

Result<Written> writeCheckpointGraph(const std::string &folder, const WriteOptions &options) {
  MT_ASSIGN(CheckpointGraph graph, importCheckpoint(folder, options.output, options.opset));
  MT_ASSIGN(AtomicFile file, AtomicFile::create(options.output));
  MT_ASSIGN(Written written, writeGraph(graph.model, file));
  MT_TRY(file.commit());
  written.warnings = std::move(graph.warnings);
  return written;
}

} // namespace mt::models
