// What is known of a run's evaluations: the last one, the best, and how many came since. Every checkpoint has it, so
// that a run that goes on ends where one that never stopped would, and the best checkpoint is found by looking at all
// of them.
#ifndef MT_RUNTIME_TRAIN_EVALUATIONRECORD_H
#define MT_RUNTIME_TRAIN_EVALUATIONRECORD_H

#include "runtime/base/Status.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace mt::train {

struct EvaluationRecord {
  int64_t step = 0;     ///< of the last evaluation; 0: there was none
  double loss = 0;      ///< its loss; may be not finite
  int64_t bestStep = 0; ///< of the least loss, the first of equal ones; 0: there was none that is finite
  double bestLoss = 0;
  int64_t worse = 0; ///< evaluations since the best, or all without one
  std::string data;  ///< fingerprint of what they were on: those on other data do not compare

  void add(int64_t step, double loss);
  /// Whether the last one is the best.
  bool isBest() const { return step > 0 && step == bestStep; }

  nlohmann::json toJson() const;
  /// Of null, which older versions have: of a run without evaluations. Errors: it is damaged.
  static Result<EvaluationRecord> read(const nlohmann::json &object);
};

} // namespace mt::train
#endif
