// The table of contents of safetensors files: where each tensor's bytes are. The bytes themselves are never read; a
// checkpoint folder may hold several files. Format: 8 bytes of header length, a JSON header, then the tensors.
#ifndef MT_MODELS_SAFETENSORSFILE_H
#define MT_MODELS_SAFETENSORSFILE_H

#include "models/GraphBuilder.h"

#include <map>
#include <string>

namespace mt::models {

struct StoredTensor {
  std::string file;      ///< path of the file it is in
  int type = 0;          ///< onnx::TensorProto::DataType
  Dims dims;
  uint64_t offset = 0, length = 0; ///< bytes, from the start of the file
};
using StoredTensors = std::map<std::string, StoredTensor>;

/// The tensors of every *.safetensors file of a folder. Errors name the file that is missing, short or not understood.
Result<StoredTensors> listSafetensors(const std::string &folder);

} // namespace mt::models
#endif
