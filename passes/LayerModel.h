// What mt-build-schedule knows of a model: the layer calls of @main, what each operand is, and which values cross
// layers. Read once from the IR; no slot or command is here.
#ifndef MT_PASSES_LAYERMODEL_H
#define MT_PASSES_LAYERMODEL_H
#include "passes/Passes.h"

namespace mt::passes {

/// An argument of @main that is a parameter. `owner` is the first layer that uses it (-1: none does); that layer's
/// weights hold it. It is trained if a layer gives it a gradient, which lies in `pack` at `packOffset`.
struct ModelParameter {
  std::string name;
  mlir::RankedTensorType type;
  int64_t owner = -1;
  int64_t pack = -1, packOffset = 0;
  bool isTrained() const { return pack >= 0; }
  /// The type of gradients and moments.
  mlir::RankedTensorType fullType() const {
    return nn::tensorOf(type.getShape(), mlir::Float32Type::get(type.getContext()));
  }
  /// Whether the master is the weight and a remainder: where the weight is bf16.
  bool isSplit() const { return type.getElementType().isBF16(); }
};

/// Gradients that lie together, in 32 bits: of parameters that get one from the same `layers` (ascending). Where these
/// are several, each gives a part; backward comes by the last of them first.
struct GradientPack {
  llvm::SmallVector<int64_t> parameters, layers;
  int64_t bytes = 0;
  bool isShared() const { return layers.size() > 1; }
  int64_t first() const { return layers.back(); }    ///< the layer whose part is the first
  int64_t complete() const { return layers.front(); } ///< the layer whose part is the last
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
  llvm::SmallVector<int64_t> packs;   ///< those that it gives gradients, or parts of them
  bool isLoss = false;
};

struct LayerModel {
  std::vector<ModelParameter> parameters;
  std::vector<GradientPack> packs;
  std::vector<ModelInput> inputs;
  std::vector<ModelValue> values;
  std::vector<Layer> layers;
  int64_t microBatch = 1; ///< rows of one template call
};

/// Whether a backward template reads an operand of its layer, and whether it gives that operand a gradient.
bool readsOperand(mlir::func::FuncOp backward, int64_t operand);
bool givesGradient(mlir::func::FuncOp backward, int64_t operand);
/// A number among the attributes of a template's argument or result, -1 if it has none.
int64_t attributeOf(mlir::DictionaryAttr attributes, llvm::StringRef name);

/// Reads @main; `rung` chooses among the templates that mt-differentiate made. Fails with a diagnostic.
mlir::FailureOr<LayerModel> readLayerModel(mlir::ModuleOp module, llvm::StringRef rung);

} // namespace mt::passes
#endif
