// The training loop: steps, evaluations, checkpoints, metrics, interruption, resumption. `train` is what
// `mtrun PLAN.bin --data ...` does; everything it needs it gets from the plan and the options.
#ifndef MT_RUNTIME_TRAIN_TRAINER_H
#define MT_RUNTIME_TRAIN_TRAINER_H

#include "runtime/base/Status.h"
#include "runtime/train/Options.h"

namespace mt::train {

/// Trains until the steps are done or a signal asks to stop, and leaves a checkpoint. Prints to standard output unless
/// quiet. Errors name the option, file or step.
Status train(const TrainOptions &options);

/// Mean loss and perplexity over a corpus; prints one line.
Status evaluate(const EvalOptions &options);

} // namespace mt::train
#endif
