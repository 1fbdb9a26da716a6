#include "runtime/train/Trainer.h"

#include "runtime/base/AtomicFile.h"
#include "runtime/base/Files.h"
#include "runtime/base/Log.h"
#include "runtime/base/Sizes.h"
#include "runtime/executor/Rehearsal.h"
#include "runtime/network/OpenNetwork.h"
#include "runtime/plan/ParameterGroups.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/train/Adapters.h"
#include "runtime/train/Aliases.h"
#include "runtime/train/CheckpointWriter.h"
#include "runtime/train/Checksum.h"
#include "runtime/train/Evaluation.h"
#include "runtime/train/GradientFile.h"
#include "runtime/train/Interrupt.h"
#include "runtime/train/LossSpikes.h"
#include "runtime/train/Metrics.h"
#include "runtime/train/RecipeFile.h"
#include "runtime/train/RunHeader.h"
#include "runtime/train/RunReport.h"
#include "runtime/train/TensorBoard.h"
#include "runtime/train/TrainSetup.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <utility>

namespace mt::train {
namespace {

using Clock = std::chrono::steady_clock;
using kernels::Scalars;

class Trainer {
public:
  Trainer(TrainSetup &setup, Ranks &ranks)
      : setup(setup), ranks(ranks), options(setup.options), recipe(setup.recipe), plan(setup.plan),
        batches(plan, *setup.data.corpus, *setup.data.order, ranks.rank()),
        progress(options.quiet, plan.settings.sequence > 0 ? "tok" : "rows", peakSeconds(), recipe.rate.steps),
        step(setup.from.meta.step), position(setup.from.meta.position) {}

  /// Reserves memory and loads weights; nothing of the run's folder is changed.
  Status open() {
    if (!options.saveGradients.empty()) {
      MT_ASSIGN(gradients, GradientFile::create(options.saveGradients, plan));
    }
    return openSession();
  }

  Status run() {
    catchInterrupts();
    MT_TRY(prepareCheckpoints());
    MT_TRY(takeUpEvaluations());
    MT_TRY(ranks.agree(ranks.isFirst() ? beginFolder() : Status()));
    if (setup.from.checkpoint)
      progress.note(fmt::format("going on from {}, step {}", *setup.from.checkpoint, step));
    for (const std::string &line : {setup.from.note, setup.changes, setup.data.note, besides})
      if (!line.empty())
        progress.note(line);
    if (Status failure = loop(); !failure) {
      if (ranks.others() &&
          !session->settle()) // no error of data, which all have: the others are told before anything is waited for
        ranks.others()->fail(failure);
      return keepTrained(failure);
    }
    return finish();
  }

private:
  Status beginFolder() {
    MT_TRY(setup.folder->begin(setup.from));
    MT_TRY(writeFileAtomically(fmt::format("{}/{}", options.out, kRecipeFile),
                               "# What this run used: mtrun --recipe FILE --out FOLDER does the same again.\n" +
                                   recipeFileText(usedOptions(options, plan))));
    return openFiles();
  }

  /// Evaluations on other data do not compare: with those, what was known of them is forgotten.
  Status takeUpEvaluations() {
    MT_ASSIGN(evaluations, EvaluationRecord::read(setup.from.meta.evaluations));
    if (setup.data.evalCorpus && evaluations.data != setup.data.evaluated())
      evaluations = {.data = setup.data.evaluated()};
    return Status();
  }

  Status openFiles() {
    MT_ASSIGN(metrics, MetricsFile::open(options.metrics, runHeader(setup), step, evaluations.step == step,
                                         [this](float loss) { spikes.add(loss); }));
    if (!options.tensorboard.empty()) {
      MT_ASSIGN(board, TensorBoard::open(options.tensorboard));
    }
    report(); // not that of the run before
    return Status();
  }

  Status openSession() {
    if (setup.data.evalCorpus)
      evaluation.emplace(plan, *setup.data.evalCorpus, ranks.rank());
    Session::Setup wanted(ranks);
    wanted.machine = options.machine;
    wanted.recipe = recipe;
    wanted.checkpoint = setup.from.checkpoint.value_or("");
    wanted.done = [this](const Job &job, float loss, std::span<const double> scalars) {
      return done(job, loss, scalars);
    };
    if (gradients)
      wanted.gradient = [this](int64_t parameter, int64_t first, std::span<const float> values) {
        gradients->add(parameter, first, values);
      };
    MT_ASSIGN(session, Session::open(plan, std::move(wanted)));
    const RunFolder::Start &from = setup.from;
    if (from.checkpoint)
      MT_TRY(hasFrozenWeights(*from.checkpoint, from.meta, session->frozenWeights()).within("--resume"));
    auto bytes = [this](const plan::Part &part) { return session->bytes(part.span); };
    writer.emplace(plan, CheckpointWriter::Setup{options.out,
                                                 bytes,
                                                 {options.keep, options.keepBest},
                                                 options.machine.threads,
                                                 from.checkpoint.value_or(""),
                                                 step,
                                                 {ranks.others()}});
    return Status();
  }

