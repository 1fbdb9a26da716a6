// Saving and loading plan files (format: plan.proto, docs/plan-format.md). Loading treats the file as hostile: what
// it returns has passed every check of Validate.h and VerifyHazards.h, so that executing it touches only its spaces.
#ifndef MT_RUNTIME_PLAN_PLANFILE_H
#define MT_RUNTIME_PLAN_PLANFILE_H

#include "runtime/base/Status.h"
#include "runtime/plan/Program.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace mt::plan {

constexpr uint32_t kPlanVersion = 15;

/// The file's bytes, header and payload; the same plan gives the same bytes. Sets plan.digest.
std::vector<std::byte> serialize(Plan &plan);
/// Validates, then writes aside and renames; sets plan.digest. Errors: the plan is not valid; the path not writable.
Status save(Plan &plan, const std::string &path);

/// Errors name `path`, the place in it, and what to do.
Result<Plan> load(const std::string &path);
/// The same from memory; `name` stands for the path in messages.
Result<Plan> deserialize(std::span<const std::byte> file, const std::string &name);

} // namespace mt::plan
#endif
