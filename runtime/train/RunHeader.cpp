#include "runtime/train/RunHeader.h"

#include "runtime/plan/Dump.h"
#include "runtime/plan/ParameterGroups.h"
#include "runtime/plan/Timeline.h"

#include <fmt/ranges.h>

namespace mt::train {
namespace {

using nlohmann::ordered_json;

ordered_json spacesOf(const plan::Plan &plan) {
  ordered_json spaces = ordered_json::array();
  for (const plan::Space &space : plan.spaces)
    spaces.push_back({{"name", space.name}, {"kind", plan::name(space.kind)}, {"bytes", space.bytes}});
  return spaces;
}

/// Of each stream, milliseconds of work in a step by the roles of its commands, as predicted.
ordered_json streamsOf(const plan::Plan &plan) {
  ordered_json streams = ordered_json::array();
  const plan::Program *step = plan.program(plan::ProgramKind::step);
  if (!step)
    return streams;
  constexpr plan::Role kRoles[] = {plan::Role::prefetch, plan::Role::compute, plan::Role::offload, plan::Role::update};
  std::vector<std::array<double, std::size(kRoles)>> busy(plan.streams.size());
  const plan::Timeline timeline = plan::simulate(plan, *step);
  for (size_t i = 0; i < step->commands.size(); ++i)
    busy[step->commands[i].stream][static_cast<size_t>(step->commands[i].role)] += timeline.took(i);
  for (size_t i = 0; i < plan.streams.size(); ++i) {
    ordered_json roles = ordered_json::object();
    for (plan::Role role : kRoles)
      if (double seconds = busy[i][static_cast<size_t>(role)]; seconds > 0)
        roles[std::string(plan::name(role))] = seconds * 1e3;
    streams.push_back({{"name", plan.streams[i].name}, {"busy_ms", std::move(roles)}});
  }
  return streams;
}

} // namespace

ordered_json runHeader(const TrainSetup &setup) {
  const plan::Plan &plan = setup.plan;
  ordered_json header;
  header["run"] = setup.folder->run();
  header["plan"] = fmt::format("{:016x}", plan.digest);
  header["model"] = plan.model.name;
  header["parameters"] = trainableElements(plan);
  header["predicted_step_ms"] = plan.prediction.stepSeconds * 1e3;
  header["batch"] = plan.settings.batch;
  header["micro_batch"] = plan.settings.microBatch;
  header["sequence"] = plan.settings.sequence;
  header["precision"] = plan.settings.precision;
  header["optimizer"] = plan::describeOptimizers(plan.settings);
  header["useful_flops"] = plan.ranks * plan.prediction.usefulFlops;
  header["steps"] = setup.recipe.rate.steps;
  header["seed"] = setup.recipe.seed;
  header["layers"] = plan.model.layers;
  header["ranks"] = plan.ranks;
  header["loss_kind"] = plan::describeLoss(plan.settings);
  header["data"] = fmt::format("{}", fmt::join(setup.options.data.paths, ", "));
  if (!setup.options.evalData.empty())
    header["eval_data"] = fmt::format("{}", fmt::join(setup.options.evalData, ", "));
  header["recipe"] = toJson(setup.options.recipe);
  header["target"] = plan.target.name;
  header["bound"] = plan.prediction.bound;
  header["spaces"] = spacesOf(plan);
  header["streams"] = streamsOf(plan);
  return header;
}

} // namespace mt::train
