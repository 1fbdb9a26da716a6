// An ONNX model file, opened: the parsed graph without large payloads, the mapped bytes, and the file's digest.
#ifndef MT_COMPILER_ONNX_MODELFILE_H
#define MT_COMPILER_ONNX_MODELFILE_H

#include "runtime/base/MappedFile.h"
#include "runtime/base/Status.h"

#include "third_party/onnx/onnx-ml.pb.h"

#include <string>

namespace mt::onnx {

struct ModelFile {
  std::string path;   ///< absolute
  std::string folder; ///< that external data paths are relative to
  MappedFile file;
  ::onnx::ModelProto model; ///< tensors above kInlinePayload have no payload; see WireSkeleton.h

  /// Errors: no such file; no ONNX model; a model without a graph or without an operator set.
  static Result<ModelFile> open(const std::string &path);
  /// Version of the default operator set.
  int64_t opset() const;
};

/// XXH3-64 of the graph without the values of its weights, so that a trained copy of a model has the same digest.
uint64_t digestOf(const ModelFile &model);

} // namespace mt::onnx
#endif
