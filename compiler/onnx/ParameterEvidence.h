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
  std::vector<Alias> aliases; ///< other names of the tensor
  bool isStatistic = false;   ///< of a normalization, or scales of quantized tensors
  bool isRunning = false;     ///< a statistic that every step moves
  bool isMerged = false;      ///< a statistic that is a weight of the same node too
  bool isVariable = false;    ///< of unknown origin, but named as a variable of the model's
};

/// What was decided, for each candidate.
struct Trained {
  std::vector<bool> trainable;
  std::vector<bool> sinusoids; ///< a parameter to all appearances, but of sines and cosines of positions: not trained
  std::vector<bool> constants; ///< of nodes, used as a weight is, beside weights that are initializers: not trained
  std::vector<bool> detached;  ///< a parameter that only detached values depend on: not trained
  std::vector<bool> namedScalars; ///< single ones that are trained as their names are of variables
};

/// A float tensor is trained, if a float output depends on it differentiably and the exporter calls it a parameter or,
/// where the exporter is silent, it is used as a weight: a factor of a matrix product, a table that is looked up, a
/// gain or bias of activations or of a normalization. Masks, frequencies that multiply positions, and what is applied
/// to raw inputs are not; nor are constants of nodes where initializers that are trained hold as many numbers; nor
/// sines and cosines of positions that are looked up, added, or turn what they
/// multiply, whatever it calls them: it does not write down that models hold them fixed.
Trained decideTrainable(mlir::func::FuncOp function, const std::vector<Candidate> &candidates);

} // namespace mt::onnx
#endif
