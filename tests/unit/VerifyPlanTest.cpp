// verifyPlan on a plan made by hand: it holds, no await of it can be dropped without a message that names the commands.
#include "SmallPlan.h"
#include "runtime/plan/VerifyHazards.h"

#include <gtest/gtest.h>

namespace mt::plan {
namespace {

TEST(VerifyPlan, AcceptsOrderedPlan) {
  const Status status = verifyPlan(smallPlan());
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(VerifyPlan, NamesCommandsSpaceAndBytes) {
  Plan plan = smallPlan();
  plan.programs[0].commands[1].awaits.erase(plan.programs[0].commands[1].awaits.begin());
  EXPECT_EQ(verifyPlan(plan).message(),
            "hazard in program step: read after write: command 1 (forward 0) is not ordered after command 0 (weights "
            "0): no chain of awaits and streams leads to it, and both touch bytes [0, 64) of space 0 (device)");
}

TEST(VerifyPlan, ReportsEveryDroppedAwait) {
  const Plan whole = smallPlan();
  for (size_t command = 0; command < whole.programs[0].commands.size(); ++command)
    for (size_t i = 0; i < whole.programs[0].commands[command].awaits.size(); ++i) {
      Plan plan = whole;
      auto &awaits = plan.programs[0].commands[command].awaits;
      awaits.erase(awaits.begin() + static_cast<ptrdiff_t>(i));
      EXPECT_FALSE(verifyPlan(plan).ok()) << "command " << command << ", await " << i;
    }
}

TEST(VerifyPlan, OtherProgramsDoNotRepeat) {
  Plan plan = smallPlan();
  plan.programs[0].kind = ProgramKind::finish;
  EXPECT_EQ(verifyPlan(plan).message(), "hazard in program finish: command 0 awaits command 1 of 1 iteration(s) back, "
                                        "which is not issued before it; the plan is damaged: compile it again");
  for (Command &command : plan.programs[0].commands)
    std::erase_if(command.awaits, [](const Await &await) { return await.back > 0; });
  EXPECT_TRUE(verifyPlan(plan).ok());
}

TEST(VerifyPlan, WorkspaceCountsAsWritten) {
  Plan plan = smallPlan();
  plan.programs[0].commands[1].workspace = plan.programs[0].commands[3].to; // upload 1 runs during compute 0
  EXPECT_FALSE(verifyPlan(plan).ok());
}

} // namespace
} // namespace mt::plan
