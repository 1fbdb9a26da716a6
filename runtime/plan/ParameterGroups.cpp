#include "runtime/plan/ParameterGroups.h"

#include "kernels/Optimizers.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace mt::plan {
namespace {

std::vector<std::string> split(std::string_view text, char by) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find(by, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

Result<double> numberOf(std::string_view key, const std::string &value) {
  const kernels::Hyperparameter *hyperparameter = kernels::findHyperparameter(key);
  const bool isShare = hyperparameter && hyperparameter->isShare;
  double number = 0;
  auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || !std::isfinite(number) || number < 0 ||
      (isShare && number >= 1))
    return fail("{}={}: must be a number, not negative{}", key, value, isShare ? " and below 1" : "");
  return number;
}

Status take(const std::string &setting, ParameterGroup &group) {
  const size_t equals = setting.find('=');
  const std::string key = setting.substr(0, equals), value = equals == std::string::npos ? "" : setting.substr(equals + 1);
  std::vector<std::string_view> keys = {"lr", "decay"};
  for (std::string_view name : kernels::hyperparameterNames())
    keys.push_back(name);
  if (equals == std::string::npos || (key != "optimizer" && std::ranges::find(keys, key) == keys.end()))
    return fail("'{}': must be KEY=VALUE with one of the keys {}, optimizer", setting, fmt::join(keys, ", "));
  if (key == "optimizer") {
    if (const kernels::OptimizerSpec *optimizer = kernels::findOptimizer(value); !optimizer || !optimizer->learns)
      return fail("optimizer={}: must be {}", value, kernels::optimizerList());
    group.optimizer = value;
    return {};
  }
  MT_ASSIGN(group.values[key], numberOf(key, value));
  return {};
}

} // namespace

bool ParameterGroup::holds(const Parameter &parameter) const {
  auto matches = [&](const std::string &name) { return fnmatch(pattern.c_str(), name.c_str(), 0) == 0; };
  return matches(parameter.name) ||
         std::ranges::any_of(parameter.aliases, [&](const Alias &alias) { return matches(alias.name); });
}

Result<ParameterGroup> parseGroup(const std::string &text) {
  const size_t colon = text.rfind(':'); // names have them, too
  ParameterGroup group{text, text.substr(0, colon), {}, {}};
  if (colon == std::string::npos || colon == 0)
    return fail("must be PATTERN:KEY=VALUE,... such as '*.bias:lr=0.01,decay=0'");
  for (const std::string &setting : split(std::string_view(text).substr(colon + 1), ','))
    MT_TRY(take(setting, group));
  return group;
}

Result<std::vector<ParameterGroup>> parseGroups(const std::vector<std::string> &texts) {
  std::vector<ParameterGroup> groups;
  for (const std::string &text : texts) {
    Result<ParameterGroup> group = parseGroup(text);
    if (!group)
      return group.status().within("--group " + text);
    groups.push_back(std::move(*group));
  }
  return groups;
}

std::string describeOptimizers(const Settings &settings) {
  std::string text = settings.optimizer;
  for (const std::string &line : settings.groups)
    if (Result<ParameterGroup> group = parseGroup(line); group && !group->optimizer.empty())
      text += fmt::format(", and {} for {}", group->optimizer, group->pattern);
  return text;
}

Status checkKeys(const ParameterGroup &group, const std::set<std::string> &optimizers) {
  auto reads = [](std::string_view key) {
    return [key](const std::string &name) {
      const kernels::OptimizerSpec *optimizer = kernels::findOptimizer(name);
      return optimizer && optimizer->find(key);
    };
  };
  for (const auto &[key, value] : group.values)
    if (key != "lr" && key != "decay" && std::ranges::none_of(optimizers, reads(key)))
      return fail("--group {}: {} is of {}, and none of these parameters is trained with that: leave it out", group.text, key,
                  kernels::ownersOf(key));
  return {};
}

} // namespace mt::plan
