// The packer on hand-made lifetimes, on traces of the shape that training schedules have, and on random ones; every
// packing is checked by the sweep of VerifyPacking.h.
#include "passes/algorithms/Packer.h"
#include "passes/algorithms/VerifyPacking.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace mt::passes {
namespace {

uint32_t lengthOf(const std::vector<SlotRequest> &slots) {
  uint32_t moments = 0;
  for (const SlotRequest &slot : slots)
    moments = std::max({moments, slot.first + 1, slot.last + 1});
  return moments;
}

/// Packs, verifies, and returns bytes over the largest live sum.
double ratioOf(const std::vector<SlotRequest> &slots, PackOptions options = {}) {
  if (options.moments == 0)
    options.moments = lengthOf(slots);
  const Packing packing = pack(slots, options);
  const Status status = verifyPacking(slots, packing.offsets, packing.bytes, options.moments);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(packing.lowerBound, findPeak(slots, options.moments).bytes);
  EXPECT_GE(packing.bytes, packing.lowerBound);
  return static_cast<double>(packing.bytes) / static_cast<double>(std::max<uint64_t>(1, packing.lowerBound));
}

struct Shape {
  uint32_t layers, microBatches, rung, prefetch; ///< rung 0: inputs saved; 1: some; 2: everything
};

/// Device slots of one step of a transformer: weights double-buffered per pass, a gradient slot per layer in flight,
/// saved activations from a layer's forward to its backward, boundaries between layers, one workspace per template.
std::vector<SlotRequest> transformerTrace(const Shape &shape) {
  constexpr uint64_t kMiB = 1 << 20;
  constexpr uint64_t kWeights = 28 * kMiB + 73 * 1024, kHead = 154 * kMiB + 512, kBoundary = 3 * kMiB;
  constexpr uint64_t kSaved[] = {0, 7 * kMiB + 256, 41 * kMiB + 768};
  const uint32_t perLayer = shape.microBatches + 2; // prefetch, computes, offload
  const auto forward = [&](uint32_t layer) { return 2 + layer * perLayer; };
  const uint32_t head = forward(shape.layers);
  const auto backward = [&](uint32_t layer) { return head + perLayer + (shape.layers - 1 - layer) * perLayer; };
  std::vector<SlotRequest> slots;
  const auto add = [&](uint64_t bytes, uint32_t first, uint32_t last) {
    if (bytes > 0)
      slots.push_back({bytes, first, last, 256});
  };
  const auto early = [&](uint32_t moment) { return moment - std::min(moment, shape.prefetch * perLayer); };
  for (uint32_t layer = 0; layer < shape.layers; ++layer) {
    add(kWeights, early(forward(layer)), forward(layer) + perLayer - 2);
    add(kWeights, early(backward(layer)), backward(layer) + perLayer - 2);
    add(kWeights, backward(layer) + 1, backward(layer) + perLayer - 1); // gradient, same size in fp32
    for (uint32_t batch = 0; batch < shape.microBatches; ++batch) {
      const uint32_t up = forward(layer) + 1 + batch, down = backward(layer) + 1 + batch;
      add(kSaved[shape.rung], up, down);
      add(kBoundary, up,
          shape.rung == 2 ? forward(layer + 1) + 1 + batch
                          : backward(std::min(layer + 1, shape.layers - 1)) + 1 + batch);
      add(kBoundary, down, layer == 0 ? down : backward(layer - 1) + 1 + batch);
      add(19 * kMiB + 128, up, up);
      add(47 * kMiB + 640, down, down);
    }
  }
  add(kHead, early(head), head + perLayer - 1);
  add(kHead, head, head + perLayer - 1);
  return slots;
}

/// One slot is alive all along, in two intervals that both meet slots around its beginning.
TEST(Packer, ASlotMayMeetOthersOnBothSidesOfTheEnd) {
  constexpr uint32_t kMoments = 2000, kAround = 12;
  std::vector<SlotRequest> slots;
  for (uint32_t moment = 0; moment < kMoments; ++moment)
    slots.push_back({4096, moment, moment, 256});
  for (uint32_t i = 0; i < kAround; ++i)
    slots.push_back({4096, kMoments / 2 - 2, kMoments / 2 + 2, 256});
  slots.push_back({256, kMoments / 2, kMoments / 2 - 1, 256});
  PackOptions options;
  options.moments = kMoments;
  options.cyclic = true;
  EXPECT_EQ(ratioOf(slots, options), 1.0);
}

TEST(Packer, SlotsThatNeverMeetShareBytes) {
  const std::vector<SlotRequest> slots{{100, 0, 1, 1}, {100, 2, 3, 1}, {50, 1, 2, 1}};
  const Packing packing = pack(slots);
  EXPECT_EQ(packing.bytes, 150u);
  EXPECT_EQ(packing.lowerBound, 150u);
  EXPECT_EQ(packing.offsets[0], packing.offsets[1]);
}

TEST(Packer, PersistentSlotsLieAtTheBottom) {
  const std::vector<SlotRequest> slots{{10, 1, 2, 1}, {30, 0, 3, 1}, {20, 0, 3, 16}};
  const Packing packing = pack(slots);
  EXPECT_EQ(packing.offsets, (std::vector<uint64_t>{50, 20, 0}));
  EXPECT_EQ(packing.bytes, 60u);
}

TEST(Packer, LifetimesWrapAroundACyclicProgram) {
  // Slot 0 lives at moments 3 and 0; slot 1 at 1 and 2: they share; slot 2 meets slot 0 at 0.
  const std::vector<SlotRequest> slots{{100, 3, 0, 1}, {100, 1, 2, 1}, {10, 0, 0, 1}};
  const Packing packing = pack(slots, {.moments = 4});
  EXPECT_EQ(packing.bytes, 110u);
  EXPECT_TRUE(verifyPacking(slots, packing.offsets, packing.bytes, 4).ok());
}

TEST(Packer, EmptyAndZeroSlots) {
  EXPECT_EQ(pack({}).bytes, 0u);
  const std::vector<SlotRequest> slots{{0, 0, 5, 256}, {0, 2, 3, 256}};
  EXPECT_EQ(pack(slots).bytes, 0u);
}

TEST(Packer, PeakNamesMomentAndLargestSlots) {
  const std::vector<SlotRequest> slots{{10, 0, 3, 1}, {50, 2, 2, 1}, {30, 2, 4, 1}, {70, 5, 5, 1}};
  const Peak peak = findPeak(slots);
  EXPECT_EQ(peak.bytes, 90u);
  EXPECT_EQ(peak.moment, 2u);
  EXPECT_EQ(peak.slots, (std::vector<uint32_t>{1, 2, 0}));
}

TEST(Packer, TransformerTracesPackWithinATenth) {
  for (uint32_t layers : {3u, 12u, 48u})
    for (uint32_t microBatches : {1u, 4u, 8u})
      for (uint32_t rung : {0u, 1u, 2u})
        for (uint32_t prefetch : {1u, 2u, 3u}) {
          const double ratio = ratioOf(transformerTrace({layers, microBatches, rung, prefetch}));
          EXPECT_LE(ratio, 1.10) << layers << " layers, " << microBatches << " micro-batches, rung " << rung
                                 << ", prefetch " << prefetch;
        }
}

TEST(Packer, BytesDoNotGrowWithDepthAtTheBottom) {
  const auto device = [](uint32_t layers) {
    std::vector<SlotRequest> slots;
    for (uint32_t layer = 0; layer < layers; ++layer) {
      const uint32_t at = 3 * layer;
      slots.push_back({1000, at - std::min(at, 3u), at + 2, 256});
      slots.push_back({300, at, at + 4, 256});
      slots.push_back({700, at + 1, at + 1, 256});
    }
    return pack(slots).bytes;
  };
  EXPECT_EQ(device(8), device(180));
}

TEST(Packer, SlackIsKeptWhereTheBudgetAllowsAndGivenUpWhereNot) {
  std::vector<SlotRequest> slots;
  for (uint32_t i = 0; i < 20; ++i)
    slots.push_back({100, i, i, 1});
  EXPECT_EQ(pack(slots).bytes, 100u);
  const Packing loose = pack(slots, {.slack = 2});
  EXPECT_EQ(loose.bytes, 300u);
  EXPECT_EQ(loose.slack, 2u);
  const Packing tighter = pack(slots, {.slack = 2, .budget = 250});
  EXPECT_LE(tighter.bytes, 250u);
  EXPECT_EQ(tighter.slack, 1u);
  const Packing tight = pack(slots, {.slack = 2, .budget = 100});
  EXPECT_EQ(tight.bytes, 100u);
  EXPECT_EQ(tight.slack, 0u);
}

TEST(Packer, SlackIsKeptOnlyWhereItIsOfUse) {
  std::vector<SlotRequest> slots;
  for (uint32_t i = 0; i < 20; ++i)
    slots.push_back({100, i, i, 1, i == 7});
  const Packing packing = pack(slots, {.slack = 2});
  EXPECT_EQ(packing.bytes, 200u); // behind slot 7 alone lies another
  EXPECT_EQ(packing.slack, 2u);
  for (const size_t next : {8u, 9u})
    EXPECT_NE(packing.offsets[next], packing.offsets[7]);
  slots[7].stretches = false;
  EXPECT_EQ(pack(slots, {.slack = 2}).bytes, 100u);
}

TEST(Packer, SlackIsGivenUpOnlyAtThePeak) {
  // Moments 0 to 9 are light; at 10 a large slot fills the budget: only the slot that ends just before it is cut.
  const std::vector<SlotRequest> slots{{100, 0, 2, 1}, {100, 3, 5, 1}, {100, 6, 9, 1}, {500, 10, 10, 1}};
  const Packing packing = pack(slots, {.slack = 2, .budget = 500});
  EXPECT_EQ(packing.bytes, 500u);
  EXPECT_EQ(packing.slack, 2u);
  EXPECT_NE(packing.offsets[0], packing.offsets[1]);
  EXPECT_TRUE(verifyPacking(slots, packing.offsets, packing.bytes, 11).ok());
}

TEST(Packer, IsDeterministic) {
  const auto slots = transformerTrace({12, 4, 1, 2});
  EXPECT_EQ(pack(slots).offsets, pack(slots).offsets);
}

TEST(Packer, RandomLifetimes) {
  double worst = 1;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const uint32_t moments = 4 + random() % 200;
    std::vector<SlotRequest> slots(1 + random() % 300);
    for (SlotRequest &slot : slots) {
      slot.bytes = random() % (seed % 3 ? 100000 : 100);
      slot.first = random() % moments;
      slot.last = seed % 2 ? std::min<uint32_t>(moments - 1, slot.first + random() % 12) : random() % moments;
      if (seed % 4 == 2 && slot.first > slot.last)
        std::swap(slot.first, slot.last);
      slot.alignment = 1u << random() % 9;
    }
    worst = std::max(worst, ratioOf(slots, {.moments = moments, .effort = 0.05}));
  }
  EXPECT_LE(worst, 2.0);
}

