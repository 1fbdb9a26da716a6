// recurrence and its gradient, prepared: for each step a product of cuBLASLt and a kernel of ours, or two of each where
// a candidate's product waits for the reset gate.
#include "kernels/cuda/Recurrence.h"

#include "kernels/cuda/Blas.h"
#include "kernels/cuda/CastElements.h"
#include "kernels/cuda/Launching.h"
#include "kernels/cuda/Library.h"
#include "kernels/cuda/Scratch.h"

namespace mt::kernels::cuda {
namespace {

/// Gates [begin, end) of a layer, and the product that they take part in.
struct Part {
  int64_t begin = 0, end = 0;
  Product product;
};

/// The product with the state: a step's rows of gates from states.
ProductShape forwardShape(const Recurrence &of, int64_t columns, DType type) {
  return {.m = of.batch,
          .n = columns,
          .k = of.width,
          .transposeB = true,
          .lda = of.width,
          .ldb = of.width,
          .ldc = of.line(),
          .type = type,
          .result = DType::f32};
}
/// The product that leads back: states from rows of gates.
ProductShape backwardShape(const Recurrence &of, int64_t columns, DType type) {
  return {.m = of.batch,
          .n = of.width,
          .k = columns,
          .lda = of.line(),
          .ldb = of.width,
          .ldc = of.width,
          .type = type,
          .result = DType::f32};
}

/// What forward and backward share.
struct Layer {
  Recurrence shape;
  RecurrenceScratch sizes;
  DType type; ///< of the weight
  size_t weight, lengths;
  bool wide;
  Part first, second; ///< the second where the candidate's product waits; else it is empty

  Layer(const Signature &call, size_t weight, size_t lengths)
      : shape(Recurrence::of(call)), sizes(RecurrenceScratch::of(call, Backend::cuda)),
        type(call.operands[weight].type), weight(weight), lengths(lengths),
        wide(call.operands[lengths].type == DType::i64) {
    first.end = second.begin = shape.waits() ? Recurrence::kHidden * shape.width : shape.line();
    second.end = shape.line();
  }

  Status choose(Library &library, ProductShape (*shapeOf)(const Recurrence &, int64_t, DType)) {
    MT_ASSIGN(Blas * blas, library.blas());
    for (Part *part : {&first, &second})
      if (part->begin < part->end) {
        MT_ASSIGN(part->product, blas->product(shapeOf(shape, part->end - part->begin, type), sizes.library));
      }
    return {};
  }

  const void *weightAt(const Launch &launch, const Part &part) const {
    return launch.at<const char>(weight) + part.begin * shape.width * static_cast<int64_t>(byteSize(type));
  }
  StepLengths lengthsOf(const Launch &launch) const { return {launch.operands[lengths], wide}; }
  int64_t blocks() const { return ceilDivide(shape.batch * shape.width, kThreads); }
  template <typename Code, typename Step> Status run(const Launch &launch, Code code, const Step &step) const {
    return start(launch.stream, blocks(), kThreads, code, step);
  }
};

struct Forward : Layer {
  Bound gates, bias, initialHidden, initialCell, peephole, hidden, cell;

  explicit Forward(const Signature &call)
      : Layer(call, 1, 5), gates(call, 0), bias(call, 2), initialHidden(call, 3), initialCell(call, 4),
        peephole(call, 6), hidden(call, 7), cell(call, 8) {}

  struct Buffers {
    float *products, *hidden, *cell;
    void *operand, *library;
  };

  Status multiply(const Launch &launch, const Buffers &in, const Part &part) const {
    return part.product.run(
        launch.stream,
        {.a = in.operand, .b = weightAt(launch, part), .c = in.products + part.begin, .scratch = in.library});
  }

  Status begin(const Launch &launch, const Buffers &in) const {
    int64_t count = shape.batch * shape.width;
    MT_TRY(start(launch.stream, blocks(), kThreads, beginStateCode(), initialHidden.in(launch), count, in.hidden,
                 Out{in.operand, type}));
    if (!in.cell)
      return {};
    return start(launch.stream, blocks(), kThreads, beginStateCode(), initialCell.in(launch), count, in.cell, Out{});
  }

