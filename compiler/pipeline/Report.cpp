// Text for people about a compiled plan: the report, and the line that ends a compilation.
#include "compiler/pipeline/Pipeline.h"

#include "runtime/base/Sizes.h"
#include "runtime/plan/Dump.h"
#include "runtime/plan/LayerIndex.h"
#include "runtime/plan/Timeline.h"

#include <cmath>
#include <set>

namespace mt::pipeline {
namespace {
struct Totals {
  double trained = 0, frozen = 0;
  uint64_t device = 0, host = 0, disk = 0; ///< bytes; of the device that needs most
  size_t devices = 0, templates = 0;
};

Totals totalsOf(const plan::Plan &plan) {
  Totals totals;
  for (const plan::Parameter &parameter : plan.parameters)
    (parameter.trainable ? totals.trained : totals.frozen) += plan::elementsOf(parameter);
  for (const plan::Space &space : plan.spaces)
    if (space.kind == plan::SpaceKind::device) {
      ++totals.devices;
      totals.device = std::max(totals.device, space.bytes);
    } else if (plan::isHostMemory(space.kind)) {
      totals.host += space.bytes;
    } else {
      totals.disk += space.bytes;
    }
  std::set<uint32_t> templates; // an evaluation runs one for each layer
  if (const plan::Program *evaluate = plan.program(plan::ProgramKind::evaluate))
    for (const plan::Command &command : evaluate->commands)
      if (command.role == plan::Role::compute && command.layer >= 0)
        templates.insert(command.templateIndex);
  totals.templates = templates.size();
  return totals;
}

/// Bytes in the host's memory of the trained parameters: every part, and their gradients where clipping keeps them.
double hostBytesOf(const plan::Plan &plan, double trained) {
  double bytes = plan.settings.clip ? 4 * trained / plan.ranks : 0;
  for (const plan::Parameter &parameter : plan.parameters)
    for (const plan::Part &part : parameter.parts)
      bytes += parameter.trainable && plan.spaces[part.span.space].kind != plan::SpaceKind::file ? part.span.bytes : 0;
  return bytes;
}

/// Bytes in the host's memory of those that are not trained.
double frozenBytes(const plan::Plan &plan) {
  double bytes = 0;
  for (const plan::Parameter &parameter : plan.parameters)
    bytes += parameter.trainable ? 0 : static_cast<double>(parameter.part(plan::kWeight)->span.bytes);
  return bytes;
}

bool isOfParameters(const plan::Command &command) {
  return command.bytes == plan::ByteKind::weight || command.bytes == plan::ByteKind::gradient || command.bytes == plan::ByteKind::state;
}

/// Bytes of weights, gradients and state that a step's copies of a role move.
double parameterBytes(const plan::Plan &plan, plan::Role role) {
  double bytes = 0;
  for (const plan::Command &command : plan.program(plan::ProgramKind::step)->commands)
    if (command.isCopy && command.role == role && isOfParameters(command) &&
        !plan::isOfHost(plan.streams[command.stream].kind) &&
        plan.streams[command.stream].kind != plan::StreamKind::peer)
      bytes += static_cast<double>(command.from.bytes);
  return bytes;
}

/// What of a step's copies is of no parameter.
std::string activationCopies(const plan::Plan &plan) {
  uint64_t inputs = 0, parked = 0, brought = 0, small = 0;
  for (const plan::Command &command : plan.program(plan::ProgramKind::step)->commands) {
    if (!command.isCopy || isOfParameters(command))
      continue;
    uint64_t &sum = command.bytes == plan::ByteKind::input        ? inputs
                    : command.bytes != plan::ByteKind::activation ? small
                    : command.role == plan::Role::offload         ? parked : brought;
    sum += command.from.bytes;
  }
  return fmt::format("inputs {}, parked {} and brought back {}, scalars and norms {}", formatSize(inputs),
                     formatSize(parked), formatSize(brought), formatSize(small));
}

/// What a step moves between memory and files, and how long a drive endures that.
std::string diskLine(const plan::Plan &plan) {
  constexpr double kEndurance = 600e12; // bytes that a consumer's drive of 1 TB is rated for, as makers of them say
  uint64_t read = 0, written = 0;
  for (const plan::Command &command : plan.program(plan::ProgramKind::step)->commands)
    if (command.isCopy) {
      read += plan.spaces[command.from.space].kind == plan::SpaceKind::file ? command.from.bytes : 0;
      written += plan.spaces[command.to.space].kind == plan::SpaceKind::file ? command.to.bytes : 0;
    }
  return fmt::format("reads {} and writes {} a step; a drive that is rated for 600 TB written endures {:.3g} steps",
                     formatSize(read), formatSize(written),
                     written > 0 ? kEndurance / static_cast<double>(written) : HUGE_VAL);
}

/// What of what updates alone use a rank has.
std::string stateShare(const plan::Plan &plan) {
  double own = 0, all = 0;
  for (const plan::Parameter &parameter : plan.parameters)
    for (const plan::Part &part : parameter.parts)
      if (parameter.trainable && part.name != plan::kWeight) {
        double values = 1;
        for (int64_t size : parameter.dims)
          values *= static_cast<double>(size);
        own += static_cast<double>(part.span.bytes);
        all +=
            std::ceil(values / static_cast<double>(part.elements)) * static_cast<double>(kernels::byteSize(part.type));
      }
  return all > 0 ? fmt::format("{:.4f} of the state", own / all) : "no state";
}

std::string seconds(double value);

/// For each stream how much of a step it is busy, and what most of its waits are for.
std::vector<std::string> streamLines(const plan::Plan &plan) {
  const plan::Program &step = *plan.program(plan::ProgramKind::step);
  const plan::Timeline timeline = plan::simulate(plan, step);
  const std::vector<plan::WaitSum> sums = plan::longestWaits(plan, step, plan::waits(plan, step, timeline));
  std::vector<std::string> lines;
  for (size_t s = 0; s < plan.streams.size(); ++s) {
    lines.push_back(fmt::format("stream {:13} busy {:.0f} % of the step", plan.streams[s].name,
                                timeline.seconds > 0 ? 100 * timeline.busy[s] / timeline.seconds : 0.0));
    if (const plan::WaitSum &sum = sums[s]; sum.seconds > 0)
      lines.back() += fmt::format("; waits most for '{}': {}, longest {} before '{}'", sum.what, seconds(sum.seconds), seconds(sum.longest),
                                  sum.before);
  }
  return lines;
}

std::string seconds(double value) {
  return value < 1e-3 ? fmt::format("{:.0f} us", value * 1e6) : value < 1 ? fmt::format("{:.1f} ms", value * 1e3)
                                                                          : fmt::format("{:.2f} s", value);
}
} // namespace

std::string summary(const plan::Plan &plan, const std::string &file) {
  Totals totals = totalsOf(plan);
  const std::string devices = totals.devices > 1
                                  ? fmt::format("{} devices {} each", totals.devices, formatSize(totals.device))
                                  : "device " + formatSize(totals.device);
  const std::string parameters = plan.adapters.empty() ? fmt::format("{:.1f} M parameters", totals.trained / 1e6)
                                                       : fmt::format("{} of {} parameters", formatCount(totals.trained),
                                                                     formatCount(totals.trained + totals.frozen));
  return fmt::format("{}: {} layers, {} templates, {}; {}{}, host {}{}; step {} ({})", file, plan.model.layers,
                     totals.templates, parameters,
                     plan.ranks > 1 ? fmt::format("{} ranks: ", plan.ranks) : std::string(), devices,
                     formatSize(totals.host), totals.disk > 0 ? ", disk " + formatSize(totals.disk) : std::string(),
                     seconds(plan.prediction.stepSeconds), plan.prediction.bound);
}

std::string report(const Compiled &compiled) {
  const plan::Plan &plan = compiled.plan;
  Totals totals = totalsOf(plan);
  std::string text;
  auto line = [&]<typename... Args>(fmt::format_string<Args...> format, Args &&...args) {
    text += fmt::format(format, std::forward<Args>(args)...) + "\n";
  };
  line("model            {}: {} layers, {} templates", plan.model.name, plan.model.layers, totals.templates);
  line("parameters       {:.3f} M trained, {:.3f} M frozen", totals.trained / 1e6, totals.frozen / 1e6);
  if (!plan.adapters.empty())
    line("adapters         {}", plan::describeAdapters(plan));
  if (const std::string packed = plan::describePacked(plan); !packed.empty())
    line("packed           {}", packed);
  line("batch            {} rows of {} tokens, micro-batch {}{}", plan.settings.batch, plan.settings.sequence, plan.settings.microBatch,
       compiled.forced.empty() ? "" : ", forced: rows see each other (" + compiled.forced + ")");
  line("saved            {}", plan.settings.savedActivations);
  line("weights          {}", plan.settings.weights);
  line("parked           {}", plan.settings.parked);
  line("updates          {}", plan.settings.updates);
  if (plan.ranks > 1)
    line("ranks            {}, each with {} rows of a batch and {}", plan.ranks, plan.settings.batch / plan.ranks,
         stateShare(plan));
  for (const plan::Space &space : plan.spaces)
    line("space {:10} {} ({} B)", space.name, formatSize(space.bytes), space.bytes);
  const plan::Prediction &p = plan.prediction;
  auto also = [](const char *what, double value) {
    return value > 0 ? fmt::format(", {} {}", what, seconds(value)) : std::string();
  };
  line("predicted step   {} ({}): compute {}, upload {}, download {}, host {}{}{}", seconds(p.stepSeconds), p.bound,
       seconds(p.computeSeconds), seconds(p.uploadSeconds), seconds(p.downloadSeconds), seconds(p.hostSeconds),
       also("disk", p.diskSeconds), also("network", p.networkSeconds));
  if (const double clipped = plan::clippedSeconds(plan); clipped > p.stepSeconds)
    line("clipped step     {}: where the gradient's norm exceeds --clip-norm, speculative updates are repeated",
         seconds(clipped));
  line("bound            {}: no decisions can do with less; the step takes {:.3f} of it", seconds(compiled.bound),
       compiled.bound > 0 ? p.stepSeconds / compiled.bound : 0);
  for (const std::string &text : streamLines(plan))
    line("{}", text);
  if (!compiled.more.empty())
    line("worth having     {}", compiled.more);
  line("flops            {:.3g} useful, {:.3g} executed a step", p.usefulFlops, p.executedFlops);
  line("link             weights {}, gradients {}, activations {}, state {} a step", formatSize(p.weightLinkBytes),
       formatSize(p.gradientLinkBytes), formatSize(p.activationLinkBytes), formatSize(p.stateLinkBytes));
  if (totals.disk > 0)
    line("disk             {}", diskLine(plan));
  if (plan.ranks > 1)
    line("network          {} that each rank sends a step, gradients in {}", formatSize(p.networkBytes),
         plan.settings.narrowExchange ? "16 bits: results depend on the number of ranks" : "32 bits");
  line("activations      {}", activationCopies(plan));
  line("a parameter      {:.2f} B in, {:.2f} B out a step; {:.2f} B on the host", parameterBytes(plan, plan::Role::prefetch) / (totals.trained + totals.frozen),
       parameterBytes(plan, plan::Role::offload) / totals.trained, hostBytesOf(plan, totals.trained) / totals.trained);
  if (totals.frozen > 0)
    line("a frozen one     {:.2f} B on the host, nothing out", frozenBytes(plan) / totals.frozen);
  line("precision        {}", plan.settings.precision);
  for (const std::string &candidate : compiled.considered)
    line("considered       {}", candidate);
  return text;
}

} // namespace mt::pipeline
