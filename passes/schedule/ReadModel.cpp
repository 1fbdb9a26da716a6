#include "passes/schedule/ReadModel.h"

#include "compiler/nn/KernelCall.h"
#include "compiler/planner/Emitter.h"
#include "compiler/target/CostModel.h"
#include "kernels/Coverage.h"
#include "passes/Settings.h"

#include <map>

using namespace mlir;

namespace mt::passes {
namespace {
constexpr StringLiteral kRungs[] = {"input", "attention", "all"}; // from the least saved to the most

planner::TensorType tensorTypeOf(Type type) {
  kernels::OperandType operand = nn::operandType(type, kernels::Effect::read);
  return {operand.type, operand.dims};
}

/// A number among the attributes of a template's argument or result, -1 if it has none.
int64_t attributeOf(DictionaryAttr attributes, StringRef name) {
  auto number = attributes ? attributes.getAs<IntegerAttr>(name) : IntegerAttr();
  return number ? number.getInt() : -1;
}

class Reader {
public:
  Reader(ModuleOp module, const target::Target &target) : module(module), target(target) {}

  FailureOr<ReadModel> run() {
    main = module.lookupSymbol<func::FuncOp>(nn::kMainName);
    if (!main)
      return module.emitError() << "has no @main";
    readArguments();
    for (auto call : main.front().getOps<func::CallOp>())
      if (failed(readCall(call)))
        return failure();
    packGradients();
    if (model.layers.empty() || !model.layers.back().isLoss || !model.layers.back().isDifferentiated())
      return main.emitError() << "the last layer does not compute a loss that a trainable parameter reaches; check "
                                 "--loss and --train";
    return std::move(read);
  }

private:
  ModuleOp module;
  const target::Target &target;
  func::FuncOp main;
  ReadModel read;
  planner::Model &model = read.model;
  llvm::DenseMap<Value, planner::Operand> known;
  llvm::DenseMap<Operation *, int64_t> templates;

  void readArguments() {
    for (BlockArgument argument : main.getArguments()) {
      unsigned i = argument.getArgNumber();
      planner::TensorType type = tensorTypeOf(argument.getType());
      if (auto name = main.getArgAttrOfType<StringAttr>(i, nn::kParameterAttr)) {
        known[argument] = {planner::Operand::parameter, int64_t(model.parameters.size())};
        planner::Parameter &parameter = model.parameters.emplace_back();
        parameter.name = name.str();
        parameter.type = type;
        parameter.full = {kernels::DType::f32, type.dims};
        parameter.optimizer = passes::optimizerOf(module, model.parameters.size() - 1);
      } else if (main.getArgAttr(i, nn::kScalarsAttr)) {
        known[argument] = {planner::Operand::scalars, 0};
      } else {
        bool labels = bool(main.getArgAttr(i, nn::kLabelsAttr));
        auto name = main.getArgAttrOfType<StringAttr>(i, nn::kInputAttr);
        known[argument] = {planner::Operand::input, int64_t(model.inputs.size())};
        if (!type.dims.empty())
          model.microBatch = type.dims[0];
        model.inputs.push_back({name                                ? name.str()
                                : labels                            ? "labels"
                                : main.getArgAttr(i, nn::kRowsAttr) ? "rows"
                                                                    : "input",
                                type});
      }
    }
  }

  int64_t templateOf(func::FuncOp function) {
    auto [found, isNew] = templates.try_emplace(function, model.templates.size());
    if (!isNew)
      return found->second;
    read.functions.push_back(function);
    planner::Template &entry = model.templates.emplace_back();
    entry.name = function.getName().str();
    if (auto workspace = function->getAttrOfType<IntegerAttr>("nn.workspace"))
      entry.workspace = workspace.getInt();
    for (Operation &op : function.front().without_terminator())
      if (nn::hasKernel(&op)) {
        kernels::Signature signature = nn::kernelCallOf(&op).signature;
        entry.seconds += target::kernelSeconds(target, signature);
        entry.flops += kernels::flops(signature);
      }
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      DictionaryAttr attributes = function.getArgAttrDict(i);
      planner::Argument argument{planner::Argument::operand, i, tensorTypeOf(function.getArgumentTypes()[i])};
      if (int64_t operand = attributeOf(attributes, "nn.argument"); operand >= 0)
        argument.index = operand;
      else if (int64_t saved = attributeOf(attributes, "nn.saved"); saved >= 0)
        argument.kind = planner::Argument::saved, argument.index = saved;
      else if (int64_t gradient = attributeOf(attributes, "nn.gradient"); gradient >= 0)
        argument.kind = planner::Argument::gradient, argument.index = gradient;
      entry.arguments.push_back(std::move(argument));
    }
    return found->second;
  }

  bool addsOnce(mlir::Value value) const {
    Operation *producer = nn::viewedBy(value).getDefiningOp();
    return producer && isFloat32(value) && kernels::addsOnce(producer->getName().stripDialect(), nn::backendOf(module));
  }
  static bool isFloat32(mlir::Value value) { return getElementTypeOrSelf(value.getType()).isF32(); }

