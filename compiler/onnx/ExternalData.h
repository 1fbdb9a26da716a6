// Where a tensor's bytes lie when they are not in the model file: ONNX external data, checked as if the model were
// hostile (no absolute path, no `..`, no link out of the model's folder or, in the hub's cache, out of that of the
// model's revisions, no range beyond the file's end), and generators, which stand for bytes that are computed when
// training starts.
#ifndef MT_COMPILER_ONNX_EXTERNALDATA_H
#define MT_COMPILER_ONNX_EXTERNALDATA_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>

namespace onnx {
class TensorProto;
}

namespace mt::onnx {

struct FileRange {
  std::string path; ///< absolute
  uint64_t offset = 0, length = 0;
};

/// How the weights of a generated model come about; plan.proto's Generator.
struct GeneratorSpec {
  std::string kind; ///< normal, zeros, ones, constant
  uint64_t seed = 0;
  double deviation = 0, value = 0;
};

/// The generator that the tensor's external data entries (`mt.generator`, `mt.seed`, `mt.deviation`, `mt.value`)
/// describe; an empty kind where there is none.
Result<GeneratorSpec> generatorOf(const ::onnx::TensorProto &tensor);

/// The range of an external tensor of `bytes` bytes; `folder` is the model's.
Result<FileRange> externalRange(const ::onnx::TensorProto &tensor, const std::string &folder, uint64_t bytes);

} // namespace mt::onnx
#endif
