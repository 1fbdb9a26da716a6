#include "runtime/train/Trainer.h"

#include "runtime/base/Log.h"
#include "runtime/base/Sizes.h"
#include "runtime/train/Evaluation.h"
#include "runtime/train/GradientFile.h"
#include "runtime/train/Interrupt.h"
#include "runtime/train/Metrics.h"
#include "runtime/train/TensorBoard.h"
#include "runtime/train/TrainSetup.h"

#include <chrono>
#include <cmath>
#include <utility>

namespace mt::train {
namespace {

using Clock = std::chrono::steady_clock;
using kernels::Scalars;

class Trainer {
public:
  explicit Trainer(TrainSetup &setup)
      : setup(setup), options(setup.options), plan(setup.plan),
        batches(plan, *setup.corpus, Sampler(setup.corpus->rows(), options.shuffle, options.seed)),
        progress(options.quiet, plan.settings.sequence > 0 ? "tok" : "rows", peakSeconds(), setup.steps),
        step(setup.start.step), position(setup.start.position) {}

  Status run() {
    MT_TRY(openFiles());
    MT_TRY(openSession());
    if (setup.checkpoint)
      progress.note(fmt::format("going on from {}, step {}", *setup.checkpoint, step));
    MT_TRY(loop());
    MT_TRY(finish());
    return Status();
  }

private:
  Status openFiles() {
    nlohmann::ordered_json header;
    header["plan"] = fmt::format("{:016x}", plan.digest);
    header["model"] = plan.model.name;
    header["parameters"] = trainableElements(plan);
    header["predicted_step_ms"] = plan.prediction.stepSeconds * 1e3;
    header["batch"] = plan.settings.batch;
    header["micro_batch"] = plan.settings.microBatch;
    header["sequence"] = plan.settings.sequence;
    header["precision"] = plan.settings.precision;
    header["optimizer"] = plan.settings.optimizer;
    header["useful_flops"] = plan.prediction.usefulFlops;
    header["steps"] = setup.steps;
    header["seed"] = options.seed;
    MT_ASSIGN(metrics, MetricsFile::open(options.metrics, header, setup.start.step));
    if (!options.tensorboard.empty()) {
      MT_ASSIGN(board, TensorBoard::open(options.tensorboard));
    }
    if (!options.saveGradients.empty()) {
      MT_ASSIGN(gradients, GradientFile::create(options.saveGradients, plan));
    }
    return Status();
  }

  Status openSession() {
    if (setup.evalCorpus)
      evaluation.emplace(plan, *setup.evalCorpus);
    Session::Setup wanted;
    wanted.machine = options.machine;
    wanted.hyper = options.hyper;
    wanted.seed = options.seed;
    wanted.checkpoint = setup.checkpoint.value_or("");
    wanted.done = [this](const Job &job, float loss, std::span<const double> scalars) {
      return done(job, loss, scalars);
    };
    if (gradients)
      wanted.gradient = [this](int64_t parameter, std::span<const float> values) {
        gradients->add(parameter, values);
      };
    MT_ASSIGN(session, Session::open(plan, std::move(wanted)));
    return Status();
  }

  Status loop() {
    catchInterrupts();
    startClock();
    while (step < setup.steps && !interrupted()) {
      ++step;
      MT_TRY(session->enqueue({plan::ProgramKind::step, step, &batches, position, plan.settings.batch}));
      position += plan.settings.batch;
      bool last = step == setup.steps;
      if (options.evalEvery > 0 && step % options.evalEvery == 0 && !last)
        MT_TRY(evaluateNow());
      if (options.keep > 0 && options.checkpointEvery > 0 && step % options.checkpointEvery == 0 && !last)
        MT_TRY(save());
    }
    return Status();
  }