  Status operator()(const Launch &launch) const {
    Scratch scratch(launch.operands.back());
    Buffers in = {};
    in.products = scratch.take<float>(sizes.gates), in.hidden = scratch.take<float>(sizes.hidden);
    in.cell = scratch.take<float>(sizes.cell), in.operand = scratch.take(sizes.operand);
    in.library = scratch.take(sizes.library);
    MT_TRY(begin(launch, in));
    RecurrentStep made{.shape = shape,
                       .step = 0,
                       .begins = !initialHidden.present,
                       .gates = gates.in(launch),
                       .bias = bias.in(launch),
                       .peephole = peephole.in(launch),
                       .lengths = lengthsOf(launch),
                       .products = in.products,
                       .hidden = in.hidden,
                       .cell = in.cell,
                       .operand = {in.operand, type},
                       .hiddenOut = hidden.out(launch),
                       .cellOut = cell.out(launch)};
    for (int64_t i = 0; i < shape.steps; ++i, made.begins = false) {
      made.step = shape.step(i);
      if (!made.begins)
        MT_TRY(multiply(launch, in, first));
      if (!made.begins && shape.waits()) {
        MT_TRY(run(launch, resetStateCode(), made));
        MT_TRY(multiply(launch, in, second));
      }
      MT_TRY(run(launch, advanceStateCode(), made));
    }
    return {};
  }
};

struct Backward : Layer {
  Bound dhidden, dcell, gates, products, before, cellBefore, peephole, dgates, dproducts, dinitialHidden, dinitialCell;

  explicit Backward(const Signature &call)
      : Layer(call, 4, 7), dhidden(call, 0), dcell(call, 1), gates(call, 2), products(call, 3), before(call, 5),
        cellBefore(call, 6), peephole(call, 8), dgates(call, 9), dproducts(call, 10), dinitialHidden(call, 11),
        dinitialCell(call, 12) {}

  struct Buffers {
    void *slopes;
    float *hidden, *cell, *left;
    void *library;
  };

  Status multiply(const Launch &launch, const Buffers &in, const Part &part, float *to, bool adds) const {
    return part.product.run(launch.stream,
                            {.a = static_cast<char *>(in.slopes) + part.begin * static_cast<int64_t>(byteSize(type)),
                             .b = weightAt(launch, part),
                             .c = to,
                             .scratch = in.library,
                             .beta = adds ? 1.0f : 0.0f});
  }

  Status keep(const Launch &launch, const float *from, const Bound &to) const {
    if (!to.present)
      return {};
    return castElements(launch.stream, from, DType::f32, launch.operands[to.operand], to.type,
                        shape.batch * shape.width, false);
  }

  Status operator()(const Launch &launch) const {
    Scratch scratch(launch.operands.back());
    Buffers in = {};
    in.slopes = scratch.take(sizes.gates), in.hidden = scratch.take<float>(sizes.hidden);
    in.cell = scratch.take<float>(sizes.cell), in.left = scratch.take<float>(sizes.operand);
    in.library = scratch.take(sizes.library);
    MT_TRY(clearBytes(launch.stream, in.hidden, sizes.hidden));
    if (in.cell)
      MT_TRY(clearBytes(launch.stream, in.cell, sizes.cell));
    RecurrentStepBack made{.shape = shape,
                           .step = 0,
                           .dhidden = dhidden.in(launch),
                           .dcell = dcell.in(launch),
                           .gates = gates.in(launch),
                           .products = products.in(launch),
                           .before = before.in(launch),
                           .cellBefore = cellBefore.in(launch),
                           .peephole = peephole.in(launch),
                           .lengths = lengthsOf(launch),
                           .hidden = in.hidden,
                           .cell = in.cell,
                           .slopes = {in.slopes, type},
                           .left = in.left,
                           .dgates = dgates.out(launch),
                           .dproducts = dproducts.out(launch)};
    for (int64_t i = shape.steps - 1; i >= 0; --i) {
      made.step = shape.step(i);
      MT_TRY(run(launch, goBackCode(), made));
      if (shape.waits()) {
        MT_TRY(multiply(launch, in, second, in.left, false));
        MT_TRY(run(launch, goBackThroughResetCode(), made));
      }
      if (i > 0 || dinitialHidden.present)
        MT_TRY(multiply(launch, in, first, in.hidden, true));
    }
    MT_TRY(keep(launch, in.hidden, dinitialHidden));
    return in.cell ? keep(launch, in.cell, dinitialCell) : Status();
  }
};

Result<Run> prepareRecurrence(const Signature &call, Library &library) {
  Forward made(call);
  MT_TRY(made.choose(library, forwardShape));
  return Run(std::move(made));
}
Result<Run> prepareRecurrenceGrad(const Signature &call, Library &library) {
  Backward made(call);
  MT_TRY(made.choose(library, backwardShape));
  return Run(std::move(made));
}

} // namespace

std::span<const Entry> recurrenceEntries() {
  static constexpr Entry kEntries[] = {{"recurrence", prepareRecurrence}, {"recurrence_grad", prepareRecurrenceGrad}};
  return kEntries;
}

} // namespace mt::kernels::cuda
