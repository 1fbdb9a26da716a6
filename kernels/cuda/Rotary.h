// What the host hands to the device code of rotary. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_ROTARY_H
#define MT_KERNELS_CUDA_ROTARY_H

#include "kernels/cuda/Elements.h"
#include "kernels/cuda/Views.h"

namespace mt::kernels::cuda {

/// A head is cut into items: eight pairs each, then eight elements each of what is not turned.
struct RotaryArguments {
  int64_t items; ///< of all heads
  Divider perHead, heads, sequence;
  int64_t head, pairs, pairItems;
  bool interleaved, shared, packed; ///< shared: one table for all of the batch
  float direction;                  ///< of the sine: 1, or -1 to turn back
  In x, cosine, sine;
  Out result;
};

using RotaryCode = void (*)(RotaryArguments);
RotaryCode rotaryCode();

} // namespace mt::kernels::cuda
#endif
