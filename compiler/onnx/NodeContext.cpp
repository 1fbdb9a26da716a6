#include "compiler/onnx/NodeContext.h"

using namespace mlir;

namespace mt::onnx {

Type mlirType(MLIRContext *context, DType type) {
  switch (type) {
  case DType::f32:
    return Float32Type::get(context);
  case DType::bf16:
    return BFloat16Type::get(context);
  case DType::f16:
    return Float16Type::get(context);
  case DType::f64:
    return Float64Type::get(context);
  case DType::i64:
    return IntegerType::get(context, 64);
  case DType::i32:
    return IntegerType::get(context, 32);
  case DType::i16:
    return IntegerType::get(context, 16);
  case DType::i8:
    return IntegerType::get(context, 8);
  case DType::u8:
    return IntegerType::get(context, 8, IntegerType::Unsigned);
  case DType::boolean:
    return IntegerType::get(context, 1);
  }
  return {};
}

DType dtypeOf(Type type) {
  if (type.isF32())
    return DType::f32;
  if (type.isBF16())
    return DType::bf16;
  if (type.isF16())
    return DType::f16;
  if (type.isF64())
    return DType::f64;
  switch (type.getIntOrFloatBitWidth()) {
  case 64:
    return DType::i64;
  case 32:
    return DType::i32;
  case 16:
    return DType::i16;
  case 1:
    return DType::boolean;
  default:
    return type.isUnsignedInteger() ? DType::u8 : DType::i8;
  }
}

Value makeConstant(OpBuilder &builder, Location location, const HostTensor &tensor) {
  Type element = mlirType(builder.getContext(), tensor.type());
  auto type = nn::tensorOf(tensor.dims(), element);
  SmallVector<Attribute> values;
  for (int64_t i = 0; i < tensor.stored(); ++i) {
    if (tensor.real())
      values.push_back(FloatAttr::get(element, tensor.realAt(i)));
    else
      values.push_back(IntegerAttr::get(element, APInt(element.getIntOrFloatBitWidth(),
                                                       static_cast<uint64_t>(tensor.intAt(i)), false, true)));
  }
  if (tensor.elements() == 0)
    values.clear();
  auto dense = DenseElementsAttr::get(type, values);
  return nn::ConstantOp::create(builder, location, dense).getResult();
}

//===-- inputs ----------------------------------------------------------------------------------------------===//

Value NodeContext::input(size_t index) {
  if (!has(index)) {
    (void)fail("its input {} is missing", index);
    return {};
  }
  NodeValue &value = *inputs[index];
  if (value.isSequence) {
    (void)fail("its input {} ('{}') is a sequence of tensors", index, node.input(static_cast<int>(index)));
    return {};
  }
  if (!value.value && value.make)
    value.value = value.make();
  if (!value.value && value.known)
    value.value = constant(*value.known);
  if (!value.value)
    (void)fail("its input {} ('{}') is not available", index, node.input(static_cast<int>(index)));
  return value.value;
}

const HostTensor *NodeContext::known(size_t index) const {
  return has(index) && inputs[index]->known ? &*inputs[index]->known : nullptr;
}

const std::vector<NodeValue> *NodeContext::sequence(size_t index) {
  if (has(index) && inputs[index]->isSequence)
    return &inputs[index]->sequence;
  (void)fail("its input {} must be a sequence whose parts are known when compiling", index);
  return nullptr;
}

std::optional<std::vector<int64_t>> NodeContext::integers(size_t index, const char *what) {
  const HostTensor *tensor = known(index);
  if (!tensor || tensor->real() || tensor->elements() > kEvaluateResult) {
    (void)fail("its {} (input {}, '{}') must be known when compiling, but depend on the model's data: export the model "
               "so that they follow from shapes or constants",
               what, index, has(index) ? node.input(static_cast<int>(index)) : "");
    return std::nullopt;
  }
  return tensor->toIntegers();
}

std::optional<std::vector<int64_t>> NodeContext::axes(size_t index, const char *attribute, int64_t rank) {
  std::optional<std::vector<int64_t>> axes;
  if (has(index)) {
    axes = integers(index, "axes");
    if (!axes)
      return std::nullopt;
  } else {
    axes = attributes.integers(attribute).value_or(std::vector<int64_t>());
  }
  for (int64_t &axis : *axes) {
    std::optional<int64_t> front = frontAxis(axis, rank);
    if (!front) {
      (void)fail("axis {} is out of range for rank {}", axis, rank);
      return std::nullopt;
    }
    axis = *front;
  }
  return axes;
}

std::optional<int64_t> NodeContext::axis(const char *name, int64_t otherwise, int64_t rank) {
  int64_t axis = attributes.integer(name, otherwise);
  std::optional<int64_t> front = frontAxis(axis, rank);
  if (!front)
    (void)fail("{} {} is out of range for rank {}", name, axis, rank);
  return front;
}

//===-- operations ------------------------------------------------------------------------------------------===//

bool NodeContext::checkSize(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || elementCount(Dims(tensor.getShape().begin(), tensor.getShape().end())))
    return true;
  (void)fail("its result has the shape {}: negative, or absurdly large",
             dimsText(Dims(tensor.getShape().begin(), tensor.getShape().end())));
  return false;
}

