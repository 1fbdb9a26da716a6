// An ONNX model file, opened: the parsed graph without large payloads, the mapped bytes, and the file's digest. Or a
// model that is in no file, whose weights are in those of a folder.
#ifndef MT_COMPILER_ONNX_MODELFILE_H
#define MT_COMPILER_ONNX_MODELFILE_H

#include "runtime/base/MappedFile.h"
#include "runtime/base/Status.h"

#include "third_party/onnx/onnx-ml.pb.h"

#include <string>
#include <vector>

namespace mt::onnx {

struct ModelFile {
  std::string path;   ///< absolute
  std::string folder; ///< that external data paths are relative to
  MappedFile file;
  ::onnx::ModelProto model; ///< tensors above kInlinePayload have no payload; see WireSkeleton.h
  std::vector<std::string> warnings = {}; ///< of whoever made the model, for the user

  /// Errors: no such file; no ONNX model; a model without a graph or without an operator set.
  static Result<ModelFile> open(const std::string &path);
  /// The model that stands for `folder`, which external data paths are relative to.
  static Result<ModelFile> ofFolder(const std::string &folder, const ::onnx::ModelProto &model);
  /// Version of the default operator set.
  int64_t opset() const;
};

/// XXH3-64 of the graph without the values of its weights, so that a trained copy of a model has the same digest.
uint64_t digestOf(const ModelFile &model);

} // namespace mt::onnx
#endif
