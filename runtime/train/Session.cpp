#include "runtime/train/Session.h"

#include "runtime/train/Checkpoint.h"
#include "runtime/train/Checksum.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace mt::train {

using kernels::Scalars;
using plan::ProgramKind;

Result<std::unique_ptr<Session>> Session::open(const plan::Plan &plan, Setup setup) {
  std::unique_ptr<Session> session(new Session(plan, std::move(setup)));
  const MachineOptions &machine = session->setup.machine;
  executor::ExecutorOptions options;
  options.device = machine.device;
  options.threads = machine.threads;
  options.jitterSeed = machine.jitter;
  options.poison = machine.poison;
  options.cudaGraphs = machine.cudaGraphs;
  options.slowCopyBytesPerSecond = machine.slowCopies;
  options.tracePath = machine.trace;
  options.traceCalls = machine.traceCalls;
  options.stateFolder = machine.stateFolder;
  options.network = session->setup.ranks.others();
  executor::Callbacks callbacks;
  callbacks.feed = [raw = session.get()](std::span<void *const> parts) { return raw->feed(parts); };
  callbacks.report = [raw = session.get()](float loss, std::span<const double> scalars,
                                           std::span<const float> predictions) {
    return raw->report(loss, scalars, predictions);
  };
  callbacks.gradient = session->setup.gradient;
  MT_ASSIGN(session->executor, executor::Executor::create(plan, options, callbacks));
  MT_ASSIGN(uint64_t frozen, session->executor->loadWeights(!session->setup.checkpoint.empty()));
  session->frozen = checksumText(frozen);
  session->clearPending();
  if (!session->setup.checkpoint.empty()) {
    auto bytes = [&](const plan::Part &part) { return session->bytes(part.span); };
    MT_TRY(loadCheckpoint(session->setup.checkpoint, plan, bytes, session->setup.wanted, machine.threads,
                          session->setup.ranks.rank()));
  }
  MT_TRY(session->runAlone(ProgramKind::load));
  if (options.network)
    options.network->expect(plan.prediction.stepSeconds);
  return session;
}

/// Zeroes the scalars that deferred updates read: step 0 says that nothing is pending. They are those of `finish`.
void Session::clearPending() {
  const plan::Program *finish = plan.program(ProgramKind::finish);
  if (!finish)
    return;
  for (const plan::Command &command : finish->commands) {
    if (command.isCopy || command.role != plan::Role::update)
      continue;
    for (const plan::Call &call : plan.templates[command.templateIndex].calls) {
      if (call.operands.size() <= kernels::kUpdateScalars || call.operands[kernels::kUpdateScalars].argument < 0)
        continue;
      const plan::Operand &operand = call.operands[kernels::kUpdateScalars];
      plan::Span scalars = command.arguments[static_cast<size_t>(operand.argument)].span;
      std::span<std::byte> place = executor->host(scalars).subspan(operand.offset, Scalars::kCount * sizeof(double));
      std::fill(place.begin(), place.end(), std::byte(0));
    }
  }
}

Status Session::enqueue(Job job) {
  Result<int64_t> valid = job.batches->valid(job.position, job.count);
  if (valid && *valid == 0 && job.program == ProgramKind::step)
    valid = job.batches->uncounted(job.position, job.count).within(fmt::format("step {}", job.step));
  MT_TRY(setup.ranks.agree(valid.status()));
  job.valid = *valid;
  {
    std::lock_guard lock(mutex);
    waiting.push_back(job);
  }
  if (job.program == ProgramKind::step)
    unsettled = unstored = true;
  return executor->run(job.program);
}

Status Session::settle() {
  MT_TRY(executor->drain());
  return std::exchange(unsettled, false) ? runAlone(ProgramKind::finish) : Status();
}

Status Session::store() {
  MT_TRY(settle());
  return std::exchange(unstored, false) ? runAlone(ProgramKind::store) : Status();
}

/// A program that is no job, where the plan has it.
Status Session::runAlone(ProgramKind kind) {
  const plan::Program *program = plan.program(kind);
  if (!program || program->commands.empty())
    return Status();
  MT_TRY(executor->run(kind));
  return executor->drain();
}

Status Session::feed(std::span<void *const> parts) {
  std::unique_lock lock(mutex);
  if (waiting.empty())
    return fail("the plan feeds more often than its programs run: compile it anew");
  Job job = waiting.front();
  waiting.pop_front();
  lock.unlock();
  MT_TRY(job.batches->fill(job.position, job.count, parts));
  fillScalars(job, parts);
  lock.lock();
  running.push_back(job);
  return Status();
}

void Session::fillScalars(const Job &job, std::span<void *const> parts) const {
  const Recipe &recipe = setup.recipe;
  bool training = job.program == ProgramKind::step;
  auto step = static_cast<double>(job.step);
  std::array<double, Scalars::kCount> common = {};
  common[Scalars::kStep] = step;
  common[Scalars::kLearningRate] = training ? recipe.rate.at(job.step) : 0;
  common[Scalars::kSkips] = recipe.skipsNonFinite ? 1 : 0;
  common[Scalars::kInverseValid] = job.valid > 0 ? 1.0 / static_cast<double>(job.valid) : 0;
  common[Scalars::kClipThreshold] =
      plan.settings.clip ? recipe.clipNorm : std::numeric_limits<double>::infinity();
  common[Scalars::kClipScale] = 1;
  common[Scalars::kSeed] = static_cast<double>((recipe.seed ^ recipe.seed >> 53) & ((uint64_t{1} << 53) - 1));
  common[Scalars::kDraw] = training ? step : -1 - static_cast<double>(job.position / plan.settings.batch);
  std::vector<std::array<double, Scalars::kCount>> rows(static_cast<size_t>(kernels::scalarRow(static_cast<int64_t>(plan.parameters.size()))), common);
  for (size_t p = 0; training && p < recipe.updates.size(); ++p) {
    const UpdateRecipe &update = recipe.updates[p];
    auto &row = rows[static_cast<size_t>(kernels::scalarRow(static_cast<int64_t>(p)))];
    row[Scalars::kLearningRate] = update.rate.at(job.step);
    row[Scalars::kDecay] = update.decay;
    for (size_t i = 0; i < update.hyperparameters.size(); ++i) {
      const kernels::Hyperparameter &entry = update.optimizer->hyperparameters[i];
      row[static_cast<size_t>(entry.place)] = update.hyperparameters[i];
      if (entry.correction >= 0)
        row[static_cast<size_t>(entry.correction)] = 1 - std::pow(update.hyperparameters[i], step);
    }
  }
  size_t part = 0;
  for (const plan::Input &input : plan.inputs) {
    if (input.kind == plan::InputKind::scalars)
      std::memcpy(parts[part], rows.data(), rows.size() * sizeof(rows[0]));
    part += input.parts.size();
  }
}

Status Session::report(float loss, std::span<const double> scalars, std::span<const float> predictions) {
  std::unique_lock lock(mutex);
  if (running.empty())
    return fail("the plan reports more often than its programs run: compile it anew");
  Job job = running.front();
  running.pop_front();
  lock.unlock();
  if (!job.predictions)
    return setup.done(job, loss, scalars);
  job.predictions->assign(predictions.begin(), predictions.end());
  return Status();
}

} // namespace mt::train
