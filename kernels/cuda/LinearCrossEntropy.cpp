// linear_cross_entropy and its gradient, a chunk of rows at a time: logits by cuBLASLt in 32 bits, loss and gradient of
// every row, and the products that send it back. The products' rate is what it should reach where rows are wide.
#include "kernels/DeviceScratch.h"
#include "kernels/cuda/Blas.h"
#include "kernels/cuda/CastElements.h"
#include "kernels/cuda/Family.h"
#include "kernels/cuda/HeadRows.h"
#include "kernels/cuda/Library.h"
#include "kernels/cuda/Scratch.h"

namespace mt::kernels::cuda {

HeadProducts HeadProducts::of(const Signature &call, int64_t rows) {
  const OperandType &hidden = call.operands[0];
  bool transposed = call.integer("transposed") != 0;
  int64_t width = hidden.dims[1], classes = call.operands[1].dims[transposed ? 1 : 0];
  int64_t weightLine = transposed ? classes : width;
  HeadProducts made;
  made.logits = {.m = rows,
                 .n = classes,
                 .k = width,
                 .transposeB = !transposed,
                 .lda = width,
                 .ldb = weightLine,
                 .ldc = HeadScratch::line(classes),
                 .type = hidden.type,
                 .result = DType::f32};
  made.dhidden = {.m = rows,
                  .n = width,
                  .k = classes,
                  .transposeB = transposed,
                  .lda = HeadScratch::line(classes),
                  .ldb = weightLine,
                  .ldc = width,
                  .type = hidden.type,
                  .result = hidden.type};
  made.dweight = {.m = classes,
                  .n = width,
                  .k = rows,
                  .transposeA = true,
                  .lda = HeadScratch::line(classes),
                  .ldb = width,
                  .ldc = width,
                  .type = hidden.type,
                  .result = DType::f32};
  if (transposed)
    made.dweight = {.m = width,
                    .n = classes,
                    .k = rows,
                    .transposeA = true,
                    .lda = width,
                    .ldb = HeadScratch::line(classes),
                    .ldc = classes,
                    .type = hidden.type,
                    .result = DType::f32};
  bool whole = rows == hidden.dims[0]; // one chunk goes straight to its place, whatever that holds
  if (whole && call.operands.size() > 7 && call.operands[7].present)
    made.dweight.result = call.operands[7].type;
  return made;
}

namespace {

/// A chunk of so many rows.
struct Chunk {
  int64_t rows;
  Product logits, dhidden, dweight;
};

struct Head {
  static constexpr size_t kHidden = 0, kWeight = 1, kBias = 2, kLabels = 3, kScalars = 4, kLoss = 5, kDhidden = 6,
                          kDweight = 7, kDbias = 8;
  HeadScratch sizes;
  int64_t rows, width, classes;
  bool transposed, backward, wide;
  float scale, cap;
  double labelSmoothing, zLoss;
  DType type, biasType, dweightType = DType::f32, dbiasType = DType::f32;
  Chunk whole, rest; ///< all chunks but the last have one size; rest.rows is 0 where that divides

  explicit Head(const Signature &call)
      : sizes(HeadScratch::of(call)), rows(call.operands[kHidden].dims[0]), width(call.operands[kHidden].dims[1]),
        transposed(call.integer("transposed") != 0), backward(call.kernel == "linear_cross_entropy_grad"),
        wide(call.operands[kLabels].type == DType::i64), scale(static_cast<float>(call.real("logitScale", 1))),
        cap(static_cast<float>(call.real("softCap"))), labelSmoothing(call.real("labelSmoothing")),
        zLoss(call.real("zLoss")), type(call.operands[kHidden].type), biasType(call.operands[kBias].type) {
    int64_t chunk = call.integer("chunk");
    classes = call.operands[kWeight].dims[transposed ? 1 : 0];
    whole.rows = chunk > 0 ? std::min(chunk, rows) : rows;
    rest.rows = rows % whole.rows;
    if (backward)
      dweightType = call.operands[kDweight].type, dbiasType = call.operands[kDbias].type;
  }

  struct Buffers {
    double *losses;
    float *logits;
    void *gradients, *weightSums, *biasSums, *library;
  };
  Buffers buffersOf(const Launch &launch) const {
    Scratch scratch(launch.operands.back());
    Buffers made = {};
    made.losses = scratch.take<double>(sizes.losses), made.logits = scratch.take<float>(sizes.logits);
    made.gradients = scratch.take(sizes.gradients), made.weightSums = scratch.take(sizes.weightSums);
    made.biasSums = scratch.take(sizes.biasSums), made.library = scratch.take(sizes.library);
    if (backward && !made.gradients)
      made.gradients = made.logits;
    return made;
  }

  bool wants(const Launch &launch, size_t operand) const { return backward && launch.operands[operand]; }
  void *hiddenAt(const Launch &launch, size_t operand, int64_t row) const {
    return launch.at<char>(operand) + row * width * static_cast<int64_t>(byteSize(type));
  }

