// What a converter sees of the node it converts: inputs as nn values or as known tensors, attributes, and checked ways
// to create nn operations. Every failure becomes one message that names the node; converters just return on null.
#ifndef MT_COMPILER_ONNX_NODECONTEXT_H
#define MT_COMPILER_ONNX_NODECONTEXT_H

#include "compiler/nn/Nn.h"
#include "compiler/onnx/EvaluateShapes.h"
#include "compiler/onnx/GraphOrder.h"
#include "compiler/onnx/HostTensor.h"
#include "compiler/onnx/NodeAttributes.h"
#include "compiler/onnx/TensorSource.h"

#include "mlir/IR/Diagnostics.h"

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <numeric>

namespace mt::onnx {

inline int64_t productOf(llvm::ArrayRef<int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
}

/// Stored whole numbers of at most 8 bits, as nn.dequantize takes them: they stay as they lie until a layer computes
/// with them.
struct StoredNumbers {
  std::function<mlir::Value()> bytes;
  PackedType type{8, false};
  Dims dims; ///< of the numbers
};

/// What a mask selects, as many as the data say (ConvertSelections.cpp). No tensor has such a size: `rows` have an entry
/// for every place of the mask, of which those count where it holds.
struct Selection {
  enum Kind : uint8_t {
    rows,    ///< beside a value: its dimension `dim` has an entry for each place
    sizes,   ///< beside a known tensor: sizes of such values
    entries, ///< in place of a value: the first of `from`, as many as are selected
    one,     ///< in place of a value: `from`, as often as the data say
  } kind = rows;
  mlir::Value mask;         ///< in the places' order, without what it only repeats along trailing dimensions
  int64_t run = 1;          ///< how many places that follow each other share a number of the mask
  int64_t tiles = 1;        ///< of rows: how many times they have all of that, one behind the other
  size_t dim = 0;           ///< of rows
  mlir::Value whole;        ///< the mask as NonZero took it
  std::vector<Dims> columns; ///< rows of whole numbers: by how much each changes along the dimensions of `whole`
  mlir::Value from;         ///< of entries and one
  size_t part = 0, parts = 0; ///< of rows that are one of so many runs of a tensor, by lengths that data say
  std::shared_ptr<const Selection> of; ///< of such runs, and of entries, of what is itself rows: those
  HostTensor otherwise;       ///< of sizes: what they were if the mask held at another number of places
};

/// A value of the ONNX graph on its way to nn.
struct NodeValue {
  mlir::Value value;               ///< null until an operation needs it
  std::optional<HostTensor> known; ///< small or splat tensors that are known when compiling
  bool symbolic = false;           ///< known, but what is computed from it must stay operations (positions)
  bool poisoned = false;           ///< could not be converted; the reason has been reported
  bool isSequence = false;
  std::vector<NodeValue> sequence; ///< of a value of ONNX's sequence type
  bool isAbsent = false;           ///< an optional value without an element
  bool isGuess = false; ///< stands for what could not be converted, or follows from it: only its type is right
  std::optional<StoredNumbers> numbers; ///< of an initializer
  std::optional<Selection> selection;   ///< where its size depends on data
  std::function<mlir::Value()> make;    ///< creates `value` on first use, where there is no `known`
};

/// The nn element type of `type`.
mlir::Type mlirType(mlir::MLIRContext *context, DType type);
DType dtypeOf(mlir::Type type);
/// `tensor` as an nn.constant; at most nn::kConstantLimit stored elements.
mlir::Value makeConstant(mlir::OpBuilder &builder, mlir::Location location, const HostTensor &tensor);

/// An operand that may be left out.
struct Operand {
  Operand(mlir::Value value) : value(value) {}
  static Operand absent() {
    Operand operand{mlir::Value()};
    operand.leftOut = true;
    return operand;
  }
  mlir::Value value;
  bool leftOut = false;
};

class NodeContext {
public:
  NodeContext(mlir::OpBuilder &builder, mlir::Location location, const ::onnx::NodeProto &node,
              const NodeAttributes &attributes, int64_t opset, std::vector<NodeValue *> inputs, const ModelFile &file,
              Problems &problems)
      : builder(builder), location(location), node(node), attributes(attributes), opset(opset), file(file),
        inputs(std::move(inputs)), problems(problems), results(static_cast<size_t>(node.output_size())) {}

  mlir::OpBuilder &builder;
  const mlir::Location location;
  const ::onnx::NodeProto &node;
  const NodeAttributes &attributes;
  const int64_t opset; ///< version of the node's operator set
  const ModelFile &file;

