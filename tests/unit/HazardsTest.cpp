// Placement of awaits against their verification (two algorithms that share no code), and both against a third that
// is too slow for anything else: transitive closure over three unrolled iterations, every pair of commands compared.
#include "passes/algorithms/Hazards.h"
#include "runtime/plan/VerifyHazards.h"

#include <gtest/gtest.h>

#include <random>

namespace mt {
namespace {

using passes::placeAwaits;
using plan::Access;
using plan::Await;
using plan::CommandAccesses;
using plan::HazardKind;
using plan::verifyHazards;
using Awaits = std::vector<std::vector<Await>>;
using Program = std::vector<CommandAccesses>;

constexpr Access read(uint64_t begin, uint64_t end, uint32_t space = 0) { return {space, begin, end, false}; }
constexpr Access write(uint64_t begin, uint64_t end, uint32_t space = 0) { return {space, begin, end, true}; }

Program randomProgram(std::mt19937 &random, uint32_t streams, uint32_t commands, uint32_t bytes) {
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  Program program(commands);
  for (CommandAccesses &command : program) {
    command.stream = below(streams);
    for (uint32_t i = below(4); i > 0; --i) {
      const uint64_t begin = below(bytes);
      command.accesses.push_back({below(2), begin, begin + 1 + below(bytes / 3), below(3) == 0});
    }
  }
  return program;
}

bool conflict(const CommandAccesses &a, const CommandAccesses &b) {
  for (const Access &x : a.accesses)
    for (const Access &y : b.accesses)
      if (x.space == y.space && x.begin < y.end && y.begin < x.end && (x.write || y.write))
        return true;
  return false;
}

/// Whether every conflicting pair of three iterations is ordered, by transitive closure.
bool orderedByClosure(const Program &program, const Awaits &awaits, bool cyclic) {
  const size_t n = program.size(), total = cyclic ? 3 * n : n;
  std::vector<std::vector<bool>> before(total, std::vector<bool>(total, false)); // before[later][earlier]
  for (size_t later = 0; later < total; ++later) {
    const auto follow = [&](size_t earlier) {
      before[later][earlier] = true;
      for (size_t i = 0; i < earlier; ++i)
        if (before[earlier][i])
          before[later][i] = true;
    };
    for (size_t i = 0; i < later; ++i)
      if (program[i % n].stream == program[later % n].stream)
        follow(i);
    for (const Await &await : awaits[later % n])
      if (later / n >= await.back)
        follow((later / n - await.back) * n + await.command);
  }
  for (size_t later = 0; later < total; ++later)
    for (size_t earlier = 0; earlier < later; ++earlier)
      if (!before[later][earlier] && conflict(program[earlier % n], program[later % n]))
        return false;
  return true;
}

TEST(Hazards, OrdersReadAfterWriteAcrossStreams) {
  const Program program{{0, {write(0, 8)}}, {1, {read(4, 6)}}, {2, {read(8, 9)}}};
  EXPECT_EQ(placeAwaits(program, 3, false), (Awaits{{}, {{0, 0}}, {}}));
}

TEST(Hazards, OrdersWriteAfterReadAndWriteAfterWrite) {
  const Program program{{0, {write(0, 8)}}, {1, {read(0, 4)}}, {2, {write(0, 8)}}};
  // Command 2 overwrites what 1 read and what 0 wrote; 1 comes after 0, so one await covers both.
  EXPECT_EQ(placeAwaits(program, 3, false), (Awaits{{}, {{0, 0}}, {{1, 0}}}));
  const Program apart{{0, {write(0, 8)}}, {1, {write(0, 4)}}};
  EXPECT_EQ(placeAwaits(apart, 2, false), (Awaits{{}, {{0, 0}}}));
}

TEST(Hazards, StreamsAreInOrder) {
  const Program program{{0, {write(0, 8)}}, {0, {read(0, 8)}}, {0, {write(0, 8)}}};
  EXPECT_EQ(placeAwaits(program, 1, true), (Awaits{{}, {}, {}}));
}

TEST(Hazards, OneWaitCoversAllEarlierCommandsOfAStream) {
  const Program program{{0, {write(0, 4)}}, {0, {write(4, 8)}}, {1, {read(0, 4), read(4, 8)}}, {1, {read(0, 8)}}};
  EXPECT_EQ(placeAwaits(program, 2, false), (Awaits{{}, {}, {{1, 0}}, {}}));
}

TEST(Hazards, ReadersNeedNoOrderAmongThemselves) {
  const Program program{{0, {read(0, 8)}}, {1, {read(0, 8)}}, {2, {read(0, 8)}}};
  EXPECT_EQ(placeAwaits(program, 3, true), (Awaits{{}, {}, {}}));
}

TEST(Hazards, DoubleBufferingCrossesTheStepBoundary) {
  // An upload (stream 0) fills buffers A = [0, 4) and B = [4, 8) in turn; compute (stream 1) reads each.
  const Program program{{0, {write(0, 4)}}, {1, {read(0, 4)}}, {0, {write(4, 8)}}, {1, {read(4, 8)}}};
  EXPECT_EQ(placeAwaits(program, 2, false), (Awaits{{}, {{0, 0}}, {}, {{2, 0}}}));
  EXPECT_EQ(placeAwaits(program, 2, true), (Awaits{{{1, 1}}, {{0, 0}}, {{3, 1}}, {{2, 0}}}));
}

TEST(VerifyHazards, NamesPairBytesAndKind) {
  const Program program{{0, {write(0, 8)}}, {1, {read(4, 6)}}};
  const auto error = verifyHazards(program, Awaits{{}, {}}, 2, false);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, HazardKind::readAfterWrite);
  EXPECT_EQ(error->earlier, 0u);
  EXPECT_EQ(error->later, 1u);
  EXPECT_EQ(error->span, (plan::Span{0, 4, 2}));
  EXPECT_EQ(error->message, "read after write: command 1 is not ordered after command 0: no chain of awaits and "
                            "streams leads to it, and both touch bytes [4, 6) of space 0");
}

TEST(VerifyHazards, SeesTheStepBoundary) {
  const Program program{{0, {write(0, 8)}}, {1, {read(0, 8)}}};
  const Awaits awaits{{}, {{0, 0}}};
  EXPECT_FALSE(verifyHazards(program, awaits, 2, false));
  const auto error = verifyHazards(program, awaits, 2, true);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, HazardKind::writeAfterRead);
  EXPECT_EQ(error->earlier, 1u);
  EXPECT_EQ(error->later, 0u);
  EXPECT_EQ(error->back, 1u);
}

