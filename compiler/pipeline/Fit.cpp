// The table of Fit.h: every combination compiled without budgets, then compared with them.
#include "compiler/pipeline/Fit.h"

#include "compiler/pipeline/DefaultSequence.h"
#include "compiler/pipeline/Pipeline.h"
#include "compiler/target/Target.h"
#include "runtime/base/Sizes.h"

namespace mt::pipeline {

Result<std::string> fitTable(mlir::MLIRContext &context, const Options &options, Messages &messages) {
  MT_ASSIGN(target::Target target, target::findTarget(options.target));
  uint64_t deviceBudget = options.deviceMemory.value_or(target.deviceMemory), hostBudget = options.hostMemory.value_or(target.hostMemory);
  std::optional<int64_t> sequence = options.sequence ? options.sequence : defaultSequence(context, options);
  std::string table = fmt::format("{:>11}  {:<10}  {:<9}  {:>11}  {:>11}  {:>10}  fits\n", "micro-batch", "saved", "weights",
                                  "device", "host", "step");
  std::string forced;
  for (int64_t microBatch = options.batch; microBatch >= 1 && forced.empty(); --microBatch) {
    if (options.batch % microBatch || (options.microBatch && *options.microBatch != microBatch))
      continue;
    for (const char *rung : {"all", "attention", "input"})
      for (const char *residency : {"state", "weights", "none"}) {
        if (target.unified && residency != std::string_view("none"))
          continue;
        Options one = options;
        one.sequence = sequence;
        one.microBatch = microBatch;
        one.savedActivations = rung;
        one.residency = residency;
        one.prefetchDistance = options.prefetchDistance.value_or(1);
        one.deviceMemory = one.hostMemory = uint64_t(1) << 60;
        Messages said;
        auto compiled = compile(context, one, Phase::plan, "", said);
        messages.add(said);
        if (!compiled.ok())
          return compiled.status();
        forced = compiled->forced;
        uint64_t device = 0, host = 0;
        for (const plan::Space &space : compiled->plan.spaces)
          (space.kind == plan::SpaceKind::device ? device : host) += space.bytes;
        table += fmt::format("{:>11}  {:<10}  {:<9}  {:>11}  {:>11}  {:>8.3g} s  {}\n", microBatch, rung,
                             target.unified ? "in place" : residency, formatSize(device), formatSize(host),
                             compiled->plan.prediction.stepSeconds, device <= deviceBudget && host <= hostBudget ? "yes" : "no");
      }
  }
  return forced.empty() ? table : table + "the micro-batch is the whole batch: rows see each other (" + forced + ")\n";
}

} // namespace mt::pipeline
