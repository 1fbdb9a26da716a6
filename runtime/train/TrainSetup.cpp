#include "runtime/train/TrainSetup.h"

#include "runtime/base/Log.h"
#include "runtime/base/Sizes.h"
#include "runtime/executor/Executor.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/train/Elements.h"
#include "runtime/train/Session.h"

#include <unistd.h>

#include <filesystem>
#include <map>

namespace mt::train {
namespace {

namespace fs = std::filesystem;

Status checkHyperparameters(const plan::Plan &plan, const Hyperparameters &hyper) {
  if (hyper.clipNorm && !plan.settings.clip)
    return fail("--clip-norm {}: the plan is not compiled for clipping: compile it with --clip", *hyper.clipNorm);
  if (hyper.rate.least > hyper.rate.peak)
    return fail("--min-lr {} is above --lr {}", hyper.rate.least, hyper.rate.peak);
  bool adam = plan.settings.optimizer == "adamw";
  Hyperparameters usual;
  if (adam && hyper.momentum != 0)
    return fail(
        "--momentum is of sgd, and the plan's optimizer is adamw: use --beta1, or compile with --optimizer sgd");
  if (!adam && (hyper.beta1 != usual.beta1 || hyper.beta2 != usual.beta2 || hyper.epsilon != usual.epsilon))
    return fail("--beta1, --beta2 and --eps are of adamw, and the plan's optimizer is {}: leave them out, or compile "
                "with --optimizer adamw",
                plan.settings.optimizer);
  return Status();
}

Result<int64_t> countSteps(const TrainOptions &options, const plan::Plan &plan, const Corpus &corpus) {
  int64_t rows = corpus.rows(), batch = plan.settings.batch;
  if (rows < batch)
    return fail("--data {}: {} rows, and a step takes {}: give more data, or compile with a smaller --batch",
                options.data.path, rows, batch);
  if (options.steps)
    return *options.steps;
  int64_t total = 0;
  if (__builtin_mul_overflow(rows, options.epochs.value_or(1), &total))
    return fail("--epochs {} of {} rows are too many", *options.epochs, rows);
  return total / batch;
}

Status checkOut(const std::string &out) {
  std::error_code error;
  fs::create_directories(out, error);
  if (error || ::access(out.c_str(), W_OK | X_OK) != 0)
    return fail("--out {}: {}: choose a folder that can be written", out,
                error ? error.message() : "no permission to write");
  return Status();
}

/// What must match for a run to go on, and what had better.
Status checkResume(const TrainSetup &setup) {
  const CheckpointMeta &from = setup.start;
  const plan::Settings &settings = setup.plan.settings;
  auto differs = [&](std::string_view what, const auto &was, const auto &is) {
    return fail("--resume: {} was trained with {} {}, and the plan has {}: compile a plan with the same {}",
                *setup.checkpoint, what, was, is, what);
  };
  if (from.precision != settings.precision)
    return differs("precision", from.precision, settings.precision);
  if (from.optimizer != settings.optimizer)
    return differs("optimizer", from.optimizer, settings.optimizer);
  if (from.batch != settings.batch)
    return differs("batch", from.batch, settings.batch);
  if (from.microBatch != settings.microBatch)
    log().warn("{} was trained with micro-batches of {}, the plan has {}: results will differ in the last bits",
               *setup.checkpoint, from.microBatch, settings.microBatch);
  if (from.seed != setup.options.seed || from.shuffle != setup.options.shuffle)
    log().warn("{} was trained with --seed {} --shuffle {}: the order of the data changes here", *setup.checkpoint,
               from.seed, from.shuffle ? "on" : "off");
  if (from.rows != setup.corpus->rows())
    log().warn("{} was trained on {} rows, --data has {}: the order of the data changes here", *setup.checkpoint,
               from.rows, setup.corpus->rows());
  return Status();
}

Status findCheckpoint(TrainSetup &setup) {
  const TrainOptions &options = setup.options;
  std::optional<std::string> newest = newestCheckpoint(options.out);
  if (!options.resume) {
    if (newest)
      log().info("{} holds checkpoints of an earlier run; this one starts afresh (--resume would go on)", options.out);
    return Status();
  }
  if (!newest)
    return fail("--resume: {} has no complete checkpoint: leave --resume out to start afresh, or name the run's "
                "folder with --out",
                options.out);
  setup.checkpoint = newest;
  MT_ASSIGN(setup.start, readMeta(*newest));
  return checkResume(setup);
}

uint64_t totalBytes(const plan::Plan &plan, bool device) {
  uint64_t total = 0;
  for (const plan::Space &space : plan.spaces)
    total += (space.kind == plan::SpaceKind::device) == device ? space.bytes : 0;
  return total;
}

} // namespace

Result<std::unique_ptr<TrainSetup>> TrainSetup::check(const TrainOptions &options) {
  auto setup = std::make_unique<TrainSetup>();
  setup->options = options;
  TrainOptions &filled = setup->options;
  MT_ASSIGN(setup->plan, plan::load(options.plan));
  const plan::Plan &plan = setup->plan;
  MT_TRY(checkInputs(plan));
  MT_TRY(checkHyperparameters(plan, options.hyper));
  MT_TRY(checkWeightFiles(plan));
  MT_TRY(executor::checkMachine(plan, options.machine.device, options.machine.threads));
  if (options.data.path.empty() && options.dryRun)
    return setup;
  if (!plan.program(plan::ProgramKind::evaluate) && !options.evalData.empty())
    return fail("--eval-data: the plan has no program for evaluation: compile it anew");
  MT_ASSIGN(setup->corpus, openCorpus(options.data.path, options.data.tokenizer, plan));
  if (!options.evalData.empty()) {
    MT_ASSIGN(setup->evalCorpus, openEvalCorpus({options.evalData, options.data.tokenizer}, plan));
  }
  MT_ASSIGN(setup->steps, countSteps(options, plan, *setup->corpus));
  filled.hyper.rate.steps = setup->steps;
  if (filled.out.empty())
    filled.out = "runs/" + fs::path(options.plan).stem().string();
  if (filled.metrics.empty())
    filled.metrics = filled.out + "/metrics.jsonl";
  if (!options.dryRun)
    MT_TRY(checkOut(filled.out));
  MT_TRY(findCheckpoint(*setup));
  return setup;
}

std::string describe(const TrainSetup &setup) {
  const plan::Plan &plan = setup.plan;
  std::string text =
      fmt::format("plan {:016x}: {}, {} layers, {} parameters; {}, {}, batch {}, micro-batch {}\n", plan.digest,
                  plan.model.name, plan.model.layers, formatCount(static_cast<double>(trainableElements(plan))),
                  plan.settings.precision, plan.settings.optimizer, plan.settings.batch, plan.settings.microBatch);
  for (const plan::Space &space : plan.spaces)
    text += fmt::format("space {}: {}\n", space.name, formatExactSize(space.bytes));
  const MachineOptions &machine = setup.options.machine;
  if (Result<executor::KernelScratch> scratch = executor::scratchOf(plan, machine.device, machine.threads))
    text += fmt::format("beside the plan, scratch of kernels: at most {} of {} threads\n", formatExactSize(scratch->bytes),
                        scratch->threads);
  text += fmt::format("device {}, host {}; predicted step {}\n", formatExactSize(totalBytes(plan, true)),
                      formatExactSize(totalBytes(plan, false)), formatSeconds(plan.prediction.stepSeconds));
  if (setup.corpus)
    text += fmt::format("data {}: {} rows, {} steps an epoch; this run takes {} steps\n", setup.options.data.path,
                        setup.corpus->rows(), setup.corpus->rows() / plan.settings.batch, setup.steps);
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
