// Which vector instructions the CPU's kernels use on this machine: results of other sets differ in their last bits.
#ifndef MT_KERNELS_CPU_INSTRUCTIONSET_H
#define MT_KERNELS_CPU_INSTRUCTIONSET_H

#include <string>

namespace mt::kernels::cpu {

/// As Highway names its best target here, oneDNN's version and the number of its own: "AVX3_ZEN4, oneDNN 2.6.3 39". Equal
/// texts: equal bits.
std::string instructionSet();

} // namespace mt::kernels::cpu
#endif
