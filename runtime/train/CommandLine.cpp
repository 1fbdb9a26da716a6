#include "runtime/train/CommandLine.h"

#include "kernels/InstructionSets.h"
#include "kernels/Optimizers.h"
#include "runtime/base/NumberChecks.h"
#include "runtime/base/Sizes.h"
#include "runtime/device/MakeDevice.h"
#include "runtime/plan/ParameterGroups.h"
#include "runtime/train/RecipeWords.h"
#include "runtime/train/RunFolder.h"
#include "runtime/train/Schedules.h"
#include "runtime/train/TokenFolder.h"
#include "runtime/train/WeightedPath.h"

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>

#include <filesystem>
#include <functional>
#include <limits>
#include <set>
#include <sstream>

namespace mt::train {
namespace {

constexpr int kUsage = 2;

const CLI::Validator kCount = atLeast(1), kCountOrZero = atLeast(0);
const CLI::Validator kShare = realNumber([](double value) { return value >= 0 && value < 1; }, "in the range [0 - 1)");
const CLI::Validator kInnerShare =
    realNumber([](double value) { return value > 0 && value < 1; }, "in the range (0 - 1)");
const CLI::Validator kNotNegative = realNumber([](double value) { return value >= 0; }, "of at least 0");
const CLI::Validator kPositive = realNumber([](double value) { return value > 0; }, "above 0");
const CLI::Validator kInstructionSets =
    CLI::IsMember(std::vector<std::string>(kernels::kInstructionSets.begin(), kernels::kInstructionSets.end()))
        .description("");
const CLI::Validator kThreads = CLI::Range(1, 4096).description("");

/// What usual(optimizer) is: "0.9", or "0.01 with adamw, 0 with sgd".
std::string usualOf(const std::function<std::optional<double>(const kernels::OptimizerSpec &)> &usual) {
  std::set<double> values;
  std::string each;
  for (const kernels::OptimizerSpec &optimizer : kernels::optimizers())
    if (std::optional<double> value = optimizer.learns ? usual(optimizer) : std::nullopt) {
      values.insert(*value);
      if (!optimizer.averages)
        each += fmt::format("{}{} with {}", each.empty() ? "" : ", ", *value, optimizer.name);
    }
  return values.size() == 1 ? fmt::format("{}", *values.begin()) : each;
}

/// Options that exclude each other: on the command line one of them overrides the other in a recipe.
struct Exclusive {
  const char *one, *other, *message;
};
constexpr Exclusive kExclusive[] = {
    {"--resume", "--overwrite", "--resume goes on with the run that --overwrite would replace: say one of them"},
    {"--steps", "--epochs", "--steps and --epochs exclude each other"},
    {"--eval-split", "--eval-data", "--eval-split and --eval-data exclude each other"}};

constexpr const char *kExamples = R"(Examples:
  mtrun plan.bin --data text/ --steps 1000 --lr 3e-4 --lr-schedule cosine --warmup 50
  mtrun plan.bin --data text/ --group '*.bias:lr=1e-4,decay=0' --group 'wte.*:beta2=0.99'
  mtrun plan.bin --data books/:0.7 --data code/:0.3 --steps 1000
  mtrun plan.bin --data text/ --resume
  mtrun --recipe runs/plan/recipe.toml --lr 1e-4 --out runs/slower
  mtrun plan.bin --dry-run
  mtrun eval plan.bin --data held-out.txt --from runs/plan
  mtrun sample plan.bin --from runs/plan --prompt 'Once upon a time'
  mtrun export runs/plan -o trained.onnx
  mtrun report runs/plan
  mtrun tokenize text/ --tokenizer models/llama -o tokens
  mtrun probe -o this-machine.json)";

constexpr const char *kTokenizerHelp = "SentencePiece's .model, a tokenizer.json, or a folder with one";

class Parser {
public:
  explicit Parser(const std::string &version) : app("Trains a compiled plan, evaluates it, exports what was trained.") {
    app.footer(kExamples);
    app.set_version_flag("--version", version, "print version, revision and CUDA's version");
    app.get_formatter()->column_width(28);
    addTraining();
    addEvaluation();
    addSample();
    addExport();
    addReport();
    addTokenize();
    addProbe();
  }

