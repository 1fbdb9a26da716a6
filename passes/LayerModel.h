// What mt-build-schedule knows of a model: the layer calls of @main, what each operand is, and which values cross
// layers. Read once from the IR; no slot or command is here.
#ifndef MT_PASSES_LAYERMODEL_H
#define MT_PASSES_LAYERMODEL_H
#include "passes/Passes.h"

namespace mt::passes {

/// An argument of @main that is a parameter. `owner` is the first layer that uses it (-1: none does); that layer's
/// weights hold it. `users` are all layers that use it, in order.
struct ModelParameter {
  std::string name;
  mlir::RankedTensorType type;
  bool trainable = false;
  int64_t owner = -1;
  llvm::SmallVector<int64_t> users;
  bool isTrained() const { return trainable && owner >= 0; }
  /// The type of gradients and moments.
  mlir::RankedTensorType fullType() const {
    return nn::tensorOf(type.getShape(), mlir::Float32Type::get(type.getContext()));
  }
  /// Whether the master is the weight and a remainder: where the weight is bf16.
  bool isSplit() const { return type.getElementType().isBF16(); }
};

/// An argument of @main that a micro-batch feeds: a graph input or the labels.
struct ModelInput {
  std::string name;
  mlir::RankedTensorType type; ///< of one micro-batch
  bool isLabels = false;
};

/// A result of a layer call. `users` are the layers that take it.
struct ModelValue {
  int64_t layer = 0, result = 0;
  mlir::RankedTensorType type;
  llvm::SmallVector<int64_t> users;
  bool isStepSum = false; ///< one place for all micro-batches, which add to it
};

struct LayerOperand {
  enum Kind { parameter, input, scalars, value } kind = value;
  int64_t index = 0; ///< into the model's list of that kind
};

struct Layer {
  mlir::func::FuncOp primal, forward, backward; ///< backward is null where no gradient is wanted
  llvm::SmallVector<LayerOperand> operands;
  llvm::SmallVector<int64_t> results; ///< indices of values
  llvm::SmallVector<int64_t> owned;   ///< parameters whose weights lie with this layer
  bool isLoss = false;
};

struct LayerModel {
  std::vector<ModelParameter> parameters;
  std::vector<ModelInput> inputs;
  std::vector<ModelValue> values;
  std::vector<Layer> layers;
  int64_t microBatch = 1; ///< rows of one template call
};

/// Reads @main; `rung` chooses among the templates that mt-differentiate made. Fails with a diagnostic.
mlir::FailureOr<LayerModel> readLayerModel(mlir::ModuleOp module, llvm::StringRef rung);

} // namespace mt::passes
#endif
