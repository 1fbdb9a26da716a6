// The tree of sums of micro-batches: the same whatever the order in which they come, and that of kernel pairwise_sum.
#include "compiler/planner/BlockSums.h"

#include <gtest/gtest.h>

#include <bit>
#include <numeric>
#include <random>
#include <string>

namespace mt::planner {
namespace {

std::string treeOf(int64_t first, int64_t count) {
  if (count == 1)
    return std::to_string(first);
  const auto block = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(count))),
             left = block == count ? block / 2 : block;
  return "(" + treeOf(first, left) + "+" + treeOf(first + left, count - left) + ")";
}

/// What kernel pairwise_sum makes of them.
std::string treeOf(const std::string &into, const std::vector<std::string> &others) {
  std::vector<std::string> all{into};
  all.insert(all.end(), others.begin(), others.end());
  auto of = [&](auto &self, size_t first, size_t count) -> std::string {
    if (count == 1)
      return all[first];
    const size_t block = std::bit_floor(count), left = block == count ? block / 2 : block;
    return "(" + self(self, first, left) + "+" + self(self, first + left, count - left) + ")";
  };
  return of(of, 0, all.size());
}

TEST(BlockSums, AreOneTreeInAnyOrder) {
  std::mt19937 random(1);
  for (int64_t count = 1; count <= 40; ++count)
    for (int order = 0; order < 20; ++order) {
      std::vector<int64_t> all(static_cast<size_t>(count));
      std::iota(all.begin(), all.end(), 0);
      if (order % 2 == 1)
        std::ranges::reverse(all);
      else if (order > 3)
        std::ranges::shuffle(all, random);
      const int64_t together = int64_t(2) << order % 3;
      BlockSums<std::string> sums(together);
      int64_t joined = 0, live = 0, most = 0;
      auto join = [&](std::string &into, const std::vector<std::string> &others) {
        EXPECT_LT(std::ssize(others), together);
        into = treeOf(into, others);
        joined += std::ssize(others), live -= std::ssize(others);
      };
      for (int64_t microBatch : all) {
        most = std::max(most, ++live);
        sums.add(microBatch, std::to_string(microBatch), join);
      }
      EXPECT_EQ(sums.finish(join), treeOf(0, count));
      EXPECT_EQ(joined, count - 1);
      const bool isPower = std::has_single_bit(static_cast<uint64_t>(count));
      if (together == 2 && (order == 0 || (order == 3 && isPower))) {
        EXPECT_LE(most, std::bit_width(static_cast<uint64_t>(count)))
            << "as many sums are there as a binary counter has digits";
      }
    }
}

/// What a device or rank has of them, a power of two, is one sum.
TEST(BlockSums, OfAPartAreOneOfTheWhole) {
  auto join = [](std::string &into, const std::vector<std::string> &others) { into = treeOf(into, others); };
  for (int64_t each : {1, 2, 4, 8})
    for (int64_t parts : {1, 2, 3, 4, 5, 7, 8}) {
      BlockSums<std::string> whole;
      for (int64_t part = 0; part < parts; ++part) {
        BlockSums<std::string> own;
        for (int64_t m = part * each; m < (part + 1) * each; ++m)
          own.add(m, std::to_string(m), join);
        whole.add(part, own.finish(join), join);
      }
      EXPECT_EQ(whole.finish(join), treeOf(0, each * parts));
    }
}

} // namespace
} // namespace mt::planner
