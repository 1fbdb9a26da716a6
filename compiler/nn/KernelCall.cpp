// The correspondence of KernelCall.h.
#include "compiler/nn/KernelCall.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace mt::nn {
namespace {
kernels::DType dtypeOf(Type element) {
  if (element.isF32())
    return kernels::DType::f32;
  if (element.isBF16())
    return kernels::DType::bf16;
  if (element.isF16())
    return kernels::DType::f16;
  if (element.isF64())
    return kernels::DType::f64;
  switch (element.getIntOrFloatBitWidth()) {
  case 1:
    return kernels::DType::boolean;
  case 8:
    return element.isUnsignedInteger() ? kernels::DType::u8 : kernels::DType::i8;
  case 16:
    return kernels::DType::i16;
  case 32:
    return kernels::DType::i32;
  default:
    return kernels::DType::i64;
  }
}

/// Place of the one optional operand of operations that have no segment sizes.
std::optional<unsigned> optionalOperand(Operation *op) {
  return llvm::TypeSwitch<Operation *, std::optional<unsigned>>(op)
      .Case<MatmulOp, MatmulGeluOp, ConvOp, DequantizeOp, LinearCrossEntropyOp, LinearCrossEntropyGradOp>(
          [](auto) { return 2; })
      .Case<RandomOp>([](auto) { return 0; })
      .Case<RmsNormOp, PoolGradOp, DropoutOp>([](auto) { return 1; })
      .Case<MatmulAddOp>([](auto) { return 3; })
      .Default([](Operation *) { return std::nullopt; });
}

/// Number of operands when the optional one is there.
unsigned fullOperands(Operation *op) {
  return llvm::TypeSwitch<Operation *, unsigned>(op)
      .Case<MatmulOp, MatmulGeluOp, ConvOp, DequantizeOp, RandomOp>([](auto) { return 3; })
      .Case<LinearCrossEntropyOp, LinearCrossEntropyGradOp>([](auto) { return 5; })
      .Case<RmsNormOp, PoolGradOp>([](auto) { return 2; })
      .Case<MatmulAddOp, DropoutOp>([](auto) { return 4; })
      .Default([](Operation *op) { return op->getNumOperands(); });
}

SmallVector<Value> operandsWithGaps(Operation *op) {
  SmallVector<Value> values;
  if (auto segments = op->getAttrOfType<DenseI32ArrayAttr>("operandSegmentSizes")) {
    unsigned next = 0;
    for (int32_t size : segments.asArrayRef())
      values.push_back(size ? op->getOperand(next++) : Value());
    return values;
  }
  values.append(op->operand_begin(), op->operand_end());
  if (auto place = optionalOperand(op); place && op->getNumOperands() < fullOperands(op))
    values.insert(values.begin() + *place, Value());
  return values;
}

SmallVector<Value> resultsWithGaps(Operation *op) {
  SmallVector<Value> values;
  if (auto segments = op->getAttrOfType<DenseI32ArrayAttr>("resultSegmentSizes")) {
    unsigned next = 0;
    for (int32_t size : segments.asArrayRef())
      values.push_back(size ? op->getResult(next++) : Value());
    return values;
  }
  values.append(op->result_begin(), op->result_end());
  if (isa<LinearCrossEntropyGradOp, RecurrenceGradOp>(op) && values.size() == 3)
    values.push_back(Value());
  if (isa<RecurrenceOp>(op) && values.size() == 1)
    values.push_back(Value());
  return values;
}

std::optional<kernels::Attribute> kernelAttribute(Attribute attribute) {
  return llvm::TypeSwitch<Attribute, std::optional<kernels::Attribute>>(attribute)
      .Case<BoolAttr>([](BoolAttr a) { return kernels::Attribute(int64_t(a.getValue())); })
      .Case<IntegerAttr>([](IntegerAttr a) { return kernels::Attribute(a.getValue().getSExtValue()); })
      .Case<FloatAttr>([](FloatAttr a) { return kernels::Attribute(a.getValueAsDouble()); })
      .Case<StringAttr>([](StringAttr a) { return kernels::Attribute(a.getValue().str()); })
      .Case<DenseI64ArrayAttr>([](DenseI64ArrayAttr a) { return kernels::Attribute(a.asArrayRef().vec()); })
      .Case<DenseF64ArrayAttr>([](DenseF64ArrayAttr a) { return kernels::Attribute(a.asArrayRef().vec()); })
      .Case<DenseElementsAttr>([](DenseElementsAttr a) -> std::optional<kernels::Attribute> {
        std::vector<double> reals;
        std::vector<int64_t> integers;
        bool real = isa<FloatType>(a.getElementType());
        int64_t count = a.isSplat() ? 1 : a.getNumElements();
        if (real)
          for (const APFloat &value : llvm::make_range(a.value_begin<APFloat>(), a.value_begin<APFloat>() + count))
            reals.push_back(value.convertToDouble());
        else
          for (const APInt &value : llvm::make_range(a.value_begin<APInt>(), a.value_begin<APInt>() + count))
            integers.push_back(value.getBitWidth() == 1 ? value.getZExtValue() : value.getSExtValue());
        return real ? kernels::Attribute(reals) : kernels::Attribute(integers);
      })
      .Default([](Attribute) { return std::nullopt; });
}
} // namespace