  //===-- inputs --------------------------------------------------------------------------------------------===//
  size_t inputCount() const { return inputs.size(); }
  bool has(size_t index) const { return index < inputs.size() && inputs[index]; }
  /// Null, with a problem, where the input is missing.
  mlir::Value input(size_t index);
  /// Null where the input is absent or not known when compiling.
  const HostTensor *known(size_t index) const;
  /// Null where the input is no initializer of whole numbers of at most 8 bits.
  const StoredNumbers *numbers(size_t index) const {
    return has(index) && inputs[index]->numbers ? &*inputs[index]->numbers : nullptr;
  }
  /// Whether what is computed from the input must stay operations, though it is known.
  bool isSymbolic(size_t index) const { return has(index) && inputs[index]->symbolic; }
  /// Whatever input `index` is, which must be there.
  const NodeValue &given(size_t index) const { return *inputs[index]; }
  /// The first inputs, at most so many; null where they are left out.
  std::vector<NodeValue *> givenInputs(size_t most) const {
    return {inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(std::min(most, inputs.size()))};
  }
  /// Says that input `index` holds statistics of data, or scales that follow from them: no weight, however it is used.
  void isStatistic(size_t index) { statisticInputs.push_back(index); }
  /// Says that input `index` is a statistic that every step moves.
  void isRunning(size_t index) { runningInputs.push_back(index); }
  const std::vector<size_t> &running() const { return runningInputs; }
  const std::vector<size_t> &statistics() const { return statisticInputs; }
  /// The same node with other inputs, null where they are left out, and other attributes; these must outlive it.
  NodeContext with(std::vector<NodeValue *> others, const NodeAttributes &otherwise) const {
    return with(std::move(others), otherwise, opset);
  }
  /// The same, as a node of operator set `version`.
  NodeContext with(std::vector<NodeValue *> others, const NodeAttributes &otherwise, int64_t version) const {
    return {builder, location, node, otherwise, version, std::move(others), file, problems};
  }
  /// The sequence that is input `index`; null, with a problem, where it is none.
  const std::vector<NodeValue> *sequence(size_t index);
  /// Integers that must be known when compiling; none, with a problem that says `what` they are, where they are not.
  std::optional<std::vector<int64_t>> integers(size_t index, const char *what);
  /// Axes from input `index` or, in older opsets, the attribute; counted from the front. An empty list if absent.
  std::optional<std::vector<int64_t>> axes(size_t index, const char *attribute, int64_t rank);
  /// Attribute `name` as an axis counted from the front.
  std::optional<int64_t> axis(const char *name, int64_t otherwise, int64_t rank);

