// Placement of awaits: which earlier commands each command must wait for, so that two commands that touch overlapping
// bytes, at least one of them writing, are ordered. Free of MLIR: mt-place-events calls it. It does not decide offsets
// (Packer.h) and is checked by runtime/plan/VerifyHazards.h, which shares no code.
#ifndef MT_PASSES_ALGORITHMS_HAZARDS_H
#define MT_PASSES_ALGORITHMS_HAZARDS_H

#include "runtime/plan/Accesses.h"

#include <cstdint>
#include <span>
#include <vector>

namespace mt::passes {

using plan::Access;
using plan::Await;
using plan::CommandAccesses;

/// The awaits of every command of `program`, which is in issue order on `streams` in-order streams. An await names a
/// command by its index, 0 iterations back (a smaller index) or 1 back (any index; only where `cyclic`: the program
/// then runs again and again without a barrier, and on its first run such awaits are no-ops). The same awaits hold in
/// every iteration. None can be left out: whatever a stream's order or other awaits already imply is not listed.
/// Awaits of a command are listed newest first. Every access's stream must be below `streams`.
std::vector<std::vector<Await>> placeAwaits(std::span<const CommandAccesses> program, uint32_t streams, bool cyclic);

} // namespace mt::passes
#endif
