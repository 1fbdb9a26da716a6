#include "runtime/plan/ParameterGroups.h"

#include "kernels/Optimizers.h"
#include "runtime/base/PatternSettings.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace mt::plan {
namespace {

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

std::string keyList() {
  std::vector<std::string_view> keys = {"lr", "decay"};
  for (std::string_view name : kernels::hyperparameterNames())
    keys.push_back(name);
  keys.push_back("optimizer");
  return fmt::format("{}", fmt::join(keys, ", "));
}

Status take(const std::string &key, const std::string &value, ParameterGroup &group) {
  if (key == "optimizer") {
    if (const kernels::OptimizerSpec *optimizer = kernels::findOptimizer(value);
        !optimizer || !optimizer->learns || optimizer->averages)
      return fail("optimizer={}: must be {}", value, kernels::optimizerList());
    group.optimizer = value;
    return {};
  }
  if (key != "lr" && key != "decay" && !kernels::findHyperparameter(key))
    return fail("'{}={}': must be KEY=VALUE with one of the keys {}", key, value, keyList());
  MT_ASSIGN(group.values[key], numberOf(key, value));
  return {};
}

} // namespace

bool hasName(const Parameter &parameter, const std::string &pattern) {
  auto matches = [&](const std::string &name) { return fnmatch(pattern.c_str(), name.c_str(), 0) == 0; };
  return matches(parameter.name) ||
         std::ranges::any_of(parameter.aliases, [&](const Alias &alias) { return matches(alias.name); });
}

Result<ParameterGroup> parseGroup(const std::string &text) {
  MT_ASSIGN(const PatternSettings parsed, parsePatternSettings(text, "*.bias:lr=0.01,decay=0", keyList()));
  ParameterGroup group{text, parsed.pattern, {}, {}};
  for (const auto &[key, value] : parsed.settings)
    MT_TRY(take(key, value, group));
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
  return settings.average ? text + " with an average of the weights" : text;
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
