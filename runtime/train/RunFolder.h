// A run's folder (--out): which run it holds and which checkpoints are that run's, the lock that keeps a second process
// out, and where a run in it begins. Between the options --resume, --overwrite and --from and the checkpoints; but for
// leftovers and damaged checkpoints, changes nothing before begin().
#ifndef MT_RUNTIME_TRAIN_RUNFOLDER_H
#define MT_RUNTIME_TRAIN_RUNFOLDER_H

#include "runtime/base/Files.h"
#include "runtime/train/Checkpoint.h"

#include <functional>

namespace mt::train {

/// Marks the folder of a run, and says which it holds.
inline constexpr const char *kRunFile = "run.json", *kMetricsFile = "metrics.jsonl", *kRecipeFile = "recipe.toml";

class RunFolder {
public:
  /// Makes the folder and locks it for as long as the object lives. Errors: it cannot be written; another process
  /// trains in it.
  static Result<RunFolder> lock(const std::string &out);
  /// The folder as it is, for looking only.
  static RunFolder look(const std::string &out) { return RunFolder(out); }

  /// Where a run begins.
  struct Start {
    std::optional<std::string> checkpoint; ///< to go on from; else at step 0
    CheckpointMeta meta;                   ///< of it
    std::string run;                       ///< identity of the run that goes on, or of a new one
    std::string note;                      ///< for people; may be empty
  };
  /// Without `resume`: an error where the folder holds a run, unless `overwrite`. With it: the newest whole checkpoint
  /// of the folder's run, or step 0 where none was ever written; an error where there are only damaged ones. Of a
  /// locked folder, leftovers are adopted, and damaged checkpoints set aside with a warning; one that cannot be read is an
  /// error, and stays as it is.
  Result<Start> start(bool resume, bool overwrite);

  /// Notes the run that trains here from now on, and, where it is a new one, what is there of earlier ones.
  Status begin(const Start &start);
  /// Its identity: sixteen digits, made at random.
  const std::string &run() const { return identity; }

private:
  explicit RunFolder(std::string out) : out(std::move(out)) {}
  Result<std::string> heldRun() const;
  Result<Start> resume();
  Status passOver(const std::vector<FoundCheckpoint> &all, const FoundCheckpoint &chosen);

  std::string out, identity;
  Descriptor locked; ///< invalid: for looking only
};

/// The checkpoints of the run that a folder holds, newest first, those that cannot be used last; of a folder that is
/// itself a checkpoint, that one. Errors: there is none.
Result<std::vector<FoundCheckpoint>> checkpointsOf(const std::string &path);

/// Calls use() with the newest of them and, where that turns out to be damaged, with the one before it, and says so.
/// Errors: those of use(); a newer one cannot be read; none is whole.
Status withNewest(const std::string &path, const std::function<Status(const FoundCheckpoint &)> &use);
/// The same with that of the least evaluation loss, and then the next. Errors: also, none was evaluated.
Status withBest(const std::string &path, const std::function<Status(const FoundCheckpoint &)> &use);

} // namespace mt::train
#endif
