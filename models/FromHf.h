// Writes the graph of a Hugging Face checkpoint folder (config.json and *.safetensors). The weights stay where they
// are: the model refers to them as ONNX external data, by file, offset and length. Architectures.h says which are
// known; settings that the graph would not honour are refused.
#ifndef MT_MODELS_FROMHF_H
#define MT_MODELS_FROMHF_H

#include "runtime/base/Status.h"
#include "third_party/onnx/onnx-ml.pb.h"

#include <string>
#include <vector>

namespace mt::models {

struct CheckpointGraph {
  ::onnx::ModelProto model;
  std::vector<std::string> warnings; ///< complete messages
};

/// The model of `folder`, to be written as `output`, which must be in the folder or above it: ONNX forbids references
/// that climb out of the model's own folder.
/// `packed`: as of GraphBuilder.
Result<CheckpointGraph> importCheckpoint(const std::string &folder, const std::string &output, int64_t opset,
                                         bool packed = false);

} // namespace mt::models
#endif