  /// What a template gives, told for a forward of so many values, or for a backward.
  void describeResults(int64_t index, int64_t values, bool backward, bool predicts = false) {
    planner::Template &entry = model.templates[index];
    func::FuncOp function = read.functions[index];
    if (!entry.results.empty())
      return;
    for (int64_t k = 0; k < int64_t(function.getNumResults()); ++k) {
      planner::Result result{planner::Result::value, k, tensorTypeOf(function.getResultTypes()[k])};
      int64_t operand = attributeOf(function.getResultAttrDict(k), "nn.gradient");
      if (backward) {
        result.kind = operand >= 0 ? planner::Result::gradient : planner::Result::loss, result.index = operand;
        result.addsOnce = addsOnce(function.front().getTerminator()->getOperand(k));
      } else if (k >= values)
        result.kind = predicts ? planner::Result::prediction : planner::Result::saved, result.index = k - values;
      entry.results.push_back(std::move(result));
    }
  }

  LogicalResult readCall(func::CallOp call) {
    int64_t index = model.layers.size();
    planner::Layer layer;
    read.calls.push_back(call);
    auto predicts = module.lookupSymbol<func::FuncOp>((call.getCallee() + passes::kPredicts).str());
    layer.primal = templateOf(predicts ? predicts : module.lookupSymbol<func::FuncOp>(call.getCallee()));
    describeResults(layer.primal, call.getNumResults(), false, bool(predicts));
    if (auto stem = call->getAttrOfType<StringAttr>("nn.backward")) {
      layer.isLoss = llvm::any_of(call->getUsers(), [](Operation *user) { return isa<func::ReturnOp>(user); });
      if (failed(readRungs(call, stem.getValue(), layer)))
        return failure();
    }
    for (mlir::Value operand : call.getOperands()) {
      planner::Operand what = known.lookup(operand);
      if (what.kind == planner::Operand::parameter) {
        int64_t &owner = model.parameters[what.index].owner;
        if (owner < 0) {
          owner = index;
          layer.owned.push_back(what.index);
        }
      }
      if (what.kind == planner::Operand::value)
        model.values[what.index].users.push_back(index);
      layer.operands.push_back(what);
    }
    for (OpResult result : call.getResults()) {
      known[result] = {planner::Operand::value, int64_t(model.values.size())};
      layer.results.push_back(model.values.size());
      model.values.push_back({index, int64_t(result.getResultNumber()), tensorTypeOf(result.getType()), {}, call->hasAttr(nn::kStepSumsAttr)});
    }
    model.layers.push_back(std::move(layer));
    return success();
  }

  LogicalResult readRungs(func::CallOp call, StringRef stem, planner::Layer &layer) {
    for (StringRef rung : kRungs) {
      if (layer.isLoss && rung != "input")
        break;
      auto backward = module.lookupSymbol<func::FuncOp>((stem + ".backward." + rung).str());
      auto forward = rung == "input" ? read.functions[layer.primal] : module.lookupSymbol<func::FuncOp>((stem + ".forward." + rung).str());
      if (!backward || !forward)
        return call.emitError() << "has no templates for saved activations '" << rung << "'; run mt-differentiate";
      planner::Rung entry{rung.str(), templateOf(forward), templateOf(backward)};
      describeResults(entry.forward, call.getNumResults(), false);
      describeResults(entry.backward, 0, true);
      layer.rungs.push_back(std::move(entry));
    }
    return success();
  }

  /// The layers that give each parameter a gradient.
  std::vector<std::vector<int64_t>> gradientLayers() const {
    std::vector<std::vector<int64_t>> layers(model.parameters.size());
    for (auto [l, layer] : llvm::enumerate(model.layers)) {
      if (!layer.isDifferentiated())
        continue;
      llvm::SmallDenseSet<int64_t> given;
      for (const planner::Result &result : model.templates[layer.rungs.front().backward].results)
        if (result.kind == planner::Result::gradient)
          given.insert(result.index);
      for (auto [number, operand] : llvm::enumerate(layer.operands))
        if (operand.kind == planner::Operand::parameter && given.contains(number))
          layers[operand.index].push_back(l);
    }
    return layers;
  }

  void packGradients() {
    std::vector<std::vector<int64_t>> layers = gradientLayers();
    std::map<std::vector<int64_t>, int64_t> packs;
    for (auto [l, layer] : llvm::enumerate(model.layers))
      for (const planner::Operand &operand : layer.operands) {
        if (operand.kind != planner::Operand::parameter || layers[operand.index].empty() || layers[operand.index].front() != int64_t(l))
          continue;
        const std::vector<int64_t> &from = layers[operand.index];
        auto [found, isNew] = packs.try_emplace(from, model.packs.size());
        if (isNew)
          addPack(from);
        planner::GradientPack &pack = model.packs[found->second];
        planner::Parameter &parameter = model.parameters[operand.index];
        parameter.pack = found->second;
        parameter.packOffset = planner::aligned(pack.bytes);
        pack.bytes = parameter.packOffset + parameter.full.bytes();
        pack.parameters.push_back(operand.index);
      }
  }

  void addPack(const std::vector<int64_t> &from) {
    for (int64_t layer : from)
      model.layers[layer].packs.push_back(model.packs.size());
    model.packs.push_back({{}, from, 0});
  }
};
} // namespace

Status applySettings(const plan::Settings &settings, const target::Target &target, planner::Model &model) {
  model.clip = settings.clip;
  model.narrowExchange = settings.narrowExchange;
  model.noteReads();
  MT_TRY(model.setMicroBatches(settings.batch, target.ranks));
  return model.setOptimizer(settings.optimizer, target.ranks);
}

FailureOr<ReadModel> readModel(ModuleOp module, const target::Target &target) { return Reader(module, target).run(); }

} // namespace mt::passes
