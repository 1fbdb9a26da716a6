// The command line: what becomes of it, and usage errors.
#include "runtime/train/CommandLine.h"

#include "tests/train/TestFiles.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

namespace mt::tests {
namespace {

using namespace train;

Command parse(std::vector<const char *> words) {
  words.insert(words.begin(), "mtrun");
  return parseCommandLine(static_cast<int>(words.size()), words.data(), "mtrun 1.2.3");
}

void expectUsageError(std::vector<const char *> words, const std::string &part) {
  Command command = parse(words);
  const Said *said = std::get_if<Said>(&command);
  ASSERT_TRUE(said);
  EXPECT_EQ(said->status, 2);
  EXPECT_TRUE(said->text.starts_with("error: ")) << said->text;
  EXPECT_NE(said->text.find(part), std::string::npos) << said->text;
}

TEST(CommandLine, Training) {
  Command command = parse({"plan.bin",
                           "--data",
                           "data.npz",
                           "--shuffle",
                           "off",
                           "--steps",
                           "20",
                           "--lr",
                           "0.003",
                           "--weight-decay",
                           "0.1",
                           "--decay",
                           "all",
                           "--metrics",
                           "m.jsonl",
                           "--beta2",
                           "0.95",
                           "--clip-norm",
                           "0.5",
                           "--lr-schedule",
                           "cosine",
                           "--jitter",
                           "7",
                           "--poison",
                           "--slow-copies",
                           "100MB",
                           "--keep",
                           "0",
                           "--checkpoint-copy",
                           "off",
                           "--non-finite",
                           "skip",
                           "--eval-data",
                           "y",
                           "--eval-every",
                           "5",
                           "--patience",
                           "3"});
  const TrainOptions *train = std::get_if<TrainOptions>(&command);
  ASSERT_TRUE(train);
  EXPECT_EQ(train->plan, "plan.bin");
  EXPECT_EQ(train->data.paths, std::vector<std::string>{"data.npz"});
  EXPECT_EQ(train->recipe.shuffle, false);
  EXPECT_EQ(train->recipe.steps, 20);
  EXPECT_EQ(train->recipe.rate, 0.003);
  EXPECT_EQ(train->recipe.schedule, "cosine");
  EXPECT_EQ(train->recipe.weightDecay, 0.1);
  EXPECT_EQ(train->recipe.decayAll, true);
  EXPECT_EQ(train->recipe.hyperparameters.at("beta1"), std::nullopt) << "what was not said is not made up";
  EXPECT_EQ(train->recipe.hyperparameters.at("beta2"), 0.95);
  EXPECT_EQ(train->recipe.clipNorm, 0.5);
  EXPECT_EQ(train->machine.jitter, 7u);
  EXPECT_TRUE(train->machine.poison);
  EXPECT_EQ(train->machine.slowCopies, 1e8);
  EXPECT_EQ(train->keep, 0);
  EXPECT_FALSE(train->checkpointCopy);
  EXPECT_EQ(train->recipe.skipNonFinite, true);
  EXPECT_EQ(train->patience, 3);
  EXPECT_FALSE(train->keepBest);
}

TEST(CommandLine, Schedules) {
  Command command =
      parse({"plan.bin", "--data", "x", "--lr-schedule", "wsd", "--decay-steps", "30", "--decay-shape", "1-sqrt"});
  ASSERT_TRUE(std::get_if<TrainOptions>(&command));
  const RecipeOptions &recipe = std::get<TrainOptions>(command).recipe;
  EXPECT_EQ(recipe.schedule, "wsd");
  EXPECT_EQ(recipe.decaySteps, 30);
  EXPECT_EQ(recipe.decayShape, "1-sqrt");
  EXPECT_EQ(recipe.cycles, std::nullopt);
  expectUsageError({"plan.bin", "--data", "x", "--decay-shape", "sqrt"}, "--decay-shape");
  expectUsageError({"plan.bin", "--data", "x", "--decay-steps", "0"}, "--decay-steps");
  expectUsageError({"plan.bin", "--data", "x", "--lr-cycles", "0"}, "--lr-cycles");
}

TEST(CommandLine, DataMayHaveWeights) {
  Command command =
      parse({"plan.bin", "--data", "a.txt:0.7", "--data", "b:c:3e-1", "--eval-data", "d", "--eval-data", "e"});
  const TrainOptions *train = std::get_if<TrainOptions>(&command);
  ASSERT_TRUE(train);
  EXPECT_EQ(train->data.paths, (std::vector<std::string>{"a.txt", "b:c"}));
  EXPECT_EQ(train->recipe.dataWeights, (std::vector<double>{0.7, 0.3}));
  EXPECT_EQ(train->evalData, (std::vector<std::string>{"d", "e"}));
  command = parse({"plan.bin", "--data", "a", "--data", "b:x"});
  EXPECT_EQ(std::get<TrainOptions>(command).data.paths, (std::vector<std::string>{"a", "b:x"}));
  EXPECT_EQ(std::get<TrainOptions>(command).recipe.dataWeights, std::nullopt);
}

TEST(CommandLine, WhatExistsIsAPathWhateverStandsInIt) {
  Folder folder;
  const std::string path = folder.write("part:2", "text");
  Command command = parse({"plan.bin", "--data", path.c_str()});
  EXPECT_EQ(std::get<TrainOptions>(command).data.paths, std::vector<std::string>{path});
}

TEST(CommandLine, RowsHeldBack) {
  Command command = parse({"plan.bin", "--data", "a", "--eval-split", "0.05", "--eval-every", "10"});
  EXPECT_EQ(std::get<TrainOptions>(command).recipe.evalSplit, 0.05);
  EXPECT_TRUE(
      std::holds_alternative<TrainOptions>(parse({"plan.bin", "--data", "a", "--eval-every", "10", "--resume"})));
  for (const char *share : {"0", "1", "-0.1", "x", "nan"})
    expectUsageError({"plan.bin", "--data", "a", "--eval-split", share}, "no number in the range (0 - 1)");
  expectUsageError({"plan.bin", "--data", "a", "--eval-split", "0.1", "--eval-data", "b"},
                   "--eval-split and --eval-data exclude");
  expectUsageError({"eval", "plan.bin", "--data", "a", "--split"}, "--split requires --from");
}

TEST(CommandLine, Packing) {
  EXPECT_EQ(std::get<TrainOptions>(parse({"plan.bin", "--data", "a"})).recipe.pack, std::nullopt);
  EXPECT_EQ(std::get<TrainOptions>(parse({"plan.bin", "--data", "a", "--pack"})).recipe.pack, true);
  EXPECT_TRUE(std::get<EvalOptions>(parse({"eval", "plan.bin", "--data", "a", "--pack"})).pack);
}

TEST(CommandLine, WeightsThatAreNone) {
  for (const char *text : {"a:0", "a:-1", "a:inf", "a:nan"})
    expectUsageError({"plan.bin", "--data", text}, "the weight of a part must be a positive number");
  expectUsageError({"plan.bin", "--data", "a:1", "--data", "b"},
                   "either all have a weight or none has: give b one, as b:1");
  expectUsageError({"plan.bin", "--data", "a", "--data", "b:1"},
                   "either all have a weight or none has: give a one, as a:1");
}

TEST(CommandLine, OtherCommands) {
  Command eval = parse({"eval", "plan.bin", "--data", "x.txt", "--from", "runs/plan", "--threads", "3"});
  ASSERT_TRUE(std::get_if<EvalOptions>(&eval));
  EXPECT_EQ(std::get<EvalOptions>(eval).from, "runs/plan");
  EXPECT_EQ(std::get<EvalOptions>(eval).machine.threads, 3);
  EXPECT_FALSE(std::get<EvalOptions>(eval).best);
  Command exporting = parse({"export", "runs/plan", "-o", "x.onnx", "--best"});
  ASSERT_TRUE(std::get_if<ExportOptions>(&exporting));
  EXPECT_EQ(std::get<ExportOptions>(exporting).output, "x.onnx");
  EXPECT_TRUE(std::get<ExportOptions>(exporting).best);
  Command tokenizing =
      parse({"tokenize", "text", "-o", "tokens", "--tokenizer", "hf", "--threads", "3", "--shard-size", "1MiB"});
  ASSERT_TRUE(std::get_if<TokenizeOptions>(&tokenizing));
  EXPECT_EQ(std::get<TokenizeOptions>(tokenizing).corpus, "text");
  EXPECT_EQ(std::get<TokenizeOptions>(tokenizing).output, "tokens");
  EXPECT_EQ(std::get<TokenizeOptions>(tokenizing).tokenizer, "hf");
  EXPECT_EQ(std::get<TokenizeOptions>(tokenizing).threads, 3);
  EXPECT_EQ(std::get<TokenizeOptions>(tokenizing).fileBytes, 1U << 20);
  Command report = parse({"report", "runs/plan", "-o", "page.html"});
  ASSERT_TRUE(std::get_if<ReportOptions>(&report));
  EXPECT_EQ(std::get<ReportOptions>(report).from, "runs/plan");
  EXPECT_EQ(std::get<ReportOptions>(report).output, "page.html");
  Command probe = parse({"probe", "--device", "cuda:1", "--host-memory", "104GiB"});
  ASSERT_TRUE(std::get_if<probe::ProbeOptions>(&probe));
  EXPECT_EQ(std::get<probe::ProbeOptions>(probe).device, "cuda:1");
  EXPECT_EQ(std::get<probe::ProbeOptions>(probe).hostMemory, uint64_t{104} << 30);
  Command dry = parse({"plan.bin", "--dry-run"});
  EXPECT_TRUE(std::get_if<TrainOptions>(&dry));
}

TEST(CommandLine, HelpHasExamplesAndVersionIsPrinted) {
  for (std::vector<const char *> words : {std::vector<const char *>{"--help"},
                                          {"eval", "--help"},
                                          {"sample", "--help"},
                                          {"export", "--help"},
                                          {"report", "--help"},
                                          {"tokenize", "--help"},
                                          {"probe", "--help"}}) {
    Command help = parse(words);
    ASSERT_TRUE(std::get_if<Said>(&help));
    EXPECT_EQ(std::get<Said>(help).status, 0);
    EXPECT_NE(std::get<Said>(help).text.find("Example"), std::string::npos);
  }
  Command version = parse({"--version"});
  EXPECT_NE(std::get<Said>(version).text.find("1.2.3"), std::string::npos);
}

TEST(CommandLine, UsageErrors) {
  expectUsageError({}, "which plan?");
  expectUsageError({"plan.bin"}, "--data is required");
  expectUsageError({"plan.bin", "--data", "x", "--out", ""}, "'' is no folder");
  expectUsageError({"plan.bin", "--data", "x", "--frobnicate"}, "--frobnicate");
  expectUsageError({"plan.bin", "--data", "x", "--steps", "0"}, "--steps");
  expectUsageError({"plan.bin", "--data", "x", "--steps", "five"}, "--steps");
  expectUsageError({"plan.bin", "--data", "x", "--steps", "1", "--epochs", "1"}, "--steps and --epochs");
  expectUsageError({"plan.bin", "--data", "x", "--lr-schedule", "square"}, "--lr-schedule");
  for (const char *option : {"--lr", "--clip-norm", "--weight-decay", "--eps"})
    for (const char *number : {"nan", "inf", "-1", "x"})
      expectUsageError({"plan.bin", "--data", "x", option, number}, fmt::format("{} is no number", number));
  for (const char *seed : {"-1", "18446744073709551616"})
    expectUsageError({"plan.bin", "--data", "x", "--seed", seed}, "is no whole number from 0 to 2^64 - 1");
  expectUsageError({"plan.bin", "--data", "x", "--warmup", "99999999999999999999"}, "is no whole number of at least 0");
  expectUsageError({"sample", "plan.bin", "--temperature", "nan"}, "nan is no number of at least 0");
  expectUsageError({"plan.bin", "--data", "x", "--shuffle", "maybe"}, "--shuffle");
  expectUsageError({"plan.bin", "--data", "x", "--checkpoint-copy", "no"}, "--checkpoint-copy");
  expectUsageError({"plan.bin", "--data", "x", "--eval-every", "5"}, "--eval-data");
  expectUsageError({"plan.bin", "--data", "x", "--keep-best"}, "--keep-best goes by evaluations: say --eval-data");
  expectUsageError({"plan.bin", "--data", "x", "--eval-data", "y", "--keep-best", "--keep", "0"},
                   "--keep 0 writes no checkpoint");
  expectUsageError({"plan.bin", "--data", "x", "--eval-data", "y", "--patience", "3"},
                   "say --eval-every and --eval-data or --eval-split");
  expectUsageError({"plan.bin", "--data", "x", "--patience", "0"}, "--patience");
  expectUsageError({"plan.bin", "--data", "x", "--non-finite", "ignore"}, "--non-finite");
  expectUsageError({"eval", "plan.bin", "--data", "x", "--best"}, "--best is one of a run's checkpoints: say --from");
  expectUsageError({"plan.bin", "--data", "x", "--slow-copies", "fast"}, "--slow-copies");
  expectUsageError({"plan.bin", "--data", "x", "--resume", "--overwrite"}, "say one of them");
  expectUsageError({"plan.bin", "--data", "x", "--calls"}, "--calls requires --trace");
  expectUsageError({"plan.bin", "--rehearse", "--trace", "x", "--calls"}, "--calls: a rehearsal calls no kernels");
  expectUsageError({"eval", "plan.bin"}, "--data");
  expectUsageError({"export", "runs/plan"}, "--output");
  expectUsageError({"report"}, "DIR");
  expectUsageError({"tokenize", "text", "-o", "tokens"}, "--tokenizer");
  expectUsageError({"tokenize", "text", "--tokenizer", "t.json"}, "--output");
  expectUsageError({"tokenize", "text", "-o", "tokens", "--tokenizer", "t.json", "--shard-size", "1KiB"},
                   "1KiB is not between 4 KiB and 4 GiB");
  expectUsageError({"tokenize", "text", "-o", "tokens", "--tokenizer", "t.json", "--shard-size", "big"},
                   "--shard-size");
  expectUsageError({"tokenize", "text", "-o", "tokens", "--tokenizer", "t.json", "--threads", "0"}, "--threads");
}

} // namespace
} // namespace mt::tests
