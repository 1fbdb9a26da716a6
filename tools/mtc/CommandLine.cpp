// The parser of CommandLine.h, with CLI11.
#include "tools/mtc/CommandLine.h"
#include "compiler/pipeline/Adapters.h"

#include "kernels/Optimizers.h"
#include "runtime/base/NumberChecks.h"
#include "runtime/base/Sizes.h"
#include "runtime/plan/ParameterGroups.h"

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <utility>

namespace mt {
namespace {

void throwUsage(const std::string &message) { throw CLI::ValidationError(message, 2); }

/// A whole number of at least 1; 0 where `text` is none.
int64_t countIn(const std::string &text) {
  int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  return error != std::errc() || end != text.data() + text.size() || count < 1 ? 0 : count;
}

/// --dim NAME=N
void addDimension(pipeline::Options &options, const std::string &text) {
  size_t equal = text.find('=');
  int64_t size = equal == std::string::npos ? 0 : countIn(text.substr(equal + 1));
  if (equal == 0 || size == 0)
    throwUsage("--dim " + text + ": must be NAME=N with N at least 1, for example --dim encoder_length=128");
  auto [at, fresh] = options.dims.emplace(text.substr(0, equal), size);
  if (!fresh && at->second != size)
    throwUsage("--dim " + text + ": " + at->first + " was given as " + std::to_string(at->second) + " before");
}

/// --seq N, or INPUT=N: the size of that input's dimension 1.
void addSequence(pipeline::Options &options, const std::string &text) {
  size_t equal = text.find('=');
  int64_t size = countIn(equal == std::string::npos ? text : text.substr(equal + 1));
  if (equal == 0 || size == 0)
    throwUsage("--seq " + text +
               ": must be N, or INPUT=N for one input, with N at least 1, for example --seq input_ids=512");
  if (equal == std::string::npos)
    options.sequence = size;
  else
    options.dims[text.substr(0, equal) + ":1"] = size;
}

/// --batch-dim K, or INPUT=K
void addBatchDim(pipeline::Options &options, const std::string &text) {
  constexpr int64_t kMostDim = 63;
  const size_t equal = text.find('=');
  const std::string name = equal == std::string::npos ? "" : text.substr(0, equal);
  const std::string number = equal == std::string::npos ? text : text.substr(equal + 1);
  const int64_t dim = number == "0" ? 0 : countIn(number);
  if (equal == 0 || dim > kMostDim || (dim == 0 && number != "0"))
    throwUsage(
        "--batch-dim " + text +
        ": must be K, or INPUT=K for one input, with K a dimension counted from 0, for example --batch-dim h0=1");
  auto [at, fresh] = options.batchDims.emplace(name, dim);
  if (!fresh && at->second != dim)
    throwUsage("--batch-dim " + text + ": " + (name.empty() ? "it" : name) + " was given as " +
               std::to_string(at->second) + " before");
}

constexpr double kMostZLoss = 1e6; ///< what is meant is far below 1

/// From 0 to `most`.
double numberOf(const std::string &flag, const std::string &text, double most) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !(number >= 0 && number <= most))
    throwUsage(fmt::format("{} {}: must be a number from 0 to {}", flag, text, most));
  return number;
}

uint64_t sizeOf(const std::string &flag, const std::string &text) {
  Result<uint64_t> size = parseSize(text);
  if (!size.ok())
    throwUsage(flag + " " + text + ": " + size.status().message());
  if (*size == 0)
    throwUsage(flag + " " + text + ": must not be zero");
  return *size;
}

/// One for both, or two.
std::array<double, 2> ratesOf(const std::string &flag, const std::string &text) {
  auto rateOf = [&](const std::string &part) {
    Result<uint64_t> rate = parseSize(part);
    if (!rate.ok())
      throwUsage(flag + " " + text + ": " + rate.status().message());
    return static_cast<double>(*rate);
  };
  const size_t comma = text.find(',');
  const double first = rateOf(text.substr(0, comma));
  return {first, comma == std::string::npos ? first : rateOf(text.substr(comma + 1))};
}

bool isLoss(const std::string &kind) {
  return kind == "causal-lm" || kind == "cross-entropy" || kind == "mse" || (kind.starts_with("output:") && kind.size() > 7);
}

