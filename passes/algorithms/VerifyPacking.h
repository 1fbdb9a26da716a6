// Verification of a packing by a sweep over moments: an algorithm other than the packer's, sharing no code with it.
// Free of MLIR; called after mt-plan-templates and mt-plan-memory and by tests.
#ifndef MT_PASSES_ALGORITHMS_VERIFYPACKING_H
#define MT_PASSES_ALGORITHMS_VERIFYPACKING_H

#include "passes/algorithms/Packer.h"
#include "runtime/base/Status.h"

namespace mt::passes {

/// Fails naming two slots that are alive at one moment and share bytes, or a slot that is misaligned or beyond
/// `bytes`. `moments` is the program's length.
Status verifyPacking(std::span<const SlotRequest> slots, std::span<const uint64_t> offsets, uint64_t bytes,
                     uint32_t moments);

} // namespace mt::passes
#endif
