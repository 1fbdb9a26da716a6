// The text form: what the plan is, its tables, its templates, and each program with one line per command. A table of
// layers before a program's commands lists the commands of each layer, so that one can be followed through the step.
#include "runtime/base/Sizes.h"
#include "runtime/plan/Dump.h"
#include "runtime/plan/LayerIndex.h"
#include "runtime/plan/Timeline.h"

#include <fmt/ranges.h>

#include <iterator>

namespace mt::plan {
namespace {

class TextDump {
public:
  explicit TextDump(const Plan &plan) : plan(plan) {}

  std::string run() {
    printHeader();
    printSpacesAndStreams();
    printParameters();
    printInputs();
    for (uint32_t i = 0; i < plan.templates.size(); ++i)
      printTemplate(i);
    for (const Program &program : plan.programs)
      printProgram(program);
    return fmt::to_string(buffer);
  }

private:
  const Plan &plan;
  fmt::memory_buffer buffer;

  template <typename... Args> void line(fmt::format_string<Args...> format, Args &&...args) {
    fmt::format_to(std::back_inserter(buffer), format, std::forward<Args>(args)...);
    buffer.push_back('\n');
  }

  std::string describe(const Span &span) const {
    const std::string space =
        span.space < plan.spaces.size() ? plan.spaces[span.space].name : fmt::format("space {}", span.space);
    return fmt::format("{}[{}, +{})", space, span.offset, span.bytes);
  }

  static std::string describe(const kernels::Attribute &attribute) {
    return std::visit(
        [](const auto &value) {
          if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>)
            return fmt::format("\"{}\"", value);
          else
            return fmt::format("{}", value);
        },
        attribute);
  }

  void printHeader() {
    double parameters = 0;
    for (const Parameter &parameter : plan.parameters)
      parameters += elementsOf(parameter);
    const Settings &settings = plan.settings;
    line("plan of {} by {}, digest {:016x}", plan.model.file, plan.producer, plan.digest);
    line("  model      {}: {} layers, {} parameters in {} tensors, digest {:016x}", plan.model.name, plan.model.layers,
         formatCount(parameters), plan.parameters.size(), plan.model.digest);
    line("  step       batch {} in micro-batches of {}, sequence {}, loss {}", settings.batch, settings.microBatch,
         settings.sequence, describeLoss(settings));
    line("  numbers    {}, {}, {}{}", settings.precision, settings.optimizer, settings.clip ? "clipped" : "not clipped",
         settings.average ? ", with an average of the weights" : "");
    for (const std::string &group : settings.groups)
      line("  group      {}", group);
    if (!plan.adapters.empty())
      line("  adapters   {}", describeAdapters(plan));
    if (const std::string packed = describePacked(plan); !packed.empty())
      line("  packed     {}", packed);
    line("  decisions  saved activations: {}; weights: {}; parked: {}; updates: {}", settings.savedActivations, settings.weights,
         settings.parked, settings.updates);
    line("  target     {} ({}{}{})", plan.target.name, plan.target.device, plan.target.unified ? ", unified" : "",
         plan.target.isa.empty() ? "" : ", " + plan.target.isa);
    if (plan.ranks > 1)
      line("  ranks      {}, each with a batch of {}", plan.ranks, settings.batch / plan.ranks);
    printPrediction();
    line("");
  }

  void printPrediction() {
    const Prediction &p = plan.prediction;
    auto also = [](const char *what, double seconds) {
      return seconds > 0 ? fmt::format(", {} {}", what, formatSeconds(seconds)) : std::string();
    };
    line("  predicted  step {} ({}): compute {}, upload {}, download {}, host {}{}{}", formatSeconds(p.stepSeconds),
         p.bound, formatSeconds(p.computeSeconds), formatSeconds(p.uploadSeconds), formatSeconds(p.downloadSeconds),
         formatSeconds(p.hostSeconds), also("disk", p.diskSeconds), also("network", p.networkSeconds));
    if (const double clipped = clippedSeconds(plan); clipped > p.stepSeconds)
      line("  clipped    step {}: its speculative updates are repeated", formatSeconds(clipped));
    line("  work       {} useful, {} executed; over the link: weights {}, gradients {}, activations {}, state {}",
         formatFlops(p.usefulFlops), formatFlops(p.executedFlops), formatSize(p.weightLinkBytes),
         formatSize(p.gradientLinkBytes), formatSize(p.activationLinkBytes), formatSize(p.stateLinkBytes));
    if (plan.ranks > 1)
      line("  network    {} that a rank sends a step, gradients in {} bits", formatSize(p.networkBytes),
           plan.settings.narrowExchange ? 16 : 32);
  }

