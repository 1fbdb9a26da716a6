#include "models/SafetensorsFile.h"

#include "runtime/base/MappedFile.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace mt::models {
namespace {

using Json = nlohmann::json;

Result<int> elementType(const std::string &name) {
  static const std::map<std::string, int> types = {
      {"F32", onnx::TensorProto::FLOAT}, {"BF16", onnx::TensorProto::BFLOAT16}, {"F16", onnx::TensorProto::FLOAT16}};
  if (auto found = types.find(name); found != types.end())
    return found->second;
  return fail("has elements of type {}; supported are F32, BF16 and F16", name);
}

bool isOffsets(const Json &value) {
  return value.is_array() && value.size() == 2 && value[0].is_number_unsigned() && value[1].is_number_unsigned();
}

/// One entry of the header; `begin` and `end` bound the file's data.
Result<StoredTensor> readEntry(const Json &entry, uint64_t begin, uint64_t end) {
  if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() || !entry.contains("shape") ||
      !entry["shape"].is_array() || !entry.contains("data_offsets") || !isOffsets(entry["data_offsets"]))
    return fail("its entry lacks dtype, shape or data_offsets");
  StoredTensor tensor;
  MT_ASSIGN(tensor.type, elementType(entry["dtype"].get<std::string>()));
  for (const Json &dim : entry["shape"]) {
    if (!dim.is_number_unsigned())
      return fail("its shape is {}, not a list of sizes", entry["shape"].dump());
    tensor.dims.push_back(dim.get<int64_t>());
  }
  const uint64_t first = entry["data_offsets"][0], last = entry["data_offsets"][1];
  if (first > last || last > end - begin)
    return fail("its bytes {} to {} lie outside the file's {} bytes of data; the file is cut short", first, last,
                end - begin);
  tensor.offset = begin + first;
  tensor.length = last - first;
  return tensor;
}

Status listFile(const std::string &path, StoredTensors &tensors) {
  MT_ASSIGN(const MappedFile file, MappedFile::open(path));
  MT_ASSIGN(const auto lengthBytes, file.view(0, sizeof(uint64_t)));
  uint64_t length = 0;
  std::memcpy(&length, lengthBytes.data(), sizeof(length));
  MT_ASSIGN(const auto text, file.view(sizeof(uint64_t), length));
  const auto *begin = reinterpret_cast<const char *>(text.data());
  const Json header = Json::parse(begin, begin + text.size(), nullptr, false);
  if (!header.is_object())
    return fail("{}: the header is not a JSON object; is this a safetensors file?", path);
  for (const auto &[name, entry] : header.items()) {
    if (name == "__metadata__")
      continue;
    auto tensor = readEntry(entry, sizeof(uint64_t) + length, file.size());
    if (!tensor)
      return tensor.status().within(fmt::format("{}: tensor '{}'", path, name));
    tensor->file = path;
    tensors[name] = *tensor;
  }
  return {};
}

} // namespace

Result<StoredTensors> listSafetensors(const std::string &folder) {
  std::error_code error;
  std::vector<std::string> files;
  for (const auto &entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().extension() == ".safetensors")
      files.push_back(entry.path().string());
  if (error)
    return fail("{}: cannot be listed: {}", folder, error.message());
  if (files.empty())
    return fail("{}: holds no *.safetensors file; convert the checkpoint to safetensors first", folder);
  std::sort(files.begin(), files.end());
  StoredTensors tensors;
  for (const std::string &file : files)
    MT_TRY(listFile(file, tensors));
  return tensors;
}

} // namespace mt::models
