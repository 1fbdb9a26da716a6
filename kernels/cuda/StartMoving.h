// Launching the kernels of Moving.h. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_STARTMOVING_H
#define MT_KERNELS_CUDA_STARTMOVING_H

#include "kernels/cuda/Launching.h"
#include "kernels/cuda/Moving.h"

#include <cstring>

namespace mt::kernels::cuda {

/// A value of so many bytes, over and over.
inline Wide repeated(uint64_t value, uint64_t bytes) {
  Wide wide;
  for (uint64_t i = 0; i < sizeof(Wide); i += bytes)
    std::memcpy(reinterpret_cast<std::byte *>(&wide) + i, &value, bytes);
  return wide;
}

/// How many elements can move as one: a power of two, of at most 16 bytes. All of `all` must be a multiple of it, and
/// the addresses one of its bytes.
inline int64_t widest(uint64_t all, uint64_t bytes, const void *in, const void *out) {
  auto addresses = reinterpret_cast<uintptr_t>(in) | reinterpret_cast<uintptr_t>(out);
  uint64_t by = 1;
  while (bytes * by < 16 && all % (2 * by) == 0 && addresses % (2 * by * bytes) == 0)
    by *= 2;
  return static_cast<int64_t>(by);
}

/// Moves `total` elements of a type; `fixed` has the bytes of the fixed value.
template <typename Source>
Status startMoving(const Launch &launch, Source source, Target target, int64_t total, In in, Out out,
                   uint64_t fixed = 0) {
  uint64_t bytes = byteSize(out.type), all = source.run() | static_cast<uint64_t>(total);
  Wide value = repeated(fixed, bytes);
  if (out.adds)
    return start(launch.stream, ceilDivide(total, kThreads * kEach), kThreads, moveAddingCode<Source>(out.type), source,
                 target, total, in, out, value);
  if (target.pitch > 0)
    all |= static_cast<uint64_t>(target.row.size | target.pitch | target.begin);
  int64_t by = widest(all, bytes, in.data, out.data);
  source.widen(by);
  if (target.pitch > 0)
    target.row = Divider(target.row.size / by), target.pitch /= by, target.begin /= by;
  return start(launch.stream, ceilDivide(total / by, kThreads * kEach), kThreads,
               moveCode<Source>(static_cast<int64_t>(bytes) * by), source, target, total / by, in.data, out.data,
               value);
}

} // namespace mt::kernels::cuda
#endif