  /// Words of a command line, the program's name first. What ends it: help, or an error, which `recipe` stands before.
  std::optional<Said> read(const std::vector<std::string> &words, const std::string &recipe = "") {
    where = recipe.empty() ? "" : recipe + ": ";
    std::vector<const char *> all;
    for (const std::string &word : words)
      all.push_back(word.c_str());
    try {
      app.parse(static_cast<int>(all.size()), all.data());
    } catch (const CLI::Success &success) {
      std::ostringstream out;
      app.exit(success, out, out);
      return Said{0, out.str()};
    } catch (const CLI::ParseError &error) {
      return usage(error.what());
    }
    return std::nullopt;
  }

  /// Empty: none is named.
  const std::string &recipe() const { return recipeFile; }
  /// The folder of the run that goes on, where nothing but the place of its recipe says which: it may have been moved.
  std::optional<std::string> resumedFolder() const {
    std::error_code error;
    const std::string folder = folderOf(recipeFile);
    const bool isRun = std::filesystem::exists(fmt::format("{}/{}", folder, kRunFile), error);
    return train.resume && train.out.empty() && isRun ? std::optional(folder) : std::nullopt;
  }
  /// What it says, but for what the command line that was read says itself.
  Result<std::vector<std::string>> recipeWords() const { return train::recipeWords(app, recipeFile); }

  Command command() {
    if ((*evalCommand && eval.best && eval.from.empty()) || (*sampleCommand && sample.best && sample.from.empty()))
      return usage("--best is one of a run's checkpoints: say --from");
    if (*evalCommand)
      return eval;
    if (*sampleCommand)
      return sample;
    if (*exportCommand)
      return exporting;
    if (*reportCommand)
      return reporting;
    if (*tokenizeCommand)
      return tokenizing;
    if (*probeCommand)
      return probe;
    return training();
  }

  Said usage(const std::string &message) const {
    return {kUsage, fmt::format("error: {}{}\nRun mtrun --help for usage.\n", where, message)};
  }

private:
  Command training() {
    for (const auto &[one, other, message] : kExclusive)
      if (app.get_option(one)->count() > 0 && app.get_option(other)->count() > 0)
        return usage(message);
    train.said = saidOptions(app);
    if (train.plan.empty())
      return usage("which plan? mtrun PLAN.bin --data CORPUS");
    if (train.data.paths.empty() && !train.dryRun && !train.rehearse)
      return usage("--data is required: the text, tokens or arrays to train on");
    if (train.rehearse && train.machine.traceCalls)
      return usage("--calls: a rehearsal calls no kernels; leave out one of them");
    if ((train.sampleEvery > 0) == train.prompts.empty())
      return usage("--sample-every and --prompt need each other: how often, and what is to be continued");
    if (train.chat && train.prompts.empty())
      return usage("--chat is of --prompt and --sample-every");
    if (train.evalEvery > 0 && train.evalData.empty() && !train.recipe.evalSplit && !train.resume)
      return usage("--eval-every needs --eval-data or --eval-split");
    if (train.keepBest && train.evalData.empty() && !train.recipe.evalSplit && !train.resume)
      return usage("--keep-best goes by evaluations: say --eval-data or --eval-split");
    if (train.keepBest && train.keep == 0)
      return usage("--keep 0 writes no checkpoint that --keep-best could keep: leave out one of them");
    if (train.patience > 0 && train.evalEvery == 0)
      return usage("--patience counts evaluations: say --eval-every and --eval-data or --eval-split");
    return train;
  }

  static void addInstructionSet(CLI::App &command, std::string &name, const char *usual) {
    command
        .add_option("--isa", name,
                    "the best vector instructions that kernels use:\n" +
                        fmt::format("{}", fmt::join(kernels::kInstructionSets, ", ")) + usual +
                        "; others give\nother last bits")
        ->check(kInstructionSets)
        ->type_name("NAME");
  }

