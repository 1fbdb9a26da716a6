// Which vector instructions the CPU's kernels use on this machine: results of other sets differ in their last bits.
#ifndef MT_KERNELS_CPU_INSTRUCTIONSET_H
#define MT_KERNELS_CPU_INSTRUCTIONSET_H

#include "runtime/base/Status.h"

#include <string>

namespace mt::kernels::cpu {

/// As Highway names its best target here, oneDNN's version and the number of its own: "AVX3_ZEN4, oneDNN 2.6.3 39",
/// with ", tiles" or ", vectors" behind it where those multiply bf16, and ", of floats too" where tiles do. Equal
/// texts: equal bits.
std::string instructionSet();

/// Holds all kernels of the process to a set of that name (kernels/InstructionSets.h), where the machine has a better
/// one. Before the first is prepared; again for the same set. Errors: there is no set of that name; the machine lacks
/// it.
Status useInstructionSet(std::string_view name);

} // namespace mt::kernels::cpu
#endif
