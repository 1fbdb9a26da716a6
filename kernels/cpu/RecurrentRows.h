// Blocks of columns of the rows of a batch, as recurrent layers compute them, and how they move in and out. Private to
// kernels/cpu.
#ifndef MT_KERNELS_CPU_RECURRENTROWS_H
#define MT_KERNELS_CPU_RECURRENTROWS_H

#include "kernels/Blocks.h"
#include "kernels/cpu/FloatRows.h"
#include "kernels/cpu/RecurrentCell.h"

namespace mt::kernels::cpu {

/// How many steps each row of the batch has: all of them where nothing says so.
struct Lengths {
  size_t operand = 0;
  bool wide = false;

  Lengths(const Signature &call, size_t operand) : operand(operand), wide(call.operands[operand].type == DType::i64) {}
  bool reach(const Launch &launch, int64_t row, int64_t step) const {
    if (!launch.operands[operand])
      return true;
    return step < (wide ? launch.at<const int64_t>(operand)[row] : launch.at<const int32_t>(operand)[row]);
  }
};

struct RecurrentRows {
  Recurrence shape;
  explicit RecurrentRows(const Recurrence &shape) : shape(shape) {}

  struct Block {
    int64_t row, column, count;
    int64_t state; ///< of its first element in [batch, width]
  };

  template <typename Body> void each(ThreadPool &pool, const Body &body) const {
    int64_t across = ceilDivide(shape.width, kCellColumns);
    pool.parallelFor(shape.batch * across, [&](int64_t chunk) {
      int64_t row = chunk / across, column = chunk % across * kCellColumns;
      body(Block{row, column, std::min(kCellColumns, shape.width - column), row * shape.width + column});
    });
  }

  /// Of a block's first element in [steps, batch, width], and in [steps, batch, line].
  int64_t stateAt(const Block &block, int64_t step) const { return step * shape.batch * shape.width + block.state; }
  int64_t lineAt(const Block &block, int64_t step) const {
    return (step * shape.batch + block.row) * shape.line() + block.column;
  }

  /// Elements of an operand, or zeros where it is absent.
  void bring(const RowIn &from, const Launch &launch, int64_t begin, int64_t count, float *to) const {
    const float *in = from.at(launch, begin, count, to);
    if (!in)
      std::fill_n(to, count, 0.0f);
    else if (in != to)
      std::copy_n(in, count, to);
  }
  void loadGates(const RowIn &from, const Launch &launch, int64_t begin, int64_t count, CellRow *to) const {
    for (int at = 0; at < shape.gates; ++at)
      bring(from, launch, begin + at * shape.width, count, to[at]);
  }
  void loadPeephole(const RowIn &from, const Launch &launch, const Block &block, CellRow *to) const {
    for (int at = 0; at < 3; ++at)
      bring(from, launch, at * shape.width + block.column, block.count, to[at]);
  }
  void store(const RowOut &to, const Launch &launch, const float *from, int64_t begin, int64_t count) const {
    if (to.present)
      to.store(from, launch.operands[to.operand], begin, count, false);
  }
  void storeGates(const RowOut &to, const Launch &launch, const CellRow *from, int64_t begin, int64_t count) const {
    for (int at = 0; at < shape.gates; ++at)
      store(to, launch, from[at], begin + at * shape.width, count);
  }
};

} // namespace mt::kernels::cpu
#endif
