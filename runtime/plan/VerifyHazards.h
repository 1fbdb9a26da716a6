// Verification of awaits: every two commands that touch overlapping bytes, at least one writing, must be ordered by
// streams and awaits. A sweep over addresses with a reachability test, on purpose another algorithm than the placement
// in the compiler (passes/algorithms/Hazards.h), with no code in common. Called by mt-verify-schedule and when a plan is loaded.
#ifndef MT_RUNTIME_PLAN_VERIFYHAZARDS_H
#define MT_RUNTIME_PLAN_VERIFYHAZARDS_H

#include "runtime/base/Status.h"
#include "runtime/plan/Accesses.h"

#include <optional>
#include <span>
#include <string>

namespace mt::plan {

enum class HazardKind : uint8_t { readAfterWrite, writeAfterRead, writeAfterWrite, invalidAwait };

/// Two commands that are not ordered: `later` is issued after `earlier`, `back` iterations (0 or 1) after it, and both
/// touch `span`. For an invalid await, `later` has it, and `earlier` and `back` are what it names.
struct HazardError {
  HazardKind kind = HazardKind::readAfterWrite;
  uint32_t earlier = 0, later = 0, back = 0;
  Span span;
  std::string message; ///< by indices; verifyPlan's messages have labels
};

/// The first (by later, then by earlier command) pair that `awaits` leave unordered, or nothing. `program` is in issue
/// order on `streams` in-order streams; awaits[i] belong to command i. `cyclic`: the program repeats without a barrier,
/// and pairs of consecutive iterations are checked too; elsewhere awaits must not go back an iteration.
std::optional<HazardError> verifyHazards(std::span<const CommandAccesses> program,
                                         std::span<const std::vector<Await>> awaits, uint32_t streams, bool cyclic);

/// Checks every program of a plan: `step` as cyclic, the others alone, since all streams are drained between
/// different programs. The plan's indices and spans must be valid already. Fails naming both commands and the bytes.
Status verifyPlan(const Plan &plan);

} // namespace mt::plan
#endif
