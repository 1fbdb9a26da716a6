// cross_entropy and squared_error with their gradients, prepared.
#include "kernels/cuda/Loss.h"

#include "kernels/cuda/Launching.h"

namespace mt::kernels::cuda {
namespace {

Status finishLoss(const Launch &launch, const Bound &loss, const double *losses, int64_t count) {
  if (!loss.present)
    return {};
  return start(launch.stream, 1, kMostThreads, addLossesCode(), losses, count, launch.at<const double>(2),
               loss.out(launch));
}

struct CrossEntropy {
  int64_t rows, classes;
  bool wide;
  double labelSmoothing, zLoss;
  Bound logits, loss, gradient;

  Status operator()(const Launch &launch) const {
    bool packed = classes % kOctet == 0 && logits.aligned(launch) && gradient.aligned(launch);
    double *losses = static_cast<double *>(launch.operands.back());
    CrossEntropyCall call = {rows,
                             {classes, packed},
                             logits.in(launch),
                             launch.operands[1],
                             wide,
                             labelSmoothing,
                             zLoss,
                             launch.at<const double>(2),
                             gradient.present ? gradient.out(launch) : Out(),
                             losses,
                             launch.fault};
    dim3 threads = rowThreads(classes, kHeld);
    MT_TRY(start(launch.stream, rowBlocks(rows, threads), threads,
                 crossEntropyCode(rowCode(call.shape, {logits, gradient})), call));
    return finishLoss(launch, loss, losses, rows);
  }
};

Result<Run> prepareCrossEntropy(const Signature &call, Library &) {
  const Dims &dims = call.operands[0].dims;
  Bound gradient = call.kernel == "cross_entropy_grad" ? Bound(call, 4) : Bound();
  return Run(CrossEntropy{dims[0], dims[1], call.operands[1].type == DType::i64, call.real("labelSmoothing"),
                          call.real("zLoss"), Bound(call, 0), Bound(call, 3), gradient});
}

struct SquaredError {
  int64_t elements;
  Bound prediction, target, loss, gradient;

  Status operator()(const Launch &launch) const {
    Chunks chunks = lossChunks(elements);
    bool packed = prediction.aligned(launch) && target.aligned(launch) && gradient.aligned(launch);
    double *losses = static_cast<double *>(launch.operands.back());
    SquaredErrorCall call = {elements,
                             chunks.size,
                             packed,
                             prediction.in(launch),
                             target.in(launch),
                             launch.at<const double>(2),
                             gradient.present ? gradient.out(launch) : Out(),
                             losses};
    MT_TRY(start(launch.stream, chunks.count, kThreads, squaredErrorCode(), call));
    return finishLoss(launch, loss, losses, chunks.count);
  }
};

Result<Run> prepareSquaredError(const Signature &call, Library &) {
  Bound gradient = call.kernel == "squared_error_grad" ? Bound(call, 4) : Bound();
  return Run(SquaredError{call.operands[0].elements(), Bound(call, 0), Bound(call, 1), Bound(call, 3), gradient});
}

} // namespace

std::span<const Entry> lossEntries() {
  static constexpr Entry kEntries[] = {{"cross_entropy", prepareCrossEntropy},
                                       {"cross_entropy_grad", prepareCrossEntropy},
                                       {"squared_error", prepareSquaredError},
                                       {"squared_error_grad", prepareSquaredError}};
  return kEntries;
}

} // namespace mt::kernels::cuda
