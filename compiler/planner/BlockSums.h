// The order in which the sums of micro-batches are added: a binary tree that their number alone decides. A block of 2^k
// of them, from a multiple of 2^k on, is the sum of its halves ("pairwise summation", Higham 1993); what a number of
// micro-batches leaves over is added from its end. So a sum has the same bits whoever gives its blocks, in whatever
// order.
#ifndef MT_COMPILER_PLANNER_BLOCKSUMS_H
#define MT_COMPILER_PLANNER_BLOCKSUMS_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace mt::planner {

/// Blocks whose sums are there. `join(into, from)` adds the sum of a block to that of the one before it.
template <typename Sum> class BlockSums {
public:
  struct Block {
    int64_t first = 0, count = 1; ///< micro-batches
    Sum sum;
  };

  template <typename Join> void add(int64_t microBatch, Sum sum, Join join) {
    add(Block{microBatch, 1, std::move(sum)}, join);
  }
  template <typename Join> void add(Block block, Join join) {
    auto at = std::ranges::partition_point(blocks, [&](const Block &other) { return other.first < block.first; }) -
              blocks.begin();
    blocks.insert(blocks.begin() + at, std::move(block));
    auto isPair = [&](std::ptrdiff_t left) {
      if (left < 0 || left + 1 >= std::ssize(blocks))
        return false;
      const Block &a = blocks[static_cast<size_t>(left)], &b = blocks[static_cast<size_t>(left) + 1];
      return a.count == b.count && a.first + a.count == b.first && a.first % (2 * a.count) == 0;
    };
    for (bool joined = true; joined;) {
      joined = false;
      for (std::ptrdiff_t left : {at - 1, at})
        if (isPair(left)) {
          joinAt(left, join);
          at = left;
          joined = true;
          break;
        }
    }
  }
  /// Takes out what there is of blocks of so many or more.
  std::vector<Block> take(int64_t count) {
    std::vector<Block> taken;
    for (size_t i = blocks.size(); i-- > 0;)
      if (blocks[i].count >= count) {
        taken.push_back(std::move(blocks[i]));
        blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(i));
      }
    return taken;
  }
  /// The sum of all that was added.
  template <typename Join> Sum finish(Join join) {
    while (blocks.size() > 1)
      joinAt(std::ssize(blocks) - 2, join);
    Sum sum = std::move(blocks.front().sum);
    blocks.clear();
    return sum;
  }

private:
  std::vector<Block> blocks; ///< in the order of micro-batches

  template <typename Join> void joinAt(std::ptrdiff_t left, Join &join) {
    Block &into = blocks[static_cast<size_t>(left)];
    join(into.sum, blocks[static_cast<size_t>(left) + 1].sum);
    into.count += blocks[static_cast<size_t>(left) + 1].count;
    blocks.erase(blocks.begin() + left + 1);
  }
};

} // namespace mt::planner
#endif
