// Calls that stand for all calls of their kernels where a machine is measured: see `mtrun probe`.
#ifndef MT_KERNELS_SAMPLES_H
#define MT_KERNELS_SAMPLES_H

#include "kernels/Catalogue.h"

namespace mt::kernels {

/// Calls at sizes from what fits a cache to what fills a device, in f32 and bf16, none of which does more than `mostFlops`
/// or moves more than `mostBytes`. Every elementwise kernel of the catalogue is among them.
std::vector<Signature> sampleCalls(double mostFlops, double mostBytes);

/// Updates by every optimizer of the catalogue, whole and split.
std::vector<Signature> sampleUpdates(double mostBytes);

} // namespace mt::kernels
#endif
