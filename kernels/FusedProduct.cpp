#include "kernels/FusedProduct.h"

#include <algorithm>

namespace mt::kernels {
namespace {

/// A part of `call` whose operands are those of `call`; the last is written.
Part part(const Signature &call, std::string kernel, Attributes attributes, std::vector<size_t> operands) {
  Part made{{std::move(kernel), std::move(attributes), {}}, std::move(operands)};
  for (size_t operand : made.operands) {
    OperandType absent{DType::f32, {}, Effect::read, false};
    made.call.operands.push_back(operand == Part::kNone ? absent : call.operands[operand]);
    made.call.operands.back().effect = Effect::read;
  }
  made.call.operands.back().effect = Effect::write;
  return made;
}

Attributes transposes(const Signature &call) {
  return {{"transposeLhs", call.integer("transposeLhs")}, {"transposeRhs", call.integer("transposeRhs")}};
}

} // namespace

ProductOperands ProductOperands::of(const Signature &call) {
  return call.kernel == "matmul_add" ? ProductOperands{.bias = 3, .result = 4, .addend = 2} : ProductOperands{};
}

Chunks depthOf(const Signature &call) {
  const ProductOperands at = ProductOperands::of(call);
  const Dims &lhs = call.operands[0].dims;
  const OperandType &result = call.operands[at.result];
  const bool transposed = call.integer("transposeLhs") != 0;
  const int64_t depth = lhs[lhs.size() - (transposed ? 2 : 1)];
  const DType type = call.operands[0].type;
  const bool summable = transposed && result.present && result.type == DType::f32 &&
                        (type == DType::f32 || type == DType::bf16) && !at.addend && !call.operands[at.bias].present;
  return summable ? depthChunks(result.elements(), depth) : Chunks(depth, 1);
}

std::vector<Part> partsOf(const Signature &call) {
  auto present = [&](size_t operand) { return call.operands[operand].present; };
  std::vector<Part> parts;
  if (call.kernel == "matmul_add") { // lhs rhs addend bias? -> result
    const ProductOperands at = ProductOperands::of(call);
    parts.push_back(part(call, "matmul", transposes(call), {0, 1, at.bias, at.result}));
    parts.push_back(part(call, "add", {}, {*at.addend, at.result, at.result}));
  } else if (call.kernel == "matmul_gelu") { // lhs rhs bias? -> result input
    size_t product = present(4) ? 4 : 3;
    parts.push_back(part(call, "matmul", transposes(call), {0, 1, 2, product}));
    if (present(3))
      parts.push_back(part(call, "gelu", {{"form", std::string("tanh")}}, {product, 3}));
  } else if (call.kernel == "matmul_gelu_grad") { // lhs rhs input -> result
    parts.push_back(part(call, "matmul", transposes(call), {0, 1, Part::kNone, 3}));
    parts.push_back(part(call, "activation_grad", {{"activation", std::string("gelu_tanh")}}, {2, 3, 3}));
  } else { // matmul_sums: lhs rhs -> result sums
    size_t summed = call.integer("sumsOfLhs") ? 0 : 1;
    if (present(2))
      parts.push_back(part(call, "matmul", transposes(call), {0, 1, Part::kNone, 2}));
    if (present(3))
      parts.push_back(part(call, "reduce",
                           {{"kind", std::string("sum")}, {"axes", std::vector<int64_t>{0}}, {"keepDims", int64_t{0}}},
                           {summed, 3}));
  }
  return parts;
}

Part withScratch(Part part, Backend backend) {
  if (uint64_t bytes = workspaceBytes(part.call, backend))
    part.call.operands.push_back({DType::u8, {static_cast<int64_t>(bytes)}, Effect::scratch, true});
  return part;
}

PartOperands operandsOf(const Part &part, std::span<void *const> addresses, uint64_t accumulate) {
  PartOperands made;
  for (size_t operand : part.operands)
    made.addresses[made.count++] = operand == Part::kNone ? nullptr : addresses[operand];
  const bool inPlace =
      std::ranges::count(part.operands, part.operands.back()) > 1; // adds nothing: it reads what is there
  made.accumulate = inPlace ? 0 : (accumulate >> part.operands.back() & 1) << (made.count - 1);
  if (part.call.operands.back().effect == Effect::scratch)
    made.addresses[made.count++] = addresses.back();
  return made;
}

} // namespace mt::kernels
