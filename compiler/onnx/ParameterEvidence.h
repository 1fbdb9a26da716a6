// Decides which weights of a model are trained: by what the exporter wrote down, else by how they are used and what
// their values look like. Names, order and constants of particular models play no part.
#ifndef MT_COMPILER_ONNX_PARAMETEREVIDENCE_H
#define MT_COMPILER_ONNX_PARAMETEREVIDENCE_H

#include "compiler/onnx/ExportMetadata.h"
#include "compiler/onnx/TensorSource.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mt::onnx {

/// A stored tensor that the function takes as an argument.
struct Candidate {
  TensorSource source;
  Origin origin;
  mlir::BlockArgument argument;
};

/// For each candidate, whether it is trained. A float tensor is, if a float output depends on it differentiably and
/// the exporter calls it a parameter or, where the exporter is silent, it is used as a weight: a factor of a matrix
/// product, a table that is looked up, a gain or bias of activations or of a normalization. Tables of sines and
/// cosines, masks, frequencies that multiply positions, and what is applied to raw inputs are not.
std::vector<bool> decideTrainable(mlir::func::FuncOp function, const std::vector<Candidate> &candidates);

} // namespace mt::onnx
#endif
