// What happens to a chunk of the head's logits between the products: loss and gradient of every row. Private to
// kernels/cuda.
#ifndef MT_KERNELS_CUDA_HEADROWS_H
#define MT_KERNELS_CUDA_HEADROWS_H

#include "kernels/Catalogue.h"
#include "kernels/cuda/Stream.h"

namespace mt::kernels::cuda {

/// Rows of one chunk; labels and losses are those of its first row on.
struct HeadRows {
  int64_t rows = 0, classes = 0;
  int64_t line = 0; ///< elements between two rows of logits and of gradients, a multiple of 8; both begin at 16 bytes
  float scale = 1, cap = 0;  ///< cap 0: none
  double labelSmoothing = 0, zLoss = 0;
  float *logits = nullptr;   ///< the products, scaled; changed in place
  void *gradients = nullptr; ///< of `type`, may be `logits` if that is f32; null: the loss alone
  DType type = DType::f32;
  const void *bias = nullptr; ///< null: none
  DType biasType = DType::f32;
  const void *labels = nullptr;
  bool wide = true; ///< labels are i64, else i32
  const double *scalars = nullptr;
  double *losses = nullptr;
  uint32_t *fault = nullptr;
  uint32_t badLabel = 0; ///< what `fault` becomes where a label is no class
};

/// Losses, and gradients of the products before scale.
Status lossOfRows(Stream stream, const HeadRows &rows);
/// sums[c] = (plus sums[c] if `adds`) the sum over rows of gradients[r, c], `line` elements apart.
Status sumColumns(Stream stream, const void *gradients, DType type, int64_t rows, int64_t classes, int64_t line, void *sums,
                  DType sumsType, bool adds);
/// loss = (plus loss if `adds`) the sum of all losses times the scalars' factor.
Status sumLosses(Stream stream, const double *losses, int64_t count, const double *scalars, float *loss,
                 bool adds);

/// Threads of a row; columns and groups of rows of a block that sums columns.
constexpr int kHeadThreads = 512, kHeadColumns = 32, kHeadGroups = 8;
using LossOfCode = void (*)(HeadRows call);
LossOfCode lossOfCode();
using SumOfCode = void (*)(const void *gradients, DType type, int64_t rows, int64_t classes, int64_t line, void *sums,
                           DType sumsType, bool adds);
SumOfCode sumOfCode();
using AddHeadLossesCode = void (*)(const double *losses, int64_t count, const double *scalars, float *loss, bool adds);
AddHeadLossesCode addHeadLossesCode();

} // namespace mt::kernels::cuda
#endif
