#include "compiler/onnx/ModelFile.h"

#include "compiler/onnx/ElementTypes.h"
#include "compiler/onnx/WireSkeleton.h"
#include "runtime/base/Utf8.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <filesystem>
#include <xxhash.h>

namespace mt::onnx {
namespace {

Result<ModelFile> parse(const std::string &path, const std::string &folder, MappedFile file) {
  Result<std::string> skeleton = wireSkeleton(file.bytes());
  if (!skeleton)
    return skeleton.status().within(path);
  ::onnx::ModelProto model;
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const uint8_t *>(skeleton->data()),
                                               static_cast<int>(skeleton->size()));
  if (skeleton->size() > INT32_MAX || !model.ParseFromCodedStream(&input) || !input.ConsumedEntireMessage())
    return fail("{} is no ONNX model, or a damaged one: its messages cannot be parsed", path);
  if (!model.has_graph() || model.graph().node_size() + model.graph().output_size() == 0)
    return fail("{} holds no graph: is it an ONNX model?", path);
  if (model.opset_import_size() == 0)
    return fail("{} names no operator set (opset_import): save it with a current exporter", path);
  for (int i = 0; i < model.graph().initializer_size(); ++i)
    if (!isUtf8(model.graph().initializer(i).name()))
      return fail("{}: the name of initializer {} is not UTF-8 text: export the model again, or rename it", path, i);
  return ModelFile{path, folder, std::move(file), std::move(model)};
}

} // namespace

Result<ModelFile> ModelFile::open(const std::string &path) {
  MT_ASSIGN(MappedFile file, MappedFile::open(path));
  std::error_code error;
  std::filesystem::path absolute = std::filesystem::absolute(path, error);
  MT_ASSIGN(ModelFile model, parse(path, absolute.parent_path().string(), std::move(file)));
  model.path = absolute.string();
  return model;
}

Result<ModelFile> ModelFile::ofFolder(const std::string &folder, const ::onnx::ModelProto &model) {
  const std::string bytes = model.SerializeAsString();
  MT_ASSIGN(MappedFile file, MappedFile::copyOf(folder, std::as_bytes(std::span(bytes))));
  return parse(folder, folder, std::move(file));
}

int64_t ModelFile::opset() const {
  for (const auto &set : model.opset_import())
    if (set.domain().empty() || set.domain() == "ai.onnx")
      return set.version();
  return 0;
}

uint64_t digestOf(const ModelFile &file) {
  ::onnx::ModelProto model = file.model;
  for (auto &tensor : *model.mutable_graph()->mutable_initializer()) {
    tensor.clear_segment();
    std::optional<DType> type = elementType(tensor.data_type());
    if (!type || !isFloat(*type) || tensor.dims_size() == 0)
      continue;
    tensor.clear_raw_data();
    tensor.clear_float_data();
    tensor.clear_double_data();
    tensor.clear_int32_data();
    tensor.clear_external_data();
    tensor.clear_data_location();
  }
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    model.SerializeToCodedStream(&coded);
  }
  return XXH3_64bits(bytes.data(), bytes.size());
}

} // namespace mt::onnx