TEST(VerifyHazards, RefusesAwaitsThatGoForwardOrTooFarBack) {
  const Program program{{0, {}}, {1, {}}};
  for (const Await &await : {Await{1, 0}, Await{0, 2}, Await{0, 1}, Await{5, 0}}) {
    const auto error = verifyHazards(program, Awaits{{await}, {}}, 2, false);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind, HazardKind::invalidAwait);
  }
  EXPECT_FALSE(verifyHazards(program, Awaits{{{1, 1}}, {}}, 2, true));
}

class RandomSchedules : public testing::TestWithParam<bool> {};

TEST_P(RandomSchedules, PlacementAndVerifierAgree) {
  const bool cyclic = GetParam();
  for (uint32_t seed = 0; seed < 10000; ++seed) {
    std::mt19937 random(seed);
    const uint32_t streams = 1 + random() % 5;
    const Program program = randomProgram(random, streams, 2 + random() % 30, 8 + random() % 60);
    const Awaits awaits = placeAwaits(program, streams, cyclic);
    const auto error = verifyHazards(program, awaits, streams, cyclic);
    ASSERT_FALSE(error) << "seed " << seed << ": " << error->message;
  }
}

TEST_P(RandomSchedules, EveryAwaitIsNeededAndItsRemovalIsReported) {
  const bool cyclic = GetParam();
  size_t removed = 0;
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    std::mt19937 random(seed);
    const uint32_t streams = 2 + random() % 4;
    const Program program = randomProgram(random, streams, 2 + random() % 40, 8 + random() % 60);
    const Awaits awaits = placeAwaits(program, streams, cyclic);
    for (size_t command = 0; command < program.size(); ++command)
      for (size_t i = 0; i < awaits[command].size(); ++i, ++removed) {
        Awaits fewer = awaits;
        fewer[command].erase(fewer[command].begin() + static_cast<ptrdiff_t>(i));
        const auto error = verifyHazards(program, fewer, streams, cyclic);
        ASSERT_TRUE(error) << "seed " << seed << ": command " << command << " does not need its await " << i;
      }
  }
  EXPECT_GT(removed, 5000u);
}

