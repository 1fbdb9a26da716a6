#include "runtime/train/Recipe.h"

#include "runtime/plan/ParameterGroups.h"
#include "runtime/train/Schedules.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace mt::train {
namespace {

using kernels::OptimizerSpec;
using nlohmann::json;

/// Calls visit(option, key, field) for every part of a recipe; `options` may be const.
template <typename Options, typename Visit> void forEachField(Options &options, const Visit &visit) {
  visit("--steps", "steps", options.steps);
  visit("--lr", "lr", options.rate);
  visit("--lr-schedule", "lr_schedule", options.schedule);
  visit("--warmup", "warmup", options.warmup);
  visit("--min-lr", "min_lr", options.leastRate);
  visit("--lr-cycles", "lr_cycles", options.cycles);
  visit("--decay-steps", "decay_steps", options.decaySteps);
  visit("--decay-shape", "decay_shape", options.decayShape);
  visit("--weight-decay", "weight_decay", options.weightDecay);
  visit("--decay", "decay_all", options.decayAll);
  for (auto &[name, field] : options.hyperparameters)
    visit("--" + name, name, field);
  visit("--group", "groups", options.groups);
  visit("--clip-norm", "clip_norm", options.clipNorm);
  visit("--non-finite", "skip_non_finite", options.skipNonFinite);
  visit("--seed", "seed", options.seed);
  visit("--shuffle", "shuffle", options.shuffle);
  visit("--data weights", "data_weights", options.dataWeights);
  visit("--eval-split", "eval_split", options.evalSplit);
  visit("--pack", "pack", options.pack);
}

/// The optimizers of a plan, the usual one first.
std::vector<const OptimizerSpec *> optimizersOf(const plan::Plan &plan) {
  std::vector<const OptimizerSpec *> found;
  auto add = [&](const std::string &name) {
    if (const OptimizerSpec *optimizer = kernels::findOptimizer(name);
        optimizer && optimizer->learns && std::ranges::find(found, optimizer) == found.end())
      found.push_back(optimizer);
  };
  add(plan.settings.optimizer);
  for (const plan::Parameter &parameter : plan.parameters)
    if (parameter.trainable)
      add(parameter.optimizer);
  return found;
}

/// A value as the command line has it.
template <typename T> std::string said(std::string_view option, const T &value) {
  if constexpr (std::is_same_v<T, bool>)
    return option == "--decay"        ? (value ? "all" : "matrices")
           : option == "--non-finite" ? (value ? "skip" : "stop")
                                      : (value ? "on" : "off");
  else if constexpr (std::is_same_v<T, std::vector<std::string>> || std::is_same_v<T, std::vector<double>>)
    return value.empty() ? "none" : fmt::format("{}", fmt::join(value, " "));
  else
    return fmt::format("{}", value);
}

template <typename T> bool readInto(std::optional<T> &field, const json &value) {
  auto isText = [](const json &entry) { return entry.is_string(); };
  auto isWeight = [](const json &entry) { return entry.is_number() && entry.get<double>() > 0; };
  bool fits = std::is_same_v<T, bool>                       ? value.is_boolean()
              : std::is_same_v<T, std::vector<std::string>> ? value.is_array() && std::ranges::all_of(value, isText)
              : std::is_same_v<T, std::vector<double>>      ? value.is_array() && std::ranges::all_of(value, isWeight)
              : std::is_same_v<T, std::string>              ? value.is_string()
              : std::is_same_v<T, double>                   ? value.is_number()
              : std::is_same_v<T, uint64_t>                 ? value.is_number_unsigned()
                                                            : value.is_number_integer();
  if (fits)
    field = value.get<T>();
  return fits;
}

} // namespace

Status checkRecipe(const RecipeOptions &said, const plan::Plan &plan) {
  if (said.clipNorm && !plan.settings.clip)
    return fail("--clip-norm {}: the plan is not compiled for clipping: compile it with --clip", *said.clipNorm);
  if (said.skipNonFinite.value_or(false) && !plan.settings.clip)
    return fail(
        "--non-finite skip: the plan updates weights before the whole gradient is known: compile it with --clip");
  if (auto decay = said.hyperparameters.find(kernels::kAverageDecay);
      decay != said.hyperparameters.end() && decay->second && !plan.settings.average)
    return fail("--{} {}: the plan keeps no average of the weights: compile it with --ema", decay->first,
                *decay->second);
  const std::vector<const OptimizerSpec *> optimizers = optimizersOf(plan);
  for (const auto &[name, value] : said.hyperparameters)
    if (value && std::ranges::none_of(optimizers, [&](const OptimizerSpec *optimizer) { return optimizer->find(name); }))
      return fail("--{} is of {}, and the plan's optimizer is {}: leave it out, or compile with another --optimizer", name,
                  kernels::ownersOf(name), plan.settings.optimizer);
  if (!said.groups)
    return Status();
  MT_ASSIGN(std::vector<plan::ParameterGroup> groups, plan::parseGroups(*said.groups));
  for (const plan::ParameterGroup &group : groups)
    if (!group.optimizer.empty())
      return fail("--group {}: which optimizer parameters have, the plan says: compile it with this --group", group.text);
  return Status();
}

