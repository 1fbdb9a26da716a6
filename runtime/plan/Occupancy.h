// What lies where in a space over a program's commands, as boxes of bytes and commands: for pictures of a plan. An
// approximation from what commands write and read (a value's box ends at its last read); nothing depends on it.
#ifndef MT_RUNTIME_PLAN_OCCUPANCY_H
#define MT_RUNTIME_PLAN_OCCUPANCY_H

#include "runtime/plan/Program.h"

#include <vector>

namespace mt::plan {

/// Bytes that hold one value from command `first`, which wrote it, to command `last`, which read it last. What was there before
/// the program has 0 as its first, and, where nothing replaces it, the program's last command as its last.
struct Box {
  uint64_t begin = 0, end = 0;
  uint32_t first = 0, last = 0;
  ByteKind kind = ByteKind::unknown;
  bool before = false; ///< it was there before the program
};

/// Boxes of a space in the order in which they end.
std::vector<Box> occupancyOf(const Program &program, uint32_t space);

} // namespace mt::plan
#endif
