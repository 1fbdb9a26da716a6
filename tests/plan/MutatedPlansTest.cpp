// Thousands of plans with a few bytes changed behind the checksum's back: each is refused with a message or loaded
// whole. What this proves is that nothing crashes; run it under AddressSanitizer too.
#include "runtime/plan/PlanFile.h"
#include "tests/plan/LinearPlan.h"
#include "tests/plan/Mutate.h"

#include <gtest/gtest.h>

#include <random>

namespace mt::plan {
namespace {

TEST(MutatedPlans, AreRefusedOrLoadedWhole) {
  std::mt19937 random(17);
  int refused = 0, loaded = 0;
  for (bool unified : {false, true}) {
    Plan plan = tests::linearPlan(unified);
    const std::vector<std::byte> whole = serialize(plan);
    for (int i = 0; i < 4000; ++i) {
      std::vector<std::byte> file = whole;
      tests::mutate(file, random);
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