/// A space without a gap, cut at random into slots as a plate of glass is: across moments or across bytes. Small ones
/// would not be hard, and what lives long and what does not are both among the rest.
std::vector<SlotRequest> cutPlate(uint32_t seed, uint32_t moments, uint64_t bytes, size_t count) {
  struct Plate {
    uint32_t first, length;
    uint64_t bytes;
  };
  std::mt19937 random(seed);
  std::vector<Plate> plates{{0, moments, bytes}};
  while (plates.size() < count) {
    Plate &plate = plates[random() % plates.size()];
    Plate rest = plate;
    if (random() % 2 && plate.length > 1) {
      plate.length = 1 + random() % (plate.length - 1);
      rest.first += plate.length;
      rest.length -= plate.length;
    } else if (plate.bytes > bytes / 50) {
      plate.bytes = plate.bytes / 5 + random() % (plate.bytes * 3 / 5);
      rest.bytes -= plate.bytes;
    } else {
      continue;
    }
    plates.push_back(rest);
  }
  // Lifetimes begin anywhere on the circle.
  const uint32_t turn = random() % moments;
  std::vector<SlotRequest> slots;
  for (const Plate &plate : plates)
    slots.push_back(
        {plate.bytes, (plate.first + turn) % moments, (plate.first + plate.length - 1 + turn) % moments, 1});
  std::shuffle(slots.begin(), slots.end(), random);
  return slots;
}

