// The parser of CommandLine.h, with CLI11.
#include "tools/mtc/CommandLine.h"

#include "runtime/base/Sizes.h"

#include <CLI/CLI.hpp>

#include <sstream>

namespace mt {
namespace {

void throwUsage(const std::string &message) { throw CLI::ValidationError(message, 2); }

/// --dim NAME=N
void addDimension(pipeline::Options &options, const std::string &text) {
  size_t equal = text.find('=');
  char *end = nullptr;
  int64_t size = equal == std::string::npos ? 0 : std::strtoll(text.c_str() + equal + 1, &end, 10);
  if (equal == 0 || size < 1 || !end || *end)
    throwUsage("--dim " + text + ": must be NAME=N with N at least 1, for example --dim encoder_length=128");
  options.dims[text.substr(0, equal)] = size;
}

uint64_t sizeOf(const std::string &flag, const std::string &text) {
  Result<uint64_t> size = parseSize(text);
  if (!size.ok())
    throwUsage(flag + " " + text + ": " + size.status().message());
  return *size;
}

bool isLoss(const std::string &kind) {
  return kind == "causal-lm" || kind == "cross-entropy" || kind == "mse" || (kind.starts_with("output:") && kind.size() > 7);
}

/// Flags that say what is compiled: of compile, check and fit.
void addModelFlags(CLI::App &app, pipeline::Options &o) {
  app.add_option("model", o.model, "the ONNX model")->required()->option_text("MODEL.onnx");
  app.add_option("--batch", o.batch, "sequences per step, all micro-batches together")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--seq", o.sequence, "tokens per sequence (default: the model's, else 256)")->check(CLI::PositiveNumber);
  app.add_option_function<std::vector<std::string>>("--dim", [&o](const std::vector<std::string> &all) {
    for (const std::string &text : all)
      addDimension(o, text);
  }, "binds another symbolic dimension; repeatable")->option_text("NAME=N");
  app.add_option("--micro-batch", o.microBatch, "rows per template call (default: chosen by the planner)")->check(CLI::PositiveNumber);
  app.add_option_function<std::string>("--loss", [&o](const std::string &kind) {
    if (!isLoss(kind))
      throwUsage("--loss " + kind + ": must be causal-lm, cross-entropy, mse or output:NAME");
    o.loss = kind;
  }, "causal-lm | cross-entropy | mse | output:NAME (default: causal-lm for 3-D logits of an integer input)")->option_text("KIND");
  app.add_option("--train", o.train, "glob over names of parameters to train; repeatable")->option_text("PATTERN");
  app.add_option("--freeze", o.freeze, "glob over names of parameters to freeze; repeatable")->option_text("PATTERN");
}

/// Flags that say for what and how.
void addTargetFlags(CLI::App &app, pipeline::Options &o) {
  app.add_option("--precision", o.precision, "fp32 or bf16")->capture_default_str()->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option("--optimizer", o.optimizer, "adamw or sgd")->capture_default_str()->check(CLI::IsMember({"adamw", "sgd"}));
  app.add_flag("--clip", o.clip, "plan for exact clipping by the global norm");
  app.add_option("--target", o.target, "cpu | cpu-discrete | h200 | ..., or a JSON file as mtrun probe writes it")->capture_default_str()->option_text("NAME|FILE");
  app.add_option_function<std::string>("--device-memory", [&o](const std::string &t) { o.deviceMemory = sizeOf("--device-memory", t); },
                                       "budget (default: the target's)")->option_text("SIZE");
  app.add_option_function<std::string>("--host-memory", [&o](const std::string &t) { o.hostMemory = sizeOf("--host-memory", t); },
                                       "budget (default: the target's)")->option_text("SIZE");
  app.add_option("--saved-activations", o.savedActivations, "input | attention | all (default: chosen by the planner)")
      ->check(CLI::IsMember({"input", "attention", "all"}));
  app.add_option_function<std::string>("--residency", [&o](const std::string &t) { o.resident = t == "all"; },
                                       "weights that stay on the device during a step: none | all (default: chosen)")
      ->check(CLI::IsMember({"none", "all"}));
  app.add_option("--prefetch-distance", o.prefetchDistance, "layers that weights are prefetched ahead (default: chosen)")
      ->check(CLI::Range(0, 64));
  app.add_option_function<std::string>("--park", [&o](const std::string &t) { o.park = t == "on"; },
                                       "saved layer inputs wait on the host: on | off (default on)")->check(CLI::IsMember({"on", "off"}));
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
  CLI::App app{"mtc compiles an ONNX model to a static training plan.\n\nExample:\n  mtc compile model.onnx -o plan.bin --batch 8 --seq 256", "mtc"};
  app.set_version_flag("--version", version);
  app.require_subcommand(1);

  CLI::App *compile = app.add_subcommand("compile", "compile a model\n\nExample:\n  mtc compile model.onnx -o plan.bin --target h200 --clip");
  addModelFlags(*compile, command.options);
  addTargetFlags(*compile, command.options);
  compile->add_option("-o,--output", command.output, "the plan (of --emit: the text)");
  compile->add_option("--emit", command.emitPhase, "stop at a phase and print it: nn | layers | schedule | plan")
      ->check(CLI::IsMember({"nn", "layers", "schedule", "plan"}));
  compile->add_flag("--report", command.report, "print what was found and chosen");

  CLI::App *check = app.add_subcommand("check", "tell every problem of a model at once\n\nExample:\n  mtc check model.onnx");
  addModelFlags(*check, command.options);

  CLI::App *fit = app.add_subcommand("fit", "table of what fits\n\nExample:\n  mtc fit model.onnx --device-memory 8GiB --host-memory 64GiB");
  addModelFlags(*fit, command.options);
  addTargetFlags(*fit, command.options);

  CLI::App *dump = app.add_subcommand("dump", "print a plan\n\nExample:\n  mtc dump plan.bin --format html -o plan.html");
  dump->add_option("plan", command.file, "the plan")->required()->option_text("PLAN.bin");
  dump->add_option("--format", command.format, "text | json | trace | html")->capture_default_str()->check(CLI::IsMember({"text", "json", "trace", "html"}));
  dump->add_option("-o,--output", command.output, "write there rather than to standard output");

  CLI::App *diff = app.add_subcommand("diff", "what changed between two plans\n\nExample:\n  mtc diff a.bin b.bin");
  diff->add_option("before", command.file, "a plan")->required()->option_text("A.bin");
  diff->add_option("after", command.other, "another")->required()->option_text("B.bin");

  CLI::App *emit = app.add_subcommand("emit", "write the plan of a saved schedule\n\nExample:\n  mtc compile m.onnx --emit schedule -o s.mlir && mtc emit s.mlir -o plan.bin");
  emit->add_option("schedule", command.file, "what --emit=schedule printed; - for standard input")->required()->option_text("SCHEDULE.mlir");
  emit->add_option("-o,--output", command.output, "the plan")->required();

  try {
    app.parse(arguments(argc, argv));
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
                           {dump, MtcCommand::dump}, {diff, MtcCommand::diff}, {emit, MtcCommand::emit}})
    if (sub->parsed())
      command.kind = kind;
  return command;
}

} // namespace mt
