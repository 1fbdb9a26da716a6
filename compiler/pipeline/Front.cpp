#include "compiler/pipeline/Front.h"

#include "compiler/pipeline/Adapters.h"
#include "compiler/pipeline/OpenModel.h"
#include "compiler/pipeline/Parameters.h"
#include "compiler/pipeline/Phases.h"
#include "compiler/plan/PlanAttributes.h"
#include "kernels/Optimizers.h"
#include "passes/Settings.h"
#include "passes/nn/Adapters.h"
#include "runtime/plan/ParameterGroups.h"

#include <fmt/ranges.h>
#include <xxhash.h>

#include <map>
#include <set>

using namespace mlir;

namespace mt::pipeline {
namespace {

/// What is said, and of which nodes: none where it is not of nodes.
struct Said {
  std::string text; ///< of nodes, "(Operator): ..."
  std::vector<std::string> nodes;
};

std::vector<Said> gathered(const onnx::Problems &problems) {
  std::vector<Said> lines;
  for (const std::string &problem : problems) {
    size_t quote = problem.find("' (");
    bool ofNode = problem.starts_with("node '") && quote != std::string::npos;
    std::string text = ofNode ? problem.substr(quote + 2) : problem;
    auto line =
        std::find_if(lines.begin(), lines.end(), [&](const Said &known) { return ofNode && known.text == text; });
    if (line == lines.end()) {
      lines.push_back({text, {}});
      line = std::prev(lines.end());
    }
    if (ofNode)
      line->nodes.push_back(problem.substr(5, quote - 4));
  }
  return lines;
}

std::string textOf(const Said &line, bool everyNode) {
  constexpr size_t kNamed = 3;
  size_t count = line.nodes.size(), named = everyNode ? count : std::min(count, kNamed);
  if (count == 0)
    return line.text;
  if (count == 1)
    return "node " + line.nodes[0] + " " + line.text;
  std::string more = named < count ? fmt::format("and {} more that mtc check lists ", count - named) : "";
  return fmt::format("{} nodes, {} {}{}", count, fmt::join(line.nodes.begin(), line.nodes.begin() + named, ", "), more,
                     line.text);
}

/// "16 nodes cannot be converted: 12 TopK, 4 Foo"; nothing of fewer than two operators.
std::string countOf(const std::vector<Said> &lines) {
  std::map<std::string, size_t> counts;
  size_t all = 0;
  for (const Said &line : lines) {
    if (line.nodes.empty())
      continue;
    counts[line.text.substr(1, line.text.find(')') - 1)] += line.nodes.size();
    all += line.nodes.size();
  }
  std::vector<std::pair<size_t, std::string>> sorted;
  for (const auto &[name, count] : counts)
    sorted.emplace_back(count, name);
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto &a, const auto &b) { return a.first > b.first; });
  std::vector<std::string> texts;
  for (const auto &[count, name] : sorted)
    texts.push_back(fmt::format("{} {}", count, name));
  return texts.size() < 2 ? "" : fmt::format("{} nodes cannot be converted: {}", all, fmt::join(texts, ", "));
}

/// One line a problem; what is said of several nodes in the same words is one, with their names. Behind them, how many
/// nodes of which operators.
std::string joinProblems(const onnx::Problems &problems, bool everyNode) {
  std::vector<Said> lines = gathered(problems);
  std::vector<std::string> texts;
  for (const Said &line : lines)
    texts.push_back(textOf(line, everyNode));
  if (std::string count = countOf(lines); !count.empty())
    texts.push_back(count);
  return fmt::format("{}", fmt::join(texts, "\n"));
}

/// Of the graph with what was added to it.
uint64_t digestOf(uint64_t digest, ModuleOp module) {
  std::string added;
  for (const passes::AdapterEntry &entry : passes::adaptersOf(module))
    added += fmt::format("{} {} {} {}\n", entry.parameter, entry.rank, entry.scale, entry.dropout);
  return added.empty() ? digest : XXH3_64bits_withSeed(added.data(), added.size(), digest);
}

} // namespace

Status checkBatches(const Options &options) {
  if (options.batch < 1)
    return fail("--batch {}: must be at least 1", options.batch);
  if (options.microBatch && (*options.microBatch < 1 || options.batch % *options.microBatch))
    return fail("--micro-batch {}: must divide --batch {}", *options.microBatch, options.batch);
  return {};
}

