// Training state on disk: OUT/step-N/, one safetensors file per role (weight, first_moment, second_moment) with tensors
// by parameter name, and meta.json. A folder is written aside, synced and renamed: it is whole or not there. Holds
// names, not offsets, and 32-bit masters whatever the precision, so that any plan of the same model can take them up.
#ifndef MT_RUNTIME_TRAIN_CHECKPOINT_H
#define MT_RUNTIME_TRAIN_CHECKPOINT_H

#include "runtime/base/Status.h"
#include "runtime/plan/Program.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace mt::train {

/// Where a run stands, and what must match for it to go on.
struct CheckpointMeta {
  int64_t order = 0; ///< of writing: the newest has the largest; set by save()
  int64_t step = 0, epoch = 0;
  int64_t position = 0; ///< rows of data consumed since the start of the run
  int64_t rows = 0;     ///< of the corpus
  uint64_t seed = 0;
  bool shuffle = true;
  int64_t batch = 0, microBatch = 0, sequence = 0;
  std::string precision, optimizer;
  std::string plan;      ///< digest
  std::string modelFile; ///< absolute path of the .onnx
  nlohmann::json hyperparameters;
};

/// The bytes of a part of a parameter, in place.
using PartBytes = std::function<std::span<std::byte>(const plan::Part &)>;

/// "weight", "first_moment", "second_moment"; the remainder has no file: the weight's holds both halves, joined.
std::string_view fileStem(plan::PartRole role);

/// Writes OUT/step-<meta.step>/ with the masters and moments of every trainable parameter, then removes all but the
/// newest `keep` checkpoints, and what an interrupted writer left. Returns the folder.
Result<std::string> saveCheckpoint(const std::string &out, const plan::Plan &plan, CheckpointMeta meta,
                                   const PartBytes &part, int keep);

/// The newest complete checkpoint of a run's folder (or `path` itself, if it is a checkpoint); nothing if there is
/// none. Leftovers of interrupted writers do not count.
std::optional<std::string> newestCheckpoint(const std::string &path);

Result<CheckpointMeta> readMeta(const std::string &folder);

/// Fills the parts of every trainable parameter; masters are split where the plan has a remainder. Errors name the
/// file, the parameter, and both shapes. `weightsOnly`: leaves moments alone, for evaluation.
Status loadCheckpoint(const std::string &folder, const plan::Plan &plan, const PartBytes &part, bool weightsOnly);

} // namespace mt::train
#endif
