// The schedules of the learning rate that users choose among, as data: names as in transformers and what each reads.
// Their formulas are in LearningRate.h.
#ifndef MT_RUNTIME_TRAIN_SCHEDULES_H
#define MT_RUNTIME_TRAIN_SCHEDULES_H

#include "runtime/base/Status.h"
#include "runtime/train/LearningRate.h"
#include "runtime/train/Options.h"

#include <string>
#include <vector>

namespace mt::train {

/// The names of --lr-schedule, and of --decay-shape.
std::vector<std::string> scheduleNames();
std::vector<std::string> decayShapeNames();

/// The rate of options in which nothing is open but --decay-steps: without them a fifth of the steps, as far as the
/// warm-up leaves so many. `said` are those on the command line. Errors: one of them is not read by the schedule;
/// values that exclude each other.
Result<LearningRate> rateOf(const RecipeOptions &all, const RecipeOptions &said);

/// Opens again what the schedule of a recipe does not read.
void dropUnread(RecipeOptions &all);

} // namespace mt::train
#endif
