// What ranks share of a parameter: each has as much as every other, together they have all of it.
#include "kernels/Blocks.h"
#include "kernels/Optimizers.h"
#include "runtime/plan/Ranks.h"

#include <gtest/gtest.h>

namespace mt::plan {
namespace {

using kernels::Shares;

TEST(Shares, AreAllOfAParameterOnceAmongTheRanks) {
  for (int64_t elements : {1, 15, 16, 17, 511, 512, 4096, 100'003, 1 << 20})
    for (uint32_t ranks : {1U, 2U, 3U, 4U, 7U, 64U})
      for (int64_t granule : {0, 1, 3, 64}) {
        const Shares shares(elements, ranks, granule);
        std::vector<int> owners(static_cast<size_t>(elements), 0), holders = owners;
        for (uint32_t rank = 0; rank < ranks; ++rank) {
          int64_t held = 0;
          for (const Owned &owned : ownedBy(shares, rank, false)) {
            held += owned.count;
            for (int64_t i = 0; i < owned.count; ++i)
              ++holders[static_cast<size_t>(owned.first + i)];
            EXPECT_LE(owned.place + owned.count, shares.elements());
          }
          EXPECT_EQ(held, shares.elements());
          for (const Owned &owned : ownedBy(shares, rank, true))
            for (int64_t i = 0; i < owned.count; ++i)
              ++owners[static_cast<size_t>(owned.first + i)];
        }
        EXPECT_EQ(std::ranges::count(owners, 1), elements) << elements << " on " << ranks;
        EXPECT_EQ(std::ranges::count(holders, 0), 0);
      }
}

TEST(Shares, AreWholeChunksOfTheNormAndMultiplesOfTheGranule) {
  for (int64_t elements : {512, 4096, 100'003, 1 << 20})
    for (int64_t ranks : {2, 3, 64})
      for (int64_t granule : {1, 3, 64}) {
        const Shares shares(elements, ranks, granule);
        EXPECT_EQ(shares.chunk, kernels::squaredNormChunks(elements).size);
        EXPECT_EQ(shares.body + shares.tail, elements);
        for (int64_t part : {shares.share, shares.body}) {
          EXPECT_EQ(part % shares.chunk, 0);
          EXPECT_EQ(part % granule, 0);
        }
      }
  for (int64_t ranks : {2, 3, 4, 8, 64})
    for (int64_t elements : {int64_t{50'257} * 768, int64_t{4096} * 11'008, int64_t{128'256} * 4096})
      EXPECT_LE(static_cast<double>(Shares(elements, ranks, 1).elements() * ranks),
                (ranks <= 8 ? 1.005 : 1.03) * static_cast<double>(elements))
          << ranks << " " << elements;
  EXPECT_EQ(Shares(1000, 4, 0).elements(), 1000) << "what cannot be shared is every rank's";
}

} // namespace
} // namespace mt::plan
