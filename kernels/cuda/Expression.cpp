// `elementwise`, prepared: the instructions as the device reads them, and where each of its values is kept.
#include "kernels/cuda/Expression.h"

#include "kernels/cuda/Launching.h"

#include <algorithm>

namespace mt::kernels::cuda {
namespace {

struct Fused {
  ExpressionArguments arguments = {};
  std::vector<Bound> reads, writes;

  Status operator()(const Launch &launch) const {
    ExpressionArguments made = arguments;
    for (size_t i = 0; i < reads.size(); ++i) {
      made.read[i].in = reads[i].in(launch);
      made.packed = made.packed && (made.read[i].view.innerStride(0) == 0 || reads[i].aligned(launch));
    }
    for (size_t i = 0; i < writes.size(); ++i) {
      made.write[i] = writes[i].out(launch);
      made.packed = made.packed && writes[i].aligned(launch);
    }
    return start(launch.stream, ceilDivide(made.total, int64_t{kExpressionThreads} * kOctet), kExpressionThreads, expressionCode(), made);
  }
};

/// Booleans are 0 and 1 among floats: their logic is arithmetic.
void chooseLogic(const Instruction &one, ExpressionStep &step) {
  if (one.type != DType::boolean)
    return;
  if (one.kernel == "not")
    step.kind = ExpressionStep::invert;
  if (one.kernel == "and")
    step.function = Function::mul;
  if (one.kernel == "or")
    step.function = Function::maximum;
  if (one.kernel == "xor")
    step.function = Function::notEqual;
}

ExpressionStep stepOf(const Instruction &one, std::span<const DType> types, const Slots &slots) {
  ExpressionStep step = {};
  step.type = one.type;
  std::ranges::fill(step.out, kNowhere);
  std::ranges::fill(step.write, kNowhere);
  for (size_t i = 0; i < one.operands.size(); ++i)
    step.in[i] = static_cast<uint8_t>(slots.of[one.operands[i]]);
  if (one.kernel == kConstant) {
    step.kind = ExpressionStep::constant;
    step.number = static_cast<float>(one.constant);
  } else if (one.kernel == "cast") {
    step.kind = ExpressionStep::cast;
  } else {
    const Chosen chosen = chosenOf(callOf(one, types));
    step.operation = chosen.operation, step.function = chosen.function;
    chooseLogic(one, step);
  }
  return step;
}

Result<Run> prepareExpression(const Signature &call, Library &) {
  const Expression expression = expressionOf(call);
  const std::vector<DType> types = expression.types(call);
  const Dims domain = domainOf(call);
  Fused made;
  ExpressionArguments &arguments = made.arguments;
  arguments.total = 1;
  for (int64_t dim : domain)
    arguments.total *= dim;
  arguments.packed = true;
  const size_t reads = readsOf(call);
  const Slots slots = slotsOf(expression, reads, Backend::cuda);
  for (size_t i = 0; i < reads; ++i) {
    if (slots.of[i] == Slots::kNone)
      continue; // no instruction takes it
    made.reads.push_back(Bound(call, i));
    ExpressionRead &read = arguments.read[arguments.reads++];
    const Dims strides = broadcastStrides(call.operands[i].dims, domain);
    for (size_t d = 0; d < domain.size(); ++d)
      if (!read.view.add(domain[d], {strides[d]}))
        return fail("{}: operand {}'s broadcast has more than {} dimensions that do not merge", call.kernel, i, kMaxDims);
    read.slot = static_cast<uint8_t>(slots.of[i]);
    arguments.packed = arguments.packed && (read.view.rank <= 1 || read.view.inner() % kOctet == 0);
  }
  std::vector<uint8_t> writes(types.size(), kNowhere);
  for (size_t i = 0; i < expression.results.size(); ++i) {
    made.writes.push_back(Bound(call, reads + i));
    if (made.writes.back().present)
      writes[expression.results[i]] = static_cast<uint8_t>(i);
  }
  size_t value = reads;
  for (const Instruction &one : expression.instructions) {
    ExpressionStep step = stepOf(one, types, slots);
    for (size_t k = 0; k < one.results(); ++k, ++value) {
      step.out[k] = static_cast<uint8_t>(std::min<size_t>(slots.of[value], kNowhere));
      step.write[k] = writes[value];
    }
    arguments.step[arguments.steps++] = step;
  }
  return Run(std::move(made));
}

} // namespace

std::span<const Entry> expressionEntries() {
  static constexpr Entry kEntries[] = {{"elementwise", prepareExpression}};
  return kEntries;
}

} // namespace mt::kernels::cuda
