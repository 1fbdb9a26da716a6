#include "kernels/cuda/HeadRows.h"

#include "kernels/cuda/Launching.h"

namespace mt::kernels::cuda {

Status lossOfRows(Stream stream, const HeadRows &rows) {
  return start(stream, rows.rows, kHeadThreads, lossOfCode(), rows);
}

Status sumColumns(Stream stream, const void *gradients, DType type, int64_t rows, int64_t classes, int64_t line, void *sums,
                  DType sumsType, bool adds) {
  return start(stream, ceilDivide(classes, kHeadColumns), dim3(kHeadColumns, kHeadGroups), sumOfCode(), gradients, type,
               rows, classes, line, sums, sumsType, adds);
}

Status sumLosses(Stream stream, const double *losses, int64_t count, const double *scalars, float *loss,
                 bool adds) {
  return start(stream, 1, kHeadThreads, addHeadLossesCode(), losses, count, scalars, loss, adds);
}

} // namespace mt::kernels::cuda
