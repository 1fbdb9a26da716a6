// mtc: compiles models to plans, and shows plans.
#include "Version.h"
#include "compiler/pipeline/Fit.h"
#include "compiler/pipeline/Pipeline.h"
#include "compiler/plan/EmitPlan.h"
#include "compiler/target/Target.h"
#include "runtime/base/AtomicFile.h"
#include "runtime/base/OutOfMemory.h"
#include "runtime/plan/Diff.h"
#include "runtime/plan/Dump.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/WeightFiles.h"
#include "tools/mtc/CommandLine.h"

#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ErrorHandling.h"

#include <cstdio>
#include <filesystem>
#include <fmt/ranges.h>
#include <malloc.h>

namespace {
using namespace mt;

const std::string kProducer = fmt::format("mtc {} (revision {})", kVersion, kRevision);

/// To the file, else to standard output.
Status put(const std::string &text, const std::string &path = "") {
  return path.empty() ? writeOut(text) : writeFileAtomically(path, text);
}

/// Compiles, and says on standard error what the compiler has to say whether it succeeds or not.
Result<pipeline::Compiled> compile(mlir::MLIRContext &context, const pipeline::Options &options,
                                   pipeline::Phase phase) {
  pipeline::loadDialects(context);
  pipeline::Messages messages;
  auto compiled = pipeline::compile(context, options, phase, kProducer, messages);
  fmt::print(stderr, "{}", messages.text());
  return compiled;
}

/// What is known before: of a checkpoint's folder the files that describe it and hold weights.
std::vector<InputFile> inputsOf(const pipeline::Options &options) {
  std::vector<InputFile> inputs = {{"--target", options.target}};
  std::error_code error;
  if (!std::filesystem::is_directory(options.model, error))
    inputs.push_back({"the model", options.model});
  else
    for (const auto &entry : std::filesystem::directory_iterator(options.model, error))
      if (const std::string name = entry.path().filename().string();
          name.ends_with(".safetensors") || name.ends_with(".index.json") || name.ends_with("config.json") ||
          name.starts_with("tokenizer"))
        inputs.push_back({"a file of the model", entry.path().string()});
  return inputs;
}

Status compile(const MtcCommand &command) {
  using pipeline::Phase;
  Phase phase = command.emitPhase == "nn"         ? Phase::nn
                : command.emitPhase == "layers"   ? Phase::layers
                : command.emitPhase == "schedule" ? Phase::schedule : Phase::plan;
  MT_TRY(keepInputs("-o", command.output, inputsOf(command.options)));
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  MT_ASSIGN(pipeline::Compiled compiled, compile(context, command.options, phase));
  MT_TRY(keepInputs("-o", command.output, plan::weightFiles(compiled.plan)));
  if (phase != Phase::plan)
    return put(pipeline::print(*compiled.module, phase), command.output);
  MT_TRY(plan::save(compiled.plan, command.output));
  std::string said = (command.options.report ? pipeline::report(compiled) : "") + pipeline::summary(compiled.plan, command.output);
  return writeAbout(command.output, said + "\n");
}

Status check(const MtcCommand &command) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  pipeline::Options options = command.options;
  options.everyNode = true;
  MT_ASSIGN(pipeline::Compiled compiled, compile(context, options, pipeline::Phase::plan));
  size_t trained = llvm::count_if(compiled.plan.parameters, [](const plan::Parameter &p) { return p.trainable; });
  return put(fmt::format("{}: {} tensors trained, {} frozen; {}\n", command.options.model, trained,
                         compiled.plan.parameters.size() - trained, pipeline::summary(compiled.plan, "would compile to")));
}

Status emit(const MtcCommand &command) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  pipeline::loadDialects(context);
  pipeline::Messages messages;
  pipeline::Collector collector(context, messages);
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(command.file, &context);
  mlir::FailureOr<plan::Plan> plan = mlir::failure();
  if (module)
    plan = emitPlan(*module, kProducer);
  fmt::print(stderr, "{}", messages.text());
  if (mlir::failed(plan))
    return Status::error(
        fmt::format("{}\n{}: is no schedule that gives a plan; make one with mtc compile --emit schedule",
                    collector.failure(command.file).message(), command.file));
  MT_TRY(keepInputs("-o", command.output, std::vector<InputFile>{{"the schedule", command.file}}));
  MT_TRY(plan::save(*plan, command.output));
  return writeAbout(command.output, pipeline::summary(*plan, command.output) + "\n");
}

Status dump(const MtcCommand &command) {
  MT_ASSIGN(plan::Plan loaded, plan::load(command.file));
  MT_TRY(keepInputs("-o", command.output, std::vector<InputFile>{{"the plan", command.file}}));
  return put(plan::dumpPlan(loaded, *plan::dumpFormatFromName(command.format)), command.output);
}

Status diff(const MtcCommand &command) {
  MT_ASSIGN(plan::Plan before, plan::load(command.file));
  MT_ASSIGN(plan::Plan after, plan::load(command.other));
  std::string changes = plan::diffPlans(before, after);
  return put(changes.empty() ? "the plans do the same\n" : changes);
}

Status fit(const MtcCommand &command) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  pipeline::loadDialects(context);
  pipeline::Messages messages;
  auto table = pipeline::fitTable(context, command.options, messages);
  fmt::print(stderr, "{}", messages.text());
  if (!table.ok())
    return table.status();
  return put(*table);
}

Status target(const MtcCommand &command) {
  if (command.file.empty())
    return put(fmt::format("{}\n", fmt::join(mt::target::targetNames(), "\n")), command.output);
  MT_ASSIGN(mt::target::Target found, mt::target::findTarget(command.file));
  return put(mt::target::printTarget(found), command.output);
}

Status run(const MtcCommand &command) {
  switch (command.kind) {
  case MtcCommand::compile:
    return compile(command);
  case MtcCommand::check:
    return check(command);
  case MtcCommand::dump:
    return dump(command);
  case MtcCommand::diff:
    return diff(command);
  case MtcCommand::fit:
    return fit(command);
  case MtcCommand::emit:
    return emit(command);
  case MtcCommand::target:
    return target(command);
  case MtcCommand::said:
    break;
  }
  return {};
}
} // namespace

int main(int argc, char **argv) {
  mallopt(M_TRIM_THRESHOLD, 1 << 30); // a search takes and gives the same memory again and again
  mallopt(M_TOP_PAD, 64 << 20);
  explainOutOfMemory("free memory on this machine, or compile a smaller model or sequence");
  llvm::install_bad_alloc_error_handler([](void *, const char *, bool) { endForMemory(); });
  MtcCommand command = parseMtc(argc, argv, kProducer + ", MLIR " + LLVM_VERSION_STRING);
  if (command.kind == MtcCommand::said) {
    std::fputs(command.text.c_str(), command.status == 0 ? stdout : stderr);
    return command.status;
  }
  Status status = run(command);
  if (status.ok())
    return 0;
  for (llvm::StringRef line : llvm::split(status.message(), '\n'))
    fmt::print(stderr, "error: {}\n", line.str());
  return 1;
}
