// What the losses share: labels, the loss of a row and its derivatives, and adding rows up. Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_LOSS_H
#define MT_KERNELS_CPU_LOSS_H

#include "kernels/cpu/Family.h"

namespace mt::kernels::cpu {

/// Class numbers of either width; one below zero does not count.
struct Labels {
  size_t operand = 0;
  bool wide = true;
  int64_t count = 0;

  Labels(const Signature &call, size_t operand);
  int64_t at(const Launch &launch, int64_t row) const {
    return wide ? launch.at<const int64_t>(operand)[row] : launch.at<const int32_t>(operand)[row];
  }
  Status verify(const Launch &launch, int64_t classes) const;
};

struct RowStatistics {
  float most = 0;   ///< largest logit
  double total = 1; ///< sum of e^(logit - most)
  double slope = 1; ///< derivative of the loss by the logsumexp
};

/// The cross-entropy of a row of logits in 64 bits, as the catalogue has it.
struct RowLoss {
  double labelSmoothing, zLoss;

  explicit RowLoss(const Signature &call);
  /// `exponentials`, if any, receives e^(logit - most); it may be where the logits are.
  double operator()(const float *logits, int64_t classes, int64_t label, RowStatistics &statistics,
                    float *exponentials = nullptr) const;
  /// Minus the derivative by the label's logit, but for what every logit has.
  double ofLabel() const { return 1 - labelSmoothing; }
  /// The same by each logit.
  double ofEach(int64_t classes) const { return labelSmoothing / static_cast<double>(classes); }
};

/// The loss operand (absent: nothing) becomes, or grows by, the sum of `losses` in order times `inverseValid`.
void finishLoss(const Launch &launch, size_t operand, const double *losses, int64_t count, double inverseValid);

} // namespace mt::kernels::cpu
#endif