Result<Compiled> Front::module(int64_t microBatch, bool layers, Messages &messages) {
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
    addLayerPasses(manager, options.fuse);
  if (failed(manager.run(*compiled.module)))
    return collector.failure(options.model);
  if (auto why = (*compiled.module)->getAttrOfType<StringAttr>(nn::kMixedAttr))
    compiled.forced = why.str();
  return compiled;
}

/// Imports the model for the whole batch; if its graph fixes another, for the micro-batch that was asked for.
Status Front::readModel() {
  Status status = readModel(options.batch);
  if (status.ok() || options.microBatch.value_or(options.batch) == options.batch)
    return status;
  ofModel = Messages();
  return readModel(*options.microBatch);
}

Status Front::readModel(int64_t rows) {
  onnx::ImportOptions import{rows, options.sequence, options.dims, options.batchDims, options.train, options.freeze};
  if (!options.lora.empty())
    import.freeze.push_back("*"); // the base of adapters; --train wins
  onnx::Problems problems;
  Collector collector(context, ofModel);
  auto imported = importModel(context, options.model, options.pack, import, problems);
  if (failed(imported))
    return problems.empty() ? collector.failure(options.model) : Status::error(joinProblems(problems, options.everyNode));
  std::vector<plan::Parameter> parameters = modelParameters(*imported);
  MT_TRY(requestAdapters(*imported->module, options.lora, parameters));
  PassManager manager(&context);
  addLossPasses(manager, {options.loss, options.labelSmoothing, options.zLoss});
  if (failed(manager.run(*imported->module)))
    return collector.failure(options.model);
  MT_TRY(checkAdapters(*imported->module, options.lora, parameters));
  PassManager base(&context);
  addBasePasses(base, options.packBase);
  if (failed(base.run(*imported->module)))
    return collector.failure(options.model);
  if (options.packBase)
    MT_TRY(checkPacked(*imported->module).within("--base-bits 4"));
  MT_TRY(describe(*imported, planParameters(*imported->module, parameters), *imported->module));
  model = std::move(imported->module);
  return {};
}

Status Front::describe(const onnx::ImportedModel &imported, std::vector<plan::Parameter> parameters,
                       ModuleOp module) const {
  plan::Plan described;
  described.model = {modelPath(options.model), modelName(options.model), digestOf(imported.digest, module), 0, 0};
  described.parameters = std::move(parameters);
  auto optimizerOf = [&](const std::string &own) {
    const std::string &name = own.empty() ? options.optimizer : own;
    return options.ema ? kernels::averagingName(name) : name;
  };
  MT_ASSIGN(std::vector<plan::ParameterGroup> groups, plan::parseGroups(options.groups));
  for (const plan::ParameterGroup &group : groups) {
    std::set<std::string> optimizers;
    for (plan::Parameter &parameter : described.parameters)
      if (group.holds(parameter) && parameter.optimizer != kernels::kReplace) {
        if (!group.optimizer.empty())
          parameter.optimizer = group.optimizer;
        optimizers.insert(optimizerOf(parameter.optimizer));
      }
    if (optimizers.empty())
      return fail("--group {}: no parameter of the model has such a name", group.text);
    MT_TRY(plan::checkKeys(group, optimizers));
  }
  for (plan::Parameter &parameter : described.parameters)
    if (options.ema)
      parameter.optimizer = optimizerOf(parameter.optimizer);
  setPlanAttributes(module, described);
  passes::stateTarget(module, target);
  passes::stateSetting(module, &plan::Settings::batch, options.batch);
  passes::stateSetting(module, &plan::Settings::sequence, imported.sequence);
  passes::stateSetting(module, &plan::Settings::precision, "fp32"); // until mt-lower-precision says otherwise
  passes::stateSetting(module, &plan::Settings::optimizer, options.optimizer);
  passes::stateSetting(module, &plan::Settings::groups, options.groups);
  passes::stateSetting(module, &plan::Settings::clip, options.clip);
  passes::stateSetting(module, &plan::Settings::average, options.ema);
  passes::stateSetting(module, &plan::Settings::narrowExchange, options.narrowExchange && target.ranks > 1);
  return {};
}

} // namespace mt::pipeline
