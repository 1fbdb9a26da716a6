#include "kernels/cuda/CastElements.h"

#include "kernels/cuda/Launching.h"

namespace mt::kernels::cuda {

Status castElements(Stream stream, const void *from, DType fromType, void *to, DType toType, int64_t count,
                    bool adds, const float *bias, int64_t columns) {
  const bool packed = isAligned(from, fromType) && isAligned(to, toType);
  return start(stream, ceilDivide(count, kThreads * kOctet), kThreads, castCode(), In{from, fromType},
               Out{to, toType, adds}, count, packed, bias, columns);
}

Status clearBytes(Stream stream, void *memory, uint64_t bytes) {
  MT_TRY(stream.launching(1));
  return check(cudaMemsetAsync(memory, 0, bytes, stream), "clearing memory");
}

Status addToRows(Stream stream, const double *from, double *to, int64_t rows, int64_t columns) {
  return start(stream, ceilDivide(rows * columns, kThreads), kThreads, addRowCode(), from, to, rows * columns, columns);
}

} // namespace mt::kernels::cuda