  void addMachine(CLI::App &command, MachineOptions &machine) {
    command.add_option("--device", machine.device, "cpu or cuda[:N,...] (default: the plan's target)");
    command
        .add_option("--threads", machine.threads,
                    "threads of the kernels on the host (default: the machine's cores,\nbut an eighth of them where a "
                    "GPU is fed)")
        ->check(kThreads)
        ->type_name("N");
    addInstructionSet(command, machine.isa, "\n(default: the target's, else the processor's best but amx-f32)");
    command
        .add_option_function<std::string>(
            "--host-memory-check", [&machine](const std::string &word) { machine.memoryCheck = word == "on"; },
            "whether the machine must have the plan's host memory free before\nanything is reserved; off: where memory "
            "grows on demand (default: on)")
        ->check(CLI::IsMember({"on", "off"}).description(""))
        ->type_name("on|off");
    command
        .add_option("--state-dir", machine.stateFolder,
                    "a folder on a fast local disk, for what the plan keeps in a file:\nscratch, gone with the run")
        ->type_name("DIR");
    CLI::Option *trace =
        command.add_option("--trace", machine.trace, "times of all commands, in Chrome's trace format")
            ->type_name("FILE.json");
    command
        .add_flag("--calls", machine.traceCalls,
                  "with --trace: a table of the times of kernel calls, by what they compute")
        ->needs(trace);
    command.add_option("--jitter", machine.jitter, "for testing: random delays on every stream")->type_name("SEED");
    command.add_flag("--poison", machine.poison, "for testing: NaN into memory whose content must not matter");
    command.add_flag("--cuda-graphs", machine.cudaGraphs, "for measuring: replay the launches of a layer as CUDA graphs");
    command
        .add_option_function<std::string>(
            "--slow-copies",
            [&machine](const std::string &text) {
              Result<uint64_t> rate = parseSize(text);
              if (!rate || *rate == 0)
                throw CLI::ValidationError("--slow-copies", rate ? "must not be zero" : rate.status().message());
              machine.slowCopies = static_cast<double>(*rate);
            },
            "for testing: no copy is faster than so many bytes per second,\nsuch as 100MB")
        ->type_name("SIZE");
  }

  void addTraining() {
    app.add_option(kPlanOption, train.plan, "the plan, as mtc compile wrote it")->type_name("");
    app.add_option("--recipe", recipeFile,
                   "a file that says what options say, as KEY = VALUE with the plan as\n\"plan\"; those given here "
                   "count. RUN/recipe.toml repeats a run")
        ->type_name("FILE.toml");
    app.option_defaults()->group("Data and length of the run");
    app.add_option_function<std::vector<std::string>>(
           "--data", [this](const std::vector<std::string> &texts) { readData(texts); },
           "what to train on: text, .bin tokens, .npz, .jsonl;\na file or a folder; repeatable, WEIGHT says how much "
           "of each\n(default: all rows alike)")
        ->option_text("CORPUS[:WEIGHT]")
        ->allow_extra_args(false);
    app.add_option("--tokenizer", train.data.tokenizer,
                   std::string("for text, prompts and chats (default: bytes are tokens):\n") + kTokenizerHelp)
        ->type_name("FILE|HF_DIR");
    app.add_flag_callback(
        "--pack", [this] { train.recipe.pack = true; },
        "short samples of .jsonl share rows; for plans of mtc compile --pack");
    app.add_option("--steps", train.recipe.steps,
                   "steps of the whole run, those before a --resume included; each\naccumulates the gradients of all "
                   "micro-batches of the plan's batch\n(default: one epoch)")
        ->check(kCount)
        ->type_name("N");
    app.add_option("--epochs", train.epochs,
                   "as many rows as the data have, so many times, instead of --steps\n(default: 1)")
        ->check(kCount)
        ->type_name("N");
    app.option_defaults()->group("What is kept and said");
    app.add_option("--out", train.out, "folder of checkpoints, metrics and report (default: runs/<plan name>)")
        ->check(
            CLI::Validator([](std::string &text) { return std::string(text.empty() ? "'' is no folder" : ""); }, ""))
        ->type_name("DIR");
    app.add_flag("--resume", train.resume, "go on from the newest checkpoint of --out, by its recipe;\nat step 0 without one");
    app.add_flag("--overwrite", train.overwrite, "start anew in a folder that holds a run, or over any metrics");
    app.add_flag("--dry-run", train.dryRun, "check plan, memory, weights and data; print bytes; train nothing");
    app.add_flag("--rehearse", train.rehearse, "take the predicted time for every command (--steps of them, 5):\nneither memory nor device; prints what a step took");
    app.option_defaults()->group("Recipe");
    addRecipe(train.recipe);
    app.option_defaults()->group("What is kept and said");
    app.add_option("--verify-every", train.verifyEvery,
                   "steps between comparisons of all ranks' weights\n(default: with every checkpoint)")
        ->option_text("N")
        ->check(kCount);
    app.add_option("--checkpoint-every", train.checkpointEvery, "steps between checkpoints (default: one at the end)")
        ->check(kCountOrZero)->type_name("N");
    app.add_option("--keep", train.keep, "checkpoints to keep; 0: none is written")->check(kCountOrZero)->type_name("N")->capture_default_str();
    app.add_flag("--keep-best", train.keepBest,
                 "keep that of the least evaluation loss, too; each evaluation\nthat is the best so far writes one");
    addSwitch("--checkpoint-copy", train.checkpointCopy,
              "write those between beside training, from a copy of the state,\nwhere memory allows (default: on)", "on", "off");
    app.add_option("--eval-data", train.evalData, "data to evaluate on; repeatable")
        ->option_text("CORPUS")
        ->allow_extra_args(false);
    app.add_option("--eval-split", train.recipe.evalSplit,
                   "the share of --data's rows to evaluate on instead, such as 0.05:\nthey are never trained on")
        ->check(kInnerShare)
        ->type_name("F");
    app.add_option("--eval-every", train.evalEvery, "steps between evaluations (default: one at the end)")
        ->check(kCountOrZero)->type_name("N");
    app.add_option("--sample-every", train.sampleEvery,
                   "steps between texts that continue each --prompt, and once at the\nend; a token costs an evaluation "
                   "of one batch (default: none)")
        ->check(kCount)
        ->type_name("N");
    app.add_option("--prompt", train.prompts, "of --sample-every; repeatable, as often as the batch has rows")
        ->option_text("TEXT")
        ->allow_extra_args(false);
    app.add_flag("--chat", train.chat, "a --prompt is what a user says, and the text the answer");
    app.add_option("--sample-tokens", train.sampleTokens, "of such a text at most")
        ->check(kCount)
        ->type_name("N")
        ->capture_default_str();
    app.add_option("--patience", train.patience,
                   "stop after so many evaluations that are no better than the\nbest before them (default: any number)")
        ->check(kCount)
        ->type_name("N");
    app.add_option("--metrics", train.metrics, "one JSON object a step (default: metrics.jsonl in --out)")
        ->type_name("FILE.jsonl");
    app.add_option("--tensorboard", train.tensorboard, "folder for event files of TensorBoard")->type_name("DIR");
    app.add_option("--save-gradients", train.saveGradients, "gradients of the run's first step, by initializer name")
        ->type_name("FILE.npz");
    app.add_flag("--quiet", train.quiet, "print nothing but errors");
    app.option_defaults()->group("Machine");
    addMachine(app, train.machine);
    app.option_defaults()->group("Options");
  }

