// What users say to mtrun, as plain structs: one field for each option of the command line (CommandLine.h fills them,
// docs/training.md explains them). No behaviour.
#ifndef MT_RUNTIME_TRAIN_OPTIONS_H
#define MT_RUNTIME_TRAIN_OPTIONS_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mt::train {

struct DataOptions {
  std::vector<std::string> paths;
  std::string tokenizer;
};

struct MachineOptions {
  std::string device; ///< empty: the plan's
  int threads = 0;    ///< 0: the machine's cores
  std::string isa;    ///< that the kernels are held to; empty: the plan's, else the best there is
  std::optional<uint64_t> jitter;
  bool poison = false, cudaGraphs = false;
  bool memoryCheck = true; ///< whether the machine has the host's memory for the plan is looked at before
  double slowCopies = 0; ///< bytes per second that copies are held to; 0: not
  std::string trace;
  bool traceCalls = false;
  std::string stateFolder; ///< for what the plan keeps in a file
};

/// What is said of a run's recipe; what is not is kept from the run that goes on, or has its default (Recipe.h).
struct RecipeOptions {
  std::optional<int64_t> steps;
  std::optional<double> rate, leastRate;
  std::optional<std::string> schedule; ///< of the rate: Schedules.h
  std::optional<int64_t> warmup, cycles;
  std::optional<int64_t> decaySteps; ///< of the rate
  std::optional<std::string> decayShape;
  std::optional<double> weightDecay;
  std::optional<bool> decayAll; ///< vectors too
  std::map<std::string, std::optional<double>, std::less<>> hyperparameters; ///< of optimizers, by name
  std::optional<double> clipNorm;
  std::optional<bool> skipNonFinite;              ///< steps whose gradient is not finite; else they are errors
  std::optional<std::vector<std::string>> groups; ///< of parameters: plan::ParameterGroup
  std::optional<uint64_t> seed;
  std::optional<bool> shuffle;
  std::optional<std::vector<double>> dataWeights; ///< of the parts of a mixture; none: the data are no mixture
  std::optional<double> evalSplit;                ///< the share of rows that is held back for evaluation; 0: none
  std::optional<bool> pack;                       ///< short samples share rows
};

/// An option of training as a word for word list, on the command line or in a recipe file (RecipeFile.h).
struct SaidOption {
  std::string key;                ///< the option without its dashes; of the plan, "plan"
  std::vector<std::string> words; ///< its values, one for each time that it is said
  bool isFlag = false;            ///< one without a value: "true" or "false"
  bool operator==(const SaidOption &) const = default;
};

struct TrainOptions {
  std::string plan;
  std::string recipeFile = {}; ///< that the rest is said in, too; empty: none
  DataOptions data;
  MachineOptions machine;
  RecipeOptions recipe;
  std::optional<int64_t> epochs; ///< instead of recipe.steps
  std::string out; ///< empty: runs/<plan name>
  bool resume = false, overwrite = false, dryRun = false, rehearse = false, quiet = false;
  int64_t checkpointEvery = 0; ///< steps; 0: at the end only
  int64_t verifyEvery = 0;     ///< steps between comparisons of all ranks' weights; 0: with every checkpoint only
  int keep = 2; ///< checkpoints; 0: none is written
  bool keepBest = false;      ///< beside those, that of the least evaluation loss
  bool checkpointCopy = true; ///< they are written beside training, where memory allows
  std::vector<std::string> evalData;
  int64_t evalEvery = 0; ///< steps; 0: at the end only
  int64_t sampleEvery = 0;          ///< steps between samples of text; 0: none
  std::vector<std::string> prompts; ///< that they continue
  bool chat = false;                ///< a prompt is what a user says, and a text the answer
  int64_t sampleTokens = 64;        ///< of each at most
  int64_t patience = 0;  ///< evaluations in a row that are no better than the best; 0: any number
  std::string metrics;   ///< empty: metrics.jsonl in `out`
  std::string tensorboard, saveGradients;
  std::vector<SaidOption> said = {}; ///< all of these that were said, but for what concerns one run alone
};

struct EvalOptions {
  std::string plan;
  DataOptions data;
  MachineOptions machine;
  std::string from; ///< run or checkpoint; empty: the initial weights
  bool heldBack = false; ///< the rows that the run holds back alone
  bool pack = false;     ///< short samples share rows
  bool best = false;     ///< of the run, by evaluation; else the newest
  bool ema = false;      ///< the average of the weights in place of them
};

/// What texts begin with.
struct PromptOptions {
  std::vector<std::string> texts;
  std::string tokenizer; ///< empty: tokens are bytes
  bool chat = false;     ///< each is what a user says, put into the tokenizer's chat template
};

struct SampleOptions {
  std::string plan;
  MachineOptions machine;
  std::string from; ///< run or checkpoint; empty: the initial weights
  PromptOptions prompts;
  int64_t tokens = 128, topK = 0;
  double temperature = 0.8, topP = 1;
  uint64_t seed = 0;
  bool best = false; ///< of the run, by evaluation; else the newest
  bool ema = false;  ///< the average of the weights in place of them
};

struct ExportOptions {
  std::string from;   ///< run or checkpoint
  std::string output; ///< .onnx, .safetensors or .npz
  std::string model;  ///< the original .onnx; empty: where the plan found it
  std::string like = {}; ///< a checkpoint folder, as which `output` is written; empty: one file
  bool merge = false;    ///< adapters are added to the weights that they are beside
  bool best = false;     ///< of the run, by evaluation; else the newest
  bool ema = false;      ///< the average of the weights in place of them
};

struct ReportOptions {
  std::string from;        ///< a run's folder, or its metrics
  std::string output = {}; ///< empty: report.html beside the metrics
};

struct TokenizeOptions {
  std::string corpus, output, tokenizer;
  int threads = 0;                          ///< 0: the machine's cores
  uint64_t fileBytes = uint64_t(128) << 20; ///< of a file at most
};

} // namespace mt::train
#endif
