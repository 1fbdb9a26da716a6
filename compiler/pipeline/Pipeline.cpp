// The line of Pipeline.h.
#include "compiler/pipeline/Pipeline.h"

#include "compiler/pipeline/DefaultSequence.h"
#include "compiler/pipeline/Front.h"
#include "compiler/pipeline/OpenModel.h"
#include "compiler/pipeline/Phases.h"
#include "compiler/pipeline/Planner.h"
#include "compiler/plan/EmitPlan.h"
#include "runtime/base/Sizes.h"

#include "mlir/IR/AttrTypeSubElements.h"

#include <bit>
#include <cmath>

using namespace mlir;

namespace mt::pipeline {
namespace {
/// From the largest. Each rank has a power of two of them.
Result<std::vector<int64_t>> microBatchesOf(const Options &options, int64_t ranks) {
  if (options.microBatch)
    return std::vector{*options.microBatch};
  const int64_t own = options.batch / ranks;
  if (options.batch % ranks != 0)
    return fail("--batch {}: must be a multiple of the number of ranks, {}", options.batch, ranks);
  std::vector<int64_t> sizes;
  for (int64_t count = 1; count <= std::min(own, planner::Model::kMostMicroBatches); ++count)
    if (own % count == 0 && (ranks == 1 || std::has_single_bit(static_cast<uint64_t>(count))))
      sizes.push_back(own / count);
  return sizes;
}

/// The rows of a step are in memory whatever the micro-batch: where they alone do not fit, no plan will.
Status checkRows(ModuleOp module, const Options &options, int64_t microBatch, const target::Target &target) {
  auto main = module.lookupSymbol<func::FuncOp>(nn::kMainName);
  double bytes = 0; // of a micro-batch
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    if (main.getArgAttr(i, nn::kInputAttr) || main.getArgAttr(i, nn::kLabelsAttr))
      bytes += static_cast<double>(schedule::bytesOf(main.getArgument(i).getType()));
  const double all = bytes * static_cast<double>(options.batch / target.ranks / microBatch);
  const uint64_t room = target.unified ? target.deviceMemory : target.hostMemory;
  if (all <= static_cast<double>(room))
    return {};
  return fail("{}: the data of a step, {} rows of {:.0f} B, are more than the {} of memory: use a smaller --batch",
              options.model, options.batch, bytes / static_cast<double>(microBatch), formatSize(room));
}

} // namespace

void loadDialects(MLIRContext &context) {
  context.loadDialect<func::FuncDialect, nn::NnDialect, schedule::ScheduleDialect>();
}

std::string print(ModuleOp module, Phase phase) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  OpPrintingFlags flags;
  OwningOpRef<ModuleOp> named = module.clone();
  if (phase == Phase::nn) {
    flags.useLocalScope().enableDebugInfo(true);
    AttrTypeReplacer nameAlone; // the file is the module's
    nameAlone.addReplacement([](NameLoc location) -> Attribute { return NameLoc::get(location.getName()); });
    nameAlone.recursivelyReplaceElementsIn(*named, /*replaceAttrs=*/false, /*replaceLocs=*/true);
  }
  named->print(stream, flags);
  return stream.str();
}

Result<target::Target> targetOf(const Options &options) {
  MT_ASSIGN(target::Target target, target::findTarget(options.target));
  if (options.devices)
    MT_TRY(target::setDevices(target, *options.devices)
               .within(fmt::format("--devices {} with --target {}", *options.devices, options.target)));
  if (options.ranks)
    target.ranks = *options.ranks;
  if (options.network)
    target.networkBandwidth = (*options.network)[0], target.deviceNetworkBandwidth = (*options.network)[1];
  if (options.ranks || options.network)
    MT_TRY(target::completeTarget(target).within(!options.hosts.empty() ? "--hosts"
                                                 : options.ranks        ? "--ranks"
                                                                        : "--network"));
  if (target.ranks > 1 && target.networkBandwidth == 0)
    return fail(
        "{}: {} ranks, and it is not known what they send each other: give bytes per second that each can send, "
        "such as --network 25GB, or network_bandwidth in the target's file",
        !options.hosts.empty() ? "--hosts"
        : options.ranks        ? "--ranks"
                               : "--target " + options.target,
        target.ranks);
  if (options.disk) {
    target.diskReadBandwidth = (*options.disk)[0], target.diskWriteBandwidth = (*options.disk)[1];
    target.diskMemory = target.diskMemory > 0 ? target.diskMemory : target::kGreatestMemory;
    MT_TRY(target::completeTarget(target).within("--disk"));
  }
  return target;
}