/// An option as help lists it: the flag, what it takes, one line or a few that name the default and the unit.
template <typename Value> CLI::Option *add(CLI::App &app, const char *flag, const char *takes, Value &value, const std::string &help) {
  return app.add_option(flag, value, help)->option_text(takes)->allow_extra_args(false); // the next word is another's
}
/// One that may be given several times: `use` takes each.
void addEach(CLI::App &app, const char *flag, const char *takes, std::function<void(const std::string &)> use,
             const char *help) {
  app.add_option_function<std::vector<std::string>>(
         flag, [use = std::move(use)](const std::vector<std::string> &all) { std::ranges::for_each(all, use); }, help)
      ->option_text(takes)
      ->allow_extra_args(false);
}
CLI::Option *addText(CLI::App &app, const char *flag, const char *takes, std::function<void(const std::string &)> use, const char *help) {
  return app.add_option_function<std::string>(flag, use, help)->option_text(takes);
}

CLI::Validator oneOf(std::vector<std::string> names) {
  return CLI::Validator([names](std::string &text) {
    bool known = std::find(names.begin(), names.end(), text) != names.end();
    return known ? "" : fmt::format("{} is none of {}", text, fmt::join(names, ", "));
  }, "");
}

constexpr int64_t kLargestBatch = 32; ///< that fit looks at, unless told

/// Flags that say what is compiled: of compile, check and fit.
void addModelFlags(CLI::App &app, pipeline::Options &o) {
  app.add_option("MODEL", o.model, "the ONNX model, or a folder with a checkpoint:\nconfig.json and *.safetensors")
      ->required()
      ->type_name("");
  app.option_defaults()->group("Model");
  add(app, "--batch", "N", o.batch, "rows per step, of all micro-batches, whose gradients\naccumulate (default: 8)")
      ->check(atLeast(1));
  addEach(
      app, "--seq", "N|INPUT=N", [&o](const std::string &text) { addSequence(o, text); },
      "tokens per row (default: as many as the model has\npositions for, else 256); or of one input that has "
      "a\nsequence of its own, as INPUT=N, repeatable");
  addEach(
      app, "--dim", "NAME=N", [&o](const std::string &text) { addDimension(o, text); },
      "size of another symbolic dimension; repeatable");
  addEach(
      app, "--batch-dim", "K|INPUT=K", [&o](const std::string &text) { addBatchDim(o, text); },
      "dimension of the model's inputs, or of one, that is the\nbatch (default: what their symbols say, else "
      "0);\nrepeatable");
  addText(app, "--loss", "KIND", [&o](const std::string &kind) {
    if (!isLoss(kind))
      throwUsage("--loss " + kind + ": must be causal-lm, cross-entropy, mse or output:NAME");
    o.loss = kind;
  }, "causal-lm, cross-entropy, mse, or output:NAME, an output\nthat is the loss (default: causal-lm where tokens go in\n"
     "and [batch, sequence, vocabulary] comes out)");
  addText(
      app, "--label-smoothing", "X",
      [&o](const std::string &t) { o.labelSmoothing = numberOf("--label-smoothing", t, 1); },
      "share of a causal-lm or cross-entropy loss, in training,\nthat is the mean over all classes in place of the "
      "label's\n(default: 0)");
  addText(
      app, "--z-loss", "X", [&o](const std::string &t) { o.zLoss = numberOf("--z-loss", t, kMostZLoss); },
      "times the square of the logits' logsumexp, added to such\na loss in training (default: 0)");
  add(app, "--train", "PATTERN", o.train, "parameters to train: a glob over their names;\nrepeatable, wins over --freeze");
  add(app, "--freeze", "PATTERN", o.freeze, "parameters not to train; repeatable (default: buffers)");
  app.add_option_function<std::vector<std::string>>(
         "--lora",
         [&o](const std::vector<std::string> &all) {
           for (const std::string &text : all)
             if (Result<pipeline::AdapterRequest> request = pipeline::parseAdapterRequest(text); !request.ok())
               throwUsage("--lora " + text + ": " + request.status().message());
           o.lora = all;
         },
         "trains low-rank adapters beside frozen weights of such\nnames, and nothing else but what --train says; keys "
         "are\nrank, alpha (the rank), dropout and seed (0); repeatable,\nthe last counts")
      ->option_text("PATTERN:rank=R,alpha=A")
      ->allow_extra_args(false);
  addText(
      app, "--base-bits", "4",
      [&o](const std::string &bits) {
        if (bits != "4")
          throwUsage("--base-bits " + bits + ": must be 4; without it weights that are not trained have the precision's bits");
        o.packBase = true;
      },
      "weights of products that are not trained in 4 bits each\n(NF4, a 16-bit scale for 64 of a row), in host memory "
      "and\nover the link: the base of --lora as QLoRA has it");
  add(app, "--precision", "KIND", o.precision, "fp32 or bf16 (default: fp32; TF32 is never used)")->check(oneOf({"fp32", "bf16"}));
  add(app, "--optimizer", "KIND", o.optimizer, kernels::optimizerList() + " (default: adamw)")->check(oneOf(kernels::optimizerNames()));
  app.add_option_function<std::vector<std::string>>("--group", [&o](const std::vector<std::string> &all) {
    for (const std::string &text : all)
      if (Result<plan::ParameterGroup> group = plan::parseGroup(text); !group.ok())
        throwUsage("--group " + text + ": " + group.status().message());
    o.groups = all;
  }, "what is different for parameters of such names:\noptimizer, and what mtrun's --group can say, as its\ndefault; repeatable, the last counts")->option_text("PATTERN:KEY=VALUE,...")->allow_extra_args(false);
  app.add_flag("--pack", o.pack,
               "of a checkpoint folder: rows may hold several samples that\ndo not see each other, which mtrun --pack "
               "fills them with");
  app.add_flag(
      "--ema", o.ema,
      "keep an exponential moving average of the weights, too,\n32 bits of each; its decay is mtrun's --ema-decay");
  app.add_flag("--clip", o.clip, "clip gradients by their global norm; the threshold is\nmtrun's --clip-norm (default: no clipping)");
}