  void printSpacesAndStreams() {
    line("spaces");
    for (size_t i = 0; i < plan.spaces.size(); ++i)
      line("  {}  {:<8} {:<12} device {}  {}", i, name(plan.spaces[i].kind), plan.spaces[i].name, plan.spaces[i].device,
           formatExactSize(plan.spaces[i].bytes));
    line("");
    line("streams");
    for (size_t i = 0; i < plan.streams.size(); ++i)
      line("  {}  {:<8} {:<12} device {}", i, name(plan.streams[i].kind), plan.streams[i].name, plan.streams[i].device);
    line("");
  }

  /// What a layer's parameters are but for their names: layers with equal ones are printed once.
  std::string shapeOf(const std::vector<uint32_t> &parameters) const {
    std::string shape;
    for (uint32_t index : parameters) {
      shape += fmt::format("{} {};", plan.parameters[index].dims, plan.parameters[index].trainable);
      for (const Part &part : plan.parameters[index].parts)
        shape += fmt::format("{} {},", part.name, kernels::name(part.type));
    }
    return shape;
  }

  void printParameters() {
    line("parameters by layer (of equal layers, the first)");
    const auto layers = parametersByLayer(plan);
    for (auto first = layers.begin(); first != layers.end();) {
      auto end = std::next(first);
      while (end != layers.end() && first->first >= 0 && end->first == std::prev(end)->first + 1 &&
             shapeOf(end->second) == shapeOf(first->second))
        ++end;
      printLayerParameters(first->first, std::prev(end)->first, first->second);
      first = end;
    }
    line("");
  }

  void printLayerParameters(int32_t first, int32_t last, const std::vector<uint32_t> &parameters) {
    double elements = 0;
    uint64_t bytes = 0;
    for (uint32_t index : parameters) {
      elements += elementsOf(plan.parameters[index]);
      bytes += bytesOf(plan.parameters[index]);
    }
    const std::string who = first < 0       ? "of no layer"
                            : first == last ? fmt::format("layer {}", first)
                                            : fmt::format("layers {} to {}, each", first, last);
    line("  {}: {} tensors, {} parameters, {}", who, parameters.size(), formatCount(elements), formatSize(bytes));
    for (uint32_t index : parameters)
      printParameter(index);
  }

  void printParameter(uint32_t index) {
    const Parameter &parameter = plan.parameters[index];
    std::string parts;
    for (const Part &part : parameter.parts)
      parts += fmt::format("  {} {} {}", part.name, kernels::name(part.type), describe(part.span));
    std::string others;
    for (const Alias &alias : parameter.aliases)
      others += fmt::format(" ({}{})", alias.name, alias.transposed ? ", transposed" : "");
    line("    %{} {}{} {}{}{}", index, parameter.name, others, parameter.dims, !parameter.trainable ? " frozen" : parameter.optimizer != plan.settings.optimizer ? " " + parameter.optimizer : "",
         parts);
  }

  void printInputs() {
    line("inputs");
    for (const Input &input : plan.inputs) {
      std::string parts;
      for (const Span &span : input.parts)
        parts += fmt::format(" {}", describe(span));
      line("  {:<8} {} {} {}{}", name(input.kind), input.name, kernels::name(input.type), input.dims, parts);
    }
    line("");
  }

  void printTemplate(uint32_t index) {
    const Template &code = plan.templates[index];
    line("template {} {}: {} calls, workspace {}", index, code.name, code.calls.size(),
         formatSize(code.workspaceBytes));
    for (size_t i = 0; i < code.arguments.size(); ++i)
      line("  argument a{}: {} {}", i, effectName(code.arguments[i].effect), formatSize(code.arguments[i].bytes));
    for (const Call &call : code.calls)
      printCall(call);
    line("");
  }

  static std::string_view effectName(kernels::Effect effect) {
    switch (effect) {
    case kernels::Effect::read:
      return "read";
    case kernels::Effect::write:
      return "write";
    case kernels::Effect::scratch:
      return "scratch";
    case kernels::Effect::update:
      return "update";
    }
    return "invalid";
  }

