// The order in which the sums of micro-batches are added: a binary tree that their number alone decides. A block of 2^k
// of them, from a multiple of 2^k on, is the sum of its halves ("pairwise summation", Higham 1993); what a number of
// micro-batches leaves over is added from its end. So a sum has the same bits whoever gives its blocks, in whatever
// order.
#ifndef MT_COMPILER_PLANNER_BLOCKSUMS_H
#define MT_COMPILER_PLANNER_BLOCKSUMS_H

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace mt::planner {

/// Blocks whose sums are there, joined so many equal ones at a time: a power of two of them, or, at the end, whatever
/// is left. `join(into, others)` adds the sums of others to that of the block before them.
template <typename Sum> class BlockSums {
public:
  struct Block {
    int64_t first = 0, count = 1; ///< micro-batches
    Sum sum;
  };
  explicit BlockSums(int64_t together = 2) : together(together) {}

  template <typename Join> void add(int64_t microBatch, Sum sum, Join join) {
    add(Block{microBatch, 1, std::move(sum)}, join);
  }
  template <typename Join> void add(Block block, Join join) {
    auto at = std::ranges::partition_point(blocks, [&](const Block &other) { return other.first < block.first; }) -
              blocks.begin();
    blocks.insert(blocks.begin() + at, std::move(block));
    while (const std::optional<size_t> begin = runAround(static_cast<size_t>(at), together)) {
      joinAt(*begin, static_cast<size_t>(together), join);
      at = static_cast<std::ptrdiff_t>(*begin);
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
    for (int64_t size = together; size >= 2; size /= 2)
      for (size_t i = 0; i < blocks.size();)
        if (const std::optional<size_t> begin = runAround(i, size)) {
          joinAt(*begin, static_cast<size_t>(size), join);
          i = 0, size = together;
        } else {
          ++i;
        }
    while (blocks.size() > 1)
      joinAt(blocks.size() - 2, 2, join);
    Sum sum = std::move(blocks.front().sum);
    blocks.clear();
    return sum;
  }

private:
  int64_t together;
  std::vector<Block> blocks; ///< in the order of micro-batches

  /// So many neighbours of one size that make a block, one of which is at that place: where they begin.
  std::optional<size_t> runAround(size_t at, int64_t size) const {
    const int64_t count = blocks[at].count, whole = size * count, first = blocks[at].first / whole * whole;
    const int64_t begin = static_cast<int64_t>(at) - (blocks[at].first - first) / count;
    if (!std::has_single_bit(static_cast<uint64_t>(count)) || begin < 0 || begin + size > std::ssize(blocks))
      return std::nullopt;
    for (int64_t i = 0; i < size; ++i)
      if (const Block &block = blocks[static_cast<size_t>(begin + i)];
          block.count != count || block.first != first + i * count)
        return std::nullopt;
    return static_cast<size_t>(begin);
  }

  template <typename Join> void joinAt(size_t begin, size_t size, Join &join) {
    Block &into = blocks[begin];
    std::vector<Sum> others;
    for (size_t i = begin + 1; i < begin + size; ++i) {
      others.push_back(std::move(blocks[i].sum));
      into.count += blocks[i].count;
    }
    join(into.sum, others);
    blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(begin) + 1,
                 blocks.begin() + static_cast<std::ptrdiff_t>(begin + size));
  }
};

} // namespace mt::planner
#endif
