// The line of Pipeline.h.
#include "compiler/pipeline/Pipeline.h"

#include "compiler/onnx/ImportOnnx.h"
#include "compiler/pipeline/DefaultSequence.h"
#include "compiler/pipeline/Phases.h"
#include "compiler/pipeline/Planner.h"
#include "compiler/plan/EmitPlan.h"
#include "compiler/plan/PlanAttributes.h"
#include "passes/Settings.h"

#include "mlir/IR/AttrTypeSubElements.h"

#include <fmt/ranges.h>

#include <filesystem>

using namespace mlir;

namespace mt::pipeline {
namespace {
std::vector<int64_t> microBatchesOf(const Options &options) {
  if (options.microBatch)
    return {*options.microBatch};
  std::vector<int64_t> divisors;
  for (int64_t size = options.batch; size >= 1; --size)
    if (options.batch % size == 0)
      divisors.push_back(size);
  return divisors;
}

/// One line a problem; what is said of several nodes in the same words is one, with their names.
std::string joinProblems(const onnx::Problems &problems, bool everyNode) {
  constexpr size_t kNamed = 3;
  std::vector<std::pair<std::string, std::vector<std::string>>> lines; ///< what is said, and of which nodes
  for (const std::string &problem : problems) {
    size_t quote = problem.find("' (");
    bool ofNode = problem.starts_with("node '") && quote != std::string::npos;
    std::string text = ofNode ? problem.substr(quote + 2) : problem;
    auto line = std::find_if(lines.begin(), lines.end(), [&](const auto &known) { return ofNode && known.first == text; });
    if (line == lines.end()) {
      lines.emplace_back(text, std::vector<std::string>());
      line = std::prev(lines.end());
    }
    if (ofNode)
      line->second.push_back(problem.substr(5, quote - 4));
  }
  std::string all;
  for (auto &[text, nodes] : lines) {
    std::string who = nodes.empty() ? "" : nodes.size() == 1 ? "node " + nodes[0] + " " : "";
    if (nodes.size() > 1) {
      size_t named = everyNode ? nodes.size() : std::min(nodes.size(), kNamed);
      who = fmt::format("{} nodes, {}", nodes.size(), fmt::join(nodes.begin(), nodes.begin() + named, ", "));
      who += named < nodes.size() ? fmt::format(" and {} more that mtc check lists ", nodes.size() - named) : " ";
    }
    all += (all.empty() ? "" : "\n") + who + text;
  }
  return all;
}

Status checkOptions(const Options &options) {
  if (options.batch < 1)
    return fail("--batch {}: must be at least 1", options.batch);
  if (options.microBatch && (*options.microBatch < 1 || options.batch % *options.microBatch))
    return fail("--micro-batch {}: must divide --batch {}", *options.microBatch, options.batch);
  return {};
}

class Compilation {
public:
  Compilation(MLIRContext &context, const Options &options, const target::Target &target)
      : context(context), options(options), target(target) {}

  /// Runs the phases nn and, if asked, layers for one micro-batch, out of the model of the whole batch. Fails where parts
  /// do not add up to it.
  Result<Compiled> front(int64_t microBatch, bool layers, Messages &messages) {
    Status status = model ? Status() : readModel();
    messages.add(ofModel);
    MT_TRY(status);
    Collector collector(context, messages);
    Compiled compiled;
    compiled.module = model->clone();
    passes::stateSetting(*compiled.module, &plan::Settings::microBatch, microBatch);
    PassManager manager(&context);
    addMicroBatchPasses(manager, options.precision == "bf16", options.batch, microBatch);
    if (layers)
      addLayerPasses(manager);
    if (failed(manager.run(*compiled.module)))
      return collector.failure(options.model);
    if (auto why = (*compiled.module)->getAttrOfType<StringAttr>(nn::kMixedAttr))
      compiled.forced = why.str();
    return compiled;
  }

private:
  MLIRContext &context;
  const Options &options;
  const target::Target &target;
  OwningOpRef<ModuleOp> model; ///< of the whole batch, up to its loss
  Messages ofModel;

  /// Imports the model for the whole batch; if its graph fixes another, for the micro-batch that was asked for.
  Status readModel() {
    Status status = readModel(options.batch);
    if (status.ok() || options.microBatch.value_or(options.batch) == options.batch)
      return status;
    ofModel = Messages();
    return readModel(*options.microBatch);
  }

  Status readModel(int64_t rows) {
    onnx::ImportOptions import{rows, options.sequence, options.dims, options.train, options.freeze};
    onnx::Problems problems;
    Collector collector(context, ofModel);
    auto imported = onnx::importOnnx(context, options.model, import, problems);
    if (failed(imported))
      return problems.empty() ? collector.failure(options.model) : Status::error(joinProblems(problems, options.everyNode));
    describe(*imported, *imported->module);
    PassManager manager(&context);
    addLossPasses(manager, options.loss);
    if (failed(manager.run(*imported->module)))
      return collector.failure(options.model);
    model = std::move(imported->module);
    return {};
  }

