#include "compiler/pipeline/Parameters.h"

#include "kernels/Optimizers.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/nn/Adapters.h"
#include "passes/nn/Packing.h"
#include "runtime/plan/WeightFiles.h"

#include <fmt/ranges.h>

#include <map>
#include <set>

using namespace mlir;

namespace mt::pipeline {

std::vector<ParameterArgument> parametersOf(ModuleOp module) {
  std::vector<ParameterArgument> found;
  auto main = module.lookupSymbol<func::FuncOp>(nn::kMainName);
  for (BlockArgument argument : main.getArguments()) {
    const unsigned i = argument.getArgNumber();
    if (auto name = main.getArgAttrOfType<StringAttr>(i, nn::kParameterAttr))
      found.push_back({name.str(), cast<RankedTensorType>(argument.getType()),
                       bool(main.getArgAttr(i, nn::kTrainableAttr)),
                       main.getArgAttrOfType<DictionaryAttr>(i, passes::kInitialAttr), i});
  }
  return found;
}

std::string listOf(const std::vector<std::string> &names) {
  constexpr size_t kMost = 4;
  const size_t shown = std::min(names.size(), kMost);
  std::string text =
      fmt::format("'{}'", fmt::join(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), "', '"));
  return shown == names.size() ? text : fmt::format("{} and {} more", text, names.size() - shown);
}

std::vector<std::string> productWeights(ModuleOp module) {
  std::set<std::string> names;
  auto main = module.lookupSymbol<func::FuncOp>(nn::kMainName);
  for (auto product : main.front().getOps<nn::MatmulOp>())
    if (auto weight = dyn_cast<BlockArgument>(product.getRhs()); weight && nn::shapeOf(weight).size() == 2)
      if (auto name = main.getArgAttrOfType<StringAttr>(weight.getArgNumber(), nn::kParameterAttr))
        names.insert(name.str());
  return {names.begin(), names.end()};
}

std::vector<plan::Parameter> modelParameters(const onnx::ImportedModel &imported) {
  std::vector<plan::Parameter> described;
  std::map<std::string, Result<MappedFile>> files;
  for (const onnx::ImportedParameter &parameter : imported.parameters) {
    plan::Parameter entry;
    entry.name = parameter.name;
    for (const onnx::Alias &alias : parameter.aliases)
      entry.aliases.push_back({static_cast<plan::Alias::Kind>(alias.kind), alias.name, alias.transposed});
    entry.initial = {parameter.path,      parameter.offset, parameter.length,    parameter.storedType,
                     parameter.generator, parameter.seed,   parameter.deviation, parameter.value};
    if (!parameter.path.empty())
      if (auto [file, fresh] = files.try_emplace(parameter.path, MappedFile::open(parameter.path)); file->second)
        if (Result<uint64_t> sample = plan::sampleOf(*file->second, entry.initial))
          entry.initial.sample = *sample;
    if (parameter.isRunning)
      entry.optimizer = kernels::kReplace;
    described.push_back(std::move(entry));
  }
  return described;
}

std::vector<plan::Parameter> planParameters(ModuleOp module, const std::vector<plan::Parameter> &ofModel) {
  std::map<std::string, const plan::Parameter *> known;
  for (const plan::Parameter &parameter : ofModel)
    known.emplace(parameter.name, &parameter);
  std::vector<plan::Parameter> all;
  std::map<std::string, plan::Initial> packed; // by the parameter that holds the codes
  auto main = module.lookupSymbol<func::FuncOp>(nn::kMainName);
  for (const ParameterArgument &argument : parametersOf(module)) {
    const unsigned i = argument.number;
    auto found = known.find(argument.name);
    plan::Parameter &made = all.emplace_back(found == known.end() ? plan::Parameter() : *found->second);
    made.name = argument.name;
    if (argument.initial) {
      made.initial.generator = argument.initial.getAs<StringAttr>("generator").str();
      made.initial.seed = static_cast<uint64_t>(argument.initial.getAs<IntegerAttr>("seed").getInt());
      made.initial.deviation = argument.initial.getAs<FloatAttr>("deviation").getValueAsDouble();
      made.initial.value = argument.initial.getAs<FloatAttr>("value").getValueAsDouble();
    }
    if (auto pieces = main.getArgAttrOfType<ArrayAttr>(i, passes::kPiecesAttr))
      for (auto name : pieces.getAsRange<StringAttr>())
        made.initial.pieces.push_back({name.str(), known.at(name.str())->initial});
    if (auto packing = passes::packingOf(main.getArgAttrOfType<DictionaryAttr>(i, passes::kPackingAttr))) {
      if (!packing->codes.empty())
        made.initial = packed.at(packing->codes);
      made.initial.packing = packing;
      packed.emplace(made.name, made.initial);
    }
  }
  return all;
}

Status checkPacked(ModuleOp module) {
  for (const ParameterArgument &argument : parametersOf(module))
    if (module.lookupSymbol<func::FuncOp>(nn::kMainName).getArgAttr(argument.number, passes::kPackingAttr))
      return {};
  const std::vector<std::string> weights = productWeights(module);
  return fail("there is no frozen matrix that only products take, as it is{}",
              weights.empty() ? ""
                              : fmt::format("; products take {}: keep them as they are with --freeze PATTERN, or train "
                                            "adapters beside them with --lora",
                                            listOf(weights)));
}

} // namespace mt::pipeline