  Status sendBack(const Launch &launch, const Chunk &chunk, int64_t first, const Buffers &in) const {
    if (wants(launch, kDhidden))
      MT_TRY(chunk.dhidden.run(launch.stream, {.a = in.gradients,
                                               .b = launch.operands[kWeight],
                                               .c = hiddenAt(launch, kDhidden, first),
                                               .scratch = in.library,
                                               .beta = launch.accumulates(kDhidden) ? 1.0f : 0.0f}));
    if (wants(launch, kDweight)) {
      const void *hidden = hiddenAt(launch, kHidden, first);
      bool adds = first > 0 || (launch.accumulates(kDweight) && !in.weightSums);
      MT_TRY(chunk.dweight.run(launch.stream, {.a = transposed ? hidden : in.gradients,
                                               .b = transposed ? in.gradients : hidden,
                                               .c = in.weightSums ? in.weightSums : launch.operands[kDweight],
                                               .scratch = in.library,
                                               .beta = adds ? 1.0f : 0.0f}));
    }
    if (!wants(launch, kDbias))
      return {};
    bool adds = first > 0 || (launch.accumulates(kDbias) && !in.biasSums);
    return sumColumns(launch.stream, in.gradients, type, chunk.rows, classes, HeadScratch::line(classes),
                      in.biasSums ? in.biasSums : launch.operands[kDbias], in.biasSums ? DType::f32 : dbiasType, adds);
  }

  Status run(const Launch &launch, const Chunk &chunk, int64_t first, const Buffers &in) const {
    MT_TRY(chunk.logits.run(launch.stream, {.a = hiddenAt(launch, kHidden, first),
                                            .b = launch.operands[kWeight],
                                            .c = in.logits,
                                            .scratch = in.library,
                                            .alpha = scale}));
    HeadRows made{.rows = chunk.rows,
                  .classes = classes,
                  .line = HeadScratch::line(classes),
                  .scale = scale,
                  .cap = cap,
                  .labelSmoothing = labelSmoothing,
                  .zLoss = zLoss,
                  .logits = in.logits,
                  .gradients = backward ? in.gradients : nullptr,
                  .type = type,
                  .bias = launch.operands[kBias],
                  .biasType = biasType,
                  .labels = launch.at<const char>(kLabels) + first * (wide ? 8 : 4),
                  .wide = wide,
                  .scalars = launch.at<const double>(kScalars),
                  .losses = in.losses + first,
                  .fault = launch.fault,
                  .badLabel = static_cast<uint32_t>(Fault::labelOutOfRange)};
    MT_TRY(lossOfRows(launch.stream, made));
    return backward ? sendBack(launch, chunk, first, in) : Status();
  }

  Status operator()(const Launch &launch) const {
    Buffers in = buffersOf(launch);
    for (int64_t first = 0; first < rows; first += whole.rows)
      MT_TRY(run(launch, rows - first < whole.rows ? rest : whole, first, in));
    if (wants(launch, kDweight) && in.weightSums)
      MT_TRY(castElements(launch.stream, in.weightSums, DType::f32, launch.operands[kDweight], dweightType,
                          classes * width, launch.accumulates(kDweight)));
    if (wants(launch, kDbias) && in.biasSums)
      MT_TRY(castElements(launch.stream, in.biasSums, DType::f32, launch.operands[kDbias], dbiasType, classes,
                          launch.accumulates(kDbias)));
    if (!launch.operands[kLoss])
      return {};
    return sumLosses(launch.stream, in.losses, rows, launch.at<const double>(kScalars), launch.at<float>(kLoss),
                     launch.accumulates(kLoss));
  }
};

Status chooseProducts(const Signature &call, const Head &head, Blas &blas, Chunk &chunk) {
  if (chunk.rows == 0)
    return {};
  HeadProducts shapes = HeadProducts::of(call, chunk.rows);
  MT_ASSIGN(chunk.logits, blas.product(shapes.logits, head.sizes.library));
  if (!head.backward)
    return {};
  MT_ASSIGN(chunk.dhidden, blas.product(shapes.dhidden, head.sizes.library));
  MT_ASSIGN(chunk.dweight, blas.product(shapes.dweight, head.sizes.library));
  return {};
}

Result<Run> prepareHead(const Signature &call, Library &library) {
  MT_ASSIGN(Blas * blas, library.blas());
  Head head(call);
  MT_TRY(chooseProducts(call, head, *blas, head.whole));
  MT_TRY(chooseProducts(call, head, *blas, head.rest));
  return Run(std::move(head));
}

} // namespace

std::span<const Entry> headEntries() {
  static constexpr Entry kEntries[] = {{"linear_cross_entropy", prepareHead},
                                       {"linear_cross_entropy_grad", prepareHead}};
  return kEntries;
}

} // namespace mt::kernels::cuda
