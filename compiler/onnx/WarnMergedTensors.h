// The merged-initializer trap: exporters that optimize merge equal small tensors, so that all gains of a freshly
// initialized model become one initializer with many uses, which would train as if they were tied.
#ifndef MT_COMPILER_ONNX_WARNMERGEDTENSORS_H
#define MT_COMPILER_ONNX_WARNMERGEDTENSORS_H

#include "compiler/onnx/ParameterEvidence.h"

#include <map>
#include <set>

namespace mt::onnx {

/// One warning a tensor: trained vectors of at most 1024 elements with more uses than any matrix of the model has
/// (blocks that share their weights on purpose share matrices too), unless it is a parameter that the exporter tells by
/// name. Nothing of those that notes tell (mergedInto).
std::vector<std::string> warnMergedTensors(const std::vector<Candidate> &candidates, const std::vector<bool> &trainable,
                                           const std::map<std::string, std::set<std::string>> &told);

} // namespace mt::onnx
#endif
