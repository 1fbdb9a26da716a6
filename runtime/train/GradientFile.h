// The gradients of a run's first step as an .npz, by initializer name: each is written as its update consumes it, so
// that no copy of all of them is ever in memory: of those that are updated in parts, until the last has come.
#ifndef MT_RUNTIME_TRAIN_GRADIENTFILE_H
#define MT_RUNTIME_TRAIN_GRADIENTFILE_H

#include "runtime/plan/Program.h"
#include "runtime/train/Npz.h"

#include <memory>
#include <optional>

namespace mt::train {

class GradientFile {
public:
  /// Errors: the path cannot be written. `plan` must outlive it.
  static Result<std::unique_ptr<GradientFile>> create(const std::string &path, const plan::Plan &plan);

  /// Elements of a gradient from `first` on. The first calls for a parameter count, until there is all of it; later ones are of
  /// later steps. Calls come one at a time.
  void add(int64_t parameter, int64_t first, std::span<const float> gradient);
  bool complete() const { return missing == 0; }
  /// Writes the end of the file if that has not happened; an error if a trainable parameter's gradient never came.
  Status finish();

private:
  GradientFile(NpzWriter writer, const plan::Plan &plan);
  std::optional<NpzWriter> writer; ///< none once finished
  const plan::Plan *plan;
  std::vector<bool> wanted;
  struct Part {
    std::vector<float> values;
    size_t come = 0;
  };
  std::map<int64_t, Part> parts; ///< of gradients that have not come whole
  size_t missing = 0;
  Status failure;
};

} // namespace mt::train
#endif
