// Trained weights of a checkpoint as a model that other programs read: the original .onnx with its parameters replaced,
// or a file of tensors. Needs no plan: the checkpoint says which model it is of.
#ifndef MT_RUNTIME_TRAIN_EXPORT_H
#define MT_RUNTIME_TRAIN_EXPORT_H

#include "runtime/base/Status.h"
#include "runtime/train/Options.h"
#include "runtime/train/StateFiles.h"

#include <functional>
#include <map>

namespace mt::train {

/// `mtrun export`: by the ending of options.output an .onnx, .safetensors or .npz, or a folder like options.like
/// (ExportFolder.h). Prints what was written.
///
/// .onnx: values that lie inside the model file are replaced in place, in a copy; all others (external data,
/// generators, values in single fields) go to OUTPUT.data beside it, trained or not, so that the two files are
/// complete. Types stay those of the model. A trained tensor is written under each of its names: every initializer that
/// held a copy of it, in its layout, and in .safetensors also every name of the module that was exported.
Status exportWeights(const ExportOptions &options);

/// The 32-bit weights of a checkpoint, under every name that they have: in the model's file, and in the module that it
/// was exported from.
class TrainedWeights {
public:
  /// Errors name the file: it is missing, damaged or cannot be read, or two tensors have one name.
  static Result<TrainedWeights> open(const std::string &checkpoint);

  /// A tensor under one of its names.
  struct Named {
    std::string parameter; ///< of which it is the value
    Dims dims;
    bool transposed = false; ///< against the parameter
    bool initializer = true; ///< of the model's file; else of the module alone
  };
  /// By name.
  const std::map<std::string, Named, std::less<>> &tensors() const { return all; }
  /// The tensor that an initializer of the model is; null if it was not trained.
  const Named *initializer(std::string_view name) const;
  size_t parameters() const { return weights->tensors().size(); }
  /// Whether copies under other names are known: checkpoints that were written before have none.
  bool knowsAliases() const { return hasAliases; }
  /// Reads the values of a tensor, compares their checksum, and then passes them on in pieces, in order.
  Status read(const Named &tensor, const std::function<Status(std::span<const float>)> &take) const;

private:
  std::optional<StateFile> weights;
  std::map<std::string, Named, std::less<>> all;
  bool hasAliases = false;
};

} // namespace mt::train
#endif
