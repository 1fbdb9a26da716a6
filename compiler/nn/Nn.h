// The nn dialect in C++: its operations, and the bookkeeping of reverse-mode differentiation that their gradients
// use. Passes include this header; nothing here knows about layers, schedules or devices.
#ifndef MT_COMPILER_NN_NN_H
#define MT_COMPILER_NN_NN_H
#include "compiler/nn/Rows.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mt::nn {

/// The gradient accumulated so far for each value, and the set of values whose gradient is wanted at all.
class Gradients {
public:
  /// Null if no gradient has reached `value`.
  mlir::Value lookup(mlir::Value value) const { return gradients.lookup(value); }
  /// Adds `gradient`, of the type of `value` or another floating-point type, if the gradient of `value` is wanted.
  void add(mlir::OpBuilder &builder, mlir::Value value, mlir::Value gradient);
  bool wants(mlir::Value value) const { return value && wanted.contains(value); }
  void want(mlir::Value value) { wanted.insert(value); }

private:
  llvm::DenseMap<mlir::Value, mlir::Value> gradients;
  llvm::DenseSet<mlir::Value> wanted;
};

/// What an operation computes in where activations are bf16 (PrecisionOpInterface): the type that its operands join to,
/// bf16, 32 bits, or whatever an operand comes in; `exact` is that too, but asks for 32 bits of a parameter that nothing
/// else uses: the rounding of a gain near one is the error of every activation.
enum class Precision { joined, narrow, full, any, exact };

/// Of operations that lose too much in bf16: operands and results have 32 bits.
template <typename Op> class FullPrecision : public mlir::OpTrait::TraitBase<Op, FullPrecision> {};
/// Of operations that only move elements.
template <typename Op> class Movement : public mlir::OpTrait::TraitBase<Op, Movement> {};
/// Its gradient is zero wherever it has one, or the model wants none: what reaches it ends there.
template <typename Op> class Flat : public mlir::OpTrait::TraitBase<Op, Flat> {};

/// Of operations each element of whose results depends on the same element of the operands, broadcast.
template <typename Op> class Elementwise : public mlir::OpTrait::TraitBase<Op, Elementwise> {};

/// Names of the attributes of the arguments and results of a model's function (NnDialect.td). kLossAttr: of a module,
/// the kind; of a layer's function, that it gives the loss.
inline constexpr llvm::StringLiteral kInputAttr = "nn.input", kParameterAttr = "nn.parameter",
                                     kTrainableAttr = "nn.trainable", kBufferAttr = "nn.buffer",
                                     kLabelsAttr = "nn.labels", kScalarsAttr = "nn.scalars", kOutputAttr = "nn.output",
                                     kVocabularyAttr = "nn.vocabulary", kLossAttr = "nn.loss", kNodeAttr = "nn.node",
                                     kAgainAttr = "nn.again", kIgnoredAttr = "nn.ignored", kTargetsAttr = "nn.targets",
                                     kRowsAttr = "nn.rows";
/// Of a module, by mt-split-batch: why its batch cannot be split; every row counts in its loss, also one whose labels
/// do not; its loss does not divide by what data say. Of a call: its results add up over a step.
inline constexpr llvm::StringLiteral kMixedAttr = "nn.mixed", kEveryRowAttr = "nn.every_row",
                                     kLossOfRowsAttr = "nn.loss_of_rows", kStepSumsAttr = "nn.step_sums";
/// Of an operation that puts the batch of an input, dimension 0 of its data, where the model has it.
inline constexpr llvm::StringLiteral kMovesBatchAttr = "nn.moves_batch";
/// The function of a model.
inline constexpr llvm::StringLiteral kMainName = "main";
/// No constant but a splat has more elements than this.
inline constexpr int64_t kConstantLimit = 64 * 1024;
/// What is so small hides what it is added to, before a softmax.
inline constexpr double kVeryNegative = -1e4;

/// The shape of `type`, which is a statically shaped tensor.
llvm::ArrayRef<int64_t> shapeOf(mlir::Value value);
mlir::RankedTensorType tensorOf(llvm::ArrayRef<int64_t> shape, mlir::Type element);
/// Whether its elements are floating-point numbers.
bool isReal(mlir::Value value);
/// NumPy's broadcast of two shapes; none if they do not agree.
std::optional<llvm::SmallVector<int64_t>> broadcastShapes(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b);
/// A splat constant of `value`, converted to the element type of `type`.
mlir::Value splat(mlir::OpBuilder &builder, mlir::Location location, mlir::RankedTensorType type, double value);
/// A rank-0 splat with the element type of `like`.
mlir::Value scalarLike(mlir::OpBuilder &builder, mlir::Value like, double value);
/// `value` with the element type `element`, by a cast where it has another.
mlir::Value castTo(mlir::OpBuilder &builder, mlir::Value value, mlir::Type element);
/// The number all elements of a constant share; none if `tensor` is no splat constant, or of a whole number that no
/// double is.
std::optional<double> splatValue(mlir::Value tensor);
/// `value` under another shape of as many elements; `value` itself if it has that shape.
mlir::Value reshapeTo(mlir::OpBuilder &builder, mlir::Value value, llvm::ArrayRef<int64_t> shape);
/// `value` with its last two dimensions exchanged.
mlir::Value swapLastTwo(mlir::OpBuilder &builder, mlir::Value value);
/// The model's node that a location names; empty if it names none.
std::string nodeOf(mlir::Location location);
/// Sums `value` down to `shape`, from which it was broadcast.
mlir::Value sumTo(mlir::OpBuilder &builder, mlir::Value value, llvm::ArrayRef<int64_t> shape);

} // namespace mt::nn

#include "compiler/nn/NnInterfaces.h.inc"

#include "compiler/nn/NnDialect.h.inc"
#define GET_OP_CLASSES
#include "compiler/nn/NnOps.h.inc"
#endif
