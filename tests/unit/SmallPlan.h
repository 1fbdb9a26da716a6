// A plan of two layers made by hand, small enough to follow on paper: weights stream from staging into a ring of two
// slots, each layer's output is written by one kernel, its gradient goes down and is applied on the host.
#ifndef MT_TESTS_UNIT_SMALLPLAN_H
#define MT_TESTS_UNIT_SMALLPLAN_H

#include "runtime/plan/Program.h"

namespace mt::plan {

inline Command copyCommand(Role role, uint32_t stream, std::string label, Span from, Span to, int32_t layer) {
  Command command;
  command.role = role;
  command.stream = stream;
  command.label = std::move(label);
  command.isCopy = true;
  command.from = from;
  command.to = to;
  command.layer = layer;
  command.predictedSeconds = 0.002;
  return command;
}

inline Command runCommand(Role role, uint32_t stream, std::string label, uint32_t templateIndex,
                          std::vector<Binding> arguments, int32_t layer) {
  Command command;
  command.role = role;
  command.stream = stream;
  command.label = std::move(label);
  command.templateIndex = templateIndex;
  command.arguments = std::move(arguments);
  command.layer = layer;
  command.microBatch = layer < 0 ? -1 : 0;
  command.predictedSeconds = 0.004;
  return command;
}

/// Layers' weights of 64 bytes at staging 0 and 64; gradients land at staging 128 and 192.
inline std::vector<Parameter> smallParameters() {
  std::vector<Parameter> parameters;
  for (uint64_t layer = 0; layer < 2; ++layer) {
    Parameter parameter;
    parameter.name = "block." + std::to_string(layer) + ".weight";
    parameter.dims = {4, 4};
    parameter.trainable = true;
    parameter.optimizer = "adamw";
    parameter.parts = {{std::string(kWeight), DType::f32, {1, 64 * layer, 64}},
                       {"first_moment", DType::f32, {2, 128 * layer, 64}},
                       {"second_moment", DType::f32, {2, 128 * layer + 64, 64}}};
    parameter.initial.generator = "normal";
    parameter.initial.deviation = 0.02;
    parameters.push_back(parameter);
  }
  return parameters;
}

/// One template: add of a weight and a value into another.
inline Template smallTemplate() {
  using kernels::Effect;
  Template code;
  code.name = "block.forward";
  code.arguments = {{64, Effect::read}, {64, Effect::read}, {64, Effect::write}};
  Call call;
  call.signature.kernel = "add";
  call.signature.operands = {
      {DType::f32, {4, 4}, Effect::read}, {DType::f32, {4, 4}, Effect::read}, {DType::f32, {4, 4}, Effect::write}};
  call.operands = {{0, 0}, {1, 0}, {2, 0}};
  call.location = "/block/Add";
  code.calls = {call};
  return code;
}

/// Upload, compute and download of both layers. Device: ring [0, 128), values [128, 320). No awaits yet.
inline Program smallStep() {
  Program step;
  const auto weight = [](uint64_t layer) { return Span{1, 64 * layer, 64}; };
  const auto ring = [](uint64_t layer) { return Span{0, 64 * layer, 64}; };
  const auto value = [](uint64_t index) { return Span{0, 128 + 64 * index, 64}; };
  for (uint64_t layer = 0; layer < 2; ++layer) {
    const std::string number = std::to_string(layer);
    const int32_t id = static_cast<int32_t>(layer);
    step.commands.push_back(copyCommand(Role::prefetch, 0, "weights " + number, weight(layer), ring(layer), id));
    step.commands.push_back(runCommand(Role::compute, 1, "forward " + number, 0,
                                       {{ring(layer), BindingEffect::read, false},
                                        {value(layer), BindingEffect::read, false},
                                        {value(layer + 1), BindingEffect::write, true}},
                                       id));
    step.commands.push_back(
        copyCommand(Role::offload, 2, "gradient " + number, value(layer + 1), {1, 128 + 64 * layer, 64}, id));
  }
  return step;
}

inline Plan smallPlan() {
  Plan plan;
  plan.producer = "test";
  plan.model = {"/models/small.onnx", "small", 0x1234, 2, 0};
  plan.settings = {.batch = 2, .microBatch = 1, .sequence = 4, .loss = "mse", .precision = "fp32", .optimizer = "adamw",
                   .groups = {}, .savedActivations = "input 1, all 1", .weights = "streamed", .parked = "1 values", .updates = "early"};
  plan.target = {"cpu-discrete", "cpu", false};
  plan.spaces = {{SpaceKind::device, 0, 320, "device"},
                 {SpaceKind::staging, 0, 256, "staging"},
                 {SpaceKind::state, 0, 256, "state"}};
  plan.streams = {
      {StreamKind::upload, 0, "upload"}, {StreamKind::compute, 0, "compute"}, {StreamKind::download, 0, "download"}};
  plan.parameters = smallParameters();
  plan.templates = {smallTemplate()};
  Program step = smallStep();
  step.commands[0].awaits = {{1, 1}};         // the ring's slot is free
  step.commands[1].awaits = {{0, 0}, {2, 1}}; // weights are there; the value written is no longer read
  step.commands[2].awaits = {{1, 0}};
  step.commands[3].awaits = {{4, 1}};
  step.commands[4].awaits = {{3, 0}, {5, 1}};
  step.commands[5].awaits = {{4, 0}};
  plan.programs = {step};
  plan.prediction.stepSeconds = 0.012;
  plan.prediction.computeSeconds = 0.008;
  plan.prediction.bound = "compute-bound";
  return plan;
}

} // namespace mt::plan
#endif
