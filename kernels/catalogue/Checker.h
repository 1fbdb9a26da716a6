// Checks of a kernel's operands that keep the first problem found, in words. Absent operands pass every check about
// themselves. Private to kernels/catalogue.
#ifndef MT_KERNELS_CATALOGUE_CHECKER_H
#define MT_KERNELS_CATALOGUE_CHECKER_H

#include "kernels/Catalogue.h"

#include <fmt/format.h>

namespace mt::kernels {

class Checker {
public:
  explicit Checker(const Signature &call) : call(call) {}

  Checker &floating(int operand);
  Checker &integral(int operand); ///< i64 or i32
  Checker &type(int operand, DType wanted);
  Checker &sameType(int operand, int other);
  /// `other`'s type, or f32.
  Checker &sameTypeOrF32(int operand, int other);
  /// `other`'s type, or one of f32 and bf16 where that is the other: kernels that compute in 32 bits and convert.
  Checker &mixed(int operand, int other);
  Checker &rank(int operand, size_t wanted);
  Checker &dims(int operand, const Dims &wanted);
  Checker &sameDims(int operand, int other) { return dims(operand, at(other).dims); }
  Checker &like(int operand, int other) { return sameType(operand, other).sameDims(operand, other); }
  Checker &scalars(int operand);
  /// `problem` unless `holds`; evaluated before the call, so both must be safe for any operands.
  Checker &require(bool holds, std::string_view problem);
  /// The result of another check.
  Checker &also(std::string other) { return require(other.empty(), other); }
  /// Later checks run only if everything held so far: they may rely on it.
  template <typename Then> Checker &then(Then check) {
    if (problem.empty())
      check(*this);
    return *this;
  }
  std::string result() const { return problem; }
  bool ok() const { return problem.empty(); }
  const OperandType &at(int operand) const { return call.operands[static_cast<size_t>(operand)]; }

private:
  const Signature &call;
  std::string problem;
  void report(int operand, const std::string &text);
  bool checked(int operand) const { return problem.empty() && at(operand).present; }
};

/// "[2, 3]"
std::string text(const Dims &dims);
/// Dims of two operands broadcast together as NumPy does; empty optional if they do not agree.
std::optional<Dims> broadcast(const Dims &lhs, const Dims &rhs);
/// The name that the catalogue gives an operand of a call.
std::string operandName(const Signature &call, int operand);

} // namespace mt::kernels
#endif
