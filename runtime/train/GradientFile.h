// The gradients of a run's first step as an .npz, by initializer name: each is written as its update consumes it, so
// that no copy of all of them is ever in memory.
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

  /// The first call for a parameter counts, later ones are of later steps. Calls come one at a time.
  void add(int64_t parameter, std::span<const float> gradient);
  bool complete() const { return missing == 0; }
  /// Writes the end of the file if that has not happened; an error if a trainable parameter's gradient never came.
  Status finish();

private:
  GradientFile(NpzWriter writer, const plan::Plan &plan);
  std::optional<NpzWriter> writer; ///< none once finished
  const plan::Plan *plan;
  std::vector<bool> wanted;
  size_t missing = 0;
  Status failure;
};

} // namespace mt::train
#endif
