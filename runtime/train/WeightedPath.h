// What --data takes: the path of a corpus, or PATH:WEIGHT. Part of the command line.
#ifndef MT_RUNTIME_TRAIN_WEIGHTEDPATH_H
#define MT_RUNTIME_TRAIN_WEIGHTEDPATH_H

#include "runtime/base/Status.h"

#include <optional>
#include <string>
#include <vector>

namespace mt::train {

struct WeightedPaths {
  std::vector<std::string> paths;
  std::vector<double> weights; ///< none, or one for each path
};

/// What exists is a path, whatever stands in it; else a number behind the last colon is a weight. Errors: a weight is
/// not positive and finite, or some paths have one and others have not.
Result<WeightedPaths> parseWeightedPaths(const std::vector<std::string> &texts);

} // namespace mt::train
#endif
