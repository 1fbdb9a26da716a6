// Trained weights of a checkpoint as a model that other programs read: the original .onnx with its parameters replaced,
// or a file of tensors. Needs no plan: the checkpoint says which model it is of.
#ifndef MT_RUNTIME_TRAIN_EXPORT_H
#define MT_RUNTIME_TRAIN_EXPORT_H

#include "runtime/base/Status.h"
#include "runtime/train/Options.h"
#include "runtime/train/StateFiles.h"

#include <functional>

namespace mt::train {

/// `mtrun export`: by the ending of options.output an .onnx, .safetensors or .npz. Prints what was written.
///
/// .onnx: values that lie inside the model file are replaced in place, in a copy; all others (external data,
/// generators, values in single fields) go to OUTPUT.data beside it, trained or not, so that the two files are
/// complete. Types stay those of the model.
Status exportWeights(const ExportOptions &options);

/// The 32-bit weights of a checkpoint, by parameter name.
class TrainedWeights {
public:
  /// Errors: the file is damaged, or cannot be read.
  static Result<TrainedWeights> open(const std::string &checkpoint);

  struct Entry {
    std::string name;
    Dims dims;
  };
  const std::vector<Entry> &entries() const { return all; }
  bool has(std::string_view name) const { return weights->find(name) != nullptr; }
  /// Reads the values of a parameter, compares their checksum, and then passes them on in pieces, in order.
  Status read(std::string_view name, const std::function<Status(std::span<const float>)> &take) const;

private:
  std::optional<StateFile> weights;
  std::vector<Entry> all;
};

} // namespace mt::train
#endif
