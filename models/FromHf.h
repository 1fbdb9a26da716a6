// Writes the graph of a Hugging Face checkpoint folder (config.json and *.safetensors). The weights stay where they
// are: the model refers to them as ONNX external data, by file, offset and length. Understands the architectures of
// the tables in FromHf.cpp and refuses settings that the graph would not honour.
#ifndef MT_MODELS_FROMHF_H
#define MT_MODELS_FROMHF_H

#include "models/GraphBuilder.h"

#include <string>

namespace mt::models {

/// The model of `folder`, to be written as `output`, which must be in the folder or above it: ONNX forbids references
/// that climb out of the model's own folder.
Result<onnx::ModelProto> importCheckpoint(const std::string &folder, const std::string &output, int64_t opset);

} // namespace mt::models
#endif
