#include "kernels/catalogue/Checker.h"

#include <algorithm>

namespace mt::kernels {

std::string text(const Dims &dims) { return fmt::format("[{}]", fmt::join(dims, ", ")); }

std::optional<Dims> broadcast(const Dims &lhs, const Dims &rhs) {
  Dims result(std::max(lhs.size(), rhs.size()));
  for (size_t i = 0; i < result.size(); ++i) {
    int64_t a = i < lhs.size() ? lhs[lhs.size() - 1 - i] : 1;
    int64_t b = i < rhs.size() ? rhs[rhs.size() - 1 - i] : 1;
    if (a != b && a != 1 && b != 1)
      return std::nullopt;
    result[result.size() - 1 - i] = a == 1 ? b : a;
  }
  return result;
}

void Checker::report(int operand, const std::string &text) {
  problem = fmt::format("{} {}", operandName(call, operand), text);
}

Checker &Checker::floating(int operand) {
  if (checked(operand) && !isFloat(at(operand).type))
    report(operand, fmt::format("is {}, want a floating-point type", name(at(operand).type)));
  return *this;
}

Checker &Checker::integral(int operand) {
  if (checked(operand) && at(operand).type != DType::i64 && at(operand).type != DType::i32)
    report(operand, fmt::format("is {}, want i64 or i32", name(at(operand).type)));
  return *this;
}

Checker &Checker::type(int operand, DType wanted) {
  if (checked(operand) && at(operand).type != wanted)
    report(operand, fmt::format("is {}, want {}", name(at(operand).type), name(wanted)));
  return *this;
}

Checker &Checker::sameType(int operand, int other) { return type(operand, at(other).type); }

Checker &Checker::sameTypeOrF32(int operand, int other) {
  DType wanted = at(other).present ? at(other).type : DType::f32;
  if (wanted == DType::f32)
    return type(operand, wanted);
  if (checked(operand) && at(operand).type != wanted && at(operand).type != DType::f32)
    report(operand, fmt::format("is {}, want {} or f32", name(at(operand).type), name(wanted)));
  return *this;
}

Checker &Checker::mixed(int operand, int other) {
  auto either = [](DType type) { return type == DType::f32 || type == DType::bf16; };
  if (!either(at(other).type))
    return sameType(operand, other);
  if (checked(operand) && !either(at(operand).type))
    report(operand, fmt::format("is {}, want f32 or bf16", name(at(operand).type)));
  return *this;
}

Checker &Checker::rank(int operand, size_t wanted) {
  if (checked(operand) && at(operand).dims.size() != wanted)
    report(operand, fmt::format("has {} dimensions, want {}", at(operand).dims.size(), wanted));
  return *this;
}

Checker &Checker::dims(int operand, const Dims &wanted) {
  if (checked(operand) && at(operand).dims != wanted)
    report(operand, fmt::format("is {}, want {}", text(at(operand).dims), text(wanted)));
  return *this;
}

Checker &Checker::scalars(int operand) {
  return require(at(operand).present, "the step's scalars are missing")
      .type(operand, DType::f64)
      .dims(operand, {Scalars::kCount});
}

Checker &Checker::require(bool holds, std::string_view text) {
  if (problem.empty() && !holds)
    problem = text;
  return *this;
}

} // namespace mt::kernels
