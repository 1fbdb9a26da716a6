// One packing of slots by the best-fit method for strips whose horizontal places are fixed (as in E. Burke, G. Kendall,
// G. Whitwell, "A new placement heuristic for the orthogonal stock-cutting problem", 2004): over the moments of a
// cyclic program stands a skyline, the end of what is placed at each. Its lowest segment takes the slot of lowest rank
// among those whose whole lifetime is in it; where none fits, it rises to the lower of its neighbours, and what lies
// below is wasted. Packer.cpp chooses the ranks.
#ifndef MT_PASSES_ALGORITHMS_SKYLINE_H
#define MT_PASSES_ALGORITHMS_SKYLINE_H

#include "passes/algorithms/Packer.h"

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace mt::passes {

class Skyline {
public:
  /// Places the slots that `chosen` names, none of which is alive at every moment or has no bytes. Offsets below `base`
  /// are never given. `slots` must outlive this.
  Skyline(std::span<const SlotRequest> slots, std::span<const uint32_t> chosen, uint32_t moments, uint64_t base);

  /// Places all slots, those of lower rank rather than others; `ranks` by place in `chosen`, `offsets` by slot.
  /// Returns the greatest end, or UINT64_MAX as soon as it is sure to reach `limit`.
  uint64_t place(std::span<const uint32_t> ranks, uint64_t limit, std::vector<uint64_t> &offsets);

  /// The most bytes alive at one moment, `base` and waste of alignment at the bottom included.
  uint64_t lowerBound() const { return bound; }
  /// By place in `chosen`: the most bytes alive at a moment of its lifetime, and how long that is, as shares of the
  /// most.
  double crowding(uint32_t item) const { return crowdings[item]; }
  double duration(uint32_t item) const { return static_cast<double>(items[placeOf[item]].duration) / moments; }

  /// Slots and moments looked at so far: a measure of time that is the same on every machine.
  uint64_t work() const { return looks; }

private:
  /// A slot on the circle of moments at which a chosen one begins or ends.
  struct Item {
    uint32_t slot, first, duration;
  };
  /// Moments [start, start + length) of the circle at one height.
  struct Segment {
    uint64_t height;
    uint32_t start, length;
    uint32_t previous, next; ///< neighbours on the circle: itself, if it is the only one
    bool live;
  };
  struct Height { ///< that a segment had, and may have no more
    uint64_t height;
    uint32_t segment;
  };
  struct Piece { ///< of the segment that is being filled, by distance from its start
    uint32_t from, length, segment;
  };
  std::span<const SlotRequest> slots;
  const uint64_t base;
  uint32_t moments = 0;
  uint64_t bound = 0;
  std::vector<Item> items;       ///< by first moment
  std::vector<uint32_t> placeOf; ///< in `items`, by place in `chosen`
  std::vector<double> crowdings; ///< by place in `chosen`
  std::vector<uint32_t> firstAt; ///< by moment: where its items begin; one more at the end
  std::vector<uint64_t> live;    ///< bytes by moment, with `base`
  std::vector<uint64_t> wasted;  ///< bytes by moment
  std::vector<uint32_t> rankOf;  ///< by item
  std::vector<uint32_t> waiting; ///< by item: the next not yet placed, perhaps by several steps
  std::vector<Segment> segments;
  /// A radix heap (R. Ahuja and others, "Faster algorithms for the shortest path problem", 1990), for what is lowest
  /// only rises: by the highest bit in which a height differs from the lowest so far.
  std::array<std::vector<Height>, 65> heights;
  uint64_t lowest = 0;
  std::vector<uint64_t> fitting; ///< ranks, and items below them
  std::vector<Piece> pieces;
  uint64_t top = 0, looks = 0;

  uint32_t nextWaiting(uint32_t item);
  uint32_t distance(uint32_t from, uint32_t to) const { return to >= from ? to - from : to + moments - from; }
  bool isNow(const Height &of) const { return segments[of.segment].live && segments[of.segment].height == of.height; }
  size_t bucketOf(uint64_t height) const { return static_cast<size_t>(std::bit_width(height ^ lowest)); }
  uint32_t popLowest();
  void push(uint32_t segment);
  void join(uint32_t before, uint32_t after);
  void settle(uint32_t segment);
  void findFitting(const Segment &segment);
  uint32_t fill(uint32_t segment, std::vector<uint64_t> &offsets);
  void split(uint32_t piece, const Item &item, uint64_t height);
  bool raise(uint32_t segment, uint64_t limit);
};

} // namespace mt::passes
#endif
