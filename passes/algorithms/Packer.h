// The packer: offsets for slots of known sizes and lifetimes in one space (offline dynamic storage allocation), so that
// slots alive at the same time never share a byte and the space is as small as a few greedy searches can make it.
// Free of MLIR: mt-plan-templates and mt-plan-memory call it. It orders nothing: reuse of bytes becomes awaits in
// Hazards.h. VerifyPacking.h checks its results by another algorithm.
#ifndef MT_PASSES_ALGORITHMS_PACKER_H
#define MT_PASSES_ALGORITHMS_PACKER_H

#include <cstdint>
#include <span>
#include <vector>

namespace mt::passes {

/// A slot to place. Moments are indices of commands in issue order, both ends inclusive. In a cyclic program a slot
/// that is alive across the step's boundary has first > last: it lives in [first, moments) and in [0, last].
struct SlotRequest {
  uint64_t bytes = 0;
  uint32_t first = 0, last = 0;
  uint64_t alignment = 256; ///< of the offset; a power of two
  bool stretches = true;    ///< whether slack behind it is of use
};

struct PackOptions {
  uint32_t moments = 0; ///< length of the program; 0: one more than the greatest moment of any slot
  /// Moments by which the lifetime's end of those that stretch is put off first, so that the next owner of the bytes
  /// need not wait for the last. Given up, first where the budget forces it, then everywhere, when the result would
  /// exceed `budget`. Where the budget has room, sizes are rounded up too, by a thirty-second at most, so that slots of
  /// nearly equal sizes line up and a program that repeats layers packs alike however often it does.
  uint32_t slack = 0;
  bool cyclic = false;          ///< stretched lifetimes may wrap around the program's end
  uint64_t budget = UINT64_MAX; ///< bytes; only decides how much slack is kept: exceeding it is not an error here
  double effort = 1.0;          ///< scales the work allowed for repeated searches
};

struct Packing {
  std::vector<uint64_t> offsets; ///< by slot
  uint64_t bytes = 0;            ///< size of the space: greatest end of any slot
  uint64_t lowerBound = 0;       ///< largest sum of (unstretched) slots alive at one moment; never above `bytes`
  uint32_t slack = 0;            ///< the most slack that any slot kept
};

/// Places all slots. Deterministic: the same requests give the same offsets on every machine. Slots of no bytes get
/// offset 0.
Packing pack(std::span<const SlotRequest> slots, const PackOptions &options = {});

/// The moment at which most bytes are alive, for reports and messages.
struct Peak {
  uint64_t bytes = 0;
  uint32_t moment = 0;         ///< the first such moment
  std::vector<uint32_t> slots; ///< alive then, largest first
};
Peak findPeak(std::span<const SlotRequest> slots, uint32_t moments = 0);

} // namespace mt::passes
#endif
