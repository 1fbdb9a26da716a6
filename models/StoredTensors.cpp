#include "models/StoredTensors.h"

#include "runtime/train/FolderTensors.h"

namespace mt::models {
namespace {

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

} // namespace

Result<StoredTensors> listStoredTensors(const std::string &folder) {
  MT_ASSIGN(const train::FolderTensors opened, train::FolderTensors::open(folder));
  StoredTensors tensors;
  for (const auto &[name, place] : opened.places())
    tensors[name] = {place.file->path(), weightType(place.view->type), place.view->dims,
                     static_cast<uint64_t>(place.view->data.data() - place.file->bytes().data()),
                     place.view->data.size()};
  return tensors;
}

} // namespace mt::models
