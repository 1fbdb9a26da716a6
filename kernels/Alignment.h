// Where operands of kernels may lie: what plans are checked for, and what kernels rely on.
#ifndef MT_KERNELS_ALIGNMENT_H
#define MT_KERNELS_ALIGNMENT_H

#include "kernels/Catalogue.h"

namespace mt::kernels {

/// Of scratch, in bytes: kernels put there what they like.
constexpr uint64_t kScratchAlignment = 64;

/// Bytes that the address of an operand is a multiple of.
inline uint64_t alignmentOf(const OperandType &operand) {
  return operand.effect == Effect::scratch ? kScratchAlignment : byteSize(operand.type);
}

} // namespace mt::kernels
#endif
