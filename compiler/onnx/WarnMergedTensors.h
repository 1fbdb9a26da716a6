// The merged-initializer trap: exporters that optimize merge equal small tensors, so that all gains of a freshly
// initialized model become one initializer with many uses, which would train as if they were tied.
#ifndef MT_COMPILER_ONNX_WARNMERGEDTENSORS_H
#define MT_COMPILER_ONNX_WARNMERGEDTENSORS_H

#include "compiler/onnx/ParameterEvidence.h"

namespace mt::onnx {

/// One warning a tensor: trained vectors of at most 1024 elements with more uses than any matrix of the model has
/// (blocks that share their weights on purpose share matrices too).
std::vector<std::string> warnMergedTensors(const std::vector<Candidate> &candidates, const std::vector<bool> &trainable);

} // namespace mt::onnx
#endif
