// Reading of @main into a LayerModel.
#include "passes/LayerModel.h"

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
        model.parameters.push_back({name.str(), type, bool(main.getArgAttr(i, nn::kTrainableAttr)), -1, {}});
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
        ModelParameter &parameter = model.parameters[what.index];
        parameter.users.push_back(index);
        if (parameter.owner < 0) {
          parameter.owner = index;
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
};
} // namespace

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
  for (ModelParameter &parameter : reader.model.parameters) // what no gradient reaches is not trained
    parameter.trainable &= parameter.owner >= 0 && bool(reader.model.layers[parameter.owner].backward);
  if (reader.model.layers.empty() || !reader.model.layers.back().isLoss)
    return reader.main.emitError() << "the last layer does not compute a loss that a trainable parameter reaches; check "
                                      "--loss and --train";
  return std::move(reader.model);
}

} // namespace mt::passes
