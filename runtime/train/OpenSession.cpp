#include "runtime/train/OpenSession.h"

#include "runtime/base/Log.h"
#include "runtime/device/MakeDevice.h"
#include "runtime/host/MachineMemory.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/train/RunFolder.h"
#include "runtime/train/TrainSetup.h"

namespace mt::train {
namespace {

uint64_t seedOf(const CheckpointMeta &meta) {
  auto seed = meta.recipe.find("seed");
  return seed != meta.recipe.end() && seed->is_number_unsigned() ? seed->get<uint64_t>() : 0;
}

} // namespace

Result<plan::Plan> loadToRead(const std::string &path, const std::string &from, MachineOptions &machine, Ranks &ranks,
                              std::vector<InputFile> others) {
  MT_TRY(ranks.open());
  Result<plan::Plan> loaded = plan::load(path);
  MT_TRY(ranks.agree(loaded.status()));
  plan::Plan plan = std::move(*loaded);
  MT_TRY(ranks.join(plan));
  if (!machine.memoryCheck)
    host::trustMachineMemory();
  machine = ranks.shareOf(machine, plan);
  MT_TRY(keepInputs(path, plan, std::move(others), {{"--trace", machine.trace}}));
  MT_TRY(ranks.agree(device::useInstructionSet(machine.isa, plan.target)));
  MT_TRY(executor::checkMachine(plan, machine.device, machine.threads, ranks.localCount()));
  MT_TRY(checkInputs(plan));
  if (!plan.program(plan::ProgramKind::evaluate))
    return fail("{}: the plan has no program for evaluation: compile it anew", path);
  MT_TRY(checkWeightFiles(plan, !from.empty()));
  return plan;
}

Result<std::unique_ptr<Session>> openSession(const std::string &from, bool best, bool ema,
                                             const MachineOptions &machine, const plan::Plan &plan, Ranks &ranks,
                                             const JobDone &done) {
  Session::Setup setup(ranks);
  setup.machine = machine;
  setup.wanted = ema ? Wanted::average : Wanted::weights;
  setup.done = done;
  if (from.empty())
    return Session::open(plan, setup);
  std::unique_ptr<Session> session;
  auto use = [&](const FoundCheckpoint &found) -> Status {
    const std::string &was = found.meta.precision; // a base in other bits may be beside the weights
    if (was.substr(0, was.find(',')) != plan.settings.precision)
      return fail("{}: trained with precision {}, and the plan has {}: compile a plan with the same precision",
                  found.folder, was, plan.settings.precision);
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
  Status opened = best ? withBest(from, use) : withNewest(from, use);
  return opened ? Result<std::unique_ptr<Session>>(std::move(session)) : opened.within("--from");
}

} // namespace mt::train
