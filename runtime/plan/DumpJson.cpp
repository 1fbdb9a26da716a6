// The JSON form: every field of the plan under the names of plan.proto, kinds and roles as words, and each command's
// predicted start in seconds.
#include "runtime/plan/Dump.h"
#include "runtime/plan/Timeline.h"

#include <nlohmann/json.hpp>

namespace mt::plan {
namespace {

using Json = nlohmann::ordered_json;

/// A list of `convert(element)`.
template <typename List, typename Convert> Json listOf(const List &list, Convert convert) {
  Json result = Json::array();
  for (const auto &element : list)
    result.push_back(convert(element));
  return result;
}

Json toJson(const Span &span) { return {{"space", span.space}, {"offset", span.offset}, {"bytes", span.bytes}}; }

Json toJson(const Settings &s) {
  return {{"batch", s.batch},
          {"micro_batch", s.microBatch},
          {"sequence", s.sequence},
          {"loss", s.loss},
          {"label_smoothing", s.labelSmoothing},
          {"z_loss", s.zLoss},
          {"precision", s.precision},
          {"optimizer", s.optimizer},
          {"groups", s.groups},
          {"clip", s.clip},
          {"average", s.average},
          {"saved_activations", s.savedActivations},
          {"weights", s.weights},
          {"parked", s.parked},
          {"updates", s.updates},
          {"narrow_exchange", s.narrowExchange},
          {"every_row_counts", s.everyRowCounts},
          {"loss_of_rows", s.lossOfRows}};
}

Json toJson(const Prediction &p) {
  return {{"step_seconds", p.stepSeconds},
          {"compute_seconds", p.computeSeconds},
          {"upload_seconds", p.uploadSeconds},
          {"download_seconds", p.downloadSeconds},
          {"host_seconds", p.hostSeconds},
          {"disk_seconds", p.diskSeconds},
          {"network_seconds", p.networkSeconds},
          {"bound", p.bound},
          {"useful_flops", p.usefulFlops},
          {"executed_flops", p.executedFlops},
          {"weight_link_bytes", p.weightLinkBytes},
          {"gradient_link_bytes", p.gradientLinkBytes},
          {"activation_link_bytes", p.activationLinkBytes},
          {"state_link_bytes", p.stateLinkBytes},
          {"network_bytes", p.networkBytes}};
}

Json toJson(const Initial &initial) {
  Json json;
  if (!initial.pieces.empty())
    json["pieces"] = listOf(initial.pieces, [](const Piece &piece) {
      Json one = toJson(piece.initial);
      one["name"] = piece.name;
      return one;
    });
  else
    json = initial.path.empty() ? Json{{"generator", initial.generator},
                                          {"seed", initial.seed},
                                          {"deviation", initial.deviation},
                                          {"value", initial.value}}
                                   : Json{{"path", initial.path},
                                          {"offset", initial.offset},
                                          {"length", initial.length},
                                          {"type", kernels::name(initial.type)}};
  if (const auto &packing = initial.packing)
    json["packing"] = {{"dims", packing->dims}, {"block", packing->block}, {"codes", packing->codes}};
  return json;
}

Json toJson(const Parameter &parameter) {
  return {{"name", parameter.name},
          {"aliases",
           listOf(parameter.aliases,
                  [](const Alias &alias) -> Json {
                    return {{"kind", name(alias.kind)}, {"name", alias.name}, {"transposed", alias.transposed}};
                  })},
          {"dims", parameter.dims},
          {"trainable", parameter.trainable},
          {"optimizer", parameter.optimizer},
          {"parts",
           listOf(parameter.parts,
                  [](const Part &part) -> Json {
                    return {{"name", part.name}, {"elements", part.elements}, {"type", kernels::name(part.type)}, {"span", toJson(part.span)}};
                  })},
          {"initial", toJson(parameter.initial)}};
}

Json toJson(const Input &input) {
  return {{"kind", name(input.kind)},
          {"name", input.name},
          {"type", kernels::name(input.type)},
          {"dims", input.dims},
          {"parts", listOf(input.parts, [](const Span &span) { return toJson(span); })},
          {"vocabulary", input.vocabulary},
          {"ignored", input.ignored ? Json(*input.ignored) : Json()},
          {"targets", input.targets}};
}

std::string_view effectName(kernels::Effect effect) {
  constexpr std::string_view kNames[] = {"read", "write", "scratch", "update"};
  const size_t index = static_cast<size_t>(effect);
  return index < std::size(kNames) ? kNames[index] : "invalid";
}

Json toJson(const Call &call) {
  Json attributes = Json::object(), operands = Json::array();
  for (const auto &[key, value] : call.signature.attributes)
    attributes[key] = std::visit([](const auto &held) { return Json(held); }, value);
  for (size_t i = 0; i < call.operands.size() && i < call.signature.operands.size(); ++i) {
    const kernels::OperandType &type = call.signature.operands[i];
    if (type.present)
      operands.push_back({{"argument", call.operands[i].argument},
                          {"offset", call.operands[i].offset},
                          {"type", kernels::name(type.type)},
                          {"dims", type.dims},
                          {"effect", effectName(type.effect)}});
    else
      operands.push_back(nullptr);
  }
  return {{"kernel", call.signature.kernel},
          {"attributes", attributes},
          {"operands", operands},
          {"location", call.location}};
}

Json toJson(const Template &code) {
  return {{"name", code.name},
          {"arguments", listOf(code.arguments,
                               [](const Argument &argument) -> Json {
                                 return {{"bytes", argument.bytes}, {"effect", effectName(argument.effect)}};
                               })},
          {"workspace_bytes", code.workspaceBytes},
          {"calls", listOf(code.calls, [](const Call &call) { return toJson(call); })}};
}

Json toJson(const Command &command, double start, double seconds) {
  Json json{{"role", name(command.role)}, {"stream", command.stream}, {"label", command.label}};
  if (command.isCopy)
    json["copy"] = {{"bytes", name(command.bytes)}, {"from", toJson(command.from)}, {"to", toJson(command.to)}};
  else
    json["run"] = {
        {"template_index", command.templateIndex},
        {"arguments",
         listOf(command.arguments,
                [](const Binding &binding) -> Json {
                  Json json{{"span", toJson(binding.span)}, {"effect", name(binding.effect)}, {"fresh", binding.fresh}};
                  if (binding.rankReach > 0)
                    json["rank_stride"] = binding.rankStride, json["rank_reach"] = binding.rankReach;
                  return json;
                })},
        {"workspace", toJson(command.workspace)}};
  json["awaits"] = listOf(command.awaits, [](const Await &await) -> Json {
    return {{"command", await.command}, {"back", await.back}};
  });
  json["predicted_start"] = start;
  json["predicted_seconds"] = seconds;
  json["layer"] = command.layer;
  json["micro_batch"] = command.microBatch;
  return json;
}

Json toJson(const Plan &plan, const Program &program) {
  const Timeline timeline = simulate(plan, program);
  Json commands = Json::array();
  for (size_t i = 0; i < program.commands.size(); ++i)
    commands.push_back(toJson(program.commands[i], timeline.start[i], timeline.took(i)));
  return {{"kind", name(program.kind)}, {"predicted_seconds", timeline.seconds}, {"commands", commands}};
}

Json tables(const Plan &plan) {
  return {{"producer", plan.producer},
          {"digest", fmt::format("{:016x}", plan.digest)},
          {"ranks", plan.ranks},
          {"model",
           {{"file", plan.model.file},
            {"name", plan.model.name},
            {"digest", fmt::format("{:016x}", plan.model.digest)},
            {"layers", plan.model.layers},
            {"vocabulary", plan.model.vocabulary}}},
          {"settings", toJson(plan.settings)},
          {"target",
           {{"name", plan.target.name},
            {"device", plan.target.device},
            {"unified", plan.target.unified},
            {"isa", plan.target.isa}}},
          {"prediction", toJson(plan.prediction)},
          {"spaces", listOf(plan.spaces,
                            [](const Space &space) -> Json {
                              return {{"kind", name(space.kind)},
                                      {"device", space.device},
                                      {"bytes", space.bytes},
                                      {"name", space.name}};
                            })},
          {"streams", listOf(plan.streams, [](const Stream &stream) -> Json {
             return {{"kind", name(stream.kind)}, {"device", stream.device}, {"name", stream.name}};
           })}};
}

} // namespace

std::string dumpJson(const Plan &plan) {
  Json json = tables(plan);
  json["parameters"] = listOf(plan.parameters, [](const Parameter &parameter) { return toJson(parameter); });
  json["adapters"] = listOf(plan.adapters, [&](const Adapter &adapter) -> Json {
    return {{"weight", plan.parameters[adapter.weight].name},
            {"down", plan.parameters[adapter.down].name},
            {"up", plan.parameters[adapter.up].name},
            {"scale", adapter.scale},
            {"dropout", adapter.dropout},
            {"transposed", adapter.transposed}};
  });
  json["inputs"] = listOf(plan.inputs, [](const Input &input) { return toJson(input); });
  json["templates"] = listOf(plan.templates, [](const Template &code) { return toJson(code); });
  json["programs"] = listOf(plan.programs, [&](const Program &program) { return toJson(plan, program); });
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace mt::plan