  void readData(const std::vector<std::string> &texts) {
    Result<WeightedPaths> all = parseWeightedPaths(texts);
    if (!all)
      throw CLI::ValidationError("--data", all.status().message());
    train.data.paths = all->paths;
    if (!all->weights.empty())
      train.recipe.dataWeights = all->weights;
  }

  template <typename Value>
  void addSwitch(const char *flag, Value &value, const char *help, std::string yes, std::string no) {
    app.add_option_function<std::string>(
           flag, [&value, yes](const std::string &text) { value = text == yes; }, help)
        ->check(CLI::IsMember({yes, no}).description(""))
        ->type_name(yes + "|" + no);
  }

  void addRecipe(RecipeOptions &recipe) {
    app.add_option("--seed", recipe.seed, "of the order of rows and of what dropout drops (default: 0)")
        ->check(unsignedNumber())
        ->type_name("N");
    addSwitch("--shuffle", recipe.shuffle, "every epoch takes the rows in another order (default: on)", "on", "off");
    app.add_option("--lr", recipe.rate, "learning rate (default: 0.001)")->check(kNotNegative)->type_name("X");
    app.add_option("--lr-schedule", recipe.schedule,
                   "constant, linear, cosine, wsd (warm-up, stable, decay) or\ninverse-sqrt (default: constant)")
        ->check(CLI::IsMember(scheduleNames()).description(""))
        ->type_name("KIND");
    app.add_option("--warmup", recipe.warmup, "steps in which the rate rises to --lr (default: 0)")->check(kCountOrZero)->type_name("N");
    app.add_option("--min-lr", recipe.leastRate, "rate at which linear, cosine and wsd end (default: 0)")
        ->check(kNotNegative)
        ->type_name("X");
    app.add_option("--lr-cycles", recipe.cycles, "of cosine: times that it falls, from --lr each (default: 1)")
        ->check(kCount)
        ->type_name("N");
    app.add_option("--decay-steps", recipe.decaySteps, "of wsd: last steps, in which the rate falls (default: a fifth)")
        ->check(kCount)
        ->type_name("N");
    app.add_option("--decay-shape", recipe.decayShape, "of wsd: how it falls (default: cosine)")
        ->check(CLI::IsMember(decayShapeNames()).description(""))
        ->type_name(fmt::format("{}", fmt::join(decayShapeNames(), "|")));
    app.add_option("--weight-decay", recipe.weightDecay, "decay of the weights (default: " + usualOf([](const auto &optimizer) { return optimizer.usualDecay; }) + ")")
        ->check(kNotNegative)->type_name("X");
    addSwitch("--decay", recipe.decayAll, "which parameters decay (default: matrices)", "all", "matrices");
    for (std::string_view name : kernels::hyperparameterNames())
      addHyperparameter(std::string(name), recipe);
    app.add_option_function<std::vector<std::string>>(
           "--group", [&recipe](const std::vector<std::string> &texts) {
             for (const std::string &text : texts)
               if (Result<plan::ParameterGroup> group = plan::parseGroup(text); !group)
                 throw CLI::ValidationError("--group " + text, group.status().message());
             recipe.groups = texts;
           },
           "what is different for parameters of such names: lr, decay and\nwhat their optimizer reads; repeatable, the last counts")
        ->option_text("PATTERN:KEY=VALUE,...")
        ->allow_extra_args(false);
    app.add_option("--clip-norm", recipe.clipNorm, "largest global norm of the gradients, for a plan compiled\nwith --clip (default: 1)")
        ->check(kPositive)->type_name("X");
    addSwitch("--non-finite", recipe.skipNonFinite,
              "a step whose gradient is not finite ends the run, or leaves\neverything as it was, for a plan compiled "
              "with --clip (default: stop)",
              "skip", "stop");
  }

