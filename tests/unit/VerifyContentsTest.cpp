// What slots hold against an oracle that keeps the slot of every byte, and by hand.
#include "passes/algorithms/VerifyContents.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace mt::passes {
namespace {

constexpr Touch reads(uint32_t slot, uint64_t begin, uint64_t end) { return {slot, 0, begin, end, true, false}; }
constexpr Touch writes(uint32_t slot, uint64_t begin, uint64_t end) { return {slot, 0, begin, end, false, true}; }

std::optional<Overwritten> found(const std::vector<Touches> &programs) {
  std::vector<const Touches *> all;
  for (const Touches &program : programs)
    all.push_back(&program);
  return verifyContents(all);
}

TEST(VerifyContents, SlotsShareBytesOneAfterAnother) {
  EXPECT_FALSE(found({{{writes(0, 0, 8)}, {reads(0, 0, 8)}, {writes(1, 4, 12)}, {reads(1, 4, 12)}}}));
}

TEST(VerifyContents, WhatIsWrittenOverIsNotRead) {
  const auto error = found({{{writes(0, 0, 8)}, {writes(1, 4, 12)}, {reads(0, 0, 4)}, {reads(0, 2, 6)}}});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->reader, 3U);
  EXPECT_EQ(error->writer, 1U);
  EXPECT_EQ(error->slot, 0U);
  EXPECT_EQ(error->begin, 4U);
  EXPECT_EQ(error->end, 6U);
}

/// A gradient that a step leaves, which finish would read after another one has come.
TEST(VerifyContents, AStepLeavesWhatTheNextProgramReads) {
  const Touches step = {{reads(0, 0, 4)}, {writes(1, 0, 4)}, {reads(1, 0, 4)}, {writes(0, 0, 4)}};
  EXPECT_FALSE(found({step, step, {{reads(0, 0, 4)}, {writes(1, 0, 4)}}}));
  const auto error = found({step, step, {{writes(1, 0, 4)}, {reads(0, 0, 4)}}});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->reader, 9U);
  EXPECT_EQ(error->writer, 8U);
}

/// Padding that a slot never wrote is none of its own, whoever wrote it.
TEST(VerifyContents, BytesThatWereNeverWrittenAreNobodys) {
  EXPECT_FALSE(found({{{writes(1, 0, 16)}, {writes(0, 0, 4), writes(0, 8, 12)}, {reads(0, 0, 12)}}}));
}

TEST(VerifyContents, SpacesAreApart) {
  EXPECT_FALSE(found({{{writes(0, 0, 4)}, {{1, 1, 0, 4, false, true}}, {reads(0, 0, 4)}}}));
}

/// Byte by byte: who wrote last, and by which command a slot's own was lost.
std::optional<std::pair<uint32_t, uint32_t>> slowly(const Touches &program) {
  std::map<std::pair<uint32_t, uint64_t>, uint32_t> owner, lost; // by space and byte; by slot and byte
  for (uint32_t i = 0; i < program.size(); ++i) {
    for (const Touch &touch : program[i])
      for (uint64_t byte = touch.begin; touch.reads && byte < touch.end; ++byte)
        if (auto at = lost.find({touch.slot, byte}); at != lost.end())
          return std::pair(i, at->second);
    for (const Touch &touch : program[i])
      for (uint64_t byte = touch.begin; touch.writes && byte < touch.end; ++byte) {
        auto [at, fresh] = owner.try_emplace({touch.space, byte}, touch.slot);
        if (!fresh && at->second != touch.slot)
          lost[{at->second, byte}] = i;
        at->second = touch.slot;
        lost.erase({touch.slot, byte});
      }
  }
  return std::nullopt;
}

TEST(VerifyContents, AsByteByByte) {
  std::mt19937 random(1);
  auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  int errors = 0;
  for (int round = 0; round < 2000; ++round) {
    Touches program(2 + below(12));
    for (std::vector<Touch> &command : program)
      for (uint32_t i = below(3); i > 0; --i) {
        const uint32_t slot = below(5);
        const uint64_t begin = below(20), size = 1 + below(8);
        const uint32_t how = below(3);
        command.push_back({slot, slot % 2, begin, begin + size, how != 1, how != 0});
      }
    const auto got = found({program});
    const auto want = slowly(program);
    ASSERT_EQ(got.has_value(), want.has_value()) << round;
    if (got) {
      ++errors;
      EXPECT_EQ(std::pair(got->reader, got->writer), *want) << round;
    }
  }
  EXPECT_GT(errors, 200);
}

} // namespace
} // namespace mt::passes
