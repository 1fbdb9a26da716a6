// What the host hands to the device code of products with experts. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_EXPERTS_H
#define MT_KERNELS_CUDA_EXPERTS_H

#include "kernels/cuda/Elements.h"

namespace mt::kernels::cuda {

/// Rows and columns of a block's tile, and how deep it multiplies at a time: in 32 bits, and on matrix units, which
/// take bf16 whose dimensions are whole packs.
constexpr int kExpertRows = 16, kExpertColumns = 64, kExpertDepth = 16;
constexpr int kUnitRows = 128, kUnitColumns = 128, kUnitDepth = 32, kUnitPack = 8;

/// Sorted keys (expert and row, 32 bits each), their number; where the keys of each expert begin, one more than
/// experts.
struct ExpertBegins {
  const uint64_t *keys;
  int64_t count, experts;
  int64_t *begins;
};
using ExpertBeginsCode = void (*)(ExpertBegins);
ExpertBeginsCode expertBeginsCode(); ///< a thread an expert, and one

/// Of matrices [height, width]: rows of `left` are of height, those of `right` of width elements in the gradient; in
/// the product rows of `left` are multiplied with matrices [depth, columns], or [columns, depth] if transposed.
struct ExpertArguments {
  const uint64_t *keys;
  const int64_t *begins;
  int64_t experts, depth, columns; ///< gradient: height and width of a matrix
  int64_t across;                  ///< tiles side by side
  bool transposed;
  In left, right;
  Out result;
};
using ExpertCode = void (*)(ExpertArguments);
ExpertCode expertMatmulCode();     ///< a block a tile; every expert may have one that is not full
ExpertCode expertMatmulGradCode(); ///< a block a tile of an expert's matrix
ExpertCode expertUnitsCode(bool transposed), expertUnitsGradCode(); ///< the same on matrix units

} // namespace mt::kernels::cuda
#endif
