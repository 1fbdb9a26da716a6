// Tied weights that an exporter stored several times: a shared layer's matrix once for each use, the head's as a
// transposed copy of the embedding table. They become one tensor again, so that all uses train it.
#ifndef MT_COMPILER_ONNX_RETIETENSORS_H
#define MT_COMPILER_ONNX_RETIETENSORS_H

#include "compiler/onnx/ParameterEvidence.h"

namespace mt::onnx {

/// Replaces each candidate that the export's metadata says was the same parameter as another one, and that equals it,
/// by that one; and each that is the transpose of a looked-up table, value for value, by a transpose of that table.
/// Returns a note for the user for each. Compared are up to 4,096 elements; nothing is loaded.
std::vector<std::string> retieTensors(mlir::func::FuncOp function, const std::vector<Candidate> &candidates);

} // namespace mt::onnx
#endif