json toJson(const RecipeOptions &all) {
  json object = json::object();
  forEachField(all, [&](std::string_view, const std::string &key, const auto &field) {
    if (field)
      object[key] = *field;
  });
  return object;
}

Result<std::vector<std::string>> adoptStored(RecipeOptions &options, const json &stored) {
  for (std::string_view name : kernels::hyperparameterNames())
    options.hyperparameters.try_emplace(std::string(name));
  std::vector<std::string> changes;
  Status damage;
  forEachField(options, [&](std::string_view option, const std::string &key, auto &field) {
    auto at = stored.find(key);
    if (at == stored.end())
      return;
    std::remove_reference_t<decltype(field)> before;
    if (!readInto(before, *at))
      damage = fail("its '{}' is {}: the checkpoint is damaged", key, at->dump());
    else if (!field)
      field = before;
    else if (*field != *before)
      changes.push_back(fmt::format("{} {} (was {})", option, said(option, *field), said(option, *before)));
  });
  return damage ? Result<std::vector<std::string>>(changes) : damage;
}

namespace {

/// A word of a command line, quoted where a shell would take it for something else.
std::string shellWord(const std::string &text) {
  const auto isPlain = [](unsigned char c) { return std::isalnum(c) || std::strchr("-_=.,:/+", c); };
  if (!text.empty() && std::ranges::all_of(text, isPlain))
    return text;
  std::string word = "'";
  for (char c : text)
    word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

/// Whether only a plan can have the group; one that cannot be read is nobody's.
bool isOfPlan(const std::string &group) {
  Result<plan::ParameterGroup> parsed = plan::parseGroup(group);
  return !parsed || !parsed->optimizer.empty();
}

/// The options of a recipe with their words, but for weights of data, which stand at the paths, for groups of the plan,
/// and for what an option cannot say: it is left out, and means the same.
std::vector<SaidOption> asSaid(RecipeOptions all) {
  dropUnread(all);
  std::vector<SaidOption> options;
  forEachField(all, [&](std::string_view option, const std::string &, const auto &field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    const std::string key(option.substr(2));
    if constexpr (std::is_same_v<Field, std::optional<std::vector<std::string>>>) {
      SaidOption groups{key, {}};
      std::ranges::remove_copy_if(field.value_or(std::vector<std::string>()), std::back_inserter(groups.words),
                                  isOfPlan);
      if (!groups.words.empty())
        options.push_back(groups);
    } else if constexpr (!std::is_same_v<Field, std::optional<std::vector<double>>>) {
      const std::string word = field ? said(option, *field) : "";
      const bool isFlag = option == "--pack";
      if (!word.empty() && !(isFlag && word == "off") && !(option == "--eval-split" && word == "0"))
        options.push_back({key, {isFlag ? "true" : word}, isFlag});
    }
  });
  return options;
}

/// As --data takes them.
std::vector<std::string> weightedPaths(const TrainOptions &all) {
  std::vector<std::string> texts = all.data.paths;
  const std::vector<double> weights = all.recipe.dataWeights.value_or(std::vector<double>());
  for (size_t i = 0; i < std::min(texts.size(), weights.size()); ++i)
    texts[i] += fmt::format(":{}", weights[i]);
  return texts;
}

bool isOfRecipe(const RecipeOptions &recipe, const std::string &key) {
  bool found = false;
  forEachField(recipe,
               [&](std::string_view option, const std::string &, const auto &) { found |= option.substr(2) == key; });
  return found;
}

} // namespace

Result<std::string> asCommandLine(const json &stored) {
  RecipeOptions options;
  MT_TRY(adoptStored(options, stored).status());
  std::string line;
  for (const SaidOption &option : asSaid(options))
    for (const std::string &word : option.words)
      line += fmt::format("{}--{}{}", line.empty() ? "" : " ", option.key, option.isFlag ? "" : " " + shellWord(word));
  return line;
}

std::vector<SaidOption> usedOptions(const TrainOptions &all, const plan::Plan &plan) {
  std::vector<SaidOption> used = {{"plan", {all.plan}}, {"data", weightedPaths(all)}, {"out", {all.out}}};
  for (const SaidOption &option : all.said)
    if (std::ranges::find(used, option.key, &SaidOption::key) == used.end() && !isOfRecipe(all.recipe, option.key))
      used.push_back(option);
  RecipeOptions recipe = all.recipe;
  const std::vector<std::string> &ofPlan = plan.settings.groups;
  if (recipe.groups && std::ranges::mismatch(*recipe.groups, ofPlan).in2 == ofPlan.end())
    recipe.groups->erase(recipe.groups->begin(), recipe.groups->begin() + static_cast<ptrdiff_t>(ofPlan.size()));
  std::ranges::copy(asSaid(recipe), std::back_inserter(used));
  return used;
}

void fillDefaults(RecipeOptions &said, const plan::Plan &plan) {
  const Recipe usual;
  const std::vector<const OptimizerSpec *> optimizers = optimizersOf(plan);
  auto fill = [](auto &field, auto value) {
    if (!field)
      field = value;
  };
  fill(said.rate, usual.rate.peak);
  fill(said.schedule, "constant");
  fill(said.warmup, 0);
  fill(said.leastRate, 0.0);
  fill(said.cycles, 1);
  fill(said.decayShape, "cosine");
  fill(said.decayAll, false);
  // A number is filled in where it is usual for all of the plan's optimizers that have it; else each has its own.
  const auto agree = [&](const OptimizerSpec *one) { return one->usualDecay == optimizers.front()->usualDecay; };
  if (!optimizers.empty() && std::ranges::all_of(optimizers, agree))
    fill(said.weightDecay, optimizers.front()->usualDecay);
  for (const OptimizerSpec *optimizer : optimizers)
    for (const kernels::Hyperparameter &each : optimizer->hyperparameters)
      if (std::ranges::all_of(optimizers, [&](const OptimizerSpec *other) {
            const kernels::Hyperparameter *own = other->find(each.name);
            return !own || own->usual == each.usual;
          }))
        fill(said.hyperparameters[std::string(each.name)], each.usual);
  fill(said.groups, plan.settings.groups);
  if (plan.settings.clip)
    fill(said.clipNorm, usual.clipNorm);
  fill(said.skipNonFinite, false);
  fill(said.seed, uint64_t(0));
  fill(said.shuffle, true);
  fill(said.dataWeights, std::vector<double>());
  fill(said.evalSplit, 0.0);
  fill(said.pack, false);
}

namespace {

/// As it is without groups.
UpdateRecipe updateOf(const plan::Parameter &parameter, const Recipe &recipe, const RecipeOptions &all) {
  UpdateRecipe update{recipe.rate, 0, kernels::findOptimizer(parameter.optimizer), {}};
  if (!update.optimizer)
    return update;
  if (*all.decayAll || parameter.dims.size() >= 2)
    update.decay = all.weightDecay.value_or(update.optimizer->usualDecay);
  for (const kernels::Hyperparameter &each : update.optimizer->hyperparameters) {
    auto said = all.hyperparameters.find(each.name);
    update.hyperparameters.push_back(said == all.hyperparameters.end() ? each.usual
                                                                       : said->second.value_or(each.usual));
  }
  return update;
}

/// A rate with another peak follows the same course: it is always as many times as large.
LearningRate withPeak(LearningRate rate, double peak) {
  rate.least = rate.peak > 0 ? rate.least * (peak / rate.peak) : 0;
  rate.peak = peak;
  return rate;
}

/// What a group says, for those that it holds; of each key the last group counts that has it.
Status applyGroup(const plan::ParameterGroup &group, const plan::Plan &plan, Recipe &recipe) {
  std::set<std::string> optimizers;
  for (size_t p = 0; p < plan.parameters.size(); ++p) {
    const plan::Parameter &parameter = plan.parameters[p];
    if (!parameter.trainable || !group.holds(parameter))
      continue;
    optimizers.insert(parameter.optimizer);
    UpdateRecipe &update = recipe.updates[p];
    for (const auto &[key, value] : group.values)
      if (key == "lr")
        update.rate = withPeak(recipe.rate, value);
      else if (key == "decay")
        update.decay = value;
      else if (const kernels::Hyperparameter *own = update.optimizer->find(key))
        update.hyperparameters[static_cast<size_t>(own - update.optimizer->hyperparameters.data())] = value;
  }
  if (optimizers.empty())
    return fail("--group {}: no trained parameter of the plan has such a name", group.text);
  return checkKeys(group, optimizers);
}

} // namespace

Result<Recipe> completeRecipe(const RecipeOptions &all, const RecipeOptions &said, const plan::Plan &plan) {
  Recipe recipe;
  MT_ASSIGN(recipe.rate, rateOf(all, said));
  for (const plan::Parameter &parameter : plan.parameters)
    recipe.updates.push_back(updateOf(parameter, recipe, all));
  MT_ASSIGN(std::vector<plan::ParameterGroup> groups, plan::parseGroups(*all.groups));
  for (const plan::ParameterGroup &group : groups)
    MT_TRY(applyGroup(group, plan, recipe));
  recipe.clipNorm = all.clipNorm.value_or(recipe.clipNorm);
  recipe.skipsNonFinite = *all.skipNonFinite;
  recipe.seed = *all.seed;
  recipe.shuffle = *all.shuffle;
  return recipe;
}

} // namespace mt::train
