// Gives every dimension of every graph input a size: the batch, the sequence, and what --dim binds. Dimension 0 of
// every input is the batch and dimension 1 of an integer input of two dimensions the sequence, whatever their symbols.
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
  Dims dims; ///< dimension 0 is the batch
};

struct BoundInputs {
  std::vector<BoundInput> inputs; ///< without those that initializers define
  int64_t sequence = 0;           ///< tokens per row; 0: the model has no sequence
};

/// Appends to `problems`: sizes that contradict each other or the options, unbound symbols, types without kernels.
BoundInputs bindDimensions(const ::onnx::GraphProto &graph, const ImportOptions &options, Problems &problems);

} // namespace mt::onnx
#endif