Operation *NodeContext::create(StringRef name, ArrayRef<Value> operands, ArrayRef<NamedAttribute> attrs,
                               ArrayRef<Type> types) {
  for (Type type : types)
    if (!checkSize(type))
      return nullptr;
  OperationState state(location, name);
  state.addOperands(operands);
  state.addAttributes(attrs);
  state.addTypes(types);
  return builder.create(state);
}

Value NodeContext::typed(StringRef name, Value operand, ArrayRef<int64_t> shape, Type element) {
  Operation *op = create(name, operand ? ArrayRef<Value>(operand) : ArrayRef<Value>(), {}, nn::tensorOf(shape, element));
  return op ? op->getResult(0) : Value();
}

Value NodeContext::concat(ArrayRef<Value> given, int64_t axis) {
  SmallVector<Value> kept; // parts without elements add nothing
  for (Value part : given) {
    if (!part)
      return {};
    bool fits = axis < static_cast<int64_t>(nn::shapeOf(part).size());
    if (!fits || nn::shapeOf(part)[static_cast<size_t>(axis)] != 0)
      kept.push_back(part);
  }
  ArrayRef<Value> parts = kept.empty() ? given : ArrayRef<Value>(kept);
  if (parts.size() == 1)
    return parts[0];
  SmallVector<int64_t> shape(nn::shapeOf(parts[0]));
  for (Value part : parts.drop_front()) {
    ArrayRef<int64_t> other = nn::shapeOf(part);
    bool fits = other.size() == shape.size() && getElementTypeOrSelf(part) == getElementTypeOrSelf(parts[0]);
    for (size_t d = 0; fits && d < shape.size(); ++d)
      fits = static_cast<int64_t>(d) == axis || other[d] == shape[d];
    if (!fits) {
      (void)fail("its inputs differ in type or in a dimension other than {}", axis);
      return {};
    }
    shape[static_cast<size_t>(axis)] += other[static_cast<size_t>(axis)];
  }
  Operation *op = create(nn::ConcatOp::getOperationName(), parts, intAttr("axis", axis),
                         nn::tensorOf(shape, getElementTypeOrSelf(parts[0])));
  return op ? op->getResult(0) : Value();
}

Value NodeContext::reshape(Value value, ArrayRef<int64_t> shape) {
  if (!value || nn::shapeOf(value) == shape)
    return value;
  Dims from(nn::shapeOf(value)), to(shape);
  if (elementCount(from) != elementCount(to)) {
    (void)fail("a tensor of shape {} cannot take the shape {}", dimsText(from), dimsText(to));
    return {};
  }
  return typed(nn::ReshapeOp::getOperationName(), value, shape, getElementTypeOrSelf(value));
}

Value NodeContext::transpose(Value value, ArrayRef<int64_t> permutation) {
  if (value && permutation.size() == nn::shapeOf(value).size() &&
      llvm::all_of(llvm::enumerate(permutation),
                   [](auto at) { return at.value() == static_cast<int64_t>(at.index()); }))
    return value;
  return emit<nn::TransposeOp>({value}, {intsAttr("permutation", permutation)});
}

Value NodeContext::broadcast(Value value, ArrayRef<int64_t> shape) {
  if (!value || nn::shapeOf(value) == shape)
    return value;
  Dims from(nn::shapeOf(value)), to(shape);
  if (broadcastDims(from, to) != std::optional<Dims>(to)) {
    (void)fail("a tensor of shape {} does not broadcast to {}", dimsText(from), dimsText(to));
    return {};
  }
  return typed(nn::BroadcastOp::getOperationName(), value, shape, getElementTypeOrSelf(value));
}

