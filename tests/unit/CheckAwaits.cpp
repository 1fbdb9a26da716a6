// A program for tests: loads plans, which verifies them, then takes away each await of every command, one at a time,
// and fails unless the verifier reports every one. Usage: check-awaits PLAN.bin...
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/VerifyHazards.h"

#include <cstdio>

using namespace mt;

namespace {

struct Count {
  size_t awaits = 0, acrossSteps = 0, unnoticed = 0;
};

void removeEach(plan::Plan &plan, plan::Command &command, Count &count) {
  const std::vector<plan::Await> whole = command.awaits;
  for (size_t i = 0; i < whole.size(); ++i) {
    command.awaits.erase(command.awaits.begin() + static_cast<ptrdiff_t>(i));
    ++count.awaits;
    count.acrossSteps += whole[i].back;
    if (plan::verifyPlan(plan).ok()) {
      ++count.unnoticed;
      fmt::print("'{}' does without its await of command {}, {} back, and nothing notices\n", command.label,
                 whole[i].command, whole[i].back);
    }
    command.awaits = whole;
  }
}

} // namespace

int main(int argc, char **argv) {
  Count count;
  for (int i = 1; i < argc; ++i) {
    Result<plan::Plan> plan = plan::load(argv[i]);
    if (!plan.ok()) {
      fmt::print(stderr, "error: {}\n", plan.status().message());
      return 1;
    }
    for (plan::Program &program : plan->programs)
      for (plan::Command &command : program.commands)
        removeEach(*plan, command, count);
  }
  fmt::print("{} awaits, {} of them across steps: removing {} went unnoticed\n", count.awaits, count.acrossSteps,
             count.unnoticed);
  return count.awaits > 0 && count.unnoticed == 0 ? 0 : 1;
}
