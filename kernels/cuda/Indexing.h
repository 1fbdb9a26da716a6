// What the host hands to the device code of gradients that add back into place; gathers are sources of Moving.h.
// Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_INDEXING_H
#define MT_KERNELS_CUDA_INDEXING_H

#include "kernels/cuda/Moving.h"

namespace mt::kernels::cuda {

/// Keys that a block sorts.
constexpr int kSorted = 512;

/// result[a, index, b] of the sorted keys = the sum of gradient[a, place, b] over the places with that index.
struct SegmentsArguments {
  const uint64_t *keys; ///< index and place, 32 bits each, ascending
  int64_t count, size, inner;
  Divider tiles, groups; ///< tiles of a row; groups of eight keys
  bool packed;
  In gradient;
  Out result;
};

/// indices, their number, the size that they index, the keys sorted in runs of kSorted
using SortRunsCode = void (*)(Indices, int64_t, int64_t, uint64_t *);
SortRunsCode sortRunsCode();
/// keys, their number, the length of a sorted run, the keys sorted in runs of twice the length
using MergeRunsCode = void (*)(const uint64_t *, int64_t, int64_t, uint64_t *);
MergeRunsCode mergeRunsCode();
/// What an update does with what is there.
enum class ScatterKind : uint8_t { none, add, mul, max, min };
ScatterKind scatterKindOf(const Signature &call);

/// result[a, index, b] of the sorted keys takes updates[a, place, b], place by place.
struct ScatterArguments {
  const uint64_t *keys;
  int64_t count, size, inner;
  Divider tiles, groups; ///< tiles of a warp's columns; groups of eight keys
  ScatterKind kind;
  In updates;
  Out result;
};
using ScatterCode = void (*)(ScatterArguments);
/// For elements of a type.
ScatterCode scatterCode(DType type);

/// Lines of the indices along the axis, one after another; the data seen in the indices' dimensions, but for the axis.
struct ScatterLines {
  Indices indices;
  Views<1> others;
  Divider step;                        ///< elements of the indices behind the axis
  int64_t lines, length, size, stride; ///< length: of a line; size and stride: of the data's axis
  ScatterKind kind;
  In updates;
  Out result;
};
using ScatterLinesCode = void (*)(ScatterLines);
ScatterLinesCode scatterLinesCode(DType type);

using AddSegmentsCode = void (*)(SegmentsArguments);
AddSegmentsCode addSegmentsCode();

} // namespace mt::kernels::cuda
#endif