  /// On the way they are written from a copy where all ranks have the memory for one.
  Status prepareCheckpoints() {
    if (!options.checkpointCopy || !savesOnTheWay())
      return Status();
    MT_ASSIGN(executor::KernelScratch scratch, executor::scratchOf(plan, options.machine.device, options.machine.threads));
    besides = writer->reserveCopy(scratch.bytes, ranks.localCount());
    MT_ASSIGN(const bool lacks, ranks.any(!writer->hasCopy()));
    if (!lacks)
      return Status();
    if (writer->hasCopy())
      besides = "checkpoints are written with training at rest: another rank has no memory for a copy of its state";
    writer->dropCopy();
    return Status();
  }

  Status loop() {
    startClock();
    if (missesEvaluation())
      MT_TRY(evaluateNow());
    auto isDue = [this](int64_t every) { return every > 0 && step % every == 0; };
    while (step < recipe.rate.steps && !isOutOfPatience() && !ranks.stop()) {
      MT_TRY(session->enqueue({plan::ProgramKind::step, step + 1, &batches, position, plan.settings.batch}));
      ++step;
      position += plan.settings.batch;
      if (step == recipe.rate.steps)
        break;
      if (isDue(options.verifyEvery))
        MT_TRY(verifyWeights());
      // What an evaluation may run into must not cost the checkpoint.
      const bool isSaved = options.keep > 0 && isDue(options.checkpointEvery);
      if (isSaved)
        MT_TRY(saveOnTheWay());
      if (isDue(options.evalEvery))
        MT_TRY(evaluateNow());
      if (options.keepBest && !isSaved && evaluations.step == step && evaluations.isBest())
        MT_TRY(saveOnTheWay());
      if (options.sampleEvery > 0 && step % options.sampleEvery == 0)
        MT_TRY(sampleNow());
    }
    return Status();
  }

  bool savesOnTheWay() const {
    auto isOnTheWay = [this](int64_t every) { return every > 0 && every < recipe.rate.steps; };
    return options.keep > 0 &&
           (isOnTheWay(options.checkpointEvery) || (options.keepBest && isOnTheWay(options.evalEvery)));
  }

  bool isOutOfPatience() const { return options.patience > 0 && evaluations.worse >= options.patience; }

  /// Whether the run was stopped in the evaluation that belongs to the step that it goes on from.
  bool missesEvaluation() const {
    return step > 0 && options.evalEvery > 0 && step % options.evalEvery == 0 && step < recipe.rate.steps &&
           evaluations.step != step;
  }

  /// A run that ends with an error of its data loses no step. Where a step itself went wrong nothing is whole any more.
  Status keepTrained(const Status &failure) {
    writer->wait();
    if (options.keep == 0 || step == setup.from.meta.step || weightsDiffer || !session->store())
      return failure;
    if (Status kept = step > writer->step() ? save() : Status(); !kept)
      return fail("{}; and {}: {}", failure.message(), unsaved(), kept.message());
    return fail("{}; step {} is kept as {}", failure.message(), step, writer->newest());
  }

  /// What follows the last step, whether it was meant to be the last or a signal came.
  Status finish() {
    MT_TRY(verifyWeights());
    MT_TRY(session->store());
    writer->wait();
    bool isSaved = !writer->newest().empty() && step == writer->step();
    Status kept = options.keep > 0 && !isSaved ? save().within(unsaved()) : Status();
    Status rest = concludeRun();
    return kept ? rest : kept;
  }

  /// What is left once the last step has its checkpoint.
  Status concludeRun() {
    if (!ranks.stopped() && evaluations.step != step)
      MT_TRY(evaluateNow());
    if (!ranks.stopped())
      MT_TRY(sampleNow());
    syncMetrics();
    if (metrics && metrics->waitingBytes() > 0)
      log().warn("--metrics {}: the last {} bytes were never written", options.metrics, metrics->waitingBytes());
    if (gradients && reported > 0)
      MT_TRY(gradients->finish());
    if (!options.machine.trace.empty())
      MT_TRY(session->writeTrace());
    bool stopped = ranks.stopped() && (step < recipe.rate.steps || (evaluation && !evaluation->complete()));
    progress.note(result(stopped), (stopped || isOutOfPatience()) && ranks.isFirst());
    if (options.keepBest && evaluations.bestStep > 0)
      progress.note(fmt::format("the best evaluation is {:.4f}, of step {}: mtrun export {} --best -o FILE",
                                evaluations.bestLoss, evaluations.bestStep, options.out));
    return Status();
  }

