// The tensors of a checkpoint folder of Hugging Face, by name: those of model.safetensors, of the files that
// model.safetensors.index.json names, or else of all *.safetensors. Reads headers alone; what exports like a folder go
// by.
#ifndef MT_RUNTIME_TRAIN_FOLDERTENSORS_H
#define MT_RUNTIME_TRAIN_FOLDERTENSORS_H

#include "runtime/train/Safetensors.h"

#include <memory>
#include <set>
#include <vector>

namespace mt::train {

class FolderTensors {
public:
  struct Place {
    const SafetensorsFile *file;
    const ArrayView *view;
  };

  /// Errors name the file that is missing, short or not understood, and the tensor that none of them holds, or two.
  static Result<FolderTensors> open(const std::string &folder);

  const std::vector<std::unique_ptr<SafetensorsFile>> &files() const { return all; }
  const std::map<std::string, Place, std::less<>> &places() const { return byName; }
  /// What stands before the folder's names in those of a run, where a module was wrapped for its export and so none is
  /// the folder's own: that under which most of them are found, and the shortest of those.
  std::string prefixOf(const std::set<std::string_view> &names) const;

private:
  Status add(const std::string &path);
  std::vector<std::unique_ptr<SafetensorsFile>> all; ///< places point to them
  std::map<std::string, Place, std::less<>> byName;
};

} // namespace mt::train
#endif