TEST(Packer, WhatWasCutFromOneSpaceFitsIntoLittleMore) {
  double sum = 0, worst = 1;
  constexpr uint32_t kPlates = 12;
  for (uint32_t seed = 0; seed < kPlates; ++seed) {
    const double ratio = ratioOf(cutPlate(seed, 40 + 20 * (seed % 4), 1000000, 60 + 20 * (seed % 5)),
                                 {.moments = 40 + 20 * (seed % 4), .cyclic = true, .budget = 0});
    sum += ratio;
    worst = std::max(worst, ratio);
  }
  EXPECT_LE(sum / kPlates, 1.01);
  EXPECT_LE(worst, 1.06);
}

TEST(Packer, SmallSlotsFillGaps) {
  for (const uint32_t count : {50u, 5000u}) {
    constexpr uint32_t kMoments = 4000;
    std::vector<SlotRequest> slots = cutPlate(3, kMoments, 100000000, 60);
    std::mt19937 random(1);
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t first = random() % kMoments;
      slots.push_back({256 * (1 + random() % 8), first, uint32_t((first + random() % 20) % kMoments), 256});
    }
    EXPECT_LE(ratioOf(slots, {.moments = kMoments, .cyclic = true, .budget = 0}), 1.02) << count;
  }
}

TEST(Packer, ThirtyThousandSlotsOfATransformer) {
  const auto layered = transformerTrace({480, 12, 1, 2});
  ASSERT_GT(layered.size(), 28000u);
  EXPECT_LE(ratioOf(layered), 1.10);
}