  std::string unsaved() const {
    return fmt::format("step {} could not be saved, and with it what was trained since {}", step,
                       writer->newest().empty() ? "the start" : writer->newest());
  }

  std::string result(bool stopped) const {
    if (isOutOfPatience() && step < recipe.rate.steps)
      return fmt::format("stopped after step {} of {}: {} evaluations in a row were no better than {}{}; checkpoint {}",
                         step, recipe.rate.steps, evaluations.worse,
                         evaluations.bestStep > 0
                             ? fmt::format("{:.4f}, of step {}", evaluations.bestLoss, evaluations.bestStep)
                             : "a number that is not finite",
                         options.keepBest ? "" : " (whose checkpoint --keep-best keeps)",
                         writer->newest().empty() ? "none" : writer->newest());
    if (stopped && options.keep == 0)
      return fmt::format("stopped after step {} of {}; no checkpoint was written (--keep 0)", step, recipe.rate.steps);
    if (stopped)
      return fmt::format("stopped after step {} of {}; the same command with --resume goes on from {}", step,
                         recipe.rate.steps, writer->newest());
    if (reported > 0)
      return fmt::format("trained {} steps: loss {:.4f} -> {:.4f}; checkpoint {}", reported, firstLoss, lastLoss,
                         writer->newest().empty() ? "none" : writer->newest());
    return fmt::format("nothing to do: {} is at step {} already", writer->newest(), step);
  }

  /// After an interrupt the rest of it is left out: the run that goes on does it then.
  Status evaluateNow() {
    if (!evaluation)
      return Status();
    MT_TRY(evaluation->run(*session, step));
    startClock();
    if (!evaluation->complete())
      return Status();
    if (evaluation->tokens() == 0) {
      log().warn("{}: no label of it counts, and there is no loss to tell", setup.data.evalName);
      return Status();
    }
    double loss = evaluation->loss();
    evaluations.add(step, loss);
    if (metrics)
      keepGoing(metrics->evaluation(step, loss, evaluation->tokens()));
    if (board)
      keepGoing(board->scalar("eval/loss", step, static_cast<float>(loss)));
    progress.note(fmt::format("step {}: evaluation loss {:.4f}{}, over {} targets", step, loss,
                              perplexityText(", perplexity ", loss, setup.plan), evaluation->tokens()));
    syncMetrics(); // before the checkpoint says that it was made
    writer->record(evaluations);
    report();
    startClock();
    return Status();
  }

  /// On one line, and nothing that a terminal would obey.
  static std::string quoted(const std::string &text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }

  /// What the model makes of the prompts by now. An interrupt ends it early.
  Status sampleNow() {
    Continuation *samples = setup.samples.get();
    if (!samples)
      return Status();
    Continuation::Options how;
    how.tokens = options.sampleTokens;
    how.seed = recipe.seed;
    MT_TRY(samples->run(*session, step, how));
    for (size_t i = 0; i < samples->count(); ++i) {
      if (metrics)
        keepGoing(metrics->sample(step, samples->prompt(i), samples->text(i)));
      progress.note(fmt::format("step {}: {} -> {}", step, quoted(samples->prompt(i)), quoted(samples->text(i))));
    }
    report();
    startClock();
    return Status();
  }

  /// All ranks have the same weights, or one has had a fault that nothing else told.
  Status verifyWeights() {
    if (ranks.count() == 1)
      return Status();
    MT_TRY(session->settle());
    auto bytes = [this](const plan::Part &part) { return session->bytes(part.span); };
    MT_ASSIGN(const std::vector<uint64_t> checksums, weightChecksums(plan, bytes, options.machine.threads));
    nlohmann::ordered_json weights;
    for (size_t i = 0; i < checksums.size(); ++i)
      weights[fmt::format("weight '{}' after step {}", plan.parameters[i].name, step)] = checksumText(checksums[i]);
    startClock();
    const Status same = ranks.compare(weights);
    weightsDiffer = !same;
    return same.within(
        "a fault of a machine or of the network, after which --resume goes on from the newest checkpoint");
  }

  Status saveOnTheWay() {
    MT_TRY(verifyWeights());
    MT_TRY(session->store());
    syncMetrics(); // what the checkpoint's step has reported survives with it
    writer->begin(currentMeta());
    startClock();
    return Status();
  }

