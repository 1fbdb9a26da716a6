// Where the tensors of a checkpoint folder are: file, offset and length of each, in model.safetensors, in the files
// that model.safetensors.index.json names, or else in all *.safetensors. The format is read by
// runtime/train/Safetensors.h; the tensors' bytes are never looked at.
#ifndef MT_MODELS_STOREDTENSORS_H
#define MT_MODELS_STOREDTENSORS_H

#include "models/GraphBuilder.h"

#include <map>
#include <string>

namespace mt::models {

struct StoredTensor {
  std::string file;      ///< path of the file it is in
  int type = 0;          ///< onnx::TensorProto::DataType; 0: none that a weight may have
  Dims dims;
  uint64_t offset = 0, length = 0; ///< bytes, from the start of the file
};
using StoredTensors = std::map<std::string, StoredTensor>;

/// Errors name the file that is missing, short or not understood, and the tensor.
Result<StoredTensors> listStoredTensors(const std::string &folder);

} // namespace mt::models
#endif