  void printCall(const Call &call) {
    std::string attributes, operands;
    for (const auto &[key, value] : call.signature.attributes)
      attributes += fmt::format("{}{}={}", attributes.empty() ? " {" : ", ", key, describe(value));
    attributes += attributes.empty() ? "" : "}";
    for (size_t i = 0; i < call.operands.size() && i < call.signature.operands.size(); ++i) {
      const kernels::OperandType &type = call.signature.operands[i];
      const Operand &operand = call.operands[i];
      const std::string place = operand.argument < 0 ? "w" : fmt::format("a{}", operand.argument);
      operands += operands.empty() ? "" : ", ";
      operands += type.present ? fmt::format("{} {}+{} {}{}", effectName(type.effect), place, operand.offset,
                                             kernels::name(type.type), type.dims)
                               : "absent";
    }
    line("  {}{}({}){}", call.signature.kernel, attributes, operands,
         call.location.empty() ? "" : fmt::format("  // {}", call.location));
  }

  void printProgram(const Program &program) {
    const Timeline timeline = simulate(plan, program);
    line("program {}: {} commands, predicted {}", name(program.kind), program.commands.size(),
         formatSeconds(timeline.seconds));
    printLayers(program);
    line(
        "  a command: #index, start in milliseconds, duration, stream, role, layer, micro-batch, bytes, label; what it "
        "does, with its arguments (< read, > written, +> added to, <> updated); after: the commands it awaits, -1: of "
        "the iteration before");
    for (uint32_t i = 0; i < program.commands.size(); ++i)
      printCommand(i, program.commands[i], timeline);
    line("");
  }

  /// Consecutive indices as ranges: "#4-#7 #9".
  static std::string ranges(const std::vector<uint32_t> &indices) {
    std::string text;
    for (size_t i = 0; i < indices.size();) {
      size_t end = i + 1;
      while (end < indices.size() && indices[end] == indices[end - 1] + 1)
        ++end;
      text += end - i == 1 ? fmt::format(" #{}", indices[i]) : fmt::format(" #{}-#{}", indices[i], indices[end - 1]);
      i = end;
    }
    return text;
  }

  void printLayers(const Program &program) {
    for (const auto &[layer, roles] : commandsByLayer(program)) {
      if (layer < 0)
        continue;
      std::string text;
      for (const auto &[role, indices] : roles)
        text += fmt::format("; {}{}", name(role), ranges(indices));
      line("  layer {}{}", layer, text);
    }
  }

  void printCommand(uint32_t index, const Command &command, const Timeline &timeline) {
    const auto number = [](int32_t value) { return value < 0 ? std::string("-") : std::to_string(value); };
    std::string awaits;
    for (const Await &await : command.awaits)
      awaits += fmt::format(" #{}{}", await.command, await.back ? "-1" : "");
    line("  #{:<6} {:>11.3f} {:>9} {:<10} {:<8} {:>4} {:>3} {:>10}  {}; {}{}{}", index, timeline.start[index] * 1e3,
         formatSeconds(timeline.took(index)), plan.streams[command.stream].name, name(command.role),
         number(command.layer), number(command.microBatch), formatSize(bytesOf(command)), command.label,
         describeBody(command), awaits.empty() ? "" : "; after", awaits);
  }

  static std::string_view arrow(BindingEffect effect) {
    switch (effect) {
    case BindingEffect::read:
      return "<";
    case BindingEffect::write:
      return ">";
    case BindingEffect::accumulate:
      return "+>";
    case BindingEffect::update:
      return "<>";
    }
    return "?";
  }

  std::string describeBody(const Command &command) const {
    if (command.isCopy)
      return fmt::format("copy {} -> {}", describe(command.from), describe(command.to));
    const std::string code = command.templateIndex < plan.templates.size() ? plan.templates[command.templateIndex].name
                                                                           : std::to_string(command.templateIndex);
    std::string arguments;
    for (const Binding &binding : command.arguments)
      arguments += fmt::format("{}{}{}", arguments.empty() ? "" : ", ", arrow(binding.effect), describe(binding.span));
    if (command.workspace.bytes > 0)
      arguments += fmt::format("{}workspace {}", arguments.empty() ? "" : ", ", describe(command.workspace));
    return fmt::format("run {}({})", code, arguments);
  }
};

} // namespace

std::string dumpText(const Plan &plan) { return TextDump(plan).run(); }

} // namespace mt::plan
