// The tensors of a checkpoint: one safetensors file per role (weight, first_moment, second_moment), written and read by
// several threads, every byte under a checksum. Knows no folders of runs and no metadata but its own record.
#ifndef MT_RUNTIME_TRAIN_STATEFILES_H
#define MT_RUNTIME_TRAIN_STATEFILES_H

#include "runtime/base/Status.h"
#include "runtime/plan/Program.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <functional>
#include <span>
#include <string>

namespace mt::train {

/// The bytes of a part of a parameter, in place.
using PartBytes = std::function<std::span<std::byte>(const plan::Part &)>;

/// "weight", "first_moment", "second_moment"; the remainder has no file: the weight's holds both halves, joined.
std::string_view fileStem(plan::PartRole role);

/// Bytes that writeState() will write.
uint64_t stateBytes(const plan::Plan &plan);
/// Writes and syncs the masters and moments of every trainable parameter into files of `folder`. Returns their record:
/// {"weight": {"bytes": of the file, "header": checksum, "tensors": {name: checksum}}, ...}.
Result<nlohmann::json> writeState(const std::string &folder, const plan::Plan &plan, const PartBytes &part,
                                  int threads);

/// Whether this can be a record: what follows relies on it.
bool isStateRecord(const nlohmann::json &record);
/// Every file of the record is there, with its size: what can be seen without reading it.
Status checkSizes(const std::string &folder, const nlohmann::json &record);
/// Reads the files of the record and compares every checksum. `weightsOnly`: that of the weights alone. Errors name
/// file and tensor.
Status verifyState(const std::string &folder, const nlohmann::json &record, bool weightsOnly, int threads);

/// Fills the parts of every trainable parameter, comparing checksums where the record has them; masters are split where
/// the plan has a remainder. Errors name the file, the parameter, and both shapes. `weightsOnly`: leaves moments alone.
Status readState(const std::string &folder, const nlohmann::json &record, const plan::Plan &plan, const PartBytes &part,
                 bool weightsOnly, int threads);

} // namespace mt::train
#endif