kernels::OperandType operandType(Type type, kernels::Effect effect) {
  auto tensor = cast<RankedTensorType>(type);
  return {dtypeOf(tensor.getElementType()), tensor.getShape().vec(), effect, true};
}

RankedTensorType tensorTypeOf(MLIRContext *context, kernels::DType type, ArrayRef<int64_t> dims) {
  Builder builder(context);
  auto element = [&]() -> Type {
    switch (type) {
    case kernels::DType::f32:
      return builder.getF32Type();
    case kernels::DType::bf16:
      return builder.getBF16Type();
    case kernels::DType::f16:
      return builder.getF16Type();
    case kernels::DType::f64:
      return builder.getF64Type();
    case kernels::DType::i64:
      return builder.getIntegerType(64);
    case kernels::DType::i32:
      return builder.getIntegerType(32);
    case kernels::DType::i16:
      return builder.getIntegerType(16);
    case kernels::DType::i8:
      return builder.getIntegerType(8);
    case kernels::DType::u8:
      return builder.getIntegerType(8, /*isSigned=*/false);
    case kernels::DType::boolean:
      return builder.getI1Type();
    }
    return {};
  };
  return tensorOf(dims, element());
}

kernels::Attributes kernelAttributes(DictionaryAttr attributes) {
  kernels::Attributes converted;
  for (NamedAttribute attribute : attributes) {
    StringRef name = attribute.getName();
    if (name == "operandSegmentSizes" || name == "resultSegmentSizes" || name.contains('.'))
      continue;
    if (auto value = kernelAttribute(attribute.getValue()))
      converted[name.str()] = *value;
  }
  return converted;
}

kernels::Backend backendOf(ModuleOp module) {
  auto target = module->getAttrOfType<DictionaryAttr>(kTargetAttr);
  auto device = target ? target.getAs<StringAttr>("device") : StringAttr();
  return device && device.getValue() == "cuda" ? kernels::Backend::cuda : kernels::Backend::cpu;
}

bool mayRunOnGpu(ModuleOp module) {
  auto target = module->getAttrOfType<DictionaryAttr>(kTargetAttr);
  auto unified = target ? target.getAs<BoolAttr>("unified") : BoolAttr();
  return unified && !unified.getValue();
}

bool hasKernel(Operation *op) { return !isa<ReshapeOp, DetachOp>(op); }

KernelCall kernelCallOf(Operation *op) {
  KernelCall call;
  call.signature.kernel = op->getName().stripDialect().str();
  call.signature.attributes = kernelAttributes(op->getAttrDictionary());
  for (Value value : operandsWithGaps(op)) {
    call.values.push_back(value);
    kernels::OperandType absent{kernels::DType::f32, {}, kernels::Effect::read, false};
    call.signature.operands.push_back(value ? operandType(value.getType(), kernels::Effect::read) : absent);
  }
  for (Value value : resultsWithGaps(op)) {
    bool used = value && !value.use_empty();
    call.values.push_back(used ? value : Value());
    kernels::OperandType absent{kernels::DType::f32, {}, kernels::Effect::write, false};
    call.signature.operands.push_back(value ? operandType(value.getType(), kernels::Effect::write) : absent);
    call.signature.operands.back().present = used;
  }
  return call;
}

Value viewedBy(Value value) {
  while (auto view = value.getDefiningOp<ReshapeOp>())
    value = view.getOperand();
  return value;
}

} // namespace mt::nn
