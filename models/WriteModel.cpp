#include "models/WriteModel.h"

#include "models/FromHf.h"
#include "runtime/base/AtomicFile.h"
#include "runtime/host/Generator.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

namespace mt::models {
namespace {

constexpr uint64_t kBlock = 1 << 18; ///< elements generated at a time

template <typename T> T number(const onnx::TensorProto &tensor, const char *key) {
  const std::string text = externalValue(tensor, key);
  T value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// Elements [first, first + values.size()) of a parameter, by the runtime's own generator.
void generate(const onnx::TensorProto &tensor, uint64_t first, std::span<float> values) {
  const std::string kind = externalValue(tensor, "mt.generator");
  if (kind != "normal")
    return std::fill(values.begin(), values.end(), kind == "ones" ? 1.0f : 0.0f);
  const uint64_t key = host::generatorKey(tensor.name(), number<uint64_t>(tensor, "mt.seed"));
  host::generateNormal(key, first, 0, number<double>(tensor, "mt.deviation"), values);
}

Status writeTensor(AtomicFile &file, const onnx::TensorProto &tensor) {
  const std::vector<std::byte> padding(number<uint64_t>(tensor, "offset") - file.written());
  MT_TRY(file.write(padding));
  const uint64_t count = elements(tensor);
  std::vector<float> block;
  for (uint64_t first = 0; first < count; first += block.size()) {
    block.resize(std::min(kBlock, count - first));
    generate(tensor, first, block);
    MT_TRY(file.write(std::as_bytes(std::span(block))));
  }
  return {};
}

/// Replaces generators by their values in `path`; returns the bytes written. `graph` is the model's own file.
Result<uint64_t> writeWeights(onnx::ModelProto &model, const std::string &path, AtomicFile &graph) {
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
  MT_TRY(graph.removeOld()); // never an old graph beside new values
  MT_TRY(file.commit());
  return file.written();
}

Result<Written> writeGraph(const onnx::ModelProto &model, AtomicFile file) {
  Written written;
  for (const onnx::TensorProto &tensor : model.graph().initializer())
    written.parameters += elements(tensor);
  const std::string bytes = model.SerializeAsString();
  written.graphBytes = bytes.size();
  MT_TRY(file.write(std::as_bytes(std::span(bytes))));
  MT_TRY(file.commit());
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
  uint64_t weightBytes = 0;
  if (options.weights) {
    MT_ASSIGN(weightBytes, writeWeights(model, options.output + ".data", file));
  }
  MT_ASSIGN(Written written, writeGraph(model, std::move(file)));
  written.weightBytes = weightBytes;
  return written;
}

Result<Written> writeCheckpointGraph(const std::string &folder, const WriteOptions &options) {
  MT_ASSIGN(CheckpointGraph graph, importCheckpoint(folder, options.output, options.opset));
  MT_ASSIGN(AtomicFile file, AtomicFile::create(options.output));
  MT_ASSIGN(Written written, writeGraph(graph.model, std::move(file)));
  written.warnings = std::move(graph.warnings);
  return written;
}

} // namespace mt::models