/// "4", or "1..64": 1, 2, 4 and so on, and 64.
std::vector<uint32_t> countsOf(const std::string &flag, const std::string &text, uint32_t most) {
  auto countOf = [&](const std::string &part) {
    uint32_t count = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), count);
    if (error != std::errc() || end != part.data() + part.size() || count < 1 || count > most)
      throwUsage(fmt::format("{} {}: must be a number from 1 to {}, or two of them such as 1..8", flag, text, most));
    return count;
  };
  const size_t dots = text.find("..");
  const uint32_t first = countOf(text.substr(0, dots));
  const uint32_t last = dots == std::string::npos ? first : countOf(text.substr(dots + 2));
  if (first > last)
    throwUsage(fmt::format("{} {}: the first must be the smaller one", flag, text));
  std::vector<uint32_t> counts;
  for (uint64_t count = first; count < last; count *= 2)
    counts.push_back(static_cast<uint32_t>(count));
  counts.push_back(last);
  return counts;
}

/// Of fit, which compares several of them.
void addCountFlags(CLI::App &app, pipeline::Options &o) {
  app.option_defaults()->group("Machine");
  addText(
      app, "--hosts", "A..B", [&o](const std::string &t) { o.hosts = countsOf("--hosts", t, target::kMostRanks); },
      "compare numbers of such machines, each with a batch of\n--batch rows: A, 2A, 4A and so on to B");
  addText(
      app, "--devices", "A..B",
      [&o](const std::string &t) { o.deviceCounts = countsOf("--devices", t, target::kMostDevices); },
      "the same of devices in each; a single number alone is\nhow many there are (default: the target's)");
}

