// Trained weights as a checkpoint folder of Hugging Face: the folder that was trained, with the trained tensors'
// values in place of its own.
#ifndef MT_RUNTIME_TRAIN_EXPORTFOLDER_H
#define MT_RUNTIME_TRAIN_EXPORTFOLDER_H

#include "runtime/train/Export.h"

namespace mt::train {

/// What was written, for people.
struct ExportedFolder {
  size_t tensors = 0, trained = 0; ///< of all files
  size_t weightFiles = 0, otherFiles = 0;
  uint64_t bytes = 0;
  std::vector<std::string> left; ///< entries of the folder that were not taken along
};

/// Writes `output`, which must not exist or be empty: the .safetensors of `like` - those of its index, or
/// model.safetensors, or all - with headers, types and order as they are, and its other files but weights in other
/// formats. A tensor takes the trained values if it has a trained tensor's name, or one that stands in it
/// behind what all have in common (a module that the export wrapped), or if it is a head that config.json ties to one;
/// all others keep their bytes. Errors: a trained parameter that has no place there, another shape, a type that holds
/// no weights; damaged files.
Result<ExportedFolder> exportFolder(const TrainedWeights &trained, const std::string &like, const std::string &output);

} // namespace mt::train
#endif