  void syncMetrics() {
    if (metrics)
      keepGoing(metrics->sync());
    report();
  }

  /// The run's page, as far as it has come. Nothing of a step is reported meanwhile.
  void report() {
    if (!metrics || metrics->history().lines == shownLines)
      return;
    shownLines = metrics->history().lines;
    if (Status written = writeReport(options.out, metrics->history()); !written && !std::exchange(unshown, true))
      log().warn("{}; the run goes on, and mtrun report {} makes the page", written.message(), options.out);
  }

  Status save() {
    syncMetrics();
    return writer->write(currentMeta());
  }

  CheckpointMeta currentMeta() const {
    CheckpointMeta meta;
    meta.run = setup.from.run;
    meta.step = step;
    meta.position = position;
    meta.epoch = batches.epoch(position);
    meta.rows = setup.data.corpus->rows();
    meta.batch = plan.settings.batch;
    meta.microBatch = plan.settings.microBatch;
    meta.sequence = plan.settings.sequence;
    meta.precision = plan::describePrecision(plan);
    meta.optimizer = plan::describeOptimizers(plan.settings);
    meta.loss = plan::describeLoss(plan.settings);
    meta.clip = plan.settings.clip;
    meta.plan = fmt::format("{:016x}", plan.digest);
    meta.modelFile = plan.model.file;
    meta.graph = checksumText(plan.model.digest);
    meta.frozenWeights = session->frozenWeights();
    meta.data = setup.data.data.fingerprint;
    meta.numerics = setup.numerics;
    meta.recipe = toJson(options.recipe);
    meta.aliases = aliasesOf(plan);
    meta.adapters = adaptersOf(plan);
    meta.evaluations = evaluations.toJson();
    return meta;
  }

  /// Metrics that cannot be written are no reason to lose a run: they wait.
  void keepGoing(const Status &written) {
    if (!written && !warned.exchange(true))
      log().warn("{}; the run goes on, and what is missing is written as soon as that is possible", written.message());
  }

  /// On a thread of the device, once a step's loss is known.
  Status done(const Job &job, float loss, std::span<const double> scalars) {
    if (job.program == plan::ProgramKind::evaluate) {
      evaluation->add(job, loss);
      return Status();
    }
    StepRecord record;
    record.step = job.step;
    record.epoch = batches.epoch(job.position);
    record.loss = loss;
    record.gradientNorm = scalars[Scalars::kGradientNorm];
    record.learningRate = recipe.rate.at(job.step);
    record.tokens = job.valid;
    record.skipped = !std::isfinite(record.gradientNorm);
    record.seconds = lap();
    record.deviceBytes = session->reservedBytes(plan::SpaceKind::device);
    record.hostBytes =
        session->reservedBytes(plan::SpaceKind::staging) + session->reservedBytes(plan::SpaceKind::state);
    if (reported++ == 0)
      firstLoss = loss;
    lastLoss = loss;
    progress.step(record);
    if (board)
      keepGoing(writeBoard(record));
    if (metrics)
      keepGoing(metrics->step(record));
    noteSpike(record);
    return countSkipped(record);
  }

  /// For people alone: no bit of the run depends on it.
  void noteSpike(const StepRecord &record) {
    const std::optional<double> usual = metrics ? spikes.add(record.loss) : std::nullopt;
    if (!usual)
      return;
    const std::string note = fmt::format("loss spike: {:.4g}, usually {:.4g}", record.loss, *usual);
    log().warn("step {}: {}", record.step, note);
    keepGoing(metrics->note(record.step, note));
  }

  /// One bad batch is no reason to end a run; a model that is broken is.
  Status countSkipped(const StepRecord &record) {
    constexpr int64_t kMost = 10;
    skippedInARow = record.skipped ? skippedInARow + 1 : 0;
    if (skippedInARow < kMost)
      return Status();
    return fail(
        "step {}: {} steps in a row were skipped, as their gradients are not finite: lower the learning rate, or see "
        "the data",
        record.step, kMost);
  }

  Status writeBoard(const StepRecord &record) {
    MT_TRY(board->scalar("train/loss", record.step, record.loss));
    MT_TRY(board->scalar("train/grad_norm", record.step, static_cast<float>(record.gradientNorm)));
    MT_TRY(board->scalar("train/lr", record.step, static_cast<float>(record.learningRate)));
    return board->scalar("train/tokens_per_s", record.step,
                         static_cast<float>(static_cast<double>(record.tokens) / record.seconds));
  }