  /// What follows the last step, whether it was meant to be the last or a signal came.
  Status finish() {
    MT_TRY(session->settle());
    bool stopped = step < setup.steps, keeps = options.keep > 0;
    if (gradients && reported > 0)
      MT_TRY(gradients->finish());
    if (evaluation && !stopped)
      MT_TRY(evaluateNow());
    if (keeps && (step > setup.start.step || !setup.checkpoint))
      MT_TRY(save());
    else
      saved = setup.checkpoint.value_or("none");
    if (!options.machine.trace.empty())
      MT_TRY(session->writeTrace());
    if (stopped && !keeps)
      fmt::print("stopped after step {} of {}; no checkpoint was written (--keep 0)\n", step, setup.steps);
    else if (stopped)
      fmt::print("stopped after step {} of {}; the same command with --resume goes on from {}\n", step, setup.steps,
                 saved);
    else if (reported > 0)
      progress.note(fmt::format("trained {} steps: loss {:.4f} -> {:.4f}; checkpoint {}", reported, firstLoss,
                                lastLoss, saved));
    else
      progress.note(fmt::format("nothing to do: {} is at step {} already", saved, step));
    return Status();
  }

  Status evaluateNow() {
    if (!evaluation)
      return Status();
    MT_TRY(evaluation->run(*session, step));
    double loss = evaluation->loss();
    MT_TRY(metrics->evaluation(step, loss, evaluation->tokens()));
    if (board)
      MT_TRY(board->scalar("eval/loss", step, static_cast<float>(loss)));
    progress.note(fmt::format("step {}: evaluation loss {:.4f}, perplexity {:.4f}, over {} targets", step, loss,
                              std::exp(loss), evaluation->tokens()));
    startClock();
    return Status();
  }

  Status save() {
    MT_TRY(session->settle());
    CheckpointMeta meta = currentMeta();
    auto bytes = [&](const plan::Part &part) { return session->bytes(part.span); };
    MT_ASSIGN(saved, saveCheckpoint(options.out, plan, meta, bytes, options.keep));
    startClock();
    return Status();
  }

  CheckpointMeta currentMeta() const {
    const Hyperparameters &hyper = options.hyper;
    CheckpointMeta meta;
    meta.step = step;
    meta.position = position;
    meta.epoch = batches.epoch(position);
    meta.rows = setup.corpus->rows();
    meta.seed = options.seed;
    meta.shuffle = options.shuffle;
    meta.batch = plan.settings.batch;
    meta.microBatch = plan.settings.microBatch;
    meta.sequence = plan.settings.sequence;
    meta.precision = plan.settings.precision;
    meta.optimizer = plan.settings.optimizer;
    meta.plan = fmt::format("{:016x}", plan.digest);
    meta.modelFile = plan.model.file;
    meta.hyperparameters = {{"lr", hyper.rate.peak},       {"min_lr", hyper.rate.least}, {"warmup", hyper.rate.warmup},
                            {"steps", setup.steps},        {"beta1", hyper.beta1},       {"beta2", hyper.beta2},
                            {"eps", hyper.epsilon},        {"momentum", hyper.momentum}, {"decay_all", hyper.decayAll},
                            {"data", options.data.path}};
    return meta;
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
    record.learningRate = options.hyper.rate.at(job.step);
    record.tokens = job.valid;
    record.seconds = lap();
    record.deviceBytes = session->reservedBytes(plan::SpaceKind::device);
    record.hostBytes =
        session->reservedBytes(plan::SpaceKind::staging) + session->reservedBytes(plan::SpaceKind::state);
    if (reported++ == 0)
      firstLoss = loss;
    lastLoss = loss;
    progress.step(record);
    if (board)
      MT_TRY(writeBoard(record));
    return metrics->step(record);
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
  const TrainOptions &options;
  const plan::Plan &plan;
  Batches batches;
  ProgressLine progress;
  int64_t step, position; ///< enqueued
  std::optional<MetricsFile> metrics;
  std::optional<TensorBoard> board;
  std::unique_ptr<GradientFile> gradients;
  std::optional<Evaluation> evaluation;
  int64_t reported = 0;
  float firstLoss = 0, lastLoss = 0;
  std::string saved;
  std::mutex clock;
  Clock::time_point since;
  std::unique_ptr<Session> session; ///< last: its threads use the rest
};

} // namespace

Status train(const TrainOptions &options) {
  if (options.quiet)
    log().set_level(spdlog::level::warn);
  MT_ASSIGN(std::unique_ptr<TrainSetup> setup, TrainSetup::check(options));
  if (options.dryRun) {
    fmt::print("{}dry run: nothing was trained\n", describe(*setup));
    return Status();
  }
  Trainer trainer(*setup);
  return trainer.run();
}

} // namespace mt::train
