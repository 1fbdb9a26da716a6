// A run's folder (--out): which run it holds, the lock that keeps a second process out, and where a run in it begins.
// Between the options --resume and --overwrite and the checkpoints; changes nothing before begin().
#ifndef MT_RUNTIME_TRAIN_RUNFOLDER_H
#define MT_RUNTIME_TRAIN_RUNFOLDER_H

#include "runtime/base/Files.h"
#include "runtime/train/Checkpoint.h"

namespace mt::train {

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
    std::string note;                      ///< for people; may be empty
  };
  /// Without `resume`: an error where the folder holds a run, unless `overwrite`. With it: the newest whole checkpoint
  /// of the folder's run, or step 0 where none was ever written; an error where there are only damaged ones. Of a
  /// locked folder, leftovers are adopted, and checkpoints that cannot be used set aside with a warning.
  Result<Start> start(bool resume, bool overwrite);

  /// Notes the run that trains here from now on: that of the checkpoint, else a new one.
  Status begin(const Start &start);
  /// Its identity: sixteen digits, made at random.
  const std::string &run() const { return identity; }

private:
  explicit RunFolder(std::string out) : out(std::move(out)) {}
  std::string notedRun() const;
  std::string heldRun() const;
  Result<Start> resume();
  Status damaged(const FoundCheckpoint &found, const std::string &instead);

  std::string out, identity;
  Descriptor locked; ///< invalid: for looking only
};

} // namespace mt::train
#endif