  /// A step's time runs from the report before it, or from when work began after a pause.
  void startClock() {
    std::lock_guard lock(clock);
    since = Clock::now();
  }
  double lap() {
    std::lock_guard lock(clock);
    Clock::time_point now = Clock::now();
    return std::chrono::duration<double>(now - std::exchange(since, now)).count();
  }

  /// What a step would take if all of its useful arithmetic ran at the planner's compute rate.
  double peakSeconds() const {
    const plan::Prediction &predicted = plan.prediction;
    return predicted.executedFlops > 0 ? predicted.usefulFlops / predicted.executedFlops * predicted.computeSeconds : 0;
  }

  TrainSetup &setup;
  Ranks &ranks;
  const TrainOptions &options;
  const Recipe &recipe;
  const plan::Plan &plan;
  Batches batches;
  ProgressLine progress;
  int64_t step, position; ///< enqueued
  std::optional<MetricsFile> metrics; ///< of the first rank
  EvaluationRecord evaluations;       ///< up to `step`
  LossSpikes spikes;                  ///< of the first rank
  bool weightsDiffer = false;         ///< those of ranks
  std::optional<TensorBoard> board;
  std::unique_ptr<GradientFile> gradients;
  std::optional<Evaluation> evaluation;
  int64_t reported = 0, skippedInARow = 0;
  int64_t shownLines = 0; ///< of the metrics, in the report
  bool unshown = false;   ///< it could not be written
  float firstLoss = 0, lastLoss = 0;
  std::string besides; ///< how checkpoints on the way are written; empty where there are none, or no choice
  std::atomic<bool> warned = false;
  std::mutex clock;
  Clock::time_point since;
  std::unique_ptr<Session> session; ///< its threads use the rest
  std::optional<CheckpointWriter> writer;
};

/// Whether a run that could not be opened is to be tried again: its checkpoint turned out to be damaged, and is out of
/// the way now.
bool hasAnother(const TrainSetup &setup, const Status &failure) {
  if (!setup.from.checkpoint)
    return false;
  const std::string &checkpoint = *setup.from.checkpoint;
  if (!isDamaged(checkpoint, false, setup.options.machine.threads))
    return false;
  Result<std::string> kept = setAside(checkpoint);
  if (!kept)
    return false;
  log().warn("{}; it is kept as {}, and the checkpoint before it is used", failure.message(), *kept);
  return true;
}

/// A plan of several ranks without their launcher is rehearsed as one of them.
Status rehearse(const TrainOptions &options, Ranks &ranks) {
  constexpr int64_t kSteps = 5;
  MT_TRY(ranks.open());
  MT_ASSIGN(plan::Plan plan, plan::load(options.plan));
  if (ranks.count() > 1)
    MT_TRY(ranks.join(plan));
  MT_TRY(ranks.compare({{"plan", fmt::format("{:016x}", plan.digest)}}));
  const std::string trace = ranks.shareOf(options.machine, plan).trace;
  MT_TRY(keepInputs(options.plan, plan, {}, {{"--trace", trace}}));
  MT_ASSIGN(executor::Rehearsed took,
            executor::rehearse(plan, options.recipe.steps.value_or(kSteps), trace, ranks.others()));
  if (!ranks.isFirst())
    return Status();
  const double predicted = plan.prediction.stepSeconds;
  return writeOut(fmt::format("rehearsed: {:.4g} s a step, and {:.4g} s are predicted ({:+.1f} %); {} commands a step, "
                              "{:.1f} us of overhead each\n",
                              took.stepSeconds, predicted, (took.stepSeconds / predicted - 1) * 100, took.commands,
                              took.overheadSeconds * 1e6));
}

Status trainOnce(const TrainOptions &options, Ranks &ranks, bool &again) {
  MT_ASSIGN(std::unique_ptr<TrainSetup> setup, TrainSetup::check(options, ranks));
  if (options.dryRun)
    return ranks.isFirst() ? writeOut(fmt::format("{}dry run: nothing was trained\n", describe(*setup))) : Status();
  Trainer trainer(*setup, ranks);
  const Status opened = ranks.agree(trainer.open());
  if (opened)
    return trainer.run();
  MT_ASSIGN(again, ranks.any(ranks.isFirst() && hasAnother(*setup, opened)));
  return opened;
}

} // namespace

Status train(const TrainOptions &options) {
  if (options.quiet)
    log().set_level(spdlog::level::warn);
  Ranks ranks;
  if (options.rehearse)
    return ranks.end(rehearse(options, ranks));
  bool again = false;
  Status status = trainOnce(options, ranks, again);
  while (again)
    status = trainOnce(options, ranks, again = false);
  return ranks.end(status);
}

} // namespace mt::train