static Result<Compiled> compileAsSaid(MLIRContext &context, const Options &options, Phase phase,
                                      const std::string &producer, Messages &messages) {
  MT_ASSIGN(target::Target target, targetOf(options));
  Front front(context, options, target);
  if (phase == Phase::nn || phase == Phase::layers)
    return front.module(options.microBatch.value_or(std::max<int64_t>(1, options.batch / target.ranks)),
                        phase == Phase::layers, messages);

  std::optional<Compiled> best;
  std::function<std::string()> more;
  std::optional<planner::Found> found; // of the micro-batch before
  double seconds = HUGE_VAL;           // of the best plan
  auto take = [&](Compiled compiled, Planned planned, const Messages &said) {
    best = std::move(compiled);
    best->module = std::move(planned.module);
    best->bound = planned.bound;
    more = std::move(planned.more);
    messages = said; // of this plan alone
  };
  // Where nothing fits: the largest micro-batch for which devices have room, else the smallest. Smaller ones take more
  // of the host's memory, for gradients that are yet to be added up.
  int64_t tooLarge = 0;
  bool fitsDevices = false;
  std::vector<std::string> considered;
  MT_ASSIGN(const std::vector<int64_t> microBatches, microBatchesOf(options, target.ranks));
  for (int64_t microBatch : microBatches) {
    Messages said;
    auto made = front.module(microBatch, true, said);
    if (!made.ok() && microBatch != microBatches.front()) { // what the batch can be, its parts need not
      considered.push_back(fmt::format("micro-batch {}: {}", microBatch, made.status().message()));
      continue;
    }
    if (!made.ok())
      messages = said;
    MT_ASSIGN(Compiled compiled, std::move(made));
    MT_TRY(checkRows(*compiled.module, options, microBatch, target));
    Planned planned = planSchedule(*compiled.module, options, target, found, seconds, said);
    if (planned.found)
      found = std::move(planned.found);
    considered.push_back(fmt::format("micro-batch {}: {}", microBatch,
                                     planned.module ? planned.text
                                     : best         ? planned.problem
                                                    : "does not fit"));
    if (!planned.module && best)
      break;
    const bool isForced = !compiled.forced.empty();
    if (planned.module) {
      const double before = std::exchange(seconds, planned.expected);
      // Devices that share too few micro-batches are idle, which no bound of theirs tells.
      const bool haveAll = options.batch / target.ranks / microBatch >= target.devices;
      const bool isEnough =
          seconds > (1 - kLittleGain) * before || (haveAll && seconds <= (1 + kLittleGain) * planned.bound);
      take(std::move(compiled), std::move(planned), said);
      if (isEnough)
        break;
    } else if (!fitsDevices) {
      tooLarge = microBatch;
      fitsDevices = planned.fitsDevices;
    }
    if (isForced || (planned.isHopeless && fitsDevices))
      break;
  }
  if (!best) {
    Messages said;
    MT_ASSIGN(Compiled compiled, front.module(tooLarge, true, said));
    Planned planned = planLeast(*compiled.module, options, target, said);
    if (!planned.module) {
      messages = said;
      return compiled.forced.empty()
                 ? fail("{}: {}{}", options.model, planned.problem,
                        planned.fewerRowsHelp && options.batch > target.ranks ? "; a smaller --batch needs less" : "")
                 : fail("{}: {}; the micro-batch cannot be smaller than the batch, because rows see each other ({}): "
                        "use a smaller --batch, or a larger budget",
                        options.model, planned.problem, compiled.forced);
    }
    take(std::move(compiled), std::move(planned), said);
  }
  best->considered = considered;
  if (options.report)
    best->more = more();
  if (phase == Phase::schedule)
    return std::move(*best);
  Collector collector(context, messages);
  auto plan = emitPlan(*best->module, producer);
  if (failed(plan))
    return collector.failure(options.model);
  best->plan = std::move(*plan);
  return std::move(*best);
}

/// The rows of a micro-batch, where the graph fixes them and nobody says: then a batch is so many of them.
static std::optional<int64_t> fixedRows(const Options &options) {
  if (options.microBatch)
    return std::nullopt;
  const std::optional<int64_t> rows =
      fixedBatch(options.model, {options.batch, options.sequence, options.dims, options.batchDims, {}, {}});
  return rows && *rows > 0 && *rows < options.batch && options.batch % *rows == 0 ? rows : std::nullopt;
}

Result<Compiled> compile(MLIRContext &context, const Options &options, Phase phase, const std::string &producer,
                         Messages &messages) {
  MT_TRY(checkBatches(options));
  if (!options.sequence)
    if (Options complete = options; (complete.sequence = defaultSequence(context, options)))
      return compile(context, complete, phase, producer, messages);
  Result<Compiled> compiled = compileAsSaid(context, options, phase, producer, messages);
  if (compiled.ok())
    return compiled;
  const std::optional<int64_t> rows = fixedRows(options);
  if (!rows)
    return compiled;
  messages = Messages();
  Options complete = options;
  complete.microBatch = rows;
  Result<Compiled> parts = compile(context, complete, phase, producer, messages);
  Collector collector(context, messages);
  if (parts.ok())
    emitRemark(UnknownLoc::get(&context)) << "the graph fixes its batch: of " << options.batch << " rows " << *rows
                                          << " are computed at once; one with a dynamic batch may compute more";
  return parts;
}

} // namespace mt::pipeline
