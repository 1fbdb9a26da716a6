// What machine code of a chain is made of: its functions as operations that the processor has instructions for. Private
// to kernels/cpu.
#ifndef MT_KERNELS_CPU_CHAINSTEPS_H
#define MT_KERNELS_CPU_CHAINSTEPS_H

#include "kernels/cpu/ChainCode.h"

#include <string_view>

namespace mt::kernels::cpu {

/// One operation, of values by number: what a chain reads, then each step's result.
struct Step {
  std::string_view name; ///< a function of ElementwiseOps.h, or one that begins with a point
  std::vector<size_t> in;
  uint32_t bits = 0; ///< of a number

  static constexpr std::string_view kNumber = ".number";
  bool isNumber() const { return name == kNumber; }
  auto operator<=>(const Step &) const = default;
};

/// What functions have in common is one step.
struct ChainSteps {
  std::vector<Step> steps;
  std::vector<size_t> values; ///< by number of the chain's

  explicit ChainSteps(const Chain &chain);
};

/// Whether a function becomes several steps.
bool isOfSteps(const std::string &function);

} // namespace mt::kernels::cpu
#endif
