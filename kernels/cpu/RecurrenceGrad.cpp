// recurrence_grad: from the step that came last to the first, the cell's way back from what its products were, then one
// product that carries the gradient to the state before.
#include "kernels/cpu/GemmStored.h"
#include "kernels/cpu/RecurrentRows.h"

namespace mt::kernels::cpu {
namespace {

struct Backward {
  static constexpr size_t kDhidden = 0, kDcell = 1, kGates = 2, kProducts = 3, kWeight = 4, kBefore = 5,
                          kCellBefore = 6, kLengths = 7, kPeephole = 8, kDgates = 9, kDproducts = 10,
                          kDinitialHidden = 11, kDinitialCell = 12;
  Recurrence shape;
  RecurrentCell cell;
  RecurrentRows rows;
  DType weight;
  RowIn dhidden, dcell, gates, products, before, cellBefore, peephole;
  RowOut dgates, dproducts, dinitialHidden, dinitialCell;
  Lengths lengths;

  explicit Backward(const Signature &call)
      : shape(Recurrence::of(call)), cell(shape), rows(shape), weight(call.operands[kWeight].type),
        dhidden(call, kDhidden), dcell(call, kDcell), gates(call, kGates), products(call, kProducts),
        before(call, kBefore), cellBefore(call, kCellBefore), peephole(call, kPeephole), dgates(call, kDgates),
        dproducts(call, kDproducts), dinitialHidden(call, kDinitialHidden), dinitialCell(call, kDinitialCell),
        lengths(call, kLengths) {}

  bool isLstm() const { return shape.kind == Recurrence::Kind::lstm; }

  /// Scratch: gradients of a step's products [batch, line], then of the states and of what a reset gate left.
  struct Buffers {
    float *slopes, *hidden, *cell, *left;
  };
  Buffers buffersOf(const Launch &launch) const {
    float *slopes = static_cast<float *>(launch.operands.back());
    float *state = slopes + shape.batch * shape.line(), *next = state + shape.batch * shape.width;
    return {slopes, state, next, next}; // a cell or a reset gate, never both
  }

  Gemm product(int64_t depth) const {
    return {false, false, shape.batch, shape.width, depth, shape.line(), shape.width, shape.width};
  }
  Scratch scratch() const {
    Scratch most = scratchOver(product(shape.line()), DType::f32, weight, DType::f32);
    for (int64_t depth : {shape.width, 2 * shape.width})
      most = shape.waits() ? most.either(scratchOver(product(depth), DType::f32, weight, DType::f32)) : most;
    return most;
  }
  /// What columns [begin, end) of the slopes send through the weight.
  void multiply(const Launch &launch, const Buffers &in, int64_t begin, int64_t end, float *to, bool adds) const {
    Stored right = Stored{launch.operands[kWeight], weight}.at(begin * shape.width);
    multiplyOver(launch.pool, product(end - begin), 1, Stored{in.slopes + begin, DType::f32}, right,
                 StoredResult{to, DType::f32, adds});
  }

  void load(const Launch &launch, const RecurrentRows::Block &block, int64_t step, RecurrentCell::Step &into) const {
    into.count = block.count;
    rows.loadGates(gates, launch, rows.lineAt(block, step), block.count, into.x);
    rows.loadGates(products, launch, rows.lineAt(block, step), block.count, into.p);
    rows.bring(before, launch, rows.stateAt(block, step), block.count, into.hiddenBefore);
    if (!isLstm())
      return;
    rows.bring(cellBefore, launch, rows.stateAt(block, step), block.count, into.cellBefore);
    rows.loadPeephole(peephole, launch, block, into.peephole);
  }

  /// What reaches the states of a step: from later ones, and from who uses its results.
  void arrive(const Launch &launch, const RecurrentRows::Block &block, int64_t step, const RowIn &from,
              const float *later, float *to) const {
    rows.bring(from, launch, rows.stateAt(block, step), block.count, to);
    for (int64_t j = 0; j < block.count; ++j)
      to[j] += later[block.state + j];
  }

  void keep(const Launch &launch, const Buffers &in, const RecurrentRows::Block &block, int64_t step,
            const RecurrentCell::Slopes &slopes) const {
    std::copy_n(slopes.dhidden, block.count, in.hidden + block.state);
    if (isLstm())
      std::copy_n(slopes.dcell, block.count, in.cell + block.state);
    for (int at = 0; at < shape.gates; ++at)
      std::copy_n(slopes.dp[at], block.count, in.slopes + block.row * shape.line() + at * shape.width + block.column);
    rows.storeGates(dgates, launch, slopes.dx, rows.lineAt(block, step), block.count);
    rows.storeGates(dproducts, launch, slopes.dp, rows.lineAt(block, step), block.count);
  }

  void goBack(const Launch &launch, const Buffers &in, const RecurrentRows::Block &block, int64_t step) const {
    RecurrentCell::Slopes slopes = {};
    arrive(launch, block, step, dhidden, in.hidden, slopes.dhidden);
    if (isLstm())
      arrive(launch, block, step, dcell, in.cell, slopes.dcell);
    if (lengths.reach(launch, block.row, step)) {
      RecurrentCell::Step made;
      load(launch, block, step, made);
      cell.forward(made);
      cell.backward(made, slopes);
    }
    keep(launch, in, block, step, slopes);
  }

  void goBackThroughReset(const Launch &launch, const Buffers &in, const RecurrentRows::Block &block,
                          int64_t step) const {
    constexpr int kReset = Recurrence::kReset;
    if (!lengths.reach(launch, block.row, step))
      return;
    RecurrentCell::Step made;
    RecurrentCell::Slopes slopes;
    load(launch, block, step, made);
    cell.reset(made);
    std::copy_n(in.hidden + block.state, block.count, slopes.dhidden);
    cell.backwardReset(made, in.left + block.state, slopes);
    std::copy_n(slopes.dhidden, block.count, in.hidden + block.state);
    std::copy_n(slopes.dp[kReset], block.count,
                in.slopes + block.row * shape.line() + kReset * shape.width + block.column);
    int64_t place = rows.lineAt(block, step) + kReset * shape.width;
    rows.store(dgates, launch, slopes.dx[kReset], place, block.count);
    rows.store(dproducts, launch, slopes.dp[kReset], place, block.count);
  }

  Status operator()(const Launch &launch) const {
    Buffers in = buffersOf(launch);
    std::fill_n(in.hidden, shape.batch * shape.width * (isLstm() ? 2 : 1), 0.0f);
    int64_t waiting = shape.waits() ? Recurrence::kHidden * shape.width : shape.line();
    for (int64_t i = shape.steps - 1; i >= 0; --i) {
      int64_t step = shape.step(i);
      rows.each(launch.pool, [&](const RecurrentRows::Block &block) { goBack(launch, in, block, step); });
      if (shape.waits()) {
        multiply(launch, in, waiting, shape.line(), in.left, false);
        rows.each(launch.pool, [&](const RecurrentRows::Block &block) { goBackThroughReset(launch, in, block, step); });
      }
      if (i > 0 || dinitialHidden.present)
        multiply(launch, in, 0, waiting, in.hidden, true);
    }
    rows.store(dinitialHidden, launch, in.hidden, 0, shape.batch * shape.width);
    if (isLstm())
      rows.store(dinitialCell, launch, in.cell, 0, shape.batch * shape.width);
    return {};
  }
};

} // namespace

Result<Run> prepareRecurrenceGrad(const Signature &call) { return Run(Backward(call)); }

} // namespace mt::kernels::cpu
