#include "runtime/plan/Validate.h"

#include "kernels/Alignment.h"

namespace mt::plan {
namespace {

using kernels::Effect;

Status checkArgument(const Template &code, const Operand &operand, const kernels::OperandType &type) {
  if (static_cast<uint64_t>(operand.argument) >= code.arguments.size())
    return fail("argument {} does not exist, the template has {}", operand.argument, code.arguments.size());
  const Argument &argument = code.arguments[static_cast<size_t>(operand.argument)];
  if (type.effect != Effect::read && argument.effect == Effect::read)
    return fail("it writes argument {}, which the template only reads", operand.argument);
  if (type.effect == Effect::update && argument.effect != Effect::update)
    return fail("it updates argument {}, which the template does not declare as updated", operand.argument);
  return {};
}

Status checkOperand(const Template &code, const Operand &operand, const kernels::OperandType &type) {
  uint64_t bound = code.workspaceBytes;
  if (operand.argument != -1) {
    MT_TRY(checkArgument(code, operand, type));
    bound = code.arguments[static_cast<size_t>(operand.argument)].bytes;
  }
  if (operand.offset > bound || type.bytes() > bound - operand.offset)
    return fail("{} bytes at {} leave {} of {} bytes", type.bytes(), operand.offset,
                operand.argument == -1 ? "the workspace" : fmt::format("argument {}", operand.argument), bound);
  if (uint64_t alignment = kernels::alignmentOf(type); operand.offset % alignment != 0)
    return fail("its offset {} is no multiple of {}", operand.offset, alignment);
  return {};
}

/// Kernels that are about a parameter say which, and read a gradient of its size, or of a part of it.
Status checkParameterIndex(const Plan &plan, const kernels::Signature &call) {
  if (!call.attributes.contains("parameter"))
    return {};
  int64_t index = call.integer("parameter", -1);
  if (index < 0 || static_cast<uint64_t>(index) >= plan.parameters.size())
    return fail("{}: parameter {} does not exist, the plan has {}", call.kernel, index, plan.parameters.size());
  MT_ASSIGN(uint64_t bytes, checkedBytes(plan.parameters[static_cast<size_t>(index)].dims, DType::f32));
  const auto first = static_cast<uint64_t>(call.integer("first")), elements = bytes / sizeof(float);
  const uint64_t given = call.operands[0].bytes() / sizeof(float);
  if (call.operands[0].type != DType::f32 || first > elements || given > elements - first)
    return fail("{}: the gradient does not fit parameter {} \"{}\"", call.kernel, index,
                plan.parameters[static_cast<size_t>(index)].name);
  return {};
}

/// Kernels rely on it that what they write, and scratch, is nothing else that they were given.
Status checkApart(const Call &call) {
  const auto &types = call.signature.operands;
  for (size_t i = 0; i < types.size(); ++i)
    for (size_t j = i + 1; j < types.size(); ++j) {
      const Operand &one = call.operands[i], &other = call.operands[j];
      const bool isRead = types[i].effect == Effect::read && types[j].effect == Effect::read;
      if (isRead || one.argument != other.argument || types[i].bytes() == 0 || types[j].bytes() == 0)
        continue;
      if (one.offset < other.offset + types[j].bytes() && other.offset < one.offset + types[i].bytes())
        return fail("{}: operands {} and {} overlap, and one is written", call.signature.kernel, i, j);
    }
  return {};
}

Status checkCall(const Plan &plan, const Template &code, const Call &call) {
  if (call.operands.size() != call.signature.operands.size())
    return fail("{} operands have {} places", call.signature.operands.size(), call.operands.size());
  if (std::string problem = kernels::check(call.signature); !problem.empty())
    return Status::error(problem);
  for (size_t i = 0; i < call.operands.size(); ++i)
    if (call.signature.operands[i].present)
      MT_TRY(checkOperand(code, call.operands[i], call.signature.operands[i])
                 .within(fmt::format("{}, operand {}", call.signature.kernel, i)));
  MT_TRY(checkApart(call));
  return checkParameterIndex(plan, call.signature);
}

Status checkTemplate(const Plan &plan, const Template &code) {
  for (size_t i = 0; i < code.arguments.size(); ++i)
    if (code.arguments[i].effect == Effect::scratch)
      return fail("argument {}: an argument cannot be scratch", i);
  for (size_t i = 0; i < code.calls.size(); ++i)
    MT_TRY(checkCall(plan, code, code.calls[i]).within(fmt::format("call {}", i)));
  return {};
}

} // namespace

Status validateTemplates(const Plan &plan) {
  for (size_t i = 0; i < plan.templates.size(); ++i)
    MT_TRY(checkTemplate(plan, plan.templates[i]).within(fmt::format("template {} \"{}\"", i, plan.templates[i].name)));
  return {};
}

} // namespace mt::plan
