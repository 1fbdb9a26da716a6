// The table of Fit.h: the model is imported once for each sequence; every micro-batch is read for the planner once, and
// serves all batches that it divides.
#include "compiler/pipeline/Fit.h"

#include "compiler/pipeline/DefaultSequence.h"
#include "compiler/pipeline/Front.h"
#include "compiler/pipeline/Planner.h"
#include "compiler/planner/Bound.h"
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

/// A target, as the planner has it, and what is left to the planner there.
struct Machines {
  target::Target target;
  planner::Machine machine;
  planner::Constraints constraints;

  Machines(const Options &options, target::Target given)
      : target(std::move(given)), machine(target), constraints(constraintsOf(options, target)) {
    constraints.thorough = false;
  }
  int64_t ranks() const { return target.ranks; }
};

/// The best that fits at a batch.
struct Best {
  int64_t microBatch = 0;
  planner::Model model;
  planner::Found found;
};

/// Seconds of a step, tokens (or rows) a second, what binds it and how near the bound it is, and what is chosen.
std::string describe(const Best &best, const Machines &machines, int64_t tokens) {
  const planner::Machine &machine = machines.machine;
  const planner::Description chosen = planner::describe(best.model, machine, best.found.decisions);
  const double seconds = best.found.timing.seconds;
  size_t busiest = 0;
  for (size_t stream = 0; stream < machine.streams.size(); ++stream)
    if (best.found.timing.busy[stream] > best.found.timing.busy[busiest])
      busiest = stream;
  return fmt::format("{:>11} {:>10.0f}  {:<9} {:.2f}  saved {}; weights {}; updates {}", formatSeconds(seconds),
                     static_cast<double>(tokens) / seconds, machine.streams[busiest].name,
                     planner::lowerBound(best.model, machine, machines.constraints) / seconds, chosen.saved,
                     chosen.weights, chosen.updates);
}

/// A model at one sequence: what fits, batch by batch.
class Sequence {
public:
  Sequence(mlir::MLIRContext &context, Options given, const target::Target &target)
      : context(context), options(std::move(given)), usual(options, target), front(context, options, target) {}

  /// Lines of the table, and what the smallest batch needs. Messages are of the first micro-batch that was read.
  Result<std::string> lines(Messages &messages) {
    MT_TRY(read(messages));
    std::string text;
    for (int64_t batch : divisorsOf(options.batch)) {
      if ((!forced.empty() && batch != options.batch) || batch % (usual.ranks() * options.microBatch.value_or(1)))
        continue;
      MT_ASSIGN(std::string line, lineOf(batch));
      text += line;
      if (!fits)
        break;
    }
    return text;
  }

  /// Reads the whole batch as one micro-batch: whether it must be one, and all problems of the model.
  Status read(Messages &messages) {
    MT_ASSIGN(Part * whole, part(options.batch, messages));
    forced = whole->compiled.forced;
    if (!forced.empty() && usual.ranks() > 1)
      return fail("{}: the batch cannot be divided among ranks: rows see each other ({})", options.model, forced);
    if (options.batch % usual.ranks() != 0)
      return fail("--batch {}: must be a multiple of the number of ranks, {}", options.batch, usual.ranks());
    return {};
  }

  /// The best that fits, if anything does; `least`: the smallest micro-batch that there was.
  Result<std::optional<Best>> bestOf(int64_t batch, const Machines &machines, int64_t &least) {
    std::optional<Best> best;
    least = batch / machines.ranks();
    const std::vector<int64_t> microBatches = forced.empty() ? divisorsOf(least) : std::vector{batch};
    for (int64_t microBatch : microBatches | std::views::reverse) {
      if (options.microBatch && *options.microBatch != microBatch)
        continue;
      Messages said;
      Result<Part *> made = part(microBatch, said);
      if (!made.ok() && microBatch != batch)
        continue; // what the batch can be, its parts need not
      if (!made.ok())
        return made.status();
      planner::Model model = (*made)->read.model;
      if (!model.setMicroBatches(batch, machines.ranks()))
        continue;
      least = microBatch;
      MT_TRY(model.setOptimizer(options.optimizer, machines.ranks()));
      model.narrowExchange = options.narrowExchange && machines.ranks() > 1;
      if (best && planner::lowerBound(model, machines.machine, machines.constraints) >
                      (1 - kLittleGain) * best->found.timing.expected)
        break;
      planner::Found found =
          planner::search(model, machines.machine, machines.constraints, best ? &best->found : nullptr);
      if (!found.timing.fits())
        continue;
      if (best && found.timing.expected > (1 - kLittleGain) * best->found.timing.expected)
        break;
      best = Best{microBatch, std::move(model), std::move(found)};
    }
    return best;
  }

  /// What the smallest batch needs at least.
  Result<std::string> least() {
    Messages said;
    const int64_t microBatch = forced.empty() ? options.microBatch.value_or(1) : options.batch;
    const int64_t batch = forced.empty() ? microBatch * usual.ranks() : microBatch;
    MT_ASSIGN(Part * smallest, part(microBatch, said));
    MT_ASSIGN(const Needed needed, leastOf(*smallest, batch));
    return fmt::format("least memory at sequence {}, batch {}: device {} and host {}\n", sequence, batch,
                       formatSize(uint64_t(needed.device)), formatSize(uint64_t(needed.host)));
  }

