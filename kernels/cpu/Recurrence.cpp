// recurrence: for each step one product with the state of all rows, then the cell, rows and blocks of columns in
// parallel. All of it is in f32; rows of the batch see nothing of each other.
#include "kernels/Blocks.h"
#include "kernels/cpu/FloatRows.h"
#include "kernels/cpu/GemmStored.h"
#include "kernels/cpu/RecurrentCell.h"
#include "kernels/cpu/RecurrentRows.h"

namespace mt::kernels::cpu {
namespace {

struct Forward {
  static constexpr size_t kGates = 0, kWeight = 1, kBias = 2, kInitialHidden = 3, kInitialCell = 4, kLengths = 5,
                          kPeephole = 6, kHidden = 7, kCell = 8;
  Recurrence shape;
  RecurrentCell cell;
  RecurrentRows rows;
  DType weight;
  RowIn gates, bias, initialHidden, initialCell, peephole;
  RowOut hidden, cells;
  Lengths lengths;

  explicit Forward(const Signature &call)
      : shape(Recurrence::of(call)), cell(shape), rows(shape), weight(call.operands[kWeight].type), gates(call, kGates),
        bias(call, kBias), initialHidden(call, kInitialHidden), initialCell(call, kInitialCell),
        peephole(call, kPeephole), hidden(call, kHidden), cells(call, kCell), lengths(call, kLengths) {}

  /// Scratch: products [batch, line], states and what products read [batch, width] each.
  struct Buffers {
    float *products, *hidden, *cell, *operand;
  };
  Buffers buffersOf(const Launch &launch) const {
    float *products = static_cast<float *>(launch.operands.back());
    float *state = products + shape.batch * shape.line(), *cell = state + shape.batch * shape.width;
    return {products, state, cell, shape.kind == Recurrence::Kind::lstm ? cell + shape.batch * shape.width : cell};
  }

  Gemm product(int64_t columns) const {
    return {false, true, shape.batch, columns, shape.width, shape.width, shape.width, shape.line()};
  }
  Scratch scratch() const {
    Scratch most = scratchOver(product(shape.line()), DType::f32, weight, DType::f32);
    for (int64_t columns : {shape.width, 2 * shape.width})
      most = shape.waits() ? most.either(scratchOver(product(columns), DType::f32, weight, DType::f32)) : most;
    return most;
  }
  /// Columns [begin, end) of the products.
  void multiply(const Launch &launch, const Buffers &in, int64_t begin, int64_t end) const {
    Stored right = Stored{launch.operands[kWeight], weight}.at(begin * shape.width);
    multiplyOver(launch.pool, product(end - begin), 1, Stored{in.operand, DType::f32}, right,
                 StoredResult{in.products + begin, DType::f32, false});
  }

  void begin(const Launch &launch, const Buffers &in) const {
    rows.each(launch.pool, [&](const RecurrentRows::Block &block) {
      float *state = in.hidden + block.state, *cell = in.cell + block.state;
      rows.bring(initialHidden, launch, block.state, block.count, state);
      if (shape.kind == Recurrence::Kind::lstm)
        rows.bring(initialCell, launch, block.state, block.count, cell);
      std::copy_n(state, block.count, in.operand + block.state);
    });
  }

  /// What the cell of a block reads at a step; without products where the state is still zero.
  void load(const Launch &launch, const Buffers &in, const RecurrentRows::Block &block, int64_t step, bool multiplied,
            RecurrentCell::Step &into) const {
    into.count = block.count;
    rows.loadGates(gates, launch, rows.lineAt(block, step), block.count, into.x);
    for (int at = 0; at < shape.gates; ++at) {
      rows.bring(bias, launch, at * shape.width + block.column, block.count, into.p[at]);
      if (multiplied)
        for (int64_t j = 0; j < block.count; ++j)
          into.p[at][j] += in.products[block.row * shape.line() + at * shape.width + block.column + j];
    }
    std::copy_n(in.hidden + block.state, block.count, into.hiddenBefore);
    if (shape.kind != Recurrence::Kind::lstm)
      return;
    std::copy_n(in.cell + block.state, block.count, into.cellBefore);
    rows.loadPeephole(peephole, launch, block, into.peephole);
  }

  void reset(const Launch &launch, const Buffers &in, const RecurrentRows::Block &block, int64_t step) const {
    RecurrentCell::Step made;
    load(launch, in, block, step, true, made);
    cell.reset(made);
    for (int64_t j = 0; j < block.count; ++j)
      in.operand[block.state + j] = made.y[Recurrence::kReset][j] * made.hiddenBefore[j];
  }

  void advance(const Launch &launch, const Buffers &in, const RecurrentRows::Block &block, int64_t step,
               bool multiplied) const {
    if (lengths.reach(launch, block.row, step)) {
      RecurrentCell::Step made;
      load(launch, in, block, step, multiplied, made);
      cell.forward(made);
      std::copy_n(made.hidden, block.count, in.hidden + block.state);
      if (shape.kind == Recurrence::Kind::lstm)
        std::copy_n(made.cell, block.count, in.cell + block.state);
    }
    std::copy_n(in.hidden + block.state, block.count, in.operand + block.state);
    rows.store(hidden, launch, in.hidden + block.state, rows.stateAt(block, step), block.count);
    if (shape.kind == Recurrence::Kind::lstm)
      rows.store(cells, launch, in.cell + block.state, rows.stateAt(block, step), block.count);
  }

  Status operator()(const Launch &launch) const {
    Buffers in = buffersOf(launch);
    begin(launch, in);
    int64_t waiting = shape.waits() ? Recurrence::kHidden * shape.width : shape.line();
    for (int64_t i = 0; i < shape.steps; ++i) {
      int64_t step = shape.step(i);
      bool multiplied = i > 0 || initialHidden.present;
      if (multiplied)
        multiply(launch, in, 0, waiting);
      if (multiplied && shape.waits()) {
        rows.each(launch.pool, [&](const RecurrentRows::Block &block) { reset(launch, in, block, step); });
        multiply(launch, in, waiting, shape.line());
      }
      rows.each(launch.pool, [&](const RecurrentRows::Block &block) { advance(launch, in, block, step, multiplied); });
    }
    return {};
  }
};

Result<Run> prepareRecurrence(const Signature &call) { return Run(Forward(call)); }

constexpr Entry kEntries[] = {{"recurrence", prepareRecurrence}, {"recurrence_grad", prepareRecurrenceGrad}};

} // namespace

std::span<const Entry> recurrenceEntries() { return kEntries; }

} // namespace mt::kernels::cpu