  /// "of adamw (default: 0.9)"
  void addHyperparameter(const std::string &name, RecipeOptions &recipe) {
    std::string usual = usualOf([&](const kernels::OptimizerSpec &optimizer) {
      const kernels::Hyperparameter *own = optimizer.find(name);
      return own ? std::optional(own->usual) : std::nullopt;
    });
    app.add_option("--" + name, recipe.hyperparameters[name], fmt::format("of {} (default: {})", kernels::ownersOf(name, "and"), usual))
        ->check(kernels::findHyperparameter(name)->isShare ? kShare : kNotNegative)->type_name("X");
  }

  void addEvaluation() {
    evalCommand = app.add_subcommand("eval", "mean loss and perplexity over a corpus");
    evalCommand->footer("Example:\n  mtrun eval plan.bin --data held-out.txt --from runs/plan");
    evalCommand->add_option("PLAN.bin", eval.plan, "the plan, as mtc compile wrote it")->required();
    evalCommand
        ->add_option("--data", eval.data.paths, "text, .bin tokens, .npz, .jsonl; a file or a folder; repeatable")
        ->required()
        ->option_text("CORPUS")
        ->allow_extra_args(false);
    evalCommand
        ->add_option("--tokenizer", eval.data.tokenizer,
                     std::string("for text, prompts and chats (default: bytes are tokens):\n") + kTokenizerHelp)
        ->type_name("FILE|HF_DIR");
    CLI::Option *from =
        evalCommand->add_option("--from", eval.from, "a run's folder, or a checkpoint (default: the initial weights)")
            ->type_name("DIR");
    evalCommand
        ->add_flag("--split", eval.heldBack,
                   "of --data, which must be that of the run, the rows that the run\nholds back: its --eval-split")
        ->needs(from);
    evalCommand->add_flag("--pack", eval.pack, "short samples of .jsonl share rows; for plans of mtc compile --pack");
    addBest(*evalCommand, eval.best);
    addAverage(*evalCommand, eval.ema)->needs(from);
    addMachine(*evalCommand, eval.machine);
  }

