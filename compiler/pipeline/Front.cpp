#include "compiler/pipeline/Front.h"

#include "compiler/pipeline/Phases.h"
#include "compiler/plan/PlanAttributes.h"
#include "passes/Settings.h"
#include "runtime/plan/ParameterGroups.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <set>

using namespace mlir;

namespace mt::pipeline {
namespace {

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
    addLayerPasses(manager);
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
  onnx::ImportOptions import{rows, options.sequence, options.dims, options.train, options.freeze};
  onnx::Problems problems;
  Collector collector(context, ofModel);
  auto imported = onnx::importOnnx(context, options.model, import, problems);
  if (failed(imported))
    return problems.empty() ? collector.failure(options.model) : Status::error(joinProblems(problems, options.everyNode));
  MT_TRY(describe(*imported, *imported->module));
  PassManager manager(&context);
  addLossPasses(manager, options.loss);
  if (failed(manager.run(*imported->module)))
    return collector.failure(options.model);
  model = std::move(imported->module);
  return {};
}

Status Front::describe(const onnx::ImportedModel &imported, ModuleOp module) const {
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
  MT_ASSIGN(std::vector<plan::ParameterGroup> groups, plan::parseGroups(options.groups));
  for (const plan::ParameterGroup &group : groups) {
    std::set<std::string> optimizers;
    for (plan::Parameter &parameter : described.parameters)
      if (group.holds(parameter)) {
        if (!group.optimizer.empty())
          parameter.optimizer = group.optimizer;
        optimizers.insert(parameter.optimizer.empty() ? options.optimizer : parameter.optimizer);
      }
    if (optimizers.empty())
      return fail("--group {}: no parameter of the model has such a name", group.text);
    MT_TRY(plan::checkKeys(group, optimizers));
  }
  setPlanAttributes(module, described);
  passes::stateTarget(module, target);
  passes::stateSetting(module, &plan::Settings::batch, options.batch);
  passes::stateSetting(module, &plan::Settings::sequence, imported.sequence);
  passes::stateSetting(module, &plan::Settings::precision, "fp32"); // until mt-lower-precision says otherwise
  passes::stateSetting(module, &plan::Settings::optimizer, options.optimizer);
  passes::stateSetting(module, &plan::Settings::groups, options.groups);
  passes::stateSetting(module, &plan::Settings::clip, options.clip);
  passes::stateSetting(module, &plan::Settings::narrowExchange, options.narrowExchange && target.ranks > 1);
  return {};
}

} // namespace mt::pipeline
