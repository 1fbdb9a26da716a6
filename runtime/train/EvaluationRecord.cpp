#include "runtime/train/EvaluationRecord.h"

#include <cmath>
#include <limits>

namespace mt::train {
namespace {

using nlohmann::json;

/// JSON has no other numbers: null stands for what is not finite.
json finite(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

bool readInto(const json &object, const char *key, int64_t &field) {
  auto at = object.find(key);
  if (at == object.end() || !at->is_number_integer() || *at < 0)
    return false;
  field = at->get<int64_t>();
  return true;
}

bool readInto(const json &object, const char *key, double &field) {
  auto at = object.find(key);
  if (at == object.end() || !(at->is_number() || at->is_null()))
    return false;
  field = at->is_null() ? std::numeric_limits<double>::quiet_NaN() : at->get<double>();
  return true;
}

} // namespace

void EvaluationRecord::add(int64_t at, double value) {
  step = at;
  loss = value;
  ++worse;
  if (bestStep > 0 ? value < bestLoss : std::isfinite(value)) {
    bestStep = at;
    bestLoss = value;
    worse = 0;
  }
}

json EvaluationRecord::toJson() const {
  return {{"step", step},          {"loss", finite(loss)}, {"best_step", bestStep},
          {"best_loss", bestLoss}, {"worse", worse},       {"data", data}};
}

Result<EvaluationRecord> EvaluationRecord::read(const json &object) {
  EvaluationRecord record;
  if (object.is_null())
    return record;
  auto data = object.find("data");
  if (!object.is_object() || data == object.end() || !data->is_string() || !readInto(object, "step", record.step) ||
      !readInto(object, "loss", record.loss) || !readInto(object, "best_step", record.bestStep) ||
      !readInto(object, "best_loss", record.bestLoss) || !readInto(object, "worse", record.worse))
    return fail("its record of evaluations is damaged");
  record.data = data->get<std::string>();
  return record;
}

} // namespace mt::train