  void addSample() {
    sampleCommand = app.add_subcommand("sample", "texts that a language model continues");
    sampleCommand->footer(
        "Example:\n  mtrun sample plan.bin --from runs/plan --tokenizer models/llama --prompt 'Once upon'\n\n"
        "A token costs an evaluation of the plan's batch: compile with --batch 1 and a\nshort --seq for this. "
        "Texts of several prompts cost no more than that of one.");
    sampleCommand->add_option("PLAN.bin", sample.plan, "the plan, as mtc compile wrote it")->required();
    CLI::Option *from =
        sampleCommand
            ->add_option("--from", sample.from, "a run's folder, or a checkpoint (default: the initial weights)")
            ->type_name("DIR");
    sampleCommand
        ->add_option("--tokenizer", sample.prompts.tokenizer,
                     std::string("(default: bytes are tokens)\n") + kTokenizerHelp)
        ->type_name("FILE|HF_DIR");
    sampleCommand
        ->add_option("--prompt", sample.prompts.texts, "what is continued; repeatable, as often as the batch has rows")
        ->required()
        ->option_text("TEXT")
        ->allow_extra_args(false);
    sampleCommand->add_flag(
        "--chat", sample.prompts.chat,
        "a prompt is what a user says, put into the chat template of\n--tokenizer's folder; the text is the answer");
    sampleCommand->add_option("--tokens", sample.tokens, "of each text at most; fewer where it ends or its row is full")
        ->check(kCount)
        ->type_name("N")
        ->capture_default_str();
    sampleCommand->add_option("--temperature", sample.temperature, "of what is drawn; 0: always the likeliest token")
        ->check(kNotNegative)
        ->type_name("X")
        ->capture_default_str();
    sampleCommand->add_option("--top-k", sample.topK, "drawn from so many of the likeliest (default: from all)")
        ->check(kCount)
        ->type_name("N");
    sampleCommand->add_option("--top-p", sample.topP, "drawn from the likeliest that have this probability together")
        ->check(realNumber([](double value) { return value >= 1e-6 && value <= 1; }, "from 1e-6 to 1"))
        ->type_name("X")
        ->capture_default_str();
    sampleCommand->add_option("--seed", sample.seed, "of what is drawn")
        ->check(unsignedNumber())
        ->type_name("N")
        ->capture_default_str();
    addBest(*sampleCommand, sample.best);
    addAverage(*sampleCommand, sample.ema)->needs(from);
    addMachine(*sampleCommand, sample.machine);
  }

  void addExport() {
    exportCommand = app.add_subcommand("export", "trained weights as a model or a file of tensors");
    exportCommand->footer("Examples:\n  mtrun export runs/plan -o trained.onnx\n"
                          "  mtrun export runs/plan --like models/llama -o models/llama-tuned");
    exportCommand->add_option("DIR", exporting.from, "a run's folder, or a checkpoint")->required();
    exportCommand->add_option("-o,--output", exporting.output, ".onnx, .safetensors or .npz; a new folder with --like")
        ->required()
        ->type_name("FILE");
    auto *model =
        exportCommand->add_option("--model", exporting.model, "the .onnx that was trained (default: where it was then)")
            ->type_name("MODEL.onnx");
    exportCommand
        ->add_option("--like", exporting.like, "the checkpoint folder that was trained: -o becomes one like it")
        ->type_name("FOLDER")
        ->excludes(model);
    exportCommand->add_flag("--merge", exporting.merge,
                            "add adapters to the weights that they are beside (default: -o\nwith --like becomes a "
                            "folder in PEFT's format)");
    addBest(*exportCommand, exporting.best);
    addAverage(*exportCommand, exporting.ema);
  }

  void addReport() {
    reportCommand = app.add_subcommand("report", "a run's page of curves and numbers, anew from its metrics");
    reportCommand->footer("Example:\n  mtrun report runs/plan");
    reportCommand->add_option("DIR", reporting.from, "a run's folder, or the file of its metrics")->required();
    reportCommand->add_option("-o,--output", reporting.output, "the page (default: report.html beside the metrics)")
        ->type_name("FILE.html");
  }

  static CLI::Option *addAverage(CLI::App &command, bool &ema) {
    return command.add_flag("--ema", ema,
                            "the average of the weights in place of them, of a plan compiled\nwith --ema");
  }

  static void addBest(CLI::App &command, bool &best) {
    command.add_flag("--best", best, "the run's checkpoint of the least evaluation loss, not the newest");
  }

