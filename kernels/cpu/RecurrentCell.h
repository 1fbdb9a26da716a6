// One step of a recurrent layer for some columns of one row of the batch, after its products: gates, and the way back
// to them. Rows of floats of the caller; what both directions of the kernels share. Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_RECURRENTCELL_H
#define MT_KERNELS_CPU_RECURRENTCELL_H

#include "kernels/Recurrence.h"
#include "kernels/cpu/ElementwiseOps.h"
#include "kernels/cpu/Family.h"

namespace mt::kernels::cpu {

/// Columns that are computed together: their rows stay in the first cache.
constexpr int64_t kCellColumns = 256;
using CellRow = float[kCellColumns];

class RecurrentCell {
public:
  explicit RecurrentCell(const Recurrence &shape);

  /// What a step reads and makes. `x` is what comes from the inputs, `p` the products with the state, bias included.
  struct Step {
    int64_t count = 0;
    CellRow x[Recurrence::kMostGates], p[Recurrence::kMostGates];
    CellRow peephole[3];               ///< of lstm: zeros where there is none
    CellRow hiddenBefore, cellBefore;  ///< cellBefore of lstm
    CellRow z[Recurrence::kMostGates]; ///< preactivations, within the clip
    CellRow y[Recurrence::kMostGates]; ///< activated
    CellRow hidden, cell, raised;      ///< the new state; raised: h(cell)
  };
  void forward(Step &step) const;
  /// y of the reset gate alone.
  void reset(Step &step) const;

  /// After forward(): gradients of the states become those of the states before, but for what comes through `p`.
  struct Slopes {
    CellRow dhidden, dcell;
    CellRow dx[Recurrence::kMostGates], dp[Recurrence::kMostGates];
  };
  /// Where the candidate's product waits, all but the reset gate's.
  void backward(const Step &step, Slopes &slopes) const;
  /// The rest then: `left` is the gradient of reset * hiddenBefore.
  void backwardReset(const Step &step, const float *left, Slopes &slopes) const;

private:
  using Activation = Recurrence::Activation;
  Recurrence shape;
  RowFunction<float> gate, candidate, output;

  void activate(RowFunction<float> function, Step &step, int at) const;
  void lstm(Step &step) const;
  void gru(Step &step) const;
  void lstmBack(const Step &step, Slopes &slopes) const;
  void gruBack(const Step &step, Slopes &slopes) const;
  void scaleBySlope(Activation activation, const Step &step, int at, float *dz) const;
};

Result<Run> prepareRecurrenceGrad(const Signature &call);

} // namespace mt::kernels::cpu
#endif
