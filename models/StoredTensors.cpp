#include "models/StoredTensors.h"

#include "runtime/base/Json.h"
#include "runtime/train/Safetensors.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <set>

namespace mt::models {
namespace {

namespace fs = std::filesystem;
using train::SafetensorsFile;

constexpr const char *kOneFile = "model.safetensors", *kIndex = "model.safetensors.index.json";

/// 0: none that a weight may have.
int weightType(kernels::DType type) {
  switch (type) {
  case kernels::DType::f32:
    return onnx::TensorProto::FLOAT;
  case kernels::DType::bf16:
    return onnx::TensorProto::BFLOAT16;
  case kernels::DType::f16:
    return onnx::TensorProto::FLOAT16;
  default:
    return 0;
  }
}

Status listFile(const std::string &path, StoredTensors &tensors) {
  MT_ASSIGN(const SafetensorsFile file, SafetensorsFile::open(path));
  for (const auto &[name, view] : file.tensors()) {
    const auto offset = static_cast<uint64_t>(view.data.data() - file.bytes().data());
    const auto [place, isNew] =
        tensors.insert({name, {path, weightType(view.type), view.dims, offset, view.data.size()}});
    if (!isNew)
      return fail("{}: tensor '{}' is also in {}; keep one of the files, or the index of those that belong together",
                  path, name, place->second.file);
  }
  return {};
}

/// The files that an index names, each a plain name in the folder.
Result<std::set<std::string>> filesOfIndex(const std::string &path, std::set<std::string> &tensors) {
  MT_ASSIGN(MappedFile file, MappedFile::open(path));
  auto json = parseJson({reinterpret_cast<const char *>(file.bytes().data()), file.size()});
  if (!json || !json->is_object() || !json->contains("weight_map") || !(*json)["weight_map"].is_object())
    return fail("{}: has no weight_map{}", path, json ? "" : ": " + json.status().message());
  std::set<std::string> files;
  for (const auto &[tensor, value] : (*json)["weight_map"].items()) {
    const std::string name = value.is_string() ? value.get<std::string>() : "";
    if (name.empty() || name == ".." || name.find('/') != std::string::npos || name.find('\0') != std::string::npos)
      return fail("{}: tensor '{}' is in {}, which is no file's name in the folder", path, tensor, value.dump());
    files.insert(name);
    tensors.insert(tensor);
  }
  return files;
}

Result<StoredTensors> listIndexed(const fs::path &folder) {
  const std::string index = (folder / kIndex).string();
  std::set<std::string> named;
  MT_ASSIGN(const std::set<std::string> files, filesOfIndex(index, named));
  StoredTensors tensors;
  std::error_code error;
  for (const std::string &file : files) {
    if (!fs::exists(folder / file, error))
      return fail("{}: is missing, and {} names it; download the rest of the checkpoint", (folder / file).string(),
                  index);
    MT_TRY(listFile((folder / file).string(), tensors));
  }
  for (const std::string &tensor : named)
    if (!tensors.contains(tensor))
      return fail("{}: names the tensor '{}', which no file holds; download the checkpoint again", index, tensor);
  return tensors;
}

Status noneFound(const fs::path &folder) {
  std::error_code error;
  for (const char *other : {"pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "flax_model.msgpack"})
    if (fs::exists(folder / other, error))
      return fail("{}: holds {} and no *.safetensors file; load it with transformers and save it again: "
                  "AutoModelForCausalLM.from_pretrained(OLD).save_pretrained(NEW)",
                  folder.string(), other);
  return fail("{}: holds no *.safetensors file; convert the checkpoint to safetensors first", folder.string());
}

} // namespace

Result<StoredTensors> listStoredTensors(const std::string &folder) {
  std::error_code error;
  const fs::path path(folder);
  if (fs::exists(path / kIndex, error))
    return listIndexed(path);
  std::set<std::string> files;
  for (const auto &entry : fs::directory_iterator(path, error))
    if (entry.path().extension() == ".safetensors")
      files.insert(entry.path().string());
  if (error)
    return fail("{}: cannot be listed: {}", folder, error.message());
  if (files.empty())
    return noneFound(path);
  if (fs::exists(path / kOneFile, error))
    files = {(path / kOneFile).string()};
  StoredTensors tensors;
  for (const std::string &file : files)
    MT_TRY(listFile(file, tensors));
  return tensors;
}

} // namespace mt::models
