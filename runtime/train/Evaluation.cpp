#include "runtime/train/Evaluation.h"

#include "runtime/base/Files.h"
#include "runtime/base/Log.h"
#include "runtime/host/MachineMemory.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/train/DataFingerprint.h"
#include "runtime/train/TrainSetup.h"
#include "runtime/train/Trainer.h"

#include <cmath>

namespace mt::train {

Status Evaluation::run(Session &session, int64_t step) {
  sum = 0;
  valid = 0;
  MT_TRY(session.settle());
  int64_t batch = plan.settings.batch;
  int64_t rows = canPad(plan) ? corpus.rows() : corpus.rows() / batch * batch;
  int64_t at = 0;
  for (; at < rows && !session.ranks().stop(); at += batch)
    MT_TRY(session.enqueue({plan::ProgramKind::evaluate, step, &batches, at, std::min(batch, rows - at)}));
  whole = at >= rows;
  return session.settle();
}

void Evaluation::add(const Job &job, float loss) {
  if (job.valid == 0) // no label of these rows counts: they say nothing
    return;
  sum += static_cast<double>(loss) * static_cast<double>(job.valid);
  valid += job.valid;
}

namespace {

uint64_t seedOf(const CheckpointMeta &meta) {
  auto seed = meta.recipe.find("seed");
  return seed != meta.recipe.end() && seed->is_number_unsigned() ? seed->get<uint64_t>() : 0;
}

/// A session with the initial weights, or those of the newest or best checkpoint of --from.
Result<std::unique_ptr<Session>> openSession(const EvalOptions &options, const MachineOptions &machine,
                                             const plan::Plan &plan, Ranks &ranks, const JobDone &done) {
  Session::Setup setup(ranks);
  setup.machine = machine;
  setup.weightsOnly = true;
  setup.done = done;
  if (options.from.empty())
    return Session::open(plan, setup);
  std::unique_ptr<Session> session;
  auto use = [&](const FoundCheckpoint &found) -> Status {
    if (found.meta.precision != plan.settings.precision)
      return fail("{}: trained with precision {}, and the plan has {}: compile a plan with the same precision",
                  found.folder, found.meta.precision, plan.settings.precision);
    session.reset(); // before there is memory for another
    setup.checkpoint = found.folder;
    setup.recipe.seed = seedOf(found.meta); // of what the model draws, as evaluations of the run
    MT_ASSIGN(session, Session::open(plan, setup));
    for (const Status &same : {isOfGraph(found.folder, found.meta, plan),
                               hasFrozenWeights(found.folder, found.meta, session->frozenWeights())})
      if (!same)
        log().warn("{}", same.message());
    return ranks.compare({{"checkpoint", found.folder}});
  };
  Status opened = options.best ? withBest(options.from, use) : withNewest(options.from, use);
  return opened ? Result<std::unique_ptr<Session>>(std::move(session)) : opened.within("--from");
}

} // namespace

static Status evaluate(const EvalOptions &options, Ranks &ranks) {
  MT_TRY(ranks.open());
  Result<plan::Plan> loaded = plan::load(options.plan);
  MT_TRY(ranks.agree(loaded.status()));
  plan::Plan plan = std::move(*loaded);
  MT_TRY(ranks.join(plan));
  const MachineOptions machine = ranks.shareOf(options.machine, plan);
  if (!options.machine.memoryCheck)
    host::trustMachineMemory();
  MT_TRY(executor::checkMachine(plan, machine.device, machine.threads, ranks.localCount()));
  MT_TRY(checkInputs(plan));
  if (!plan.program(plan::ProgramKind::evaluate))
    return fail("{}: the plan has no program for evaluation: compile it anew", options.plan);
  MT_ASSIGN(std::unique_ptr<Corpus> corpus, openEvalCorpus(options.data, plan));
  MT_TRY(checkWeightFiles(plan));
  MT_ASSIGN(const std::string data, dataFingerprint(options.data.path, options.data.tokenizer));
  MT_TRY(ranks.compare({{"plan", fmt::format("{:016x}", plan.digest)}, {"data", data}, {"--from", options.from}}));
  Evaluation evaluation(plan, *corpus, ranks.rank());
  auto done = [&](const Job &job, float loss, std::span<const double>) {
    evaluation.add(job, loss);
    return Status();
  };
  MT_ASSIGN(std::unique_ptr<Session> session, openSession(options, machine, plan, ranks, done));
  MT_TRY(evaluation.run(*session, 0));
  if (!options.machine.trace.empty())
    MT_TRY(session->writeTrace());
  if (evaluation.tokens() == 0)
    return fail("--data {}: no label of it counts: a loss over none is undefined", options.data.path);
  if (!ranks.isFirst())
    return Status();
  return writeOut(fmt::format("loss {:.6f}  perplexity {:.4f}  over {} targets\n", evaluation.loss(),
                              std::exp(evaluation.loss()), evaluation.tokens()));
}

Status evaluate(const EvalOptions &options) {
  Ranks ranks;
  return ranks.end(evaluate(options, ranks));
}

} // namespace mt::train
