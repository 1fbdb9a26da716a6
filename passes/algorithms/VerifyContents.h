// Whether what a command reads of a slot is what the slot's own commands wrote: slots share bytes one after another,
// and no packing or order of programs may let one write where another's are yet to be read. Programs are run in the
// order of issue, byte by byte in ranges, without times and lifetimes, of which this knows nothing. Free of MLIR.
#ifndef MT_PASSES_ALGORITHMS_VERIFYCONTENTS_H
#define MT_PASSES_ALGORITHMS_VERIFYCONTENTS_H

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace mt::passes {

/// Bytes [begin, end) of a space that a command touches as part of a slot.
struct Touch {
  uint32_t slot = 0, space = 0;
  uint64_t begin = 0, end = 0;
  bool reads = false, writes = false;
};

/// By command.
using Touches = std::vector<std::vector<Touch>>;

struct Overwritten {
  uint32_t reader = 0, writer = 0; ///< numbers of commands
  uint32_t slot = 0;               ///< whose bytes they were
  uint64_t begin = 0, end = 0;     ///< in its space
};

/// Runs commands of all programs, one after another, numbered through; the first that reads bytes of a slot which
/// another slot's command wrote after the slot's own last had. Bytes that the slot never wrote are none of its own.
std::optional<Overwritten> verifyContents(std::span<const Touches *const> programs);

} // namespace mt::passes
#endif