  //===-- operations; null operands give null results without another message -------------------------------===//
  template <typename Op>
  mlir::Operation *emitOp(std::initializer_list<Operand> operands, std::initializer_list<mlir::NamedAttribute> attrs = {});
  template <typename Op>
  mlir::Value emit(std::initializer_list<Operand> operands, std::initializer_list<mlir::NamedAttribute> attrs = {}) {
    mlir::Operation *op = emitOp<Op>(operands, attrs);
    return op ? op->getResult(0) : mlir::Value();
  }
  /// Of an operation whose result has the type that it is given.
  template <typename Op>
  mlir::Value emitAs(mlir::Type type, std::initializer_list<mlir::Value> operands,
                     llvm::ArrayRef<mlir::NamedAttribute> attrs) {
    for (mlir::Value operand : operands)
      if (!operand)
        return {};
    mlir::Operation *op = create(Op::getOperationName(), llvm::ArrayRef<mlir::Value>(operands), attrs, type);
    return op ? op->getResult(0) : mlir::Value();
  }
  mlir::Value concat(llvm::ArrayRef<mlir::Value> parts, int64_t axis);
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value transpose(mlir::Value value, llvm::ArrayRef<int64_t> permutation);
  mlir::Value broadcast(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value cast(mlir::Value value, mlir::Type element);
  /// Integers beside floats become such floats, as in PyTorch, whose exporter leaves them be; the standard has one
  /// type.
  void toOneType(llvm::MutableArrayRef<mlir::Value> values);
  mlir::Value iota(llvm::ArrayRef<int64_t> shape, mlir::Type element, int64_t dimension, double start, double step);
  mlir::Value slice(mlir::Value value, int64_t axis, int64_t start, int64_t size, int64_t step = 1);
  mlir::Value reduce(mlir::Value value, llvm::StringRef kind, llvm::ArrayRef<int64_t> axes, bool keepDims,
                     bool first = false);
  mlir::Value compare(mlir::Value lhs, mlir::Value rhs, llvm::StringRef predicate);
  mlir::Value constant(const HostTensor &tensor) { return makeConstant(builder, location, tensor); }
  /// A rank-0 constant of the element type of `like`.
  mlir::Value scalar(mlir::Value like, double value);
  mlir::Value add(mlir::Value a, mlir::Value b) { return emit<nn::AddOp>({a, b}); }
  mlir::Value sub(mlir::Value a, mlir::Value b) { return emit<nn::SubOp>({a, b}); }
  mlir::Value mul(mlir::Value a, mlir::Value b) { return emit<nn::MulOp>({a, b}); }
  mlir::Value div(mlir::Value a, mlir::Value b) { return emit<nn::DivOp>({a, b}); }

  mlir::NamedAttribute intAttr(llvm::StringRef name, int64_t value);
  mlir::NamedAttribute realAttr(llvm::StringRef name, double value);
  mlir::NamedAttribute boolAttr(llvm::StringRef name, bool value);
  mlir::NamedAttribute textAttr(llvm::StringRef name, llvm::StringRef value);
  mlir::NamedAttribute intsAttr(llvm::StringRef name, llvm::ArrayRef<int64_t> values);

  //===-- results -------------------------------------------------------------------------------------------===//
  size_t outputCount() const { return results.size(); }
  bool wantsOutput(size_t index) const {
    return index < results.size() && !node.output(static_cast<int>(index)).empty();
  }
  /// Sets output `index`; fails where `value` is null, which has been reported.
  llvm::LogicalResult result(size_t index, mlir::Value value);
  llvm::LogicalResult result(mlir::Value value) { return result(0, value); }
  void result(size_t index, NodeValue value) { results[index] = std::move(value); }
  /// An output that is known when compiling.
  void knownResult(size_t index, HostTensor tensor, bool symbolic = false);
  std::vector<NodeValue> takeResults() { return std::move(results); }

  /// Reports a problem of this node; the first one only.
  template <typename... Args> llvm::LogicalResult fail(fmt::format_string<Args...> format, Args &&...args) {
    report(fmt::format(format, std::forward<Args>(args)...));
    return llvm::failure();
  }
  bool failed() const { return reported; }
  /// Fails as the same node with other inputs did.
  llvm::LogicalResult failAs(const NodeContext &other) {
    reported |= other.reported;
    return llvm::failure();
  }

private:
  void report(const std::string &message);
  mlir::Operation *create(llvm::StringRef name, llvm::ArrayRef<mlir::Value> operands,
                          llvm::ArrayRef<mlir::NamedAttribute> attrs, llvm::ArrayRef<mlir::Type> types);
  bool checkSize(mlir::Type type);
  mlir::Value typed(llvm::StringRef name, mlir::Value operand, llvm::ArrayRef<int64_t> shape, mlir::Type element);

  std::vector<NodeValue *> inputs;
  Problems &problems;
  std::vector<NodeValue> results;
  std::vector<size_t> statisticInputs, runningInputs;
  bool reported = false;
};

// Types are inferred before the operation is created, so that a model's mistake is a message and not an abort.
template <typename Op>
mlir::Operation *NodeContext::emitOp(std::initializer_list<Operand> operands,
                                     std::initializer_list<mlir::NamedAttribute> attrs) {
  llvm::SmallVector<mlir::Value> values;
  llvm::SmallVector<int32_t> segments;
  for (const Operand &operand : operands) {
    if (!operand.value && !operand.leftOut)
      return nullptr;
    segments.push_back(operand.leftOut ? 0 : 1);
    if (!operand.leftOut)
      values.push_back(operand.value);
  }
  llvm::SmallVector<mlir::NamedAttribute> all(attrs);
  if constexpr (Op::template hasTrait<mlir::OpTrait::AttrSizedOperandSegments>())
    all.push_back(builder.getNamedAttr("operandSegmentSizes", builder.getDenseI32ArrayAttr(segments)));
  std::string reason;
  mlir::ScopedDiagnosticHandler capture(builder.getContext(), [&](mlir::Diagnostic &diagnostic) {
    reason = diagnostic.str();
    return llvm::success();
  });
  llvm::SmallVector<mlir::Type> types;
  mlir::DictionaryAttr dictionary = builder.getDictionaryAttr(all);
  typename Op::Properties properties{};
  llvm::LogicalResult valid = llvm::success();
  if constexpr (!std::is_same_v<typename Op::Properties, mlir::EmptyProperties>)
    valid = Op::setPropertiesFromAttr(properties, dictionary, [&] { return mlir::emitError(location); });
  if (succeeded(valid))
    valid = Op::inferReturnTypes(builder.getContext(), location, values, dictionary, &properties, {}, types);
  if (llvm::failed(valid)) {
    report(reason.empty() ? "its operands do not fit together" : reason);
    return nullptr;
  }
  return create(Op::getOperationName(), values, all, types);
}

} // namespace mt::onnx
#endif
