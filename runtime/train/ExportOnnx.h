// Writing a model with other weights: the part of export that knows .onnx files. See Export.h for what it does.
#ifndef MT_RUNTIME_TRAIN_EXPORTONNX_H
#define MT_RUNTIME_TRAIN_EXPORTONNX_H

#include "runtime/train/Export.h"
#include "runtime/train/OnnxFile.h"

namespace mt::train {

/// Writes `output` (and `output`.data if it needs one) as `model` with the trained weights. Errors: a parameter that
/// the model does not have, or of another shape; external data that are missing; an output that cannot be written.
/// Returns the bytes of the .data file, 0 if there is none.
Result<uint64_t> exportOnnx(const TrainedWeights &trained, const OnnxFile &model, const std::string &output);

} // namespace mt::train
#endif
