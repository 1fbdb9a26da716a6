// The planner's search: for each micro-batch the highest rung and residency that the budgets admit, and of those the
// one with the shortest predicted step. A candidate is judged by bytes and by the busiest stream.
#ifndef MT_COMPILER_PIPELINE_PLANNER_H
#define MT_COMPILER_PIPELINE_PLANNER_H
#include "compiler/pipeline/Messages.h"
#include "compiler/pipeline/Options.h"
#include "compiler/target/Target.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "passes/Passes.h"
#include "runtime/plan/Program.h"

namespace mt::pipeline {

struct Choice {
  plan::Settings settings;
  PlanMemoryOptions memory;
  double seconds = 0; ///< of the busiest stream, a step
  uint64_t deviceBytes = 0, hostBytes = 0;
  std::string text;   ///< for the report
};

/// What came of a search: the choice, or the message of the smallest candidate that did not fit.
struct Search {
  std::optional<Choice> choice;
  std::string problem;
  std::vector<std::string> considered;
};

/// Searches the schedules of a module in phase `layers`, of one micro-batch. Where none fits, `messages` get what
/// passes said of the last one.
Search searchSchedules(mlir::ModuleOp layers, const Options &options, const target::Target &target, Messages &messages);

} // namespace mt::pipeline
#endif
