#include "runtime/train/Recipe.h"

namespace mt::train {
namespace {

using nlohmann::json;

/// Calls visit(option, key, field) for every part of a recipe; `options` may be const.
template <typename Options, typename Visit> void forEachField(Options &options, const Visit &visit) {
  visit("--steps", "steps", options.steps);
  visit("--lr", "lr", options.rate);
  visit("--lr-schedule", "lr_schedule", options.schedule);
  visit("--warmup", "warmup", options.warmup);
  visit("--min-lr", "min_lr", options.leastRate);
  visit("--weight-decay", "weight_decay", options.weightDecay);
  visit("--decay", "decay_all", options.decayAll);
  visit("--beta1", "beta1", options.beta1);
  visit("--beta2", "beta2", options.beta2);
  visit("--eps", "eps", options.epsilon);
  visit("--momentum", "momentum", options.momentum);
  visit("--clip-norm", "clip_norm", options.clipNorm);
  visit("--seed", "seed", options.seed);
  visit("--shuffle", "shuffle", options.shuffle);
}

/// A value as the command line has it.
template <typename T> std::string said(std::string_view option, const T &value) {
  if constexpr (std::is_same_v<T, bool>)
    return option == "--decay" ? (value ? "all" : "matrices") : (value ? "on" : "off");
  else
    return fmt::format("{}", value);
}

template <typename T> bool readInto(std::optional<T> &field, const json &value) {
  bool fits = std::is_same_v<T, bool>          ? value.is_boolean()
              : std::is_same_v<T, std::string> ? value.is_string()
              : std::is_same_v<T, double>      ? value.is_number()
              : std::is_same_v<T, uint64_t>    ? value.is_number_unsigned()
                                               : value.is_number_integer();
  if (fits)
    field = value.get<T>();
  return fits;
}

} // namespace

Status checkRecipe(const RecipeOptions &said, const plan::Plan &plan) {
  const std::string &optimizer = plan.settings.optimizer;
  if (said.clipNorm && !plan.settings.clip)
    return fail("--clip-norm {}: the plan is not compiled for clipping: compile it with --clip", *said.clipNorm);
  if (optimizer == "adamw" && said.momentum)
    return fail(
        "--momentum is of sgd, and the plan's optimizer is adamw: use --beta1, or compile with --optimizer sgd");
  if (optimizer != "adamw" && (said.beta1 || said.beta2 || said.epsilon))
    return fail("--beta1, --beta2 and --eps are of adamw, and the plan's optimizer is {}: leave them out, or compile "
                "with --optimizer adamw",
                optimizer);
  return Status();
}

json toJson(const RecipeOptions &all) {
  json object = json::object();
  forEachField(all, [&](std::string_view, const char *key, const auto &field) {
    if (field)
      object[key] = *field;
  });
  return object;
}

Result<std::vector<std::string>> adoptStored(RecipeOptions &options, const json &stored) {
  std::vector<std::string> changes;
  Status damage;
  forEachField(options, [&](std::string_view option, const char *key, auto &field) {
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

void fillDefaults(RecipeOptions &said, const plan::Plan &plan) {
  const Recipe usual;
  bool adam = plan.settings.optimizer == "adamw";
  auto fill = [](auto &field, auto value) {
    if (!field)
      field = value;
  };
  fill(said.rate, usual.rate.peak);
  fill(said.schedule, "constant");
  fill(said.warmup, 0);
  fill(said.leastRate, 0.0);
  fill(said.weightDecay, adam ? 0.01 : 0.0);
  fill(said.decayAll, false);
  if (adam) {
    fill(said.beta1, usual.beta1);
    fill(said.beta2, usual.beta2);
    fill(said.epsilon, usual.epsilon);
  } else {
    fill(said.momentum, usual.momentum);
  }
  if (plan.settings.clip)
    fill(said.clipNorm, usual.clipNorm);
  fill(said.seed, uint64_t(0));
  fill(said.shuffle, true);
}

Result<Recipe> completeRecipe(const RecipeOptions &all, const RecipeOptions &said) {
  if (*all.leastRate > *all.rate && said.rate && !said.leastRate)
    return fail("--lr {} is below the run's least rate, {}, which stays unless said otherwise: say --min-lr too", *all.rate,
                *all.leastRate);
  if (*all.leastRate > *all.rate && said.leastRate && !said.rate)
    return fail("--min-lr {} is above the run's rate, {}, which stays unless said otherwise: say --lr too", *all.leastRate,
                *all.rate);
  if (*all.leastRate > *all.rate)
    return fail("--min-lr {} is above --lr {}", *all.leastRate, *all.rate);
  Recipe recipe;
  recipe.rate.peak = *all.rate;
  recipe.rate.least = *all.leastRate;
  recipe.rate.decline = *all.schedule == "linear"   ? Decline::linear
                        : *all.schedule == "cosine" ? Decline::cosine
                                                    : Decline::constant;
  recipe.rate.warmup = *all.warmup;
  recipe.rate.steps = *all.steps;
  recipe.weightDecay = *all.weightDecay;
  recipe.decayAll = *all.decayAll;
  recipe.beta1 = all.beta1.value_or(recipe.beta1);
  recipe.beta2 = all.beta2.value_or(recipe.beta2);
  recipe.epsilon = all.epsilon.value_or(recipe.epsilon);
  recipe.momentum = all.momentum.value_or(recipe.momentum);
  recipe.clipNorm = all.clipNorm.value_or(recipe.clipNorm);
  recipe.seed = *all.seed;
  recipe.shuffle = *all.shuffle;
  return recipe;
}

} // namespace mt::train
