// Plans with changed bytes that loading accepts are executed: whatever they compute, they touch only their spaces.
#include "runtime/executor/Executor.h"
#include "runtime/plan/PlanFile.h"
#include "tests/plan/LinearPlan.h"
#include "tests/plan/Mutate.h"

#include <gtest/gtest.h>

#include <cstring>

namespace mt::executor {
namespace {

/// Loads weights, runs two steps and an evaluation; errors are fine.
Status execute(const plan::Plan &plan) {
  Callbacks callbacks{[&](std::span<void *const> parts) {
                        size_t next = 0;
                        for (const plan::Input &input : plan.inputs)
                          for (const plan::Span &part : input.parts)
                            std::memset(parts[next++], 0, part.bytes);
                        return Status();
                      },
                      [](float, std::span<const double>, std::span<const float>) { return Status(); },
                      [](int64_t, int64_t, std::span<const float>) {}};
  MT_ASSIGN(auto executor, Executor::create(plan, {.threads = 1}, std::move(callbacks)));
  MT_TRY(executor->loadWeights().status());
  for (plan::ProgramKind kind : {plan::ProgramKind::step, plan::ProgramKind::step, plan::ProgramKind::evaluate})
    if (plan.program(kind))
      MT_TRY(executor->run(kind));
  return executor->drain();
}

TEST(MutatedPlans, StayInsideTheirSpaces) {
  std::mt19937 random(23);
  int done = 0, failed = 0;
  for (bool unified : {false, true}) {
    plan::Plan plan = tests::linearPlan(unified);
    const std::vector<std::byte> whole = plan::serialize(plan);
    for (int i = 0; i < 2000; ++i) {
      std::vector<std::byte> file = whole;
      tests::mutate(file, random);
      if (Result<plan::Plan> mutant = plan::deserialize(file, "plan.bin"); mutant.ok()) {
        Status status = execute(*mutant);
        (status.ok() ? done : failed)++;
        EXPECT_EQ(status.message().find("bytes after its end"), std::string::npos) << status.message();
      }
    }
  }
  EXPECT_GT(done, 100);
}

} // namespace
} // namespace mt::executor
