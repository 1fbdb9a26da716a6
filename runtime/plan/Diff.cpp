// Settings and tables are compared field by field, parameters by name, templates by what they are for, programs by totals per role and
// then command by command up to where their order parts.
#include "runtime/plan/Diff.h"

#include "runtime/base/Sizes.h"
#include "runtime/plan/Dump.h"
#include "runtime/plan/LayerIndex.h"
#include "runtime/plan/TemplateUse.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace mt::plan {
namespace {

class Difference {
public:
  Difference(const Plan &before, const Plan &after) : before(before), after(after) {}

  std::string run() {
    compareSettings();
    compareSpacesAndStreams();
    compareParameters();
    compareTemplates();
    for (ProgramKind kind : kProgramKinds)
      compareProgram(kind);
    comparePrediction();
    return text;
  }

private:
  const Plan &before, &after;
  std::string text;

  template <typename... Args> void line(fmt::format_string<Args...> format, Args &&...args) {
    text += fmt::format(format, std::forward<Args>(args)...) + "\n";
  }
  template <typename Value> void field(std::string_view what, const Value &a, const Value &b) {
    if (a != b)
      line("{}: {} -> {}", what, a, b);
  }
  void size(std::string_view what, uint64_t a, uint64_t b) {
    if (a != b)
      line("{}: {} -> {} ({}{} bytes)", what, formatSize(a), formatSize(b), a < b ? "+" : "-", a < b ? b - a : a - b);
  }
  void seconds(std::string_view what, double a, double b) {
    if (a != b)
      line("{}: {} -> {} ({:+.1f} %)", what, formatSeconds(a), formatSeconds(b), a > 0 ? (b / a - 1) * 100 : 100.0);
  }

  static std::string isaOf(const Plan &plan) { return plan.target.isa.empty() ? "the machine's" : plan.target.isa; }
  void compareSettings() {
    const Settings &a = before.settings, &b = after.settings;
    field("model", before.model.name, after.model.name);
    if (before.model.digest != after.model.digest)
      line("the graphs differ: digest {:016x} -> {:016x}", before.model.digest, after.model.digest);
    field("layers", before.model.layers, after.model.layers);
    field("target", before.target.name, after.target.name);
    field("instruction set", isaOf(before), isaOf(after));
    field("batch", a.batch, b.batch);
    field("micro-batch", a.microBatch, b.microBatch);
    field("sequence", a.sequence, b.sequence);
    field("loss", describeLoss(a), describeLoss(b));
    field("precision", a.precision, b.precision);
    field("optimizer", a.optimizer, b.optimizer);
    field("groups", fmt::format("{}", fmt::join(a.groups, " ")), fmt::format("{}", fmt::join(b.groups, " ")));
    field("adapters", describeAdapters(before), describeAdapters(after));
    field("packed weights", describePacked(before), describePacked(after));
    field("clipping", a.clip, b.clip);
    field("average of the weights", a.average, b.average);
    field("gradients exchanged in 16 bits", a.narrowExchange, b.narrowExchange);
    field("saved activations", a.savedActivations, b.savedActivations);
    field("weights", a.weights, b.weights);
    field("parked activations", a.parked, b.parked);
    field("updates", a.updates, b.updates);
  }

  void compareSpacesAndStreams() {
    for (size_t i = 0; i < std::max(before.spaces.size(), after.spaces.size()); ++i) {
      if (i >= before.spaces.size())
        line("space {} is new: {}", after.spaces[i].name, formatExactSize(after.spaces[i].bytes));
      else if (i >= after.spaces.size())
        line("space {} is gone: {}", before.spaces[i].name, formatExactSize(before.spaces[i].bytes));
      else
        size(fmt::format("space {}", after.spaces[i].name), before.spaces[i].bytes, after.spaces[i].bytes);
    }
    field("streams", before.streams.size(), after.streams.size());
  }

  void compareParameters() {
    std::map<std::string_view, const Parameter *> old;
    for (const Parameter &parameter : before.parameters)
      if (!parameter.holdsScales())
        old[parameter.name] = &parameter;
    size_t moved = 0;
    for (const Parameter &parameter : after.parameters) {
      if (parameter.holdsScales())
        continue;
      const auto found = old.find(parameter.name);
      if (found == old.end()) {
        line("parameter {} {} is new", parameter.name, parameter.dims);
        continue;
      }
      const Parameter &previous = *found->second;
      field(fmt::format("parameter {}", parameter.name), fmt::format("{}", previous.modelDims()),
            fmt::format("{}", parameter.modelDims()));
      field(fmt::format("parameter {} trainable", parameter.name), previous.trainable, parameter.trainable);
      field(fmt::format("parameter {} optimizer", parameter.name), previous.optimizer, parameter.optimizer);
      moved += !std::ranges::equal(previous.parts, parameter.parts, {}, &Part::span, &Part::span);
      old.erase(found);
    }
    for (const auto &[name, parameter] : old)
      line("parameter {} {} is gone", name, parameter->dims);
    if (moved > 0)
      line("{} parameters lie elsewhere on the host", moved);
  }

