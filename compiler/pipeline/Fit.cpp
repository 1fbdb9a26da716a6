// The table of Fit.h: the model is imported once for each sequence; every micro-batch is read for the planner once, and
// serves all batches that it divides.
#include "compiler/pipeline/Fit.h"

#include "compiler/pipeline/DefaultSequence.h"
#include "compiler/pipeline/Front.h"
#include "compiler/pipeline/Planner.h"
#include "passes/Settings.h"
#include "runtime/base/Sizes.h"

#include <algorithm>
#include <map>
#include <ranges>

namespace mt::pipeline {
namespace {

constexpr int64_t kSequences[] = {256, 1024, 4096};

/// From 1 to the batch, each a multiple of the one before.
std::vector<int64_t> divisorsOf(int64_t batch) {
  std::vector<int64_t> chain = {batch};
  for (int64_t factor = 2; batch > 1; ++factor)
    for (; batch % factor == 0; chain.push_back(batch))
      batch /= factor;
  std::ranges::reverse(chain);
  return chain;
}

/// Of a sequence that was asked for, or that the model says; else a few, as far as its positions go.
std::vector<std::optional<int64_t>> sequencesOf(mlir::MLIRContext &context, const Options &options) {
  if (options.sequence)
    return {options.sequence};
  const std::optional<int64_t> usual = defaultSequence(context, options);
  std::vector<std::optional<int64_t>> all;
  for (int64_t sequence : kSequences)
    if (usual && (*usual == kSequences[0] || sequence < *usual)) // one of 256 may have no end
      all.push_back(sequence);
  if (!usual || *usual != kSequences[0])
    all.push_back(usual);
  return all;
}

/// A model at one sequence: what fits, batch by batch.
class Sequence {
public:
  Sequence(mlir::MLIRContext &context, Options given, const target::Target &target)
      : context(context), options(std::move(given)), target(target), machine(target), constraints(constraintsOf(options, target)),
        front(context, options, target) {
    constraints.thorough = false;
  }

  /// Lines of the table, and what the smallest batch needs. Messages are of the first micro-batch that was read.
  Result<std::string> lines(Messages &messages) {
    MT_ASSIGN(Part * whole, part(options.batch, messages));
    forced = whole->compiled.forced;
    std::string text;
    for (int64_t batch : divisorsOf(options.batch)) {
      if ((!forced.empty() && batch != options.batch) || batch % options.microBatch.value_or(1))
        continue;
      MT_ASSIGN(std::string line, lineOf(batch));
      text += line;
      if (!fits)
        break;
    }
    return text;
  }

  /// What the smallest batch needs at least.
  Result<std::string> least() {
    Messages said;
    const int64_t batch = forced.empty() ? options.microBatch.value_or(1) : options.batch;
    MT_ASSIGN(Part * smallest, part(batch, said));
    MT_ASSIGN(const Needed needed, leastOf(*smallest, batch, said));
    return fmt::format("least memory at sequence {}, batch {}: device {} and host {}\n", sequence, batch,
                       formatSize(uint64_t(needed.device)), formatSize(uint64_t(needed.host)));
  }

  std::string forced; ///< why the micro-batch must be the batch; empty: it need not

private:
  /// What the planner reads of one micro-batch, or why there is none.
  struct Part {
    Compiled compiled;
    passes::ReadModel read;
  };
  struct Best {
    int64_t microBatch = 0;
    planner::Model model;
    planner::Found found;
  };
  mlir::MLIRContext &context;
  const Options options;
  const target::Target &target;
  const planner::Machine machine;
  planner::Constraints constraints;
  Front front;
  std::map<int64_t, Part> parts; ///< by micro-batch
  bool fits = true;
  int64_t sequence = 0; ///< of every part that was read

  Result<Part *> part(int64_t microBatch, Messages &messages) {
    if (auto found = parts.find(microBatch); found != parts.end())
      return &found->second;
    MT_ASSIGN(Compiled compiled, front.module(microBatch, true, messages));
    MT_ASSIGN(passes::ReadModel read, readForPlanner(*compiled.module, options, target, messages));
    plan::Settings settings;
    passes::readSettings(*compiled.module, settings);
    sequence = settings.sequence;
    return &parts.emplace(microBatch, Part{std::move(compiled), std::move(read)}).first->second;
  }