/// Flags that say for which machine, and what the planner would choose otherwise.
void addTargetFlags(CLI::App &app, pipeline::Options &o) {
  app.option_defaults()->group("Machine");
  add(app, "--target", "NAME|FILE", o.target,
      "mtc target lists the names; or a JSON file, as\n"
      "mtrun probe writes it (default: cpu)");
  addText(
      app, "--device-memory", "SIZE", [&o](const std::string &t) { o.deviceMemory = sizeOf("--device-memory", t); },
      "bytes that a plan may use of each, such as 24GiB\n(default: the target's)");
  addText(app, "--host-memory", "SIZE", [&o](const std::string &t) { o.hostMemory = sizeOf("--host-memory", t); },
          "bytes that a plan may use there (default: the target's)");
  add(app, "--ranks", "N", o.ranks,
      "processes that train together, each with such a machine,\nmpirun -n N (default: the target's)")
      ->check(CLI::Range(1U, target::kMostRanks));
  addText(
      app, "--network", "RATE[,RATE]",
      [&o](const std::string &t) {
        o.network = ratesOf("--network", t);
        (*o.network)[1] = t.find(',') == std::string::npos ? 0 : (*o.network)[1];
      },
      "bytes per second that each of them sends, while it\nreceives as many, such as 25GB; and those that each device\n"
      "sends past the host's memory, as 25GB,50GB (default:\nthe target's, if any)");
  addText(
      app, "--gradient-exchange", "KIND", [&o](const std::string &t) { o.narrowExchange = t == "bf16"; },
      "what ranks send each other of gradients: fp32, or bf16,\nwhich is half as much and rounds them (default: fp32)")
      ->check(oneOf({"fp32", "bf16"}));
  addText(app, "--disk", "READ[,WRITE]", [&o](const std::string &t) { o.disk = ratesOf("--disk", t); },
          "bytes per second of a disk, for what the host's memory\nhas no room for, such as 6GB,5GB (default: the target's)");
  app.option_defaults()->group("Choices of the planner (none changes a result but --micro-batch, by rounding)");
  add(app, "--micro-batch", "N", o.microBatch, "rows computed at once; divides --batch")->check(atLeast(1));
  addText(
      app, "--saved-activations", "KIND", [&o](const std::string &t) { o.savedActivations = t; },
      "what backward does not recompute: input (of each layer),\nattention (and its statistics) or all (but what "
      "takes\nno longer to make again than to read)")
      ->check(oneOf({"input", "attention", "all"}));
  addText(app, "--residency", "KIND", [&o](const std::string &t) { o.residency = t; },
          "what of all layers the device holds: none, weights (during\na step) or state (always; updates run there)")
      ->check(oneOf({"none", "weights", "state"}));
  add(app, "--prefetch-distance", "N", o.prefetchDistance, "layers that weights are brought in ahead, 0 to 64")
      ->check(CLI::Range(0, 64));
  addText(
      app, "--placement", "KIND", [&o](const std::string &t) { o.batchShared = t == "batch"; },
      "what several devices divide: layers, in turn, or the\nbatch's rows")
      ->check(oneOf({"layers", "batch"}));
  addText(app, "--park", "on|off", [&o](const std::string &t) { o.park = t == "on"; },
          "saved layer inputs wait on the host (default: on)")->check(oneOf({"on", "off"}));
  add(app, "--clipped", "SHARE", o.clipped,
      "with --clip: the share of steps whose gradient is clipped.\nThe host updates layers while backward runs, as if "
      "it was\nnot, where that saves time on average (default: 0.1; 1:\nnever)")
      ->check(realNumber([](double value) { return value >= 0 && value <= 1; }, "from 0 to 1"))
      ->needs(app.get_option("--clip"));
  addText(app, "--fuse", "on|off", [&o](const std::string &t) { o.fuse = t == "on"; },
          "elementwise operations that use each other are computed in\none pass over memory (default: on)")
      ->check(oneOf({"on", "off"}));
  app.option_defaults()->group("Options");
}

CLI::App *addCommand(CLI::App &app, const char *name, const char *purpose, const char *example) {
  CLI::App *command = app.add_subcommand(name, purpose);
  command->footer(std::string("Example:\n  ") + example);
  command->get_formatter()->column_width(30);
  return command;
}

/// The old spelling: mtc --dump PLAN.
std::vector<std::string> arguments(int argc, char **argv) {
  std::vector<std::string> all(argv + 1, argv + argc);
  if (!all.empty() && all[0] == "--dump")
    all[0] = "dump";
  std::reverse(all.begin(), all.end()); // as CLI11 takes them
  return all;
}
} // namespace