TEST(Packer, ThirtyThousandPersistentSlots) {
  EXPECT_LE(ratioOf(std::vector<SlotRequest>(30000, SlotRequest{1000, 0, 9, 256})), 1.03);
}

TEST(Packer, TenThousandSlotsThatAllMeet) {
  std::vector<SlotRequest> crowded; // all alive in the middle, none always
  for (uint32_t i = 0; i < 10000; ++i)
    crowded.push_back({512, i, 10000 + i, 256});
  EXPECT_LE(ratioOf(crowded), 1.10);
}

TEST(VerifyPacking, NamesWhatIsWrong) {
  const std::vector<SlotRequest> slots{{100, 0, 4, 1}, {100, 4, 8, 64}};
  const auto messageOf = [&](std::vector<uint64_t> offsets, uint64_t bytes) {
    return verifyPacking(slots, offsets, bytes, 9).message();
  };
  EXPECT_EQ(messageOf({0, 128}, 228), "");
  EXPECT_EQ(messageOf({0, 64}, 228), "slots 0 and 1 are both alive at command 4 and share bytes");
  EXPECT_EQ(messageOf({0, 100}, 228), "slot 1 lies at 100, which is not a multiple of its alignment 64");
  EXPECT_EQ(messageOf({0, 128}, 200), "slot 1 takes bytes [128, 228) of a space of 200");
}

} // namespace
} // namespace mt::passes
