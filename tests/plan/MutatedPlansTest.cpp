// Thousands of plans with a few bytes changed behind the checksum's back: each is refused with a message or loaded
// whole. What this proves is that nothing crashes; run it under AddressSanitizer too.
#include "runtime/plan/PlanFile.h"
#include "tests/plan/LinearPlan.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstring>
#include <random>

namespace mt::plan {
namespace {

constexpr size_t kHeaderBytes = 32, kDigestOffset = 24, kLengthOffset = 16;

/// Makes length and checksum fit the payload.
void seal(std::vector<std::byte> &file) {
  uint64_t length = file.size() - kHeaderBytes, digest = XXH3_64bits(file.data() + kHeaderBytes, length);
  std::memcpy(file.data() + kLengthOffset, &length, sizeof(length));
  std::memcpy(file.data() + kDigestOffset, &digest, sizeof(digest));
}

void mutate(std::vector<std::byte> &file, std::mt19937 &random) {
  auto place = [&] { return kHeaderBytes + random() % (file.size() - kHeaderBytes); };
  for (uint32_t i = 1 + random() % 3; i > 0; --i) {
    size_t at = place();
    switch (random() % 4) {
    case 0:
      file[at] ^= std::byte(1u << random() % 8);
      break;
    case 1:
      file[at] = std::byte(random());
      break;
    case 2:
      file.erase(file.begin() + static_cast<ptrdiff_t>(at));
      break;
    default:
      file.insert(file.begin() + static_cast<ptrdiff_t>(at), std::byte(random()));
    }
  }
  seal(file);
}

TEST(MutatedPlans, AreRefusedOrLoadedWhole) {
  std::mt19937 random(17);
  int refused = 0, loaded = 0;
  for (bool unified : {false, true}) {
    Plan plan = tests::linearPlan(unified);
    const std::vector<std::byte> whole = serialize(plan);
    for (int i = 0; i < 4000; ++i) {
      std::vector<std::byte> file = whole;
      mutate(file, random);
      Result<Plan> result = deserialize(file, "plan.bin");
      (result.ok() ? loaded : refused)++;
      if (!result.ok()) {
        EXPECT_EQ(result.status().message().find("plan.bin: "), 0u) << result.status().message();
      }
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(loaded, 100); // labels, predictions and the like may say anything
}

} // namespace
} // namespace mt::plan
