// Text for people about a compiled plan: the report, and the line that ends a compilation.
#include "compiler/pipeline/Pipeline.h"

#include "runtime/base/Sizes.h"

#include <set>

namespace mt::pipeline {
namespace {
struct Totals {
  double trained = 0, frozen = 0;
  uint64_t device = 0, host = 0;
  size_t templates = 0;
};

Totals totalsOf(const plan::Plan &plan) {
  Totals totals;
  for (const plan::Parameter &parameter : plan.parameters) {
    double elements = 1;
    for (int64_t size : parameter.dims)
      elements *= size;
    (parameter.trainable ? totals.trained : totals.frozen) += elements;
  }
  for (const plan::Space &space : plan.spaces)
    (space.kind == plan::SpaceKind::device ? totals.device : totals.host) += space.bytes;
  std::set<std::string> layers;
  for (const plan::Template &entry : plan.templates)
    if (entry.name.starts_with("layer_"))
      layers.insert(entry.name.substr(0, entry.name.find('.')));
  totals.templates = layers.size();
  return totals;
}

std::string seconds(double value) {
  return value < 1e-3 ? fmt::format("{:.0f} us", value * 1e6) : value < 1 ? fmt::format("{:.1f} ms", value * 1e3)
                                                                          : fmt::format("{:.2f} s", value);
}
} // namespace

std::string summary(const plan::Plan &plan, const std::string &file) {
  Totals totals = totalsOf(plan);
  return fmt::format("{}: {} layers, {} templates, {:.1f} M parameters; device {}, host {}; step {} ({})", file,
                     plan.model.layers, totals.templates, totals.trained / 1e6, formatSize(totals.device),
                     formatSize(totals.host), seconds(plan.prediction.stepSeconds), plan.prediction.bound);
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
  line("batch            {} rows of {} tokens, micro-batch {}", plan.settings.batch, plan.settings.sequence, plan.settings.microBatch);
  line("saved            {}", plan.settings.savedActivations);
  line("weights          {}, prefetch distance {}", plan.target.unified ? "used in place" : plan.settings.resident ? "resident" : "streamed",
       plan.settings.prefetchDistance);
  for (const plan::Space &space : plan.spaces)
    line("space {:10} {} ({} B)", space.name, formatSize(space.bytes), space.bytes);
  const plan::Prediction &p = plan.prediction;
  line("predicted step   {} ({}): compute {}, upload {}, download {}, host {}", seconds(p.stepSeconds), p.bound,
       seconds(p.computeSeconds), seconds(p.uploadSeconds), seconds(p.downloadSeconds), seconds(p.hostSeconds));
  line("flops            {:.3g} useful, {:.3g} executed a step", p.usefulFlops, p.executedFlops);
  line("link             weights {}, gradients {}, activations {} a step", formatSize(p.weightLinkBytes),
       formatSize(p.gradientLinkBytes), formatSize(p.activationLinkBytes));
  for (const std::string &candidate : compiled.considered)
    line("considered       {}", candidate);
  return text;
}

} // namespace mt::pipeline