  std::string lineOf(int64_t batch, const Best &best) const {
    const planner::Description chosen = planner::describe(best.model, machine, best.found.decisions);
    const double seconds = best.found.timing.seconds;
    size_t busiest = 0;
    for (size_t stream = 0; stream < machine.streams.size(); ++stream)
      if (best.found.timing.busy[stream] > best.found.timing.busy[busiest])
        busiest = stream;
    return fmt::format("{:>8} {:>6} {:>11} {:>11} {:>10.0f}  {:<9} {:.2f}  saved {}; weights {}; updates {}\n",
                       sequence, batch, best.microBatch, formatSeconds(seconds),
                       static_cast<double>(batch * sequence) / seconds, machine.streams[busiest].name,
                       planner::lowerBound(best.model, machine, constraints) / seconds, chosen.saved, chosen.weights,
                       chosen.updates);
  }

  /// The best that fits at a batch, else what would have to be there for it.
  Result<std::string> lineOf(int64_t batch) {
    std::optional<Best> best;
    int64_t least = batch;
    std::vector<int64_t> microBatches = forced.empty() ? divisorsOf(batch) : std::vector{batch};
    for (int64_t microBatch : microBatches | std::views::reverse) {
      if (options.microBatch && *options.microBatch != microBatch)
        continue;
      Messages said;
      Result<Part *> made = part(microBatch, said);
      if (!made.ok() && microBatch != batch)
        continue; // what the batch can be, its parts need not
      if (!made.ok())
        return made.status();
      least = microBatch;
      planner::Model model = (*made)->read.model;
      if (!model.setMicroBatches(batch, model.ranks))
        continue;
      if (best && planner::lowerBound(model, machine, constraints) > (1 - kLittleGain) * best->found.timing.seconds)
        break;
      planner::Found found = planner::search(model, machine, constraints, best ? &best->found : nullptr);
      if (!found.timing.fits())
        continue;
      if (best && found.timing.seconds > (1 - kLittleGain) * best->found.timing.seconds)
        break;
      best = Best{microBatch, std::move(model), std::move(found)};
    }
    fits = best.has_value();
    if (best)
      return lineOf(batch, *best);
    Messages said;
    MT_ASSIGN(Part * smallest, part(least, said));
    MT_ASSIGN(const Needed needed, leastOf(*smallest, batch, said));
    return fmt::format("{:>8} {:>6} {:>11}  does not fit: device {} and host {} are the least\n", sequence, batch, least,
                       formatSize(uint64_t(needed.device)), formatSize(uint64_t(needed.host)));
  }

  Result<Needed> leastOf(Part &part, int64_t batch, Messages &messages) {
    passes::stateSetting(*part.compiled.module, &plan::Settings::batch, batch);
    MT_TRY(part.read.model.setMicroBatches(batch, part.read.model.ranks));
    return leastMemory(*part.compiled.module, part.read, options, target, messages);
  }
};

} // namespace

Result<std::string> fitTable(mlir::MLIRContext &context, const Options &options, Messages &messages) {
  MT_TRY(checkBatches(options));
  MT_ASSIGN(target::Target target, targetOf(options));
  std::string table = fmt::format("{}: device memory {}, host memory {}\n{:>8} {:>6} {:>11} {:>11} {:>10}  {:<9} {}\n", target.name,
                                  formatSize(options.deviceMemory.value_or(target.deviceMemory)),
                                  formatSize(options.hostMemory.value_or(target.hostMemory)), "sequence", "batch", "micro-batch", "step",
                                  "tokens/s", "bound by", "bound/step, and what is chosen");
  std::string least, forced;
  bool isFirst = true;
  for (std::optional<int64_t> length : sequencesOf(context, options)) {
    Options one = options;
    one.sequence = length;
    Sequence sequence(context, one, target);
    Messages said;
    Result<std::string> lines = sequence.lines(said);
    if (isFirst)
      messages = said;
    if (!lines.ok() && !isFirst)
      break; // the model has no more positions
    MT_TRY(lines.status());
    MT_ASSIGN(std::string needed, sequence.least());
    table += *lines;
    least += needed;
    forced = sequence.forced;
    isFirst = false;
  }
  if (!forced.empty())
    least += "the micro-batch is the whole batch: rows see each other (" + forced + ")\n";
  return table + least;
}

} // namespace mt::pipeline
