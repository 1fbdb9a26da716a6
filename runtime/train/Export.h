// Trained weights of a checkpoint as a model that other programs read: the original .onnx with its parameters replaced,
// or a file of tensors. Needs no plan: the checkpoint says which model it is of.
#ifndef MT_RUNTIME_TRAIN_EXPORT_H
#define MT_RUNTIME_TRAIN_EXPORT_H

#include "runtime/base/Status.h"
#include "runtime/train/Adapters.h"
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
///
/// Adapters go by their own names into files of tensors, in PEFT's format into a folder (ExportAdapter.h), and with
/// options.merge into the weights that they are beside.
Status exportWeights(const ExportOptions &options);

/// The 32-bit weights of a checkpoint, or their averages, under every name that they have: in the model's file, and in
/// the module that it was exported from.
class TrainedWeights {
public:
  /// With `merge` weights with the sums of their adapters take the places of those; with `ema` values are averages of
  /// the weights, where there are such. Errors name the file: it is
  /// missing, damaged or cannot be read, or two tensors have one name.
  static Result<TrainedWeights> open(const std::string &checkpoint, bool merge = false, bool ema = false);

  /// A tensor under one of its names.
  struct Named {
    std::string parameter; ///< of which it is the value
    Dims dims;
    bool transposed = false; ///< against the parameter
    bool initializer = true; ///< of the model's file; else of the module alone
    std::optional<size_t> adapter = {}; ///< which of adapters() is added to what it was
  };
  /// By name.
  const std::map<std::string, Named, std::less<>> &tensors() const { return all; }
  /// The tensor that an initializer of the model is; null if it was not trained.
  const Named *initializer(std::string_view name) const;
  size_t parameters() const { return weights->tensors().size() - (merged ? stored.size() : 0); }
  const std::vector<StoredAdapter> &adapters() const { return stored; }
  bool isMerged() const { return merged; }
  /// Whether copies under other names are known: checkpoints that were written before have none.
  bool knowsAliases() const { return hasAliases; }
  /// Reads the values of a tensor, compares their checksum, and then passes them on in pieces, in order. `base` gives
  /// what the tensor was, where an adapter is added to it.
  Status read(const Named &tensor, const std::function<Result<std::vector<float>>()> &base,
              const std::function<Status(std::span<const float>)> &take) const;
  /// All values of a parameter.
  Result<std::vector<float>> values(const std::string &parameter) const;

private:
  Status addAliases(const Named &own, const std::vector<plan::Alias> &aliases);
  Status check(const StoredAdapter &adapter) const;
  Status openAverages(const std::string &checkpoint, const nlohmann::json &record);
  Status mergeAdapters();
  std::vector<StoredAdapter> stored;
  bool merged = false;
  std::optional<StateFile> weights, averages;
  std::map<std::string, Named, std::less<>> all;
  bool hasAliases = false;
};

} // namespace mt::train
#endif
