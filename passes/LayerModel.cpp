// Reading of @main into a LayerModel.
#include "passes/LayerModel.h"

#include <map>

using namespace mlir;

namespace mt::passes {
namespace {
struct Reader {
  ModuleOp module;
  func::FuncOp main;
  StringRef rung;
  LayerModel model = {};
  llvm::DenseMap<Value, LayerOperand> known = llvm::DenseMap<Value, LayerOperand>();

  void readArguments() {
    for (BlockArgument argument : main.getArguments()) {
      unsigned i = argument.getArgNumber();
      auto type = cast<RankedTensorType>(argument.getType());
      if (auto name = main.getArgAttrOfType<StringAttr>(i, nn::kParameterAttr)) {
        known[argument] = {LayerOperand::parameter, int64_t(model.parameters.size())};
        model.parameters.push_back({name.str(), type});
      } else if (main.getArgAttr(i, nn::kScalarsAttr)) {
        known[argument] = {LayerOperand::scalars, 0};
      } else {
        bool labels = bool(main.getArgAttr(i, nn::kLabelsAttr));
        auto name = main.getArgAttrOfType<StringAttr>(i, nn::kInputAttr);
        known[argument] = {LayerOperand::input, int64_t(model.inputs.size())};
        model.inputs.push_back({name ? name.str() : labels ? "labels" : "input", type, labels});
        if (type.getRank() > 0)
          model.microBatch = type.getDimSize(0);
      }
    }
  }

  LogicalResult readCall(func::CallOp call) {
    int64_t index = model.layers.size();
    Layer layer;
    layer.primal = module.lookupSymbol<func::FuncOp>(call.getCallee());
    layer.forward = layer.primal;
    if (auto stem = call->getAttrOfType<StringAttr>("nn.backward")) {
      layer.isLoss = llvm::any_of(call->getUsers(), [](Operation *user) { return isa<func::ReturnOp>(user); });
      StringRef wanted = layer.isLoss ? "input" : rung;
      layer.backward = module.lookupSymbol<func::FuncOp>((stem.getValue() + ".backward." + wanted).str());
      if (wanted != "input")
        layer.forward = module.lookupSymbol<func::FuncOp>((stem.getValue() + ".forward." + wanted).str());
      if (!layer.backward || !layer.forward)
        return call.emitError() << "has no templates for saved activations '" << wanted << "'; run mt-differentiate";
    }
    for (Value operand : call.getOperands()) {
      LayerOperand what = known.lookup(operand);
      if (what.kind == LayerOperand::parameter) {
        int64_t &owner = model.parameters[what.index].owner;
        if (owner < 0) {
          owner = index;
          layer.owned.push_back(what.index);
        }
      }
      if (what.kind == LayerOperand::value)
        model.values[what.index].users.push_back(index);
      layer.operands.push_back(what);
    }
    for (OpResult result : call.getResults()) {
      known[result] = {LayerOperand::value, int64_t(model.values.size())};
      layer.results.push_back(model.values.size());
      model.values.push_back({index, int64_t(result.getResultNumber()), cast<RankedTensorType>(result.getType()), {},
                              call->hasAttr(nn::kStepSumsAttr)});
    }
    model.layers.push_back(std::move(layer));
    return success();
  }

  /// The layers that give each parameter a gradient.
  std::vector<SmallVector<int64_t>> gradientLayers() const {
    std::vector<SmallVector<int64_t>> layers(model.parameters.size());
    for (auto [l, layer] : llvm::enumerate(model.layers))
      for (auto [number, operand] : llvm::enumerate(layer.operands))
        if (operand.kind == LayerOperand::parameter && layer.backward && givesGradient(layer.backward, number))
          layers[operand.index].push_back(l);
    return layers;
  }

  void packGradients() {
    std::vector<SmallVector<int64_t>> layers = gradientLayers();
    std::map<std::vector<int64_t>, int64_t> known;
    for (auto [l, layer] : llvm::enumerate(model.layers))
      for (const LayerOperand &operand : layer.operands) {
        if (operand.kind != LayerOperand::parameter || layers[operand.index].empty() ||
            layers[operand.index].front() != int64_t(l))
          continue;
        ArrayRef<int64_t> from = layers[operand.index];
        auto [found, isNew] = known.try_emplace(from.vec(), model.packs.size());
        if (isNew)
          addPack(from);
        GradientPack &pack = model.packs[found->second];
        ModelParameter &parameter = model.parameters[operand.index];
        parameter.pack = found->second;
        parameter.packOffset = llvm::alignTo(pack.bytes, schedule::kSlotAlignment);
        pack.bytes = parameter.packOffset + schedule::bytesOf(parameter.fullType());
        pack.parameters.push_back(operand.index);
      }
  }

  void addPack(ArrayRef<int64_t> from) {
    for (int64_t layer : from)
      model.layers[layer].packs.push_back(model.packs.size());
    model.packs.push_back({{}, SmallVector<int64_t>(from), 0});
  }
};

bool hasAttribute(ArrayAttr dictionaries, StringRef name, int64_t value) {
  return dictionaries && llvm::any_of(dictionaries.getAsRange<DictionaryAttr>(),
                                      [&](DictionaryAttr attributes) { return attributeOf(attributes, name) == value; });
}
} // namespace

int64_t attributeOf(DictionaryAttr attributes, StringRef name) {
  auto number = attributes ? attributes.getAs<IntegerAttr>(name) : IntegerAttr();
  return number ? number.getInt() : -1;
}
bool readsOperand(func::FuncOp backward, int64_t operand) {
  return hasAttribute(backward.getAllArgAttrs(), "nn.argument", operand);
}
bool givesGradient(func::FuncOp backward, int64_t operand) {
  return hasAttribute(backward.getAllResultAttrs(), "nn.gradient", operand);
}

FailureOr<LayerModel> readLayerModel(ModuleOp module, StringRef rung) {
  if (!llvm::is_contained({"input", "attention", "all"}, rung))
    return module.emitError() << "saved activations '" << rung << "': must be input, attention or all";
  Reader reader{module, module.lookupSymbol<func::FuncOp>(nn::kMainName), rung};
  if (!reader.main)
    return module.emitError() << "has no @main";
  reader.readArguments();
  for (auto call : reader.main.front().getOps<func::CallOp>())
    if (failed(reader.readCall(call)))
      return failure();
  reader.packGradients();
  if (reader.model.layers.empty() || !reader.model.layers.back().isLoss)
    return reader.main.emitError() << "the last layer does not compute a loss that a trainable parameter reaches; check "
                                      "--loss and --train";
  return std::move(reader.model);
}

} // namespace mt::passes
