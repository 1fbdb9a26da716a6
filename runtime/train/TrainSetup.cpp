#include "runtime/train/TrainSetup.h"

#include "runtime/base/Files.h"
#include "runtime/base/Log.h"
#include "runtime/base/Sizes.h"
#include "runtime/device/MakeDevice.h"
#include "runtime/executor/Executor.h"
#include "runtime/host/MachineMemory.h"
#include "runtime/plan/ParameterGroups.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/WeightFiles.h"
#include "runtime/train/Checksum.h"
#include "runtime/train/Elements.h"
#include "runtime/train/Metrics.h"
#include "runtime/train/Session.h"

#include <algorithm>
#include <filesystem>
#include <fmt/ranges.h>
#include <map>

namespace mt::train {
namespace {

namespace fs = std::filesystem;

/// What a run holds back it never trains on: which rows these are cannot change.
Status refuseOtherSplit(const RecipeOptions &said, const RunFolder::Start &from) {
  RecipeOptions was;
  MT_TRY(adoptStored(was, from.meta.recipe).status().within(*from.checkpoint));
  const double share = was.evalSplit.value_or(0);
  if (said.evalSplit && *said.evalSplit != share)
    return fail(
        "--resume: {} holds {} of the rows back for evaluation, and --eval-split {} would hold back such as it was "
        "trained on: leave it out",
        *from.checkpoint, share > 0 ? fmt::format("a share of {}", share) : "none", *said.evalSplit);
  if (share > 0 && said.seed && said.seed != was.seed)
    return fail(
        "--resume: which rows {} holds back for evaluation follows from its seed, {}: with --seed {} it would train "
        "on them: leave it out",
        *from.checkpoint, was.seed.value_or(0), *said.seed);
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
  if (const std::string precision = plan::describePrecision(setup.plan); from.precision != precision)
    return differs("precision", from.precision, precision);
  if (from.optimizer != plan::describeOptimizers(settings))
    return differs("optimizer", from.optimizer, plan::describeOptimizers(settings));
  if (from.batch != settings.batch)
    return differs("batch", from.batch, settings.batch);
  if (from.sequence != settings.sequence)
    return differs("sequence", from.sequence, settings.sequence);
  if (!from.loss.empty() && from.loss != plan::describeLoss(settings))
    return differs("loss", from.loss, plan::describeLoss(settings));
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
  const std::string &folder = *setup.from.checkpoint, &data = setup.data.data.name;
  if (from.microBatch != setup.plan.settings.microBatch)
    log().warn("{} was trained with micro-batches of {}, the plan has {}: results will differ in the last bits", folder,
               from.microBatch, setup.plan.settings.microBatch);
  if (!from.numerics.empty() && from.numerics != setup.numerics)
    log().warn("{} was trained with other kernels ({}; here: {}): results will differ in the last bits", folder,
               from.numerics, setup.numerics);
  if (from.rows != setup.data.corpus->rows())
    log().warn("{} was trained on {} rows, {} has {}: the order of the data changes here{}", folder, from.rows, data,
               setup.data.corpus->rows(), setup.data.heldBack ? ", and rows are held back that it was trained on" : "");
  else if (!from.data.empty() && from.data != setup.data.data.fingerprint)
    log().warn("{} was trained on other data than {} has: their content changed", folder, data);
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

/// Where a run goes that does not say.
std::string outOf(const std::string &plan) { return "runs/" + fs::path(plan).stem().string(); }

/// Of files that are there or not.
bool isSameFile(const std::string &a, const std::string &b) {
  std::error_code error;
  auto place = [&](const std::string &path) { return fs::weakly_canonical(fs::absolute(path, error), error); };
  return !b.empty() && (fs::equivalent(a, b, error) || place(a) == place(b));
}

/// The folder's own, which a run goes on by.
std::vector<InputFile> filesOfRun(const TrainOptions &options) {
  std::vector<InputFile> files;
  const std::string out = options.out.empty() ? outOf(options.plan) : options.out;
  for (const char *name : {kRunFile, kRecipeFile, kMetricsFile})
    files.push_back({"what the run goes on by", fmt::format("{}/{}", out, name)});
  return files;
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
  MT_TRY(checkWeightFiles(plan, options.resume));
  if (!machine.memoryCheck)
    host::trustMachineMemory();
  MT_TRY(ranks.agree(device::useInstructionSet(machine.isa, plan.target)));
  MT_TRY(executor::checkMachine(plan, machine.device, machine.threads, ranks.localCount()));
  const std::string &device = machine.device.empty() ? plan.target.device : machine.device;
  MT_ASSIGN(setup->numerics, device::processorsOf(device));
  if (const Status same = ranks.compare({{"processor", setup->numerics}}); !same && ranks.isFirst())
    log().warn("{}: results may differ in the last bits from those of one process", same.message());
  if (plan.settings.narrowExchange)
    setup->numerics += fmt::format(", gradients of {} ranks in 16 bits", plan.ranks);
  if (!options.data.paths.empty() || !options.dryRun)
    MT_TRY(setup->openData());
  MT_TRY(setup->openSamples());
  std::vector<InputFile> read = inputsOf(options.data);
  for (const std::string &path : options.evalData)
    read.push_back({"--eval-data", path});
  read.push_back({"--recipe", options.recipeFile});
  if (options.metrics.empty()) // else they may be those that the run has in its folder
    for (InputFile &file : filesOfRun(options))
      read.push_back(std::move(file));
  MT_TRY(keepInputs(
      options.plan, plan, std::move(read),
      {{"--metrics", options.metrics}, {"--trace", machine.trace}, {"--save-gradients", options.saveGradients}}));
  MT_TRY(setup->openFolder(ranks));
  if (options.resume && !setup->from.checkpoint) // at step 0
    MT_TRY(checkWeightFiles(plan, false));
  if (!setup->data.data.empty())
    MT_TRY(setup->arrangeData());
  MT_TRY(setup->settleRecipe(ranks));
  if (setup->data.corpus)
    MT_TRY(setup->checkLabels());
  MT_TRY(ranks.compare(setup->toCompare()));
  return setup;
}

Status TrainSetup::openData() {
  DataOptions named = options.data;
  bool anyText = options.sampleEvery == 0; // else the tokenizer may be of the samples alone
  for (const std::string &path : named.paths) {
    MT_ASSIGN(const bool text, isText(path, true, "--data"));
    anyText |= text;
  }
  if (!anyText)
    named.tokenizer.clear();
  MT_ASSIGN(data, TrainData::open(named, options.evalData, plan));
  return Status();
}

Status TrainSetup::openSamples() {
  if (options.sampleEvery == 0)
    return Status();
  Result<std::unique_ptr<Continuation>> made =
      Continuation::create(plan, {options.prompts, options.data.tokenizer, options.chat});
  if (!made)
    return made.status().within("--sample-every");
  samples = std::move(*made);
  return Status();
}

/// What all ranks of a job must have alike, by what people call it.
nlohmann::ordered_json TrainSetup::toCompare() const {
  return {{"--data", data.data.fingerprint},
          {"--eval-data", data.evalData.fingerprint},
          {"recipe", toJson(options.recipe)},
          {"--eval-every", options.evalEvery},
          {"--sample-every", options.sampleEvery},
          {"--sample-tokens", options.sampleTokens},
          {"--prompt", options.prompts},
          {"--chat", options.chat},
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

std::vector<InputFile> inputsOf(const DataOptions &data) {
  std::vector<InputFile> inputs = {{"--tokenizer", data.tokenizer}};
  for (const std::string &path : data.paths)
    inputs.push_back({"--data", path});
  return inputs;
}

Status keepInputs(const std::string &path, const plan::Plan &plan, std::vector<InputFile> others,
                  const std::vector<Output> &outputs) {
  others.push_back({"the plan", path});
  for (InputFile &file : plan::weightFiles(plan))
    others.push_back(std::move(file));
  for (const Output &output : outputs) {
    MT_TRY(mt::keepInputs(output.option, output.path, others));
    if (!output.path.empty())
      MT_TRY(mt::keepInputs(output.option, output.path, checkpointFiles(folderOf(output.path))));
    for (const Output &other : outputs)
      if (&other != &output && !output.path.empty() && isSameFile(output.path, other.path))
        return fail("{} {}: {} writes there, too: name two files", output.option, output.path, other.option);
  }
  return Status();
}

Status TrainSetup::openFolder(Ranks &ranks) {
  if (options.out.empty())
    options.out = outOf(options.plan);
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
  std::string inFolder =
      fmt::format("{}/{}", options.out, kMetricsFile); // the folder's own: whether it may go, start() has said
  if (options.metrics.empty())
    options.metrics = inFolder;
  if (options.metrics == inFolder || options.overwrite || options.dryRun)
    return Status();
  return MetricsFile::makeRoom(options.metrics, from.run, from.checkpoint.has_value());
}

static std::string groupList(const std::vector<std::string> &groups) {
  return groups.empty() ? "none" : fmt::format("{}", fmt::join(groups, " "));
}

Status TrainSetup::settleRecipe(const Ranks &ranks) {
  const RecipeOptions said = options.recipe;
  if (std::optional<std::vector<std::string>> &groups = options.recipe.groups) // after the plan's, which they override
    groups->insert(groups->begin(), plan.settings.groups.begin(), plan.settings.groups.end());
  if (from.checkpoint && data.corpus) {
    MT_TRY(resumeRecipe(*this, ranks));
    const std::vector<std::string> &ofPlan = plan.settings.groups, &ofRun = *options.recipe.groups;
    if (ranks.isFirst() && !said.groups && std::ranges::mismatch(ofRun, ofPlan).in2 != ofPlan.end())
      log().warn(
          "{}: its groups of parameters, {}, are not the run's, {}, which goes on with its own: say --group for others",
          options.plan, groupList(ofPlan), groupList(ofRun));
  }
  fillDefaults(options.recipe, plan);
  if (!options.recipe.steps)
    options.recipe.steps = data.corpus ? data.order->rows() / plan.settings.batch : 0; // an epoch
  MT_ASSIGN(recipe, completeRecipe(options.recipe, said, plan));
  return Status();
}

/// As the recipe will be that is only known when --epochs are counted in steps, which they are here.
Status TrainSetup::arrangeData() {
  RecipeOptions known = options.recipe;
  if (from.checkpoint) {
    MT_TRY(refuseOtherSplit(known, from));
    MT_TRY(adoptStored(known, from.meta.recipe).status().within(*from.checkpoint));
  }
  fillDefaults(known, plan);
  MT_TRY(data.arrange(known, plan));
  if (data.evalCorpus && !plan.program(plan::ProgramKind::evaluate))
    return fail("{}: the plan has no program for evaluation: compile it anew", data.evalName);
  if (options.evalEvery > 0 && !data.evalCorpus)
    return fail("--eval-every needs --eval-data or --eval-split");
  int64_t total = 0;
  if (__builtin_mul_overflow(data.order->rows(), options.epochs.value_or(0), &total))
    return fail("--epochs {} of {} rows are too many", *options.epochs, data.order->rows());
  if (options.epochs)
    options.recipe.steps = total / plan.settings.batch;
  return Status();
}

/// An error where one of the steps to come has no label that counts, as far as that is known of the data. Looks at some
/// rows of every step, and so at no more than some millions.
Status TrainSetup::checkLabels() const {
  constexpr int64_t kMostLooks = 1 << 22;
  const std::vector<int64_t> &none = data.corpus->unlabelled;
  int64_t batch = plan.settings.batch;
  if (2 * static_cast<int64_t>(none.size()) < batch) // no step has a row more than twice
    return Status();
  const Order &order = *data.order;
  Batches batches(plan, *data.corpus, order);
  int64_t position = from.meta.position, looks = 0;
  for (int64_t step = from.meta.step + 1; step <= recipe.rate.steps && looks < kMostLooks; ++step, position += batch) {
    int64_t rows = 0;
    while (rows < batch && std::ranges::binary_search(none, order.at(position + rows).row))
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
  if (setup.data.corpus)
    text +=
        fmt::format("{}: {} rows, {} steps an epoch; this run takes {} steps\n", setup.data.data.name,
                    setup.data.order->rows(), setup.data.order->rows() / plan.settings.batch, setup.recipe.rate.steps);
  if (setup.from.checkpoint)
    text += fmt::format("goes on from {}, step {}\n", *setup.from.checkpoint, setup.from.meta.step);
  for (const std::string &line : {setup.from.note, setup.changes, setup.data.note})
    text += line.empty() ? "" : line + "\n";
  return text;
}

int64_t trainableElements(const plan::Plan &plan) {
  int64_t total = 0;
  for (const plan::Parameter &parameter : plan.parameters)
    total += parameter.trainable ? elementCount(parameter.dims).value_or(0) : 0;
  return total;
}

Status checkWeightFiles(const plan::Plan &plan, bool frozenAlone) {
  std::map<std::string, MappedFile> files;
  const auto check = [&](const std::string &name, const plan::Initial &initial) {
    if (initial.path.empty())
      return Status();
    auto at = files.find(initial.path);
    if (at == files.end()) {
      Result<MappedFile> opened = MappedFile::open(initial.path);
      if (!opened)
        return fail("{}: it holds the weights of '{}'; bring it back, or compile the model where it is now",
                    opened.status().message(), name);
      at = files.emplace(initial.path, std::move(*opened)).first;
    }
    const MappedFile &file = at->second;
    if (initial.offset > file.size() || initial.length > file.size() - initial.offset)
      return fail("{}: {} bytes are too few: '{}' is at {}, {} long; the file changed since the plan was compiled: "
                  "compile it anew",
                  initial.path, file.size(), name, initial.offset, initial.length);
    MT_ASSIGN(const uint64_t sample, plan::sampleOf(file, initial));
    if (initial.sample != 0 && sample != initial.sample)
      return fail("{}: at {} are other bytes of '{}' than when the plan was compiled: the file was written anew, with "
                  "other weights or in another order; compile it anew",
                  initial.path, initial.offset, name);
    return Status();
  };
  for (const plan::Parameter &parameter : plan.parameters) {
    if (frozenAlone && parameter.trainable)
      continue;
    MT_TRY(check(parameter.name, parameter.initial));
    for (const plan::Piece &piece : parameter.initial.pieces)
      MT_TRY(check(piece.name, piece.initial));
  }
  return Status();
}

} // namespace mt::train
