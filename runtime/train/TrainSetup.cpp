#include "runtime/train/TrainSetup.h"

#include "runtime/base/Files.h"
#include "runtime/base/Log.h"
#include "runtime/base/Sizes.h"
#include "runtime/device/MakeDevice.h"
#include "runtime/executor/Executor.h"
#include "runtime/host/MachineMemory.h"
#include "runtime/plan/ParameterGroups.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/train/Checksum.h"
#include "runtime/train/DataFingerprint.h"
#include "runtime/train/Elements.h"
#include "runtime/train/Metrics.h"
#include "runtime/train/Session.h"

#include <algorithm>
#include <filesystem>
#include <map>

namespace mt::train {
namespace {

namespace fs = std::filesystem;

/// A step has enough rows; --epochs are as many steps.
Status countSteps(const TrainOptions &options, const plan::Plan &plan, const Corpus &corpus, RecipeOptions &recipe) {
  int64_t rows = corpus.rows(), batch = plan.settings.batch, total = 0;
  if (rows < batch)
    return fail("--data {}: {} rows, and a step takes {}: give more data, or compile with a smaller --batch",
                options.data.path, rows, batch);
  if (!options.epochs)
    return Status();
  if (__builtin_mul_overflow(rows, *options.epochs, &total))
    return fail("--epochs {} of {} rows are too many", *options.epochs, rows);
  recipe.steps = total / batch;
  return Status();
}

/// What must match for a run to go on.
Status refuseOthers(const TrainSetup &setup) {
  const CheckpointMeta &from = setup.from.meta;
  const plan::Settings &settings = setup.plan.settings;
  auto differs = [&](std::string_view what, const auto &was, const auto &is) {
    return fail("--resume: {} was trained with {} {}, and the plan has {}: compile a plan with the same {}",
                *setup.from.checkpoint, what, was, is, what);
  };
  if (from.precision != settings.precision)
    return differs("precision", from.precision, settings.precision);
  if (from.optimizer != plan::describeOptimizers(settings))
    return differs("optimizer", from.optimizer, plan::describeOptimizers(settings));
  if (from.batch != settings.batch)
    return differs("batch", from.batch, settings.batch);
  if (from.sequence != settings.sequence)
    return differs("sequence", from.sequence, settings.sequence);
  if (!from.loss.empty() && from.loss != settings.loss)
    return differs("loss", from.loss, settings.loss);
  if (from.clip && !settings.clip)
    return fail("--resume: {} was trained with clipping, and the plan has none: compile it with --clip",
                *setup.from.checkpoint);
  MT_TRY(isOfGraph(*setup.from.checkpoint, from, setup.plan).within("--resume"));
  if (!from.clip && settings.clip && from.format != 1) // which does not say
    return fail("--resume: {} was trained without clipping, and the plan clips: compile it without --clip",
                *setup.from.checkpoint);
  return Status();
}

/// What had better match.
void warnOfOthers(const TrainSetup &setup) {
  const CheckpointMeta &from = setup.from.meta;
  const std::string &folder = *setup.from.checkpoint, &data = setup.options.data.path;
  if (from.microBatch != setup.plan.settings.microBatch)
    log().warn("{} was trained with micro-batches of {}, the plan has {}: results will differ in the last bits", folder,
               from.microBatch, setup.plan.settings.microBatch);
  if (!from.numerics.empty() && from.numerics != setup.numerics)
    log().warn("{} was trained with other kernels ({}; here: {}): results will differ in the last bits", folder,
               from.numerics, setup.numerics);
  if (from.rows != setup.corpus->rows())
    log().warn("{} was trained on {} rows, --data {} has {}: the order of the data changes here", folder, from.rows,
               data, setup.corpus->rows());
  else if (!from.data.empty() && from.data != setup.data)
    log().warn("{} was trained on other data than --data {} has: their content changed", folder, data);
  if (from.format == 1)
    log().warn(
        "{} is of an older version: it does not say what --lr-schedule, --weight-decay and --clip-norm were: they "
        "are as given here, or as by default",
        folder);
  if (from.graph.empty() || from.frozenWeights.empty() || from.data.empty())
    log().warn("{} is of an older version: it does not say which graph, frozen weights and data it was trained with: see "
               "to it that they are the same",
               folder);
}

/// The recipe that is stored, as far as the command line does not say otherwise.
Status resumeRecipe(TrainSetup &setup, const Ranks &ranks) {
  MT_TRY(refuseOthers(setup));
  if (ranks.isFirst())
    warnOfOthers(setup);
  Result<std::vector<std::string>> changes = adoptStored(setup.options.recipe, setup.from.meta.recipe);
  if (!changes)
    return changes.status().within(*setup.from.checkpoint);
  if (!changes->empty())
    setup.changes = fmt::format("the command line changes the recipe: {}", fmt::join(*changes, ", "));
  return Status();
}

template <typename Wanted> uint64_t totalBytes(const plan::Plan &plan, Wanted wanted) {
  uint64_t total = 0;
  for (const plan::Space &space : plan.spaces)
    total += wanted(space.kind) ? space.bytes : 0;
  return total;
}

/// Of what all ranks run, by what people call it; the program by what it is made of.
nlohmann::ordered_json whatRuns(const plan::Plan &plan) {
  std::string program;
  if (Result<std::optional<std::string>> text = readFile("/proc/self/exe"); text && *text)
    program = checksumText(checksumOf(std::as_bytes(std::span(**text))));
  return {{"version of mtrun", program},
          {"model", plan.model.name},
          {"precision", plan.settings.precision},
          {"batch", plan.settings.batch},
          {"plan", fmt::format("{:016x}", plan.digest)}};
}

} // namespace

Result<std::unique_ptr<TrainSetup>> TrainSetup::check(const TrainOptions &options, Ranks &ranks) {
  auto setup = std::make_unique<TrainSetup>();
  setup->options = options;
  MT_TRY(ranks.open());
  Result<plan::Plan> loaded = plan::load(options.plan);
  MT_TRY(ranks.agree(loaded.status()));
  setup->plan = std::move(*loaded);
  MT_TRY(ranks.join(setup->plan));
  const plan::Plan &plan = setup->plan;
  setup->options.machine = ranks.shareOf(options.machine, plan);
  const MachineOptions &machine = setup->options.machine;
  if (!ranks.isFirst()) {
    setup->options.quiet = true;
    setup->options.tensorboard.clear();
  }
  if (plan.ranks > 1 && !options.saveGradients.empty())
    return fail("--save-gradients: each rank of the plan has but a share of them: compile it without --ranks");
  MT_TRY(ranks.compare(whatRuns(plan)));
  MT_TRY(checkInputs(plan));
  MT_TRY(checkRecipe(options.recipe, plan));
  MT_TRY(checkWeightFiles(plan));
  if (!machine.memoryCheck)
    host::trustMachineMemory();
  MT_TRY(executor::checkMachine(plan, machine.device, machine.threads, ranks.localCount()));
  const std::string &device = machine.device.empty() ? plan.target.device : machine.device;
  MT_ASSIGN(setup->numerics, device::processorsOf(device));
  if (const Status same = ranks.compare({{"processor", setup->numerics}}); !same && ranks.isFirst())
    log().warn("{}: results may differ in the last bits from those of one process", same.message());
  if (plan.settings.narrowExchange)
    setup->numerics += fmt::format(", gradients of {} ranks in 16 bits", plan.ranks);
  if (!options.data.path.empty() || !options.dryRun)
    MT_TRY(setup->openData());
  MT_TRY(setup->openFolder(ranks));
  MT_TRY(setup->settleRecipe(ranks));
  if (setup->corpus)
    MT_TRY(setup->checkLabels());
  MT_TRY(ranks.compare(setup->toCompare()));
  return setup;
}

Status TrainSetup::openData() {
  if (!plan.program(plan::ProgramKind::evaluate) && !options.evalData.empty())
    return fail("--eval-data: the plan has no program for evaluation: compile it anew");
  // Either may be text, and the other what mtrun tokenize made of some.
  const std::string &tokenizer = options.data.tokenizer;
  const bool evaluates = !options.evalData.empty();
  MT_ASSIGN(const bool text, isText(options.data.path, !tokenizer.empty(), "--data"));
  bool evalText = false;
  if (evaluates) {
    MT_ASSIGN(evalText, isText(options.evalData, !tokenizer.empty(), "--eval-data"));
  }
  if (evaluates && tokenizer.empty() && text != evalText)
    return fail("--eval-data {}: the one of --data and --eval-data is text and the other is not, and bytes are no "
                "tokens of it: "
                "say which --tokenizer",
                options.evalData);
  const std::string own = text || !evalText ? tokenizer : "", ofEval = evalText || !text ? tokenizer : "";
  MT_ASSIGN(corpus, openCorpus(options.data.path, own, plan));
  MT_ASSIGN(data, dataFingerprint(options.data.path, own));
  if (evaluates) {
    MT_ASSIGN(evalCorpus, openEvalCorpus({options.evalData, ofEval}, plan));
    MT_ASSIGN(evalData, dataFingerprint(options.evalData, ofEval));
  }
  return countSteps(options, plan, *corpus, options.recipe);
}

/// What all ranks of a job must have alike, by what people call it.
nlohmann::ordered_json TrainSetup::toCompare() const {
  return {{"--data", data},
          {"--eval-data", evalData},
          {"recipe", toJson(options.recipe)},
          {"--eval-every", options.evalEvery},
          {"--checkpoint-every", options.checkpointEvery},
          {"--verify-every", options.verifyEvery},
          {"--keep", options.keep},
          {"--keep-best", options.keepBest},
          {"--patience", options.patience},
          {"--checkpoint-copy", options.checkpointCopy},
          {"step to go on from", from.meta.step}};
}

/// Of a run's folder rank 0 says what is to be done; the others see it, too.
Status TrainSetup::followFirst(const std::string &told) {
  folder = RunFolder::look(options.out);
  const size_t end = told.find('\n');
  from.run = told.substr(0, end);
  const std::string checkpoint = end == std::string::npos ? "" : told.substr(end + 1);
  if (checkpoint.empty())
    return Status();
  from.checkpoint = checkpoint;
  Result<CheckpointMeta> meta = readMeta(checkpoint);
  if (!meta)
    return fail("--out: {}; every rank must see the same folder", meta.status().message());
  from.meta = std::move(*meta);
  return Status();
}

Status TrainSetup::openFolder(Ranks &ranks) {
  if (options.out.empty())
    options.out = "runs/" + fs::path(options.plan).stem().string();
  auto ofFirst = [&]() -> Result<std::string> {
    MT_TRY(openFolder());
    return from.run + '\n' + from.checkpoint.value_or("");
  };
  MT_ASSIGN(const std::string told, ranks.told(ranks.isFirst() ? ofFirst() : std::string()));
  return ranks.agree(ranks.isFirst() ? Status() : followFirst(told));
}

Status TrainSetup::openFolder() {
  if (options.dryRun) {
    folder = RunFolder::look(options.out);
  } else {
    MT_ASSIGN(folder, RunFolder::lock(options.out));
  }
  MT_ASSIGN(from, folder->start(options.resume, options.overwrite || options.dryRun));
  std::string inFolder = options.out + "/metrics.jsonl"; // the folder's own: whether it may go, start() has said
  if (options.metrics.empty())
    options.metrics = inFolder;
  if (options.metrics == inFolder || options.overwrite || options.dryRun)
    return Status();
  return MetricsFile::makeRoom(options.metrics, from.run, from.checkpoint.has_value());
}

Status TrainSetup::settleRecipe(const Ranks &ranks) {
  const RecipeOptions said = options.recipe;
  if (std::optional<std::vector<std::string>> &groups = options.recipe.groups) // after the plan's, which they override
    groups->insert(groups->begin(), plan.settings.groups.begin(), plan.settings.groups.end());
  if (from.checkpoint && corpus)
    MT_TRY(resumeRecipe(*this, ranks));
  fillDefaults(options.recipe, plan);
  if (!options.recipe.steps)
    options.recipe.steps = corpus ? corpus->rows() / plan.settings.batch : 0; // an epoch
  MT_ASSIGN(recipe, completeRecipe(options.recipe, said, plan));
  return Status();
}

/// An error where one of the steps to come has no label that counts, as far as that is known of the data. Looks at some
/// rows of every step, and so at no more than some millions.
Status TrainSetup::checkLabels() const {
  constexpr int64_t kMostLooks = 1 << 22;
  const std::vector<int64_t> &none = corpus->unlabelled;
  int64_t batch = plan.settings.batch;
  if (2 * static_cast<int64_t>(none.size()) < batch) // no step has a row more than twice
    return Status();
  Sampler sampler(corpus->rows(), recipe.shuffle, recipe.seed);
  Batches batches(plan, *corpus, sampler);
  int64_t position = from.meta.position, looks = 0;
  for (int64_t step = from.meta.step + 1; step <= recipe.rate.steps && looks < kMostLooks; ++step, position += batch) {
    int64_t rows = 0;
    while (rows < batch && std::ranges::binary_search(none, sampler.row(position + rows)))
      ++rows;
    looks += rows + 1;
    if (rows < batch)
      continue;
    MT_ASSIGN(int64_t valid, batches.valid(position, batch));
    if (valid == 0)
      return batches.uncounted(position, batch).within(fmt::format("step {}", step));
  }
  return Status();
}

std::string describe(const TrainSetup &setup) {
  const plan::Plan &plan = setup.plan;
  std::string text =
      fmt::format("plan {:016x}: {}, {} layers, {} parameters; {}, {}, batch {}, micro-batch {}\n", plan.digest,
                  plan.model.name, plan.model.layers, formatCount(static_cast<double>(trainableElements(plan))),
                  plan.settings.precision, plan::describeOptimizers(plan.settings), plan.settings.batch, plan.settings.microBatch);
  if (plan.ranks > 1)
    text += fmt::format("ranks: {}, each with {} rows of a batch; what follows is of each\n", plan.ranks,
                        plan.settings.batch / plan.ranks);
  for (const plan::Space &space : plan.spaces)
    text += fmt::format("space {}: {}\n", space.name, formatExactSize(space.bytes));
  const MachineOptions &machine = setup.options.machine;
  if (Result<executor::KernelScratch> scratch = executor::scratchOf(plan, machine.device, machine.threads))
    text += fmt::format("beside the plan, scratch of kernels: at most {} of {} threads\n",
                        formatExactSize(scratch->bytes), scratch->threads);
  const uint64_t disk = totalBytes(plan, [](plan::SpaceKind kind) { return kind == plan::SpaceKind::file; });
  text += fmt::format("device {}, host {}{}; predicted step {}\n",
                      formatExactSize(totalBytes(plan, [](plan::SpaceKind kind) { return kind == plan::SpaceKind::device; })),
                      formatExactSize(totalBytes(plan, plan::isHostMemory)),
                      disk > 0 ? ", disk " + formatExactSize(disk) : std::string(), formatSeconds(plan.prediction.stepSeconds));
  if (setup.corpus)
    text += fmt::format("data {}: {} rows, {} steps an epoch; this run takes {} steps\n", setup.options.data.path,
                        setup.corpus->rows(), setup.corpus->rows() / plan.settings.batch, setup.recipe.rate.steps);
  if (setup.from.checkpoint)
    text += fmt::format("goes on from {}, step {}\n", *setup.from.checkpoint, setup.from.meta.step);
  for (const std::string &line : {setup.from.note, setup.changes})
    text += line.empty() ? "" : line + "\n";
  return text;
}

int64_t trainableElements(const plan::Plan &plan) {
  int64_t total = 0;
  for (const plan::Parameter &parameter : plan.parameters)
    total += parameter.trainable ? elementCount(parameter.dims).value_or(0) : 0;
  return total;
}

Result<std::unique_ptr<Corpus>> openEvalCorpus(const DataOptions &data, const plan::Plan &plan) {
  MT_ASSIGN(std::unique_ptr<Corpus> corpus, openCorpus(data.path, data.tokenizer, plan));
  if (!canPad(plan) && corpus->rows() < plan.settings.batch)
    return fail("{}: {} rows, and a batch takes {}; labels of this kind cannot be padded: give more data", data.path,
                corpus->rows(), plan.settings.batch);
  return corpus;
}

Status checkWeightFiles(const plan::Plan &plan) {
  std::map<std::string, uint64_t> sizes;
  for (const plan::Parameter &parameter : plan.parameters) {
    const plan::Initial &initial = parameter.initial;
    if (initial.path.empty())
      continue;
    std::error_code error;
    auto [at, fresh] = sizes.try_emplace(initial.path, 0);
    if (fresh)
      at->second = fs::file_size(initial.path, error);
    if (error)
      return fail("{}: {}: it holds the weights of '{}'; bring it back, or compile the model where it is now",
                  initial.path, error.message(), parameter.name);
    if (initial.offset > at->second || initial.length > at->second - initial.offset)
      return fail("{}: {} bytes are too few: '{}' is at {}, {} long; the file changed since the plan was compiled: "
                  "compile it anew",
                  initial.path, at->second, parameter.name, initial.offset, initial.length);
  }
  return Status();
}

} // namespace mt::train
