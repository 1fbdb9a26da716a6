// A TensorProto understood: its type and shape, and where its values are - in a file at an offset, in the message, or
// nowhere yet because a generator makes them. Values are read only on request, and only where there are few.
#ifndef MT_COMPILER_ONNX_TENSORSOURCE_H
#define MT_COMPILER_ONNX_TENSORSOURCE_H

#include "compiler/onnx/ExternalData.h"
#include "compiler/onnx/HostTensor.h"
#include "compiler/onnx/ModelFile.h"

namespace mt::onnx {

struct TensorSource {
  std::string name;
  DType type = DType::f32;
  Dims dims;
  int64_t elements = 0;
  std::optional<PackedType> packed; ///< type and dims are those of the bytes then
  Dims packedDims;                  ///< of the numbers in them
  FileRange bytes;         ///< empty path: the values are in the message only, or generated
  GeneratorSpec generator; ///< of an empty kind: none
  bool ofNode = false;     ///< the value of a Constant node
  const ::onnx::TensorProto *proto = nullptr;
  const ModelFile *file = nullptr; ///< which holds proto
};

/// Errors name what is wrong with the tensor (not the tensor): type, shape, too few or too many bytes, external data.
Result<TensorSource> locateTensor(const ::onnx::TensorProto &tensor, const ModelFile &file);

/// All values. Not for weights: the caller bounds `source.elements`.
Result<HostTensor> readTensor(const TensorSource &source);

/// Of packed numbers these, and not their bytes.
Result<HostTensor> readNumbers(const TensorSource &source);

/// The elements of a float tensor at `indices` (row-major), however large the tensor is; not of a generated one.
Result<std::vector<double>> readElements(const TensorSource &source, const std::vector<int64_t> &indices);

} // namespace mt::onnx
#endif