TEST_P(RandomSchedules, VerifierAgreesWithTransitiveClosure) {
  const bool cyclic = GetParam();
  size_t unordered = 0;
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    std::mt19937 random(seed);
    const uint32_t streams = 1 + random() % 4;
    const Program program = randomProgram(random, streams, 2 + random() % 14, 8 + random() % 40);
    Awaits awaits = placeAwaits(program, streams, cyclic);
    ASSERT_TRUE(orderedByClosure(program, awaits, cyclic)) << "seed " << seed;
    for (auto &list : awaits) // drop some awaits, add some useless ones
      for (Await &await : list)
        if (random() % 6 == 0)
          await = {await.back ? await.command : static_cast<uint32_t>(random() % (await.command + 1)), await.back};
    const bool ordered = orderedByClosure(program, awaits, cyclic);
    unordered += !ordered;
    ASSERT_EQ(verifyHazards(program, awaits, streams, cyclic).has_value(), !ordered) << "seed " << seed;
  }
  EXPECT_GT(unordered, 100u);
}

INSTANTIATE_TEST_SUITE_P(Once, RandomSchedules, testing::Values(false));
INSTANTIATE_TEST_SUITE_P(Cyclic, RandomSchedules, testing::Values(true));

/// A long program of the shape of a transformer's: uploads into a ring, kernels with many operands and a workspace,
/// downloads, host updates of every layer's own bytes.
Program longProgram(uint32_t layers, uint32_t perLayer) {
  Program program;
  for (uint32_t layer = 0; layer < layers; ++layer) {
    const uint64_t ring = (layer % 2) * 1000, host = 100000 + layer * 1000ull;
    program.push_back({0, {read(host, host + 1000, 1), write(ring, ring + 1000)}});
    for (uint32_t batch = 0; batch < perLayer; ++batch) {
      CommandAccesses compute{1, {write(5000, 9000)}};
      for (uint64_t i = 0; i < 16; ++i)
        compute.accesses.push_back(read(ring + i * 60, ring + i * 60 + 50));
      const uint64_t saved = 10000 + (layer * perLayer + batch) * 100ull;
      compute.accesses.push_back(write(saved, saved + 100));
      compute.accesses.push_back(write(3000, 4000));
      program.push_back(compute);
    }
    program.push_back({2, {read(3000, 4000), write(50000 + layer % 4 * 1000, 51000 + layer % 4 * 1000, 1)}});
    program.push_back({3, {read(50000 + layer % 4 * 1000, 51000 + layer % 4 * 1000, 1), write(host, host + 1000, 1)}});
  }
  return program;
}

TEST(Hazards, LongProgramsArePlacedAndVerified) {
  const Program program = longProgram(180, 160);
  ASSERT_GT(program.size(), 29000u);
  const Awaits awaits = placeAwaits(program, 4, true);
  EXPECT_FALSE(verifyHazards(program, awaits, 4, true));
}

} // namespace
} // namespace mt
