// linear_cross_entropy and its gradient: the head's product, the loss, and what flows back, a chunk of rows at a time.
// The chunk's logits turn into their own gradients in the workspace.
#include "kernels/Blocks.h"
#include "kernels/cpu/Gemm.h"
#include "kernels/cpu/Loss.h"
#include "kernels/cpu/Vector.h"

#include <cmath>

namespace mt::kernels::cpu {
namespace {

struct Head {
  static constexpr size_t kHidden = 0, kWeight = 1, kBias = 2, kScalars = 4, kLoss = 5, kDhidden = 6, kDweight = 7,
                          kDbias = 8;
  static constexpr int64_t kColumns = 256; ///< of dbias in a parallel chunk

  int64_t rows, width, classes, chunk;
  bool transposed, backward, bias;
  float scale, cap;
  Labels labels;

  explicit Head(const Signature &call)
      : rows(call.operands[0].dims[0]), width(call.operands[0].dims[1]),
        classes(call.operands[1].dims[call.integer("transposed") ? 1 : 0]), chunk(call.integer("chunk")),
        transposed(call.integer("transposed") != 0), backward(call.kernel == "linear_cross_entropy_grad"),
        bias(call.operands[kBias].present), scale(static_cast<float>(call.real("logitScale", 1))),
        cap(static_cast<float>(call.real("softCap"))), labels(call, 3) {
    chunk = chunk > 0 ? std::min(chunk, rows) : rows;
  }

  /// One launch: its addresses and step constants.
  struct Pass {
    const Launch &launch;
    double inverseValid;
    double *losses;
    float *logits;
  };

  /// Row `row` of the chunk at `first`: logits -> loss, and logits -> their gradient before scaling by `scale`.
  void row(const Pass &pass, int64_t first, int64_t row) const {
    float *x = pass.logits + row * classes;
    int64_t label = labels.at(pass.launch, first + row);
    if (label < 0) {
      pass.losses[first + row] = 0;
      std::fill(x, x + classes, 0.0f);
      return;
    }
    if (bias)
      vec::scale(pass.launch.at<const float>(kBias), scale, x, classes, true);
    if (cap > 0)
      vec::capped(x, 1, cap, x, classes);
    RowStatistics statistics;
    pass.losses[first + row] = rowLoss(x, classes, label, statistics);
    if (backward)
      sendBack(x, label, statistics, pass.inverseValid * static_cast<double>(scale));
  }

  void sendBack(float *x, int64_t label, const RowStatistics &statistics, double factor) const {
    double share = cap > 0 ? static_cast<double>(x[label]) / static_cast<double>(cap) : 0;
    float scaled = static_cast<float>(factor / statistics.total);
    if (cap > 0)
      vec::cappedExponentials(x, statistics.most, scaled, cap, x, classes);
    else
      vec::exponentials(x, statistics.most, scaled, x, classes);
    x[label] -= static_cast<float>(factor * (1 - share * share));
  }

  void forwardProduct(const Pass &pass, int64_t first, int64_t count) const {
    Gemm gemm{false, !transposed, count, classes, width, width, transposed ? classes : width, classes};
    multiplyOver(pass.launch.pool, gemm, scale, pass.launch.at<const float>(kHidden) + first * width,
                 pass.launch.at<const float>(kWeight), 0, pass.logits);
  }

  void hiddenGradient(const Pass &pass, int64_t first, int64_t count) const {
    if (!pass.launch.operands[kDhidden])
      return;
    Gemm gemm{false, transposed, count, width, classes, classes, transposed ? classes : width, width};
    multiplyOver(pass.launch.pool, gemm, 1, pass.logits, pass.launch.at<const float>(kWeight),
                 pass.launch.accumulates(kDhidden) ? 1 : 0, pass.launch.at<float>(kDhidden) + first * width);
  }

  void weightGradient(const Pass &pass, int64_t first, int64_t count) const {
    if (!pass.launch.operands[kDweight])
      return;
    const float *hidden = pass.launch.at<const float>(kHidden) + first * width, *logits = pass.logits;
    float beta = first > 0 || pass.launch.accumulates(kDweight) ? 1 : 0, *out = pass.launch.at<float>(kDweight);
    if (transposed)
      multiplyOver(pass.launch.pool, {true, false, width, classes, count, width, classes, classes}, 1, hidden, logits,
                   beta, out);
    else
      multiplyOver(pass.launch.pool, {true, false, classes, width, count, classes, width, width}, 1, logits, hidden,
                   beta, out);
  }

  void biasGradient(const Pass &pass, int64_t first, int64_t count) const {
    if (!pass.launch.operands[kDbias])
      return;
    bool adds = first > 0 || pass.launch.accumulates(kDbias);
    pass.launch.pool.parallelFor(ceilDivide(classes, kColumns), [&](int64_t block) {
      int64_t begin = block * kColumns, columns = std::min(kColumns, classes - begin);
      double sums[kColumns] = {};
      for (int64_t i = 0; i < count; ++i)
        for (int64_t j = 0; j < columns; ++j)
          sums[j] += static_cast<double>(pass.logits[i * classes + begin + j]);
      float *out = pass.launch.at<float>(kDbias) + begin;
      for (int64_t j = 0; j < columns; ++j)
        out[j] = adds ? out[j] + static_cast<float>(sums[j]) : static_cast<float>(sums[j]);
    });
  }

  Status operator()(const Launch &launch) const {
    MT_TRY(labels.verify(launch, classes));
    double *losses = static_cast<double *>(launch.operands.back());
    Pass pass{launch, launch.at<const double>(kScalars)[Scalars::kInverseValid], losses,
              reinterpret_cast<float *>(losses + rows)};
    for (int64_t first = 0; first < rows; first += chunk) {
      int64_t count = std::min(chunk, rows - first);
      forwardProduct(pass, first, count);
      launch.pool.parallelFor(count, [&](int64_t i) { row(pass, first, i); });
      if (!backward)
        continue;
      hiddenGradient(pass, first, count);
      weightGradient(pass, first, count);
      biasGradient(pass, first, count);
    }
    finishLoss(launch, kLoss, losses, rows, pass.inverseValid);
    return {};
  }
};

Result<Run> prepareHead(const Signature &call) {
  MT_TRY(requireF32(call));
  return Run(Head(call));
}

constexpr Entry kEntries[] = {{"linear_cross_entropy", prepareHead}, {"linear_cross_entropy_grad", prepareHead}};

} // namespace

std::span<const Entry> headEntries() { return kEntries; }

} // namespace mt::kernels::cpu
