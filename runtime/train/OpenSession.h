// A session with the weights of a run, or the initial ones, for what only reads them: evaluations and samples of text.
#ifndef MT_RUNTIME_TRAIN_OPENSESSION_H
#define MT_RUNTIME_TRAIN_OPENSESSION_H

#include "runtime/train/Session.h"

namespace mt::train {

/// Loads the plan at `path`, the same on all ranks, and checks it against the machine. `machine` becomes this rank's
/// share. What is trained comes from the run or checkpoint `from`, if it is not empty. `others` are read, too: no trace
/// is written over them.
Result<plan::Plan> loadToRead(const std::string &path, const std::string &from, MachineOptions &machine, Ranks &ranks,
                              std::vector<InputFile> others);

/// `from`: a run's folder, of which the newest or `best` checkpoint counts, or a checkpoint; empty: the initial
/// weights. `ema`: its average of the weights in place of them. `plan` must outlive the session. Warns where graph or
/// frozen weights are others than the run's.
Result<std::unique_ptr<Session>> openSession(const std::string &from, bool best, bool ema,
                                             const MachineOptions &machine, const plan::Plan &plan, Ranks &ranks,
                                             const JobDone &done);

} // namespace mt::train
#endif
