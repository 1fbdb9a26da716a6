// What a run is, as the first line of its metrics says it, and again a line {"step": N, "resumed": {...}} where it goes
// on otherwise: model, plan, recipe, data, and of the plan what its report shows - the bytes of its spaces and the
// predicted seconds of its streams -, so that the metrics alone tell all of it.
#ifndef MT_RUNTIME_TRAIN_RUNHEADER_H
#define MT_RUNTIME_TRAIN_RUNHEADER_H

#include "runtime/train/TrainSetup.h"

#include <nlohmann/json.hpp>

namespace mt::train {

/// Of the run that the set-up's folder has begun.
nlohmann::ordered_json runHeader(const TrainSetup &setup);

} // namespace mt::train
#endif