Value NodeContext::cast(Value value, Type element) {
  if (!value || getElementTypeOrSelf(value) == element)
    return value;
  return typed(nn::CastOp::getOperationName(), value, nn::shapeOf(value), element);
}

void NodeContext::toOneType(MutableArrayRef<Value> values) {
  const Value *real = llvm::find_if(values, [](Value value) { return isa<FloatType>(getElementTypeOrSelf(value)); });
  if (real == values.end())
    return;
  Type element = getElementTypeOrSelf(*real);
  for (Value &value : values)
    if (!isa<FloatType>(getElementTypeOrSelf(value)))
      value = cast(value, element);
}

Value NodeContext::iota(ArrayRef<int64_t> shape, Type element, int64_t dimension, double start, double step) {
  Operation *op = create(nn::IotaOp::getOperationName(), {},
                         {intAttr("dimension", dimension), realAttr("start", start), realAttr("step", step)},
                         nn::tensorOf(shape, element));
  return op ? op->getResult(0) : Value();
}

Value NodeContext::slice(Value value, int64_t axis, int64_t start, int64_t size, int64_t step) {
  if (!value)
    return {};
  SmallVector<int64_t> starts(nn::shapeOf(value).size(), 0), sizes(nn::shapeOf(value)), steps(sizes.size(), 1);
  auto at = static_cast<size_t>(axis);
  if (start == 0 && size == sizes[at] && step == 1)
    return value;
  starts[at] = start;
  sizes[at] = size;
  steps[at] = step;
  return emit<nn::SliceOp>({value}, {intsAttr("starts", starts), intsAttr("sizes", sizes), intsAttr("strides", steps)});
}

Value NodeContext::reduce(Value value, StringRef kind, ArrayRef<int64_t> axes, bool keepDims, bool first) {
  const NamedAttribute kindAttr = textAttr("kind", kind), axesAttr = intsAttr("axes", axes),
                       kept = boolAttr("keepDims", keepDims);
  return first ? emit<nn::ReduceOp>({value}, {kindAttr, axesAttr, kept, boolAttr("first", true)})
               : emit<nn::ReduceOp>({value}, {kindAttr, axesAttr, kept});
}

Value NodeContext::compare(Value lhs, Value rhs, StringRef predicate) {
  return emit<nn::CompareOp>({lhs, rhs}, {textAttr("predicate", predicate)});
}

Value NodeContext::scalar(Value like, double value) {
  if (!like)
    return {};
  return constant(HostTensor::splat(dtypeOf(getElementTypeOrSelf(like)), {}, value));
}

NamedAttribute NodeContext::intAttr(StringRef name, int64_t value) {
  return builder.getNamedAttr(name, builder.getI64IntegerAttr(value));
}
NamedAttribute NodeContext::realAttr(StringRef name, double value) {
  return builder.getNamedAttr(name, builder.getF64FloatAttr(value));
}
NamedAttribute NodeContext::boolAttr(StringRef name, bool value) {
  return builder.getNamedAttr(name, builder.getBoolAttr(value));
}
NamedAttribute NodeContext::textAttr(StringRef name, StringRef value) {
  return builder.getNamedAttr(name, builder.getStringAttr(value));
}
NamedAttribute NodeContext::intsAttr(StringRef name, ArrayRef<int64_t> values) {
  return builder.getNamedAttr(name, builder.getDenseI64ArrayAttr(values));
}

//===-- results ---------------------------------------------------------------------------------------------===//

LogicalResult NodeContext::result(size_t index, Value value) {
  if (!value)
    return reported ? failure() : fail("it could not be converted");
  if (index < results.size())
    results[index].value = value;
  return success();
}

void NodeContext::knownResult(size_t index, HostTensor tensor, bool symbolic) {
  results[index].known = std::move(tensor);
  results[index].symbolic = symbolic;
}

void NodeContext::report(const std::string &message) {
  // What the values of a guess would have been may be all that is wrong here.
  auto isUnknown = [](const NodeValue *input) {
    return input && input->isGuess && input->value && !nn::isReal(input->value);
  };
  if (!reported && llvm::none_of(inputs, isUnknown))
    problems.push_back(nodeText(node) + ": " + message);
  reported = true;
}

} // namespace mt::onnx
