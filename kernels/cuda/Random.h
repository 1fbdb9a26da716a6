// What the host hands to the device code of dropout and random. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_RANDOM_H
#define MT_KERNELS_CUDA_RANDOM_H

#include "kernels/Random.h"
#include "kernels/cuda/Elements.h"
#include "kernels/cuda/Views.h"

namespace mt::kernels::cuda {

enum class RandomKind : uint8_t { uniform, normal, keep, dropout };

/// Elements seen as [outer, rows, inner]; numbers null: they are numbered as they lie.
struct RandomCall {
  RandomKind kind;
  int64_t total;
  Numbering numbering;
  Divider inner, rows;
  uint64_t least; ///< of words, that are kept
  float scale;    ///< of what is kept
  bool packed;    ///< all addresses allow packs
  const int64_t *numbers, *node;
  const double *scalars;
  In x; ///< of dropout
  Out result;
};

using RandomCode = void (*)(RandomCall);
RandomCode randomCode();

} // namespace mt::kernels::cuda
#endif