  std::string forced; ///< why the micro-batch must be the batch; empty: it need not
  int64_t length() const { return sequence; }

private:
  /// What the planner reads of one micro-batch, or why there is none.
  struct Part {
    Compiled compiled;
    passes::ReadModel read;
  };
  mlir::MLIRContext &context;
  const Options options;
  const Machines usual;
  Front front;
  std::map<int64_t, Part> parts; ///< by micro-batch
  bool fits = true;
  int64_t sequence = 0; ///< of every part that was read

  Result<Part *> part(int64_t microBatch, Messages &messages) {
    if (auto found = parts.find(microBatch); found != parts.end())
      return &found->second;
    MT_ASSIGN(Compiled compiled, front.module(microBatch, true, messages));
    target::Target alone = usual.target; // how many share a batch is said where one is planned
    alone.ranks = 1;
    MT_ASSIGN(passes::ReadModel read, readForPlanner(*compiled.module, options, alone, messages));
    plan::Settings settings;
    passes::readSettings(*compiled.module, settings);
    sequence = settings.sequence;
    return &parts.emplace(microBatch, Part{std::move(compiled), std::move(read)}).first->second;
  }

  /// The best that fits at a batch, else what would have to be there for it.
  Result<std::string> lineOf(int64_t batch) {
    int64_t least = 0;
    MT_ASSIGN(const std::optional<Best> best, bestOf(batch, usual, least));
    fits = best.has_value();
    if (best)
      return fmt::format("{:>8} {:>6} {:>11} {}\n", sequence, batch, best->microBatch,
                         describe(*best, usual, batch * sequence));
    Messages said;
    MT_ASSIGN(Part * smallest, part(least, said));
    MT_ASSIGN(const Needed needed, leastOf(*smallest, batch));
    return fmt::format("{:>8} {:>6} {:>11}  does not fit: device {} and host {} are the least\n", sequence, batch, least,
                       formatSize(uint64_t(needed.device)), formatSize(uint64_t(needed.host)));
  }

  Result<Needed> leastOf(Part &part, int64_t batch) {
    passes::stateSetting(*part.compiled.module, &plan::Settings::batch, batch);
    passes::ReadModel read = part.read;
    MT_TRY(read.model.setMicroBatches(batch, usual.ranks()));
    MT_TRY(read.model.setOptimizer(options.optimizer, usual.ranks()));
    read.model.narrowExchange = options.narrowExchange && usual.ranks() > 1;
    return leastMemory(*part.compiled.module, read, options, usual.target);
  }
};

} // namespace

/// Every number of hosts and of devices of each; a line says what all of them do together, beside the first one's.
static Result<std::string> scalingTable(mlir::MLIRContext &context, const Options &options, Messages &messages) {
  Options one = options;
  one.ranks = 1;
  MT_ASSIGN(const target::Target target, targetOf(one));
  Sequence sequence(context, one, target);
  MT_TRY(sequence.read(messages));
  if (!sequence.forced.empty())
    return fail("{}: the batch cannot be divided among hosts or devices: rows see each other ({})", options.model,
                sequence.forced);
  auto counts = [](const std::vector<uint32_t> &wanted, uint32_t usual) {
    return wanted.empty() ? std::vector{usual} : wanted;
  };
  std::string table = fmt::format("{}: of each device {}, of each host {}; sequence {}, {} rows a step of each host\n"
                                  "{:>5} {:>7} {:>6} {:>11} {:>11} {:>10}  {:>6} {:>6}  {}\n",
                                  target.name, formatSize(options.deviceMemory.value_or(target.deviceMemory)),
                                  formatSize(options.hostMemory.value_or(target.hostMemory)), sequence.length(),
                                  options.batch, "hosts", "devices", "batch", "micro-batch", "step", "tokens/s",
                                  "times", "share", "bound by, bound/step, and what is chosen");
  double first = 0; // tokens a second of a device, of the first line
  for (uint32_t hosts : counts(options.hosts, 1))
    for (uint32_t devices : counts(options.deviceCounts, target.devices)) {
      one.ranks = hosts, one.devices = devices;
      MT_ASSIGN(const target::Target machine, targetOf(one));
      const Machines machines(one, machine);
      const int64_t batch = options.batch * hosts;
      int64_t least = 0;
      MT_ASSIGN(const std::optional<Best> best, sequence.bestOf(batch, machines, least));
      table += fmt::format("{:>5} {:>7} {:>6} ", hosts, devices, batch);
      if (!best) {
        table += "does not fit\n";
        continue;
      }
      const double rate = static_cast<double>(batch * sequence.length()) / best->found.timing.seconds;
      const double all = static_cast<double>(hosts) * devices;
      first = first > 0 ? first : rate / all;
      const std::string text = describe(*best, machines, batch * sequence.length());
      table += fmt::format("{:>11} {}  {:>6.1f} {:>4.0f} % {}\n", best->microBatch, text.substr(0, 22), rate / first,
                           100 * rate / first / all, text.substr(22));
    }
  return table + "times: what one device does; share: of that, of each\n";
}

Result<std::string> fitTable(mlir::MLIRContext &context, const Options &options, Messages &messages) {
  MT_TRY(checkBatches(options));
  if (!options.hosts.empty() || !options.deviceCounts.empty())
    return scalingTable(context, options, messages);
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
