// What the host hands to device code that converts, transposes and writes constants. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_STRUCTURE_H
#define MT_KERNELS_CUDA_STRUCTURE_H

#include "kernels/cuda/Elements.h"
#include "kernels/cuda/Views.h"

namespace mt::kernels::cuda {

/// A tile of a transpose, and the rows of threads that move it.
constexpr int kTile = 32, kTileRows = 8;

/// The operand's last dimension (rows here) against the result's (columns): strides of the other in each.
struct Tiles {
  int64_t rows, columns, operandStride, resultStride;
  Divider acrossRows, acrossColumns; ///< tiles
  Views<2> others;                   ///< strides in operand and result
};

/// Numbers that travel with the launch.
struct List {
  uint64_t words[384];
};

/// the operand, the result, elements, whether packed; by the operand's type
using ConvertCode = void (*)(In, Out, int64_t, bool);
ConvertCode convertCode(DType type);
/// the operand, the result; by an element's bytes
using TransposeCode = void (*)(Tiles, const void *, void *);
TransposeCode transposeCode(int64_t bytes);
/// the list, the first element written, how many, the result
using ListCode = void (*)(List, int64_t, int64_t, Out);
ListCode listCode(DType type);
/// elements, those inside the dimension, its size, first, step, the result
using IotaCode = void (*)(int64_t, Divider, Divider, double, double, Out);
IotaCode iotaCode(DType type);

} // namespace mt::kernels::cuda
#endif
