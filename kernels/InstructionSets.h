// Names of the instruction sets that a target or a run can hold the CPU's kernels to.
#ifndef MT_KERNELS_INSTRUCTIONSETS_H
#define MT_KERNELS_INSTRUCTIONSETS_H

#include <array>
#include <string_view>

namespace mt::kernels {

/// From the least. The last, whose tiles multiply f32, too (kernels/cpu/Bf16Product.h), is used only by name: what they
/// do of it in a second must not be what others of a machine use up (measurements.md).
inline constexpr std::array<std::string_view, 6> kInstructionSets = {"sse4",        "avx2", "avx512",
                                                                     "avx512-bf16", "amx",  "amx-f32"};

} // namespace mt::kernels
#endif
