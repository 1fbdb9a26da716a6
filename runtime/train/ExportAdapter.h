// Adapters of a checkpoint as a folder in the format of PEFT (github.com/huggingface/peft): adapter_config.json and
// adapter_model.safetensors, which PEFT, transformers and servers load beside the model they are for.
#ifndef MT_RUNTIME_TRAIN_EXPORTADAPTER_H
#define MT_RUNTIME_TRAIN_EXPORTADAPTER_H

#include "runtime/train/Export.h"

namespace mt::train {

/// Writes the adapters of `trained`, which are not merged, into the new folder `output`; `like` is the checkpoint
/// folder of the model, whose names they get. Values have 32 bits. Returns the bytes written. Errors: something else
/// was trained, too; a weight is none of the folder's; `output` is there.
Result<uint64_t> exportAdapter(const TrainedWeights &trained, const std::string &like, const std::string &output);

} // namespace mt::train
#endif
