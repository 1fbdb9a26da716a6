// Device code with something wrong in it, and some without, for the tests of Simt.h.
#ifndef MT_TESTS_SIMT_PLANTED_H
#define MT_TESTS_SIMT_PLANTED_H

#include <cstdint>

namespace mt::simt {

/// Both have `count` elements.
struct Planted {
  const float *in = nullptr;
  float *out = nullptr;
  int64_t count = 0;
};
using PlantedCode = void (*)(Planted);

#define MT_PLANTED(X)                                                                                                  \
  X(reverse)                                                                                                           \
  X(warpSums)                                                                                                          \
  X(anyNegative)                                                                                                       \
  X(missingBarrier)                                                                                                    \
  X(overwritesWhatIsRead)                                                                                              \
  X(twoWriters)                                                                                                        \
  X(neverWritten)                                                                                                      \
  X(onePastTheEnd)                                                                                                     \
  X(oneBeforeTheBegin)                                                                                                 \
  X(writesAnOperandThatIsRead)                                                                                         \
  X(nullPointer)                                                                                                       \
  X(misalignedPack)                                                                                                    \
  X(shuffleWithAReturnedLane)                                                                                          \
  X(shuffleOutsideItsMask)                                                                                             \
  X(shuffleFromOutsideItsMask)                                                                                         \
  X(barrierInABranch)                                                                                                  \
  X(barrierBesideAShuffle)                                                                                             \
  X(blocksWriteOnePlace)                                                                                               \
  X(blockReadsAnothers)                                                                                                \
  X(threadReadsAnothers)                                                                                               \
  X(beyondASharedArray)                                                                                                \
  X(shiftTooFar)                                                                                                       \
  X(withoutEnd)

#define MT_PLANTED_CODE(name) PlantedCode name##Code();
MT_PLANTED(MT_PLANTED_CODE)
#undef MT_PLANTED_CODE

} // namespace mt::simt
#endif
