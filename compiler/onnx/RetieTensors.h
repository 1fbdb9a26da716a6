// Tied weights that a model has under several names: a shared layer's matrix stored once for each use, the head's as a
// transposed copy of the embedding table, or both as one range of a file. They become one tensor again, so that all uses train it.
#ifndef MT_COMPILER_ONNX_RETIETENSORS_H
#define MT_COMPILER_ONNX_RETIETENSORS_H

#include "compiler/onnx/ParameterEvidence.h"

namespace mt::onnx {

/// Replaces each candidate that the export's metadata says was the same parameter as another one, and that equals it or
/// its transpose, by that one; each whose values are the same bytes of the same file as another one's, by that one; and
/// each that is the transpose of a looked-up table, value for value, or is called `computed` by the exporter and the
/// transpose of a parameter, or named by the older exporter as it names those and the transpose of another, by a
/// transpose of that; and each that is called a detached value and equals a parameter,
/// by that, detached. Its names become aliases of what replaces it; a name of the original module stays with one
/// candidate. Returns a note for the user for each. Compared are up to 4,096 elements; nothing is loaded.
std::vector<std::string> retieTensors(std::vector<Candidate> &candidates, const std::vector<std::string> &computed);

} // namespace mt::onnx
#endif
