#include "models/StoredTensors.h"

#include "runtime/train/Safetensors.h"

#include <algorithm>
#include <filesystem>

namespace mt::models {
namespace {

using train::SafetensorsFile;

Result<int> weightType(kernels::DType type) {
  switch (type) {
  case kernels::DType::f32:
    return int(onnx::TensorProto::FLOAT);
  case kernels::DType::bf16:
    return int(onnx::TensorProto::BFLOAT16);
  case kernels::DType::f16:
    return int(onnx::TensorProto::FLOAT16);
  default:
    return fail("has elements of type {}; weights may be f32, bf16 or f16", kernels::name(type));
  }
}

Status listFile(const std::string &path, StoredTensors &tensors) {
  MT_ASSIGN(const SafetensorsFile file, SafetensorsFile::open(path));
  for (const auto &[name, view] : file.tensors()) {
    auto type = weightType(view.type);
    if (!type)
      return type.status().within(fmt::format("{}: tensor '{}'", path, name));
    const auto offset = static_cast<uint64_t>(view.data.data() - file.bytes().data());
    tensors[name] = {path, *type, view.dims, offset, view.data.size()};
  }
  return {};
}

} // namespace

Result<StoredTensors> listStoredTensors(const std::string &folder) {
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
