#include "runtime/train/Evaluation.h"

#include "runtime/base/Files.h"
#include "runtime/train/OpenSession.h"
#include "runtime/train/TrainSetup.h"
#include "runtime/train/Trainer.h"

#include <cmath>

namespace mt::train {

Status Evaluation::run(Session &session, int64_t step) {
  sum = 0;
  weight = valid = 0;
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
  const bool ofRows = plan.settings.lossOfRows;
  if (job.valid == 0 && !ofRows) // no label of these rows counts: they say nothing
    return;
  sum += static_cast<double>(loss) * static_cast<double>(ofRows ? plan.settings.batch : job.valid);
  weight += ofRows ? job.count : job.valid;
  valid += job.valid;
}

namespace {

/// Arranges data as the run did that the newest checkpoint of `from` is of.
Status holdBackAsRun(const std::string &from, TrainData &data, const plan::Plan &plan) {
  return withNewest(from, [&](const FoundCheckpoint &found) -> Status {
    RecipeOptions recipe;
    MT_TRY(adoptStored(recipe, found.meta.recipe).status().within(found.folder));
    if (recipe.evalSplit.value_or(0) == 0)
      return fail("--split: {} holds no rows back for evaluation: it was trained without --eval-split", found.folder);
    if (found.meta.data != data.data.fingerprint)
      return fail(
          "--split: {} was trained on other data than {} has, and of these it holds nothing back: give the same",
          found.folder, data.data.name);
    fillDefaults(recipe, plan);
    MT_TRY(data.arrange(recipe, plan));
    if (found.meta.rows != data.order->rows())
      return fail(
          "--split: {} was trained on {} rows, and to this plan they are {}, of which others are held back: compile "
          "it with the same --seq",
          found.folder, found.meta.rows, data.order->rows());
    return Status();
  });
}

} // namespace

std::string perplexityText(std::string_view before, double loss, const plan::Plan &plan) {
  const std::optional<size_t> labels = labelInput(plan);
  const bool isOfClasses = labels && !isFloat(plan.inputs[*labels].type) && !plan.settings.lossOfRows;
  return isOfClasses ? fmt::format("{}{:.4f}", before, std::exp(loss)) : std::string();
}

static Status evaluate(const EvalOptions &options, Ranks &ranks) {
  MachineOptions machine = options.machine;
  MT_ASSIGN(const plan::Plan plan, loadToRead(options.plan, options.from, machine, ranks, inputsOf(options.data)));
  MT_ASSIGN(TrainData data, TrainData::open(options.data, {}, plan));
  if (options.pack && !options.heldBack)
    MT_TRY(packAll(data.data.parts, data.data.name, plan).status());
  SharedCorpus corpus = asOne(data.data.parts);
  if (options.heldBack) {
    MT_TRY(holdBackAsRun(options.from, data, plan));
    corpus = data.evalCorpus;
  }
  MT_TRY(checkEvaluable(*corpus, data.data.name, plan));
  MT_TRY(ranks.compare(
      {{"plan", fmt::format("{:016x}", plan.digest)}, {"data", data.data.fingerprint}, {"--from", options.from}}));
  Evaluation evaluation(plan, *corpus, ranks.rank());
  auto done = [&](const Job &job, float loss, std::span<const double>) {
    evaluation.add(job, loss);
    return Status();
  };
  MT_ASSIGN(std::unique_ptr<Session> session,
            openSession(options.from, options.best, options.ema, machine, plan, ranks, done));
  MT_TRY(evaluation.run(*session, 0));
  if (!options.machine.trace.empty())
    MT_TRY(session->writeTrace());
  if (evaluation.tokens() == 0)
    return fail("{}: no label of it counts: a loss over none is undefined", data.data.name);
  if (!ranks.isFirst())
    return Status();
  return writeOut(fmt::format("loss {:.6f}{}  over {} targets\n", evaluation.loss(),
                              perplexityText("  perplexity ", evaluation.loss(), plan), evaluation.tokens()));
}

Status evaluate(const EvalOptions &options) {
  Ranks ranks;
  return ranks.end(evaluate(options, ranks));
}

} // namespace mt::train
