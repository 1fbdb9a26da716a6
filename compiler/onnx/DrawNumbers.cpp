#include "compiler/onnx/DrawNumbers.h"

#include "kernels/Types.h"

using namespace mlir;

namespace mt::onnx {
namespace {

constexpr StringLiteral kIdle = "nn.idle_dropout";

class Numbering {
public:
  Numbering(func::FuncOp function, std::vector<ImportedParameter> &parameters)
      : function(function), parameters(parameters), builder(function.getContext()) {}

  void giveScalars(nn::RunningStatisticOp op) { replace(op.getScalarsMutable(), scalarsOf()); }

  template <typename Op> void number(Op op) {
    replace(op.getScalarsMutable(), scalarsOf());
    replace(op.getNodeMutable(), numberOf(op.getNode()));
  }

private:
  func::FuncOp function;
  std::vector<ImportedParameter> &parameters;
  Builder builder;
  Value scalars;
  Value last,
      lastNumber; ///< what stood for the number of the node before, and that; a node's operations are neighbours
  int64_t count = 0;

  /// Puts `value` in the place of what stood for it.
  static void replace(OpOperand &operand, Value value) {
    Operation *before = operand.get().getDefiningOp();
    operand.set(value);
    if (before && before->use_empty())
      before->erase();
  }

  Value argument(Type type, ArrayRef<NamedAttribute> attributes) {
    unsigned index = function.getNumArguments();
    (void)function.insertArgument(index, type, builder.getDictionaryAttr(attributes), function.getLoc());
    return function.getArgument(index);
  }

  Value scalarsOf() {
    if (!scalars)
      scalars = argument(nn::tensorOf({kernels::Scalars::kCount}, builder.getF64Type()),
                         builder.getNamedAttr(nn::kScalarsAttr, builder.getUnitAttr()));
    return scalars;
  }

  Value numberOf(Value before) {
    if (before == last)
      return lastNumber;
    ImportedParameter parameter;
    parameter.name = fmt::format("mt.draw.{}", count);
    parameter.storedType = DType::i64;
    parameter.generator = "constant";
    parameter.value = static_cast<double>(count++);
    lastNumber = argument(nn::tensorOf({}, builder.getI64Type()),
                          {builder.getNamedAttr(nn::kParameterAttr, builder.getStringAttr(parameter.name)),
                           builder.getNamedAttr(nn::kBufferAttr, builder.getUnitAttr())});
    parameters.push_back(std::move(parameter));
    last = before;
    return lastNumber;
  }
};

} // namespace

void numberDraws(func::FuncOp function, std::vector<ImportedParameter> &parameters) {
  Numbering numbering(function, parameters);
  for (Operation &op : llvm::make_early_inc_range(function.front()))
    if (auto dropout = dyn_cast<nn::DropoutOp>(op))
      numbering.number(dropout);
    else if (auto random = dyn_cast<nn::RandomOp>(op))
      numbering.number(random);
    else if (auto statistic = dyn_cast<nn::RunningStatisticOp>(op))
      numbering.giveScalars(statistic);
}

void noteIdleDropout(NodeContext &node) {
  Operation *function = node.builder.getInsertionBlock()->getParentOp();
  SmallVector<Attribute> names;
  if (auto known = function->getAttrOfType<ArrayAttr>(kIdle))
    names.append(known.begin(), known.end());
  names.push_back(node.builder.getStringAttr(nn::nodeOf(node.location)));
  function->setAttr(kIdle, node.builder.getArrayAttr(names));
}

std::string warnIdleDropout(func::FuncOp function) {
  auto idle = dyn_cast_if_present<ArrayAttr>(function->removeAttr(kIdle));
  bool trains = !function.front().getOps<nn::DropoutOp>().empty();
  if (!idle || !trains)
    return "";
  return fmt::format(
      "{} {} ('{}'{}) {} written for inference and drop{} nothing, beside others that train. torch.onnx.export writes "
      "that of scaled_dot_product_attention so: to train with it export attention written out (Hugging Face: "
      "attn_implementation=\"eager\")",
      idle.size(), idle.size() == 1 ? "Dropout node" : "Dropout nodes", cast<StringAttr>(idle[0]).str(),
      idle.size() == 1 ? "" : ", ...", idle.size() == 1 ? "is" : "are", idle.size() == 1 ? "s" : "");
}

} // namespace mt::onnx
