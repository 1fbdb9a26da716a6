#include "runtime/train/RecipeWords.h"

#include "runtime/train/RecipeFile.h"

#include <algorithm>

namespace mt::train {
namespace {

const std::string kPlanKey = "plan";

bool isFlagOption(const CLI::Option &option) { return option.get_items_expected_max() == 0; }

/// The option of a key, which a recipe may have.
Result<const CLI::Option *> optionOf(const CLI::App &app, const SaidOption &said) {
  const CLI::Option *option = app.get_option_no_throw(said.key == kPlanKey ? kPlanOption : "--" + said.key);
  if (!option || said.key == "recipe" || option == app.get_help_ptr() || option == app.get_version_ptr())
    return fail("'{}' is no option of training: keys are those of mtrun --help, without their dashes", said.key);
  if (isFlagOption(*option) && !said.isFlag)
    return fail("'{}' takes no value but true or false: {} = true", said.key, said.key);
  if (!isFlagOption(*option) && said.isFlag)
    return fail("'{}' takes a value, which is not true or false: {} = VALUE", said.key, said.key);
  return option;
}

bool isOverridden(const CLI::App &app, const CLI::Option &option) {
  const auto excludes = [&](const char *mine, const char *other) {
    return option.check_name(mine) && app.get_option(other)->count() > 0;
  };
  return option.count() > 0 || std::ranges::any_of(kExclusive, [&](const Exclusive &pair) {
           return excludes(pair.one, pair.other) || excludes(pair.other, pair.one);
         });
}

bool isSubcommand(const CLI::App &app, const std::string &word) {
  return !app.get_subcommands([&](const CLI::App *one) { return one->get_name() == word; }).empty();
}

void addWords(const CLI::App &app, const SaidOption &said, std::vector<std::string> &words) {
  for (const std::string &word : said.words)
    if (said.key == kPlanKey)
      words.push_back(word.starts_with('-') || isSubcommand(app, word) ? "./" + word : word);
    else if (word.empty()) // which would not count behind the sign
      words.insert(words.end(), {"--" + said.key, word});
    else if (!said.isFlag || word == "true")
      words.push_back(fmt::format("--{}={}", said.key, word));
}

} // namespace

Result<std::vector<std::string>> recipeWords(const CLI::App &app, const std::string &file) {
  if (!app.get_subcommands().empty())
    return fail("--recipe is of training, and {} takes none: say what it needs",
                app.get_subcommands().front()->get_name());
  MT_ASSIGN(const std::vector<SaidOption> options, readRecipeFile(file));
  std::vector<std::string> words;
  for (const SaidOption &said : options) {
    Result<const CLI::Option *> option = optionOf(app, said);
    if (!option)
      return option.status().within(file);
    if (!isOverridden(app, **option))
      addWords(app, said, words);
  }
  return words;
}

std::vector<SaidOption> saidOptions(const CLI::App &app) {
  constexpr std::string_view kOfOneRun[] = {"recipe", "resume",      "overwrite", "epochs",         "metrics",
                                            "trace",  "tensorboard", "calls",     "save-gradients", "quiet"};
  std::vector<SaidOption> all;
  for (const CLI::Option *option : app.get_options())
    if (const std::string key = option->get_lnames().empty() ? kPlanKey : option->get_lnames().front();
        option->count() > 0 && std::ranges::find(kOfOneRun, key) == std::end(kOfOneRun))
      all.push_back({key, option->results(), isFlagOption(*option)});
  return all;
}

} // namespace mt::train
