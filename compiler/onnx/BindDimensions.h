// Gives every dimension of every graph input a size: the batch, the sequence, and what --dim binds. Dimension 0 of
// every input is the batch, unless the user or symbols name another one, and the other dimension of an integer input of
// two the sequence, whatever their symbols.
#ifndef MT_COMPILER_ONNX_BINDDIMENSIONS_H
#define MT_COMPILER_ONNX_BINDDIMENSIONS_H

#include "compiler/onnx/ElementTypes.h"
#include "compiler/onnx/GraphOrder.h"
#include "compiler/onnx/ImportOptions.h"

namespace mt::onnx {

/// Whether the model fixes a dimension; some exporters write -1 where it does not.
inline bool isFixed(const ::onnx::TensorShapeProto::Dimension &dim) {
  return dim.has_dim_value() && dim.dim_value() != -1;
}

/// The symbol of a dimension that it does not fix; empty where it has none. "?" is written for any such.
inline std::string symbolOf(const ::onnx::TensorShapeProto::Dimension &dim) {
  return dim.dim_param() == "?" ? std::string() : dim.dim_param();
}

struct BoundInput {
  std::string name;
  DType type = DType::f32;
  Dims dims;            ///< of its data: dimension 0 is the batch, whichever it is in the model
  int64_t batchDim = 0; ///< the model's dimension that is the batch

  /// The dimension of its data that the model's dimension `d` is.
  size_t dataDim(int64_t d) const { return static_cast<size_t>(d == batchDim ? 0 : d < batchDim ? d + 1 : d); }
};

struct BoundInputs {
  std::vector<BoundInput> inputs; ///< without those that initializers define
  int64_t sequence = 0;           ///< tokens per row; 0: the model has no sequence
  bool fixesSequence = false;     ///< the model does
  std::optional<int64_t> fixedBatch; ///< where the model fixes that of every input, to one number
  std::vector<std::string> warnings;
};

/// Appends to `problems`: sizes that contradict each other or the options, unbound symbols, types without kernels.
BoundInputs bindDimensions(const ::onnx::GraphProto &graph, const ImportOptions &options, Problems &problems);

} // namespace mt::onnx
#endif
