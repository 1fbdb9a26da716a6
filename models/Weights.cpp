#include "models/Weights.h"

namespace mt::models {
namespace {

constexpr uint64_t kAlignment = 64;

} // namespace

uint64_t elements(const onnx::TensorProto &tensor) {
  uint64_t count = 1;
  for (int64_t dim : tensor.dims())
    count *= static_cast<uint64_t>(dim);
  return count;
}

void addExternal(onnx::TensorProto &tensor, const std::string &key, const std::string &value) {
  onnx::StringStringEntryProto *entry = tensor.add_external_data();
  entry->set_key(key);
  entry->set_value(value);
}

std::string externalValue(const onnx::TensorProto &tensor, const std::string &key) {
  for (const onnx::StringStringEntryProto &entry : tensor.external_data())
    if (entry.key() == key)
      return entry.value();
  return {};
}

Status GeneratedWeights::locate(onnx::TensorProto &tensor, const Generator &fresh) {
  const uint64_t bytes = elements(tensor) * sizeof(float);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  addExternal(tensor, "location", location);
  addExternal(tensor, "offset", std::to_string(end));
  addExternal(tensor, "length", std::to_string(bytes));
  addExternal(tensor, "mt.generator", fresh.kind);
  if (fresh.kind == "normal") {
    addExternal(tensor, "mt.seed", std::to_string(seed));
    addExternal(tensor, "mt.deviation", fmt::format("{}", fresh.deviation));
  }
  end = (end + bytes + kAlignment - 1) / kAlignment * kAlignment;
  return {};
}

} // namespace mt::models
