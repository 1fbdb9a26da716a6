// Stored tensors: which are numbers that the importer knows, which become constants, which arguments of the function.
#include "compiler/onnx/EvaluateShapes.h"
#include "compiler/onnx/GraphImporter.h"
#include "compiler/onnx/RecognizeConstants.h"
#include "compiler/onnx/ValueEvidence.h"

using namespace mlir;

namespace mt::onnx {
namespace {

/// Float tensors of Constant nodes of at most so many elements are literals; exporters store weights otherwise.
constexpr int64_t kLiteral = 16;

/// A single number that hides what it is put in place of, in a mask: whatever its name, nothing trains that.
bool hides(const TensorSource &source) {
  if (source.elements != 1 || !source.generator.kind.empty())
    return false;
  Result<HostTensor> value = readTensor(source);
  return value.ok() && value->realAt(0) <= nn::kVeryNegative;
}

} // namespace

void GraphImporter::importInitializers(const ::onnx::GraphProto &graph, Scope &scope) {
  for (const auto &tensor : graph.initializer())
    if (!scope.values.emplace(tensor.name(), valueOf(tensor, tensor.name(), false)).second)
      problems.push_back(fmt::format("initializer '{}' has the name of another initializer or input: every value must "
                                     "have one definition",
                                     tensor.name()));
  if (graph.sparse_initializer_size() > 0)
    problems.push_back("the model has sparse initializers, which are not supported: export it with dense weights");
}

// Whether nothing but its name says what a tensor is, and that says a variable of the model's.
bool GraphImporter::isVariable(const TensorSource &source) const {
  return origins.empty() && variableNames.contains(source.name) && !hides(source);
}

// An argument of the function; created when the first node needs it, so that what nobody uses never appears.
Value GraphImporter::argumentFor(TensorSource source) {
  for (const Candidate &candidate : stored)
    if (candidate.source.proto == source.proto)
      return candidate.argument;
  Type type = nn::tensorOf(source.dims, mlirType(builder.getContext(), source.type));
  BlockArgument argument = function.getBody().front().addArgument(type, locationOf(source.name));
  Origin origin = origins.contains(source.name) ? origins[source.name] : Origin();
  std::vector<Alias> aliases = moduleNames.contains(source.name) ? moduleNames[source.name] : std::vector<Alias>();
  const bool named = isVariable(source);
  stored.push_back({.source = std::move(source),
                    .origin = std::move(origin),
                    .argument = argument,
                    .aliases = std::move(aliases),
                    .isVariable = named});
  return argument;
}

// Indices, positions and masks: by their rule where they follow one, else as they are.
NodeValue GraphImporter::storedInteger(TensorSource source) {
  NodeValue value;
  value.make = [this, source = std::move(source)]() -> Value {
    Location location = locationOf(source.name);
    if (source.elements <= kEvidenceLimit)
      if (Result<HostTensor> tensor = readTensor(source)) {
        if (Value rule = recognizeConstant(builder, location, *tensor))
          return rule;
        if (source.elements <= nn::kConstantLimit)
          return makeConstant(builder, location, *tensor);
      }
    return argumentFor(source);
  };
  return value;
}

StoredNumbers GraphImporter::numbersOf(const TensorSource &source) {
  PackedType type = source.packed ? *source.packed : PackedType{8, source.type == DType::i8};
  auto bytes = [this, source]() -> Value {
    if (source.bytes.path.empty() && source.elements <= nn::kConstantLimit) // listed one by one
      if (Result<HostTensor> few = readTensor(source))
        return makeConstant(builder, locationOf(source.name), *few);
    return argumentFor(source);
  };
  return {bytes, type, source.packed ? source.packedDims : source.dims};
}

// Numbers of fewer than 8 bits: what does not take them packed gets them as bytes.
NodeValue GraphImporter::packedValue(const TensorSource &source) {
  NodeValue value;
  value.numbers = numbersOf(source);
  if (*elementCount(source.packedDims) <= kEvaluateInput)
    if (Result<HostTensor> known = readNumbers(source))
      value.known = std::move(*known);
  value.make = [this, source]() -> Value {
    Location location = locationOf(source.name);
    Type real = builder.getF32Type(), whole = mlirType(builder.getContext(), source.packed->wide());
    Value one = nn::splat(builder, location, nn::tensorOf({}, real), 1);
    Value numbers =
        nn::DequantizeOp::create(builder, location, nn::tensorOf(source.packedDims, real), argumentFor(source), one,
                                 Value(), source.packed->bits, source.packed->isSigned, 0, 0, 1, nullptr);
    return nn::castTo(builder, numbers, whole);
  };
  return value;
}

NodeValue GraphImporter::valueOf(const ::onnx::TensorProto &tensor, const std::string &name, bool isConstantNode) {
  NodeValue value;
  Result<TensorSource> source = locateTensor(tensor, file);
  if (!source) {
    problems.push_back(
        fmt::format("{} '{}': {}", isConstantNode ? "constant" : "initializer", name, source.status().message()));
    value.poisoned = true;
    return value;
  }
  source->name = name;
  source->ofNode = isConstantNode;
  if (source->packed)
    return packedValue(*source);
  if (source->type == DType::i8 || source->type == DType::u8)
    value.numbers = numbersOf(*source);
  bool real = isFloat(source->type), parameter = false;
  if (auto at = origins.find(name); at != origins.end())
    parameter = real && at->second.kind == Origin::Kind::parameter;
  parameter |= real && !isConstantNode && isVariable(*source);
  bool literal = real ? (source->dims.empty() || (isConstantNode && source->elements <= kLiteral)) && !parameter
                      : source->dims.size() <= 1 && source->elements <= kEvaluateInput;
  // Where the export tells its parameters, any other single number is part of a formula: a scale, an epsilon.
  bool single = real && source->elements == 1;
  literal |= single && !parameter && !origins.empty();
  if (real && isConstantNode && !literal && source->elements <= kEvidenceLimit)
    if (Result<HostTensor> values = readTensor(*source); values.ok() && isUniform(*values)) {
      value.known = HostTensor::splat(source->type, source->dims, values->realAt(0));
      return value;
    }
  bool few =
      real && source->dims.size() <= 1 && source->elements <= kLiteral; // may be scales, a region, values of pads
  if ((literal || single || few) && source->generator.kind != "normal") {
    Result<HostTensor> known = readTensor(*source);
    if (!known) {
      problems.push_back(fmt::format("initializer '{}': {}", name, known.status().message()));
      value.poisoned = true;
      return value;
    }
    value.known = std::move(*known);
    value.symbolic = !literal;
  }
  if (literal)
    return value;
  if (!real) {
    NodeValue integer = storedInteger(std::move(*source));
    integer.numbers = std::move(value.numbers);
    return integer;
  }
  // Made when it is used; where its value is also known, converters that need a number may still take that.
  value.make = [this, stored = std::move(*source)] { return argumentFor(stored); };
  return value;
}

} // namespace mt::onnx