  void describe(const onnx::ImportedModel &imported, ModuleOp module) {
    std::filesystem::path path = std::filesystem::absolute(options.model);
    plan::Plan described;
    described.model = {path.lexically_normal().string(), path.stem().string(), imported.digest, 0, 0};
    for (const onnx::ImportedParameter &parameter : imported.parameters) {
      plan::Parameter entry;
      entry.name = parameter.name;
      for (const onnx::Alias &alias : parameter.aliases)
        entry.aliases.push_back({static_cast<plan::Alias::Kind>(alias.kind), alias.name, alias.transposed});
      entry.initial = {parameter.path, parameter.offset, parameter.length, parameter.storedType,
                       parameter.generator, parameter.seed, parameter.deviation, parameter.value};
      described.parameters.push_back(std::move(entry));
    }
    setPlanAttributes(module, described);
    passes::stateTarget(module, target);
    passes::stateSetting(module, &plan::Settings::batch, options.batch);
    passes::stateSetting(module, &plan::Settings::sequence, imported.sequence);
    passes::stateSetting(module, &plan::Settings::precision, "fp32"); // until mt-lower-precision says otherwise
    passes::stateSetting(module, &plan::Settings::optimizer, options.optimizer);
    passes::stateSetting(module, &plan::Settings::clip, options.clip);
  }
};
} // namespace

void loadDialects(MLIRContext &context) {
  context.loadDialect<func::FuncDialect, nn::NnDialect, schedule::ScheduleDialect>();
}

std::string print(ModuleOp module, Phase phase) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  OpPrintingFlags flags;
  OwningOpRef<ModuleOp> named = module.clone();
  if (phase == Phase::nn) {
    flags.useLocalScope().enableDebugInfo(true);
    AttrTypeReplacer nameAlone; // the file is the module's
    nameAlone.addReplacement([](NameLoc location) -> Attribute { return NameLoc::get(location.getName()); });
    nameAlone.recursivelyReplaceElementsIn(*named, /*replaceAttrs=*/false, /*replaceLocs=*/true);
  }
  named->print(stream, flags);
  return stream.str();
}

Result<Compiled> compile(MLIRContext &context, const Options &options, Phase phase, const std::string &producer,
                         Messages &messages) {
  MT_TRY(checkOptions(options));
  if (!options.sequence)
    if (Options complete = options; (complete.sequence = defaultSequence(context, options)))
      return compile(context, complete, phase, producer, messages);
  MT_ASSIGN(target::Target target, target::findTarget(options.target));
  Compilation compilation(context, options, target);
  if (phase == Phase::nn || phase == Phase::layers)
    return compilation.front(microBatchesOf(options).front(), phase == Phase::layers, messages);

  std::optional<Compiled> best;
  double seconds = 0;
  std::function<std::string()> more;
  std::string problem;
  std::vector<std::string> considered;
  for (int64_t microBatch : microBatchesOf(options)) {
    Messages said; // of this candidate: what is printed is about the plan that is made, or about the last one tried
    auto front = compilation.front(microBatch, true, said);
    if (!front.ok() && microBatch != options.batch && !options.microBatch) { // what the batch can be, its parts need not
      considered.push_back(fmt::format("micro-batch {}: {}", microBatch, front.status().message()));
      continue;
    }
    if (!front.ok())
      messages = said;
    MT_ASSIGN(Compiled compiled, std::move(front));
    Planned planned = planSchedule(*compiled.module, options, target, said);
    considered.push_back(fmt::format("micro-batch {}: {}", microBatch, planned.module ? planned.text : "does not fit"));
    if (!best)
      messages = said;
    if (!planned.module) {
      problem = planned.problem;
      if (!compiled.forced.empty())
        return fail("{}: {}; the micro-batch cannot be smaller than the batch, because rows see each other ({}): use a smaller "
                    "--batch, or a larger budget",
                    options.model, problem, compiled.forced);
      continue;
    }
    if (best && seconds <= planned.seconds)
      break; // smaller micro-batches only get slower from here
    constexpr double kLittle = 0.005; // what the next would still gain is less
    const bool isEnough = (best && planned.seconds > (1 - kLittle) * seconds) || planned.seconds <= (1 + kLittle) * planned.bound;
    seconds = planned.seconds;
    messages = said;
    best = std::move(compiled);
    best->module = std::move(planned.module);
    best->bound = planned.bound;
    more = planned.more;
    if (!best->forced.empty() || isEnough)
      break;
  }
  if (!best)
    return Status::error(options.model + ": " + problem);
  best->considered = considered;
  if (options.report)
    best->more = more();
  if (phase == Phase::schedule)
    return std::move(*best);
  Collector collector(context, messages);
  auto plan = emitPlan(*best->module, producer);
  if (failed(plan))
    return collector.failure(options.model);
  best->plan = std::move(*plan);
  return std::move(*best);
}

} // namespace mt::pipeline
