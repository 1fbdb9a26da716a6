// Tied weights that an exporter stored twice: the head's matrix as a transposed copy of the embedding table. They become
// one tensor with a transpose again, so that both uses train it.
#ifndef MT_COMPILER_ONNX_RETIETENSORS_H
#define MT_COMPILER_ONNX_RETIETENSORS_H

#include "compiler/onnx/ParameterEvidence.h"

namespace mt::onnx {

/// Replaces each candidate that is the transpose of a looked-up table, value for value, by a transpose of that table.
/// Returns a note for the user for each. Compared are up to 4,096 elements; nothing is loaded.
std::vector<std::string> retieTensors(mlir::func::FuncOp function, const std::vector<Candidate> &candidates);

} // namespace mt::onnx
#endif