  void addTokenize() {
    tokenizeCommand = app.add_subcommand("tokenize", "text to files of tokens, to train on again and again");
    tokenizeCommand->footer("Example:\n  mtrun tokenize text/ --tokenizer models/llama -o tokens\n"
                            "  mtrun plan.bin --data tokens");
    tokenizeCommand->add_option("CORPUS", tokenizing.corpus, "a text file, .jsonl with \"text\", or a folder of them")
        ->required();
    tokenizeCommand->add_option("-o,--output", tokenizing.output, "the folder to make")->required()->type_name("DIR");
    tokenizeCommand->add_option("--tokenizer", tokenizing.tokenizer, kTokenizerHelp)
        ->required()
        ->type_name("FILE|HF_DIR");
    tokenizeCommand
        ->add_option("--threads", tokenizing.threads,
                     "threads (default: the machine's cores); no token depends on them")
        ->check(kThreads)
        ->type_name("N");
    tokenizeCommand
        ->add_option_function<std::string>(
            "--shard-size",
            [this](const std::string &text) {
              Result<uint64_t> size = parseSize(text);
              if (size && (*size < TokenFolder::kLeastFile || *size > TokenFolder::kMostFile))
                size = fail("{} is not between 4 KiB and 4 GiB", text);
              if (!size)
                throw CLI::ValidationError("--shard-size", size.status().message());
              tokenizing.fileBytes = *size;
            },
            "largest file, held in memory while it grows (default: 128MiB)")
        ->type_name("SIZE");
  }

  void addProbe() {
    probeCommand = app.add_subcommand("probe", "measures this machine: copies, memory, kernel calls of many sizes");
    probeCommand->footer("Example:\n  mtrun probe --device cuda -o this-machine.json");
    probeCommand->add_option("PLAN.bin", probe.plans, "plans whose kernel calls are measured, too, each as it is");
    probeCommand->add_option("-o,--output", probe.output, "the target to write (default: standard output)")
        ->type_name("TARGET.json");
    probeCommand->add_option("--device", probe.device, "cpu or cuda[:N]")->capture_default_str();
    probeCommand->add_option("--disk", probe.disk, "a folder on a disk to measure, too: for mtrun --state-dir")
        ->type_name("DIR");
    probeCommand
        ->add_option_function<std::string>(
            "--host-memory",
            [this](const std::string &text) {
              Result<uint64_t> size = parseSize(text);
              if (!size || *size == 0)
                throw CLI::ValidationError("--host-memory", size ? "must not be zero" : size.status().message());
              probe.hostMemory = *size;
            },
            "what the host has, without asking: for machines whose memory grows\non demand (default: of what is free "
            "now, seven eighths)")
        ->type_name("SIZE");
    probeCommand->add_flag("--brief", probe.brief, "some seconds: the machine's rates, and calls of plans alone");
    probeCommand->add_flag("--roofline", probe.roofline,
                           "of the plans' calls, in place of the target: what each takes, and\nhow near that is to the "
                           "machine's rates");
    probeCommand->add_option("--threads", probe.threads, "threads of the kernels (default: the machine's cores)")
        ->check(kThreads)->type_name("N");
    addInstructionSet(*probeCommand, probe.isa,
                      "\n(default: the processor's, amx-f32 if it is faster; of --roofline the\nplans')");
  }

  CLI::App app;
  std::string recipeFile, where; ///< the second before every message
  SampleOptions sample;
  CLI::App *sampleCommand = nullptr, *evalCommand = nullptr, *exportCommand = nullptr, *reportCommand = nullptr,
           *tokenizeCommand = nullptr, *probeCommand = nullptr;
  TrainOptions train;
  EvalOptions eval;
  ExportOptions exporting;
  ReportOptions reporting;
  TokenizeOptions tokenizing;
  probe::ProbeOptions probe;
};

Command parseWords(std::vector<std::string> all, const std::string &version) {
  Parser said(version);
  if (std::optional<Said> end = said.read(all))
    return *end;
  if (said.recipe().empty())
    return said.command();
  if (std::optional<std::string> folder = said.resumedFolder()) {
    all.insert(all.end(), {"--out", *folder});
    return parseWords(all, version);
  }
  Result<std::vector<std::string>> recipe = said.recipeWords();
  if (!recipe)
    return said.usage(recipe.status().message());
  all.insert(all.begin() + 1, recipe->begin(), recipe->end());
  Parser whole(version);
  if (std::optional<Said> end = whole.read(all, said.recipe()))
    return *end;
  Command command = whole.command();
  if (auto *train = std::get_if<TrainOptions>(&command))
    train->recipeFile = said.recipe();
  return command;
}

} // namespace

Command parseCommandLine(int count, const char *const *words, const std::string &version) {
  return parseWords({words, words + count}, version);
}

} // namespace mt::train
