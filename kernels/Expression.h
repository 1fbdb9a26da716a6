// What a call of `elementwise` or `elementwise_sums` computes of each element: elementwise calls one after another, as
// one line of text. Free of MLIR and CUDA: the compiler writes expressions, devices read them when a plan is loaded.
#ifndef MT_KERNELS_EXPRESSION_H
#define MT_KERNELS_EXPRESSION_H

#include "kernels/Catalogue.h"

namespace mt::kernels {

/// One call, of operands that are values by number: those that the expression reads come first, then the results of its
/// instructions in order. Each result is rounded to its type, as if it were stored.
struct Instruction {
  std::string kernel;       ///< a name that `isInstruction` knows
  std::string choice;       ///< its one attribute (predicate, activation, form); empty: none, or its default
  std::vector<size_t> operands;
  DType type = DType::f32;  ///< of its results
  double constant = 0;      ///< of kConstant
  size_t results() const;
};

/// An instruction that is no call: one number, the same for all elements. Integers are exact up to 2^53.
inline constexpr std::string_view kConstant = "constant";

/// The kernel that sums some of what it computes.
inline constexpr std::string_view kSums = "elementwise_sums";

/// Attributes by which kernels choose a function.
inline constexpr std::string_view kChoices[] = {"predicate", "activation", "form"};

struct Expression {
  std::vector<Instruction> instructions;
  std::vector<size_t> results; ///< values that are written, in the order of the call's written operands
  size_t sums = 0;             ///< so many of those, the last, are summed rather than written; not part of the text

  /// The values that are summed.
  std::span<const size_t> summed() const { return std::span(results).last(sums); }

  /// How much a plan may ask for in one call: programs and registers of devices have a size.
  static constexpr size_t kMostReads = 12, kMostResults = 6, kMostInstructions = 32;

  /// Types of all values, of which the call's reads come first.
  std::vector<DType> types(const Signature &call) const;
};

/// Whether a kernel can be part of an expression: those of the elementwise family, and `cast`.
bool isInstruction(std::string_view kernel);

/// "mul 0 1:f32, constant 0.5:f32, gelu.tanh 2:f32, compare.lt 4 3:bool -> 4 5"
std::string print(const Expression &expression);
/// Reads what `print` wrote; what is wrong, or empty. Text may be hostile.
std::string parse(std::string_view text, Expression &into);
/// The expression of a call that `check` passed.
Expression expressionOf(const Signature &call);

/// The call that an instruction is, of operands of one element.
Signature callOf(const Instruction &instruction, std::span<const DType> types);
/// What is wrong with a call of either kernel whose attributes and effects are right, or empty.
std::string checkExpression(const Signature &call);
/// Where a device that computes block by block keeps values: a value's slot is free again after the last instruction
/// that reads it; what is summed keeps its own. On the CPU, operands and constants have slots of their own for all
/// blocks, they first, and no result has the slot of what it is made of. On a GPU, what no instruction reads needs no
/// slot.
struct Slots {
  static constexpr size_t kNone = SIZE_MAX, kMostOnGpu = 12;
  std::vector<size_t> of; ///< by value; kNone: it needs none
  size_t count = 0;
};
Slots slotsOf(const Expression &expression, size_t reads, Backend backend);

/// How many operands a call reads; those that it writes follow.
size_t readsOf(const Signature &call);
/// Dimensions of what is computed: those of the results, or what the reads broadcast to where some are summed.
Dims domainOf(const Signature &call);

} // namespace mt::kernels
#endif
