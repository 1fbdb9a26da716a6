#include "runtime/plan/TemplateUse.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace mt::plan {
namespace {

/// What a command does, without its layer and micro-batch: labels are "backward layer 3 mb 0".
std::string workOf(const Command &command) {
  const size_t layer = command.label.find(" layer ");
  const size_t end = layer != std::string::npos ? layer : command.label.find_last_not_of("0123456789 ") + 1;
  return command.label.substr(0, end);
}

/// "layers 0 to 3, 5"
std::string layersText(const std::set<int32_t> &layers) {
  std::vector<std::string> runs;
  for (auto at = layers.begin(); at != layers.end();) {
    const int32_t first = *at;
    int32_t last = first;
    for (++at; at != layers.end() && *at == last + 1; ++at)
      ++last;
    runs.push_back(first == last ? fmt::format("{}", first) : fmt::format("{} to {}", first, last));
  }
  return fmt::format("{} {}", layers.size() == 1 ? "layer" : "layers", fmt::join(runs, ", "));
}

struct Use {
  std::string program, work;
  std::set<int32_t> layers;
};

} // namespace

std::vector<std::string> templateUses(const Plan &plan) {
  std::vector<Use> uses(plan.templates.size());
  for (const Program &program : plan.programs)
    for (const Command &command : program.commands) {
      if (command.isCopy || command.templateIndex >= uses.size())
        continue;
      Use &use = uses[command.templateIndex];
      if (use.work.empty())
        use = {program.kind == ProgramKind::evaluate ? "evaluation: " : "", workOf(command), {}};
      if (command.layer >= 0 && workOf(command) == use.work)
        use.layers.insert(command.layer);
    }
  std::vector<std::string> texts;
  for (size_t i = 0; i < uses.size(); ++i) {
    const Use &use = uses[i];
    texts.push_back(use.work.empty() ? plan.templates[i].name : use.program + use.work);
    if (!use.layers.empty())
      texts.back() += " of " + layersText(use.layers);
  }
  return texts;
}

} // namespace mt::plan