  /// By what they are for; where several are for the same, in order.
  void compareTemplates() {
    std::multimap<std::string, const Template *> old;
    const std::vector<std::string> usesBefore = templateUses(before), usesAfter = templateUses(after);
    for (size_t i = 0; i < before.templates.size(); ++i)
      old.emplace(usesBefore[i], &before.templates[i]);
    for (size_t i = 0; i < after.templates.size(); ++i) {
      const Template &code = after.templates[i];
      const auto found = old.find(usesAfter[i]);
      if (found == old.end()) {
        line("template {} ({}) is new: {} calls, workspace {}", usesAfter[i], code.name, code.calls.size(),
             formatSize(code.workspaceBytes));
        continue;
      }
      compareTemplate(usesAfter[i], *found->second, code);
      old.erase(found);
    }
    for (const auto &[use, code] : old)
      line("template {} ({}) is gone: {} calls", use, code->name, code->calls.size());
  }

  static std::string argumentsOf(const Template &code) {
    std::string list;
    for (const Argument &argument : code.arguments)
      list += fmt::format("{} {};", argument.bytes, static_cast<int>(argument.effect));
    return list;
  }

  static std::vector<std::string> callsOf(const Template &code) {
    std::vector<std::string> calls;
    for (const Call &call : code.calls) {
      std::string operands;
      for (const kernels::OperandType &type : call.signature.operands)
        operands += fmt::format(" {}{}", kernels::name(type.type), type.dims);
      calls.push_back(call.signature.kernel + operands);
    }
    return calls;
  }

  void compareTemplate(const std::string &use, const Template &a, const Template &b) {
    const std::string what = fmt::format("template {}", use);
    size(what + " workspace", a.workspaceBytes, b.workspaceBytes);
    if (argumentsOf(a) != argumentsOf(b))
      line("{} arguments differ: {} -> {}", what, a.arguments.size(), b.arguments.size());
    const auto callsA = callsOf(a), callsB = callsOf(b);
    if (callsA == callsB)
      return;
    const auto differ = std::ranges::mismatch(callsA, callsB);
    line("{} calls: {} -> {}; from call {} on: {} -> {}", what, callsA.size(), callsB.size(),
         differ.in1 - callsA.begin(), differ.in1 == callsA.end() ? "nothing" : *differ.in1,
         differ.in2 == callsB.end() ? "nothing" : *differ.in2);
  }

  struct Totals {
    size_t commands = 0;
    uint64_t bytes = 0;
    double seconds = 0;
  };

  static std::map<Role, Totals> totalsOf(const Program *program) {
    std::map<Role, Totals> totals;
    if (program)
      for (const Command &command : program->commands) {
        Totals &role = totals[command.role];
        ++role.commands;
        role.bytes += bytesOf(command);
        role.seconds += command.predictedSeconds;
      }
    return totals;
  }

  void compareProgram(ProgramKind kind) {
    const Program *a = before.program(kind), *b = after.program(kind);
    auto totalsA = totalsOf(a), totalsB = totalsOf(b);
    for (Role role : {Role::prefetch, Role::compute, Role::offload, Role::update}) {
      const std::string what = fmt::format("{}: {}", name(kind), name(role));
      field(what + " commands", totalsA[role].commands, totalsB[role].commands);
      size(what + " bytes", totalsA[role].bytes, totalsB[role].bytes);
      seconds(what + " time", totalsA[role].seconds, totalsB[role].seconds);
    }
    if (a && b)
      compareCommands(*a, *b);
  }

  static bool sameWork(const Command &a, const Command &b) {
    return a.label == b.label && a.stream == b.stream && a.role == b.role && a.isCopy == b.isCopy;
  }
  static bool samePlaces(const Command &a, const Command &b) {
    return a.from == b.from && a.to == b.to && a.workspace == b.workspace &&
           std::ranges::equal(a.arguments, b.arguments, {}, &Binding::span, &Binding::span);
  }

  void compareCommands(const Program &a, const Program &b) {
    const auto first =
        std::mismatch(a.commands.begin(), a.commands.end(), b.commands.begin(), b.commands.end(), sameWork);
    if (first.first != a.commands.end() || first.second != b.commands.end()) {
      const auto labelAt = [](const Program &program, auto at) {
        return at == program.commands.end() ? std::string("the end") : at->label;
      };
      line("{}: the order differs from command {} on: {} -> {}", name(b.kind), first.first - a.commands.begin(),
           labelAt(a, first.first), labelAt(b, first.second));
      return;
    }
    size_t moved = 0, awaits = 0;
    for (size_t i = 0; i < a.commands.size(); ++i) {
      moved += !samePlaces(a.commands[i], b.commands[i]);
      awaits += a.commands[i].awaits != b.commands[i].awaits;
    }
    if (moved > 0)
      line("{}: {} commands touch other bytes", name(b.kind), moved);
    if (awaits > 0)
      line("{}: {} commands await others", name(b.kind), awaits);
  }

  void comparePrediction() {
    const Prediction &a = before.prediction, &b = after.prediction;
    seconds("predicted step", a.stepSeconds, b.stepSeconds);
    field("bound", a.bound, b.bound);
    size("weights over the link", a.weightLinkBytes, b.weightLinkBytes);
    size("gradients over the link", a.gradientLinkBytes, b.gradientLinkBytes);
    size("activations over the link", a.activationLinkBytes, b.activationLinkBytes);
    size("state over the link", a.stateLinkBytes, b.stateLinkBytes);
    size("sent by each rank", a.networkBytes, b.networkBytes);
  }
};

} // namespace

std::string diffPlans(const Plan &before, const Plan &after) { return Difference(before, after).run(); }

} // namespace mt::plan
