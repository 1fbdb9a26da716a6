// cross_entropy and squared_error with their gradients. Every row's loss is kept in 64 bits and added in order.
#include "kernels/cpu/Loss.h"

#include "kernels/Blocks.h"
#include "kernels/cpu/FloatRows.h"
#include "kernels/cpu/Vector.h"

#include <cmath>

namespace mt::kernels::cpu {

Labels::Labels(const Signature &call, size_t operand)
    : operand(operand), wide(call.operands[operand].type == DType::i64), count(call.operands[operand].elements()) {}

Status Labels::verify(const Launch &launch, int64_t classes) const {
  for (int64_t i = 0; i < count; ++i)
    if (at(launch, i) >= classes)
      return fail("label {} of row {} is outside the {} classes", at(launch, i), i, classes);
  return {};
}

RowLoss::RowLoss(const Signature &call) : labelSmoothing(call.real("labelSmoothing")), zLoss(call.real("zLoss")) {}

double RowLoss::operator()(const float *logits, int64_t classes, int64_t label, RowStatistics &statistics,
                           float *exponentials) const {
  const auto own = static_cast<double>(logits[label]);
  const double all = labelSmoothing > 0 ? vec::sum(logits, classes) : 0;
  statistics.most = vec::largest(logits, classes);
  statistics.total = exponentials ? vec::storeExp(logits, statistics.most, exponentials, classes)
                                  : vec::sumExp(logits, statistics.most, classes);
  const double logsumexp = static_cast<double>(statistics.most) + std::log(statistics.total);
  double loss = logsumexp - own;
  if (labelSmoothing > 0)
    loss = logsumexp - ofLabel() * own - ofEach(classes) * all;
  if (zLoss > 0) {
    loss += zLoss * logsumexp * logsumexp;
    statistics.slope = 1 + 2 * zLoss * logsumexp;
  }
  return loss;
}

void finishLoss(const Launch &launch, size_t operand, const double *losses, int64_t count, double inverseValid) {
  if (!launch.operands[operand])
    return;
  double total = 0;
  for (int64_t i = 0; i < count; ++i)
    total += losses[i];
  float *loss = launch.at<float>(operand), value = static_cast<float>(total * inverseValid);
  *loss = launch.accumulates(operand) ? *loss + value : value;
}

namespace {

struct CrossEntropy {
  int64_t rows, classes;
  RowIn logits;
  Labels labels;
  RowLoss loss;
  RowOut gradient; ///< absent for the loss alone

  /// `buffers` has the row's exponentials.
  void sendBack(const Launch &launch, int64_t row, const RowStatistics &statistics, double inverse,
                float *buffers) const {
    int64_t begin = row * classes, label = labels.at(launch, row);
    bool adds = gradient.adds(launch);
    float *out = adds ? buffers : gradient.place(launch, begin, buffers);
    if (label < 0) {
      std::fill(out, out + classes, 0.0f);
    } else {
      vec::scaleLess(buffers, static_cast<float>(inverse * statistics.slope / statistics.total),
                     static_cast<float>(inverse * loss.ofEach(classes)), out, classes);
      out[label] -= static_cast<float>(inverse * loss.ofLabel());
    }
    if (adds)
      vec::add(out, launch.at<float>(gradient.operand) + begin, classes);
    gradient.finish(launch, begin, classes, out);
  }

  Scratch scratch() const { return {.own = 2 * sizeof(float) * static_cast<uint64_t>(classes)}; }

  Status operator()(const Launch &launch) const {
    MT_TRY(labels.verify(launch, classes));
    double inverse = launch.at<const double>(2)[Scalars::kInverseValid];
    double *losses = static_cast<double *>(launch.operands.back());
    int64_t each = std::max<int64_t>(1, 16384 / classes);
    launch.pool.parallelFor(ceilDivide(rows, each), [&](int64_t chunk) {
      float *buffers = ThreadPool::scratchOf<float>(2 * classes);
      for (int64_t i = chunk * each; i < std::min(rows, (chunk + 1) * each); ++i) {
        const float *x = logits.at(launch, i * classes, classes, buffers);
        RowStatistics statistics;
        bool counts = labels.at(launch, i) >= 0;
        float *exponentials = gradient.present ? buffers + classes : nullptr;
        losses[i] = counts ? loss(x, classes, labels.at(launch, i), statistics, exponentials) : 0;
        if (gradient.present)
          sendBack(launch, i, statistics, inverse, exponentials);
      }
    });
    finishLoss(launch, 3, losses, rows, inverse);
    return {};
  }
};

Result<Run> prepareCrossEntropy(const Signature &call) {
  const Dims &dims = call.operands[0].dims;
  RowOut gradient = call.kernel == "cross_entropy_grad" ? RowOut(call, 4) : RowOut();
  return Run(CrossEntropy{dims[0], dims[1], RowIn(call, 0), Labels(call, 1), RowLoss(call), gradient});
}

struct SquaredError {
  static constexpr int64_t kBlock = 512;
  int64_t elements;
  RowIn prediction, target;
  RowOut gradient; ///< absent for the loss alone

  double block(const Launch &launch, int64_t at, int64_t count, double inverse) const {
    float buffers[3 * kBlock];
    const float *p = prediction.at(launch, at, count, buffers), *t = target.at(launch, at, count, buffers + kBlock);
    float *away = buffers + 2 * kBlock;
    for (int64_t i = 0; i < count; ++i)
      away[i] = p[i] - t[i];
    double total = vec::squaredNorm(away, count);
    if (gradient.present) {
      float *out = gradient.place(launch, at, buffers);
      vec::scale(away, static_cast<float>(2 * inverse), out, count, gradient.adds(launch));
      gradient.finish(launch, at, count, out);
    }
    return total;
  }

  Status operator()(const Launch &launch) const {
    double inverse = launch.at<const double>(2)[Scalars::kInverseValid];
    Chunks chunks = lossChunks(elements);
    double *losses = static_cast<double *>(launch.operands.back());
    launch.pool.parallelFor(chunks.count, [&](int64_t chunk) {
      double total = 0;
      for (int64_t at = chunks.begin(chunk), end = chunks.end(chunk); at < end; at += kBlock)
        total += block(launch, at, std::min(kBlock, end - at), inverse);
      losses[chunk] = total;
    });
    finishLoss(launch, 3, losses, chunks.count, inverse);
    return {};
  }
};

Result<Run> prepareSquaredError(const Signature &call) {
  RowOut gradient = call.kernel == "squared_error_grad" ? RowOut(call, 4) : RowOut();
  return Run(SquaredError{call.operands[0].elements(), RowIn(call, 0), RowIn(call, 1), gradient});
}

constexpr Entry kEntries[] = {{"cross_entropy", prepareCrossEntropy},
                              {"cross_entropy_grad", prepareCrossEntropy},
                              {"squared_error", prepareSquaredError},
                              {"squared_error_grad", prepareSquaredError}};

} // namespace

std::span<const Entry> lossEntries() { return kEntries; }

} // namespace mt::kernels::cpu
