// What a command touches: plain byte ranges of spaces. The vocabulary that the placement of awaits (passes/algorithms/Hazards.h)
// and their verification (VerifyHazards.h) have in common; they share these structs and no code.
#ifndef MT_RUNTIME_PLAN_ACCESSES_H
#define MT_RUNTIME_PLAN_ACCESSES_H

#include "runtime/plan/Program.h"

#include <cstdint>
#include <vector>

namespace mt::plan {

/// Bytes [begin, end) of a space. Accumulating and updating count as writing (a write orders against reads too).
struct Access {
  uint32_t space = 0;
  uint64_t begin = 0, end = 0;
  bool write = false;
};

/// All that a command touches, and the stream that it is issued on.
struct CommandAccesses {
  uint32_t stream = 0;
  std::vector<Access> accesses;
};

/// The accesses of a command of a plan: its copy's spans, or its bindings, as any rank has them, and workspace.
CommandAccesses accessesOf(const Command &command);

} // namespace mt::plan
#endif
