// Sums that were kept in 32 bits become the result they are for, and operands the type that a library wants. Private to
// kernels/cuda.
#ifndef MT_KERNELS_CUDA_CASTELEMENTS_H
#define MT_KERNELS_CUDA_CASTELEMENTS_H

#include "kernels/cuda/Elements.h"
#include "kernels/cuda/Stream.h"

namespace mt::kernels::cuda {

/// to[i] = from[i] (plus to[i] if `adds`, plus bias[i % columns] if there is one), through 32 bits; of types f32, bf16
/// and f16.
Status castElements(Stream stream, const void *from, DType fromType, void *to, DType toType, int64_t count,
                    bool adds, const float *bias = nullptr, int64_t columns = 1);
/// Zeroes memory.
Status clearBytes(Stream stream, void *memory, uint64_t bytes);
/// to[row, column] += from[column].
Status addToRows(Stream stream, const double *from, double *to, int64_t rows, int64_t columns);

using CastCode = void (*)(In from, Out to, int64_t count, bool packed, const float *bias, int64_t columns);
CastCode castCode();
using AddRowCode = void (*)(const double *from, double *to, int64_t count, int64_t columns);
AddRowCode addRowCode();

} // namespace mt::kernels::cuda
#endif
