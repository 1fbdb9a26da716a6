// Recipe files: what is read of them, what is refused, and the command line that they are part of.
#include "runtime/train/RecipeFile.h"

#include "runtime/base/Files.h"
#include "runtime/train/CommandLine.h"
#include "runtime/train/RecipeReader.h"
#include "tests/train/TestFiles.h"

#include <gtest/gtest.h>

#include <vector>

namespace mt::tests {
namespace {

using namespace train;

using Words = std::vector<std::string>;

Command parse(const Words &said) {
  std::vector<const char *> words{"mtrun"};
  for (const std::string &word : said)
    words.push_back(word.c_str());
  return parseCommandLine(static_cast<int>(words.size()), words.data(), "mtrun 1.2.3");
}

/// mtrun with a recipe of such a text, and other words behind it.
Command parseRecipe(const std::string &text, Words words = {}) {
  Folder folder;
  words.insert(words.begin(), {"--recipe", folder.write("r.toml", text)});
  return parse(words);
}

TrainOptions trained(const Command &command) {
  const TrainOptions *options = std::get_if<TrainOptions>(&command);
  EXPECT_TRUE(options) << (options ? "" : std::get<Said>(command).text);
  return options ? *options : TrainOptions();
}

void expectRefused(const std::string &text, const std::string &part, const Words &words = {}) {
  const Command command = parseRecipe(text, words);
  const Said *said = std::get_if<Said>(&command);
  ASSERT_TRUE(said) << text;
  EXPECT_EQ(said->status, 2);
  EXPECT_TRUE(said->text.starts_with("error: ")) << said->text;
  EXPECT_NE(said->text.find("r.toml: " + part), std::string::npos) << said->text;
}

constexpr const char *kRecipe = R"(# a recipe
plan = "plan.bin"
data = ["a.txt:0.7", 'b=c:3e-1']
lr = 3e-3
lr-schedule = "cosine"
steps = 1_000
beta2 = 0.95
shuffle = "off"
group = ['*.bias:decay=0']
prompt = ["-1 degree", "", "[a, b]"]
sample-every = 10
keep-best = true
resume = false
eval-split = 0.1
)";

TEST(RecipeFile, SaysWhatTheCommandLineSays) {
  const TrainOptions train = trained(parseRecipe(kRecipe));
  EXPECT_EQ(train.plan, "plan.bin");
  EXPECT_EQ(train.data.paths, (Words{"a.txt", "b=c"}));
  EXPECT_EQ(train.recipe.dataWeights, (std::vector<double>{0.7, 0.3}));
  EXPECT_EQ(train.recipe.rate, 3e-3);
  EXPECT_EQ(train.recipe.schedule, "cosine");
  EXPECT_EQ(train.recipe.steps, 1000);
  EXPECT_EQ(train.recipe.hyperparameters.at("beta2"), 0.95);
  EXPECT_EQ(train.recipe.hyperparameters.at("beta1"), std::nullopt);
  EXPECT_EQ(train.recipe.shuffle, false);
  EXPECT_EQ(train.recipe.groups, Words{"*.bias:decay=0"});
  EXPECT_EQ(train.prompts, (Words{"-1 degree", "", "[a, b]"}));
  EXPECT_TRUE(train.keepBest);
  EXPECT_FALSE(train.resume);
  EXPECT_EQ(train.recipe.evalSplit, 0.1);
}

TEST(RecipeFile, TheCommandLineWins) {
  const TrainOptions train = trained(parseRecipe(
      kRecipe, {"other.bin", "--data", "c", "--lr", "1", "--epochs", "2", "--eval-data", "d", "--prompt", "x"}));
  EXPECT_EQ(train.plan, "other.bin");
  EXPECT_EQ(train.data.paths, Words{"c"}) << "all of them, not one more";
  EXPECT_EQ(train.recipe.dataWeights, std::nullopt);
  EXPECT_EQ(train.recipe.rate, 1);
  EXPECT_EQ(train.recipe.schedule, "cosine");
  EXPECT_EQ(train.recipe.steps, std::nullopt) << "--epochs excludes it";
  EXPECT_EQ(train.epochs, 2);
  EXPECT_EQ(train.recipe.evalSplit, std::nullopt) << "--eval-data excludes it";
  EXPECT_EQ(train.prompts, Words{"x"});
  EXPECT_TRUE(trained(parseRecipe("data = 'd'\noverwrite = true", {"plan.bin", "--resume"})).resume);
}

TEST(RecipeFile, APlanIsAPlanWhateverItIsCalled) {
  EXPECT_EQ(trained(parseRecipe("plan = 'eval'\ndata = 'd'")).plan, "./eval");
  EXPECT_EQ(trained(parseRecipe("plan = '--resume'\ndata = 'd'")).plan, "./--resume");
}

TEST(RecipeFile, WhatWasSaidIsKnownButForWhatConcernsOneRun) {
  const TrainOptions train =
      trained(parseRecipe("plan = 'p'\ndata = 'd'\nkeep = 3\nresume = true\nepochs = 2",
                          {"--lr", "1e-3", "--metrics", "m.jsonl", "--quiet", "--keep-best", "--eval-data", "e"}));
  EXPECT_EQ(train.said, (std::vector<SaidOption>{{"plan", {"p"}},
                                                 {"data", {"d"}},
                                                 {"lr", {"1e-3"}},
                                                 {"keep", {"3"}},
                                                 {"keep-best", {"true"}, true},
                                                 {"eval-data", {"e"}}}));
}

TEST(RecipeFile, Errors) {
  expectRefused("learning-rate = 1", "'learning-rate' is no option of training: keys are those of mtrun --help");
  for (const char *key : {"help", "version", "recipe", "split", "o", "''", "'lr=1'", "'PLAN.bin'"})
    expectRefused(fmt::format("{} = 'x'", key), "'");
  expectRefused("pack = 'on'", "'pack' takes no value but true or false: pack = true");
  expectRefused("shuffle = true", "'shuffle' takes a value, which is not true or false: shuffle = VALUE");
  expectRefused("steps = 1.5", "--steps: 1.5 is no whole number of at least 1");
  expectRefused("lr = 'fast'", "--lr");
  expectRefused("lr = [1, 2]", "--lr");
  expectRefused("shuffle = 'maybe'", "--shuffle");
  expectRefused("group = 'x'", "--group x");
  expectRefused("data = ['a:1', 'b']", "--data");
  expectRefused("# " + std::string(1 << 20, 'x'), "1048578 bytes are more than a recipe has, 1 MiB");
}

TEST(RecipeFile, ErrorsOfTheText) {
  expectRefused("plan 'p'", "line 1: no = behind 'plan': a line is KEY = VALUE");
  expectRefused("lr = 1\n\nlr = 2", "line 3: 'lr' is there twice");
  expectRefused("\n= 1", "line 2: no key: a line is KEY = VALUE");
  expectRefused("\n[machine]\nthreads = 2", "line 2: a table: keys of a recipe stand in none");
  expectRefused("machine.threads = 2", "line 1: 'machine' is a table: keys of a recipe stand in none");
  for (const char *value : {"2020-01-01",
                            "12:30:00",
                            "{a = 1}",
                            "[['a']]",
                            "['a', true]",
                            "fast",
                            "1__0",
                            "_1",
                            "1_",
                            "01",
                            "1.",
                            ".5",
                            "1e",
                            "0x",
                            "0b2",
                            "-0x1",
                            "0xffffffffffffffff",
                            "+-1",
                            "",
                            "# 1",
                            "off"})
    expectRefused(fmt::format("lr = {}", value), "line 1: 'lr': no value that an option has: text in quotes, a number");
  expectRefused("data = [\n]", "line 2: 'data': an array without entries: leave it out");
  for (const char *value : {"['a' 'b']", "['a'", "['a', 'b'\nlr = 1"})
    expectRefused(fmt::format("data = {}", value), "line ");
  expectRefused("lr = 1 2", "line 1: something behind the value");
  expectRefused("lr = truer", "line 1: 'lr': neither true nor false: text stands in quotes");
  for (const char *value : {"\"a\nb\"", "'a\nb'", "\"a\x01\"", "\"a\rb\""})
    expectRefused(fmt::format("data = {}", value), "line 1: 'data': text with a control character, or without its end");
  for (const char *value : {"'a", "\"a", "'''a''", "\"\"\"a\\\""})
    expectRefused(fmt::format("data = {}", value), "line 1: 'data': text without its end");
  for (const char *value : {"\"\\x\"", "\"\\\n\"", "\"\\"})
    expectRefused(fmt::format("data = {}", value), "line 1: 'data': text with a backslash that means nothing");
  for (const char *value : {"\"\\u12\"", "\"\\u000g\"", "\"\\ud800\"", "\"\\U00110000\"", "\"\\u0000\"", "\"\\u-001\""})
    expectRefused(fmt::format("data = {}", value), "line 1: 'data': text with a \\u that is no character");
  expectRefused("# a\x01", "line 1: a comment with a control character");
  expectRefused("# a\n# \xff", "line 2: bytes that are not UTF-8");
}

TEST(RecipeFile, ErrorsOfTheWords) {
  const auto refused = [](const Words &words) { return std::get<Said>(parse(words)).text; };
  Folder folder;
  const std::string path = folder.write("r.toml", "steps = 5\nepochs = 1");
  EXPECT_EQ(refused({"--recipe", "none.toml"}),
            "error: none.toml: there is no such file\nRun mtrun --help for usage.\n");
  EXPECT_TRUE(refused({"--recipe", "/"}).starts_with("error: /: ")) << refused({"--recipe", "/"});
  EXPECT_NE(refused({"--recipe", path, "--recipe", path}).find("--recipe"), std::string::npos);
  EXPECT_NE(refused({"--recipe", path}).find("r.toml: --steps and --epochs exclude each other"), std::string::npos);
  EXPECT_NE(refused({"--recipe", path, "--steps", "3"}).find("r.toml: which plan?"), std::string::npos);
  EXPECT_NE(refused({"eval", "plan.bin", "--data", "d", "--recipe", path}).find("--recipe"), std::string::npos);
  EXPECT_NE(refused({"--recipe", path, "eval", "plan.bin", "--data", "d"})
                .find("--recipe is of training, and eval takes none: say what it needs"),
            std::string::npos);
  EXPECT_NE(refused({"--recipe", path, "--lr", "x"}).find("error: --lr"), std::string::npos)
      << "no fault of the recipe's";
}

/// The values are those of Python's tomllib, but that numbers stay as they are written.
TEST(RecipeFile, ValuesAreThoseOfToml) {
  const Result<std::vector<SaidOption>> options =
      readRecipe("\xef\xbb\xbf# a\r\n\n"
                 "a = '''\nraw \\ '''''\r\n"
                 "\"b\\u00e9\" = \"\"\"\\\n  x \\\t \n\n  y\n''\\\" \"\"\"\"\"#c\n"
                 "\t'c' =[ 1_000 , # one\n\n+2.5e+1_0 ,'x',]\n"
                 "d = [0x1F, 0o17, 0b1_1, +inf, -nan, -0, 1E5, 0.0]\n"
                 "e = \"\\U0001F600\\b\\f\\n\\r\\t\\\\\"\n"
                 "f = ''");
  ASSERT_TRUE(options) << options.status().message();
  EXPECT_EQ(*options, (std::vector<SaidOption>{{"a", {"raw \\ ''"}},
                                               {"b\u00e9", {"x y\n''\" \"\""}},
                                               {"c", {"1000", "2.5e+10", "x"}},
                                               {"d", {"31", "15", "3", "inf", "-nan", "-0", "1E5", "0.0"}},
                                               {"e", {"\U0001F600\b\f\n\r\t\\"}},
                                               {"f", {""}}}));
}

TEST(RecipeFile, TextReadsBackToTheSameOptions) {
  const std::vector<SaidOption> options = {{"a", {"0.001"}},
                                           {"b", {"1e-05"}},
                                           {"c", {"007"}},
                                           {"d", {"1.50"}},
                                           {"e", {"inf"}},
                                           {"f", {"-3"}},
                                           {"g", {"x", "5", ""}},
                                           {"h", {"quote\" back\\ \n\t\x01\x7f \u00e9"}},
                                           {"i", {"true"}},
                                           {"j", {"false"}, true},
                                           {"k", {"18446744073709551615"}},
                                           {"l", {"nan"}},
                                           {"m", {"1e+20"}},
                                           {"n", {"-0.5"}},
                                           {"o p\"", {"-0"}}};
  Folder folder;
  const Result<std::vector<SaidOption>> again = readRecipeFile(folder.write("r.toml", recipeFileText(options)));
  ASSERT_TRUE(again) << again.status().message();
  EXPECT_EQ(*again, options);
  EXPECT_EQ(recipeFileText({{"lr", {"0.001"}}, {"data", {"a:1", "b:2"}}, {"pack", {"true"}, true}}),
            "lr = 0.001\ndata = [\"a:1\", \"b:2\"]\npack = true\n");
}

} // namespace
} // namespace mt::tests