MtcCommand parseMtc(int argc, char **argv, const std::string &version) {
  MtcCommand command;
  CLI::App app{"Compiles ONNX models to static training plans, and shows plans.", "mtc"};
  app.footer("Example:\n  mtc compile model.onnx -o plan.bin --batch 8 --seq 256\nmtc COMMAND --help says more of each.");
  app.set_version_flag("--version", version, "print version, revision and MLIR's version");
  app.require_subcommand(1);

  CLI::App *compile = addCommand(app, "compile", "Compile a model to a plan.", "mtc compile model.onnx -o plan.bin --target h200 --clip");
  compile->add_option("-o,--output", command.output, "the plan to write; with another --emit the text\n(default: standard output)")
      ->option_text("PLAN.bin");
  add(*compile, "--emit", "PHASE", command.emitPhase, "stop after a phase and print it: nn, layers, schedule\n(default: plan, which is written)")
      ->check(oneOf({"nn", "layers", "schedule", "plan"}));
  compile->add_flag("--report", command.options.report, "print what was found and chosen, and what bounds the step");
  CLI::App *check = addCommand(app, "check", "Tell every problem of a model at once; status 0 if it would compile.", "mtc check model.onnx --loss cross-entropy");
  CLI::App *fit = addCommand(app, "fit", "Print the best step that fits, by sequence and batch up to --batch (32).",
                             "mtc fit model.onnx --device-memory 8GiB --host-memory 64GiB");
  for (CLI::App *one : {compile, check, fit}) {
    addModelFlags(*one, command.options);
    addTargetFlags(*one, command.options);
    if (one == fit)
      addCountFlags(*one, command.options);
    else
      add(*one, "--devices", "N", command.options.devices, "how many of them (default: the target's)")
          ->check(CLI::Range(1U, target::kMostDevices))
          ->group("Machine");
  }

  CLI::App *dump = addCommand(app, "dump", "Print a plan.", "mtc dump plan.bin --format html -o plan.html");
  dump->add_option("PLAN.bin", command.file, "the plan")->required()->type_name("");
  add(*dump, "--format", "KIND", command.format, "text, json, trace (Chrome's format) or html\n(default: text)")->check(oneOf({"text", "json", "trace", "html"}));
  add(*dump, "-o,--output", "FILE", command.output, "(default: standard output)");

  CLI::App *diff = addCommand(app, "diff", "Say what changed between two plans: settings, templates, bytes, time.", "mtc diff a.bin b.bin");
  diff->add_option("A.bin", command.file, "a plan")->required()->type_name("");
  diff->add_option("B.bin", command.other, "another")->required()->type_name("");

  CLI::App *emit = addCommand(app, "emit", "Write the plan of a saved schedule.", "mtc compile m.onnx --emit schedule -o s.mlir && mtc emit s.mlir -o plan.bin");
  emit->add_option("SCHEDULE.mlir", command.file, "what --emit schedule printed; - for standard input")->required()->type_name("");
  add(*emit, "-o,--output", "PLAN.bin", command.output, "the plan to write")->required();

  CLI::App *target = addCommand(app, "target", "Print a target as JSON, as --target FILE reads it; without a name, the names.",
                                "mtc target h200 -o mine.json");
  target->add_option("TARGET", command.file, "a name, or a file to check")->type_name("");
  add(*target, "-o,--output", "FILE", command.output, "(default: standard output)");

  try {
    app.parse(arguments(argc, argv));
    if (fit->parsed() && fit->count("--batch") == 0)
      command.options.batch = kLargestBatch;
    if (command.options.deviceCounts.size() == 1 && command.options.hosts.empty())
      command.options.devices = std::exchange(command.options.deviceCounts, {}).front();
    if (compile->parsed() && command.output.empty() && (command.emitPhase.empty() || command.emitPhase == "plan"))
      throw CLI::RequiredError("-o PLAN.bin");
  } catch (const CLI::ParseError &error) {
    std::ostringstream out, err;
    int status = app.exit(error, out, err);
    std::string said = err.str();
    command.kind = MtcCommand::said;
    command.status = status == 0 ? 0 : 2;
    command.text = status == 0 ? out.str() : "error: " + said;
    return command;
  }
  using Pair = std::pair<CLI::App *, MtcCommand::Kind>;
  for (auto [sub, kind] : {Pair{compile, MtcCommand::compile}, {check, MtcCommand::check}, {fit, MtcCommand::fit},
                           {dump, MtcCommand::dump}, {diff, MtcCommand::diff}, {emit, MtcCommand::emit}, {target, MtcCommand::target}})
    if (sub->parsed())
      command.kind = kind;
  return command;
}

} // namespace mt
