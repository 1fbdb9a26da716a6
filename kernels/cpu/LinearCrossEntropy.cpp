// linear_cross_entropy and its gradient: the head's product, the loss, and what flows back, a chunk of rows at a time.
// The chunk's logits turn into their own gradients in the workspace; those keep the bits of bf16 where hidden is bf16.
#include "kernels/Blocks.h"
#include "kernels/cpu/FloatRows.h"
#include "kernels/cpu/GemmStored.h"
#include "kernels/cpu/Loss.h"
#include "kernels/cpu/Vector.h"

#include <array>
#include <cmath>
#include <optional>

namespace mt::kernels::cpu {
namespace {

struct Head {
  static constexpr size_t kHidden = 0, kWeight = 1, kBias = 2, kScalars = 4, kLoss = 5, kDhidden = 6, kDweight = 7,
                          kDbias = 8;
  static constexpr int64_t kColumns = 256; ///< of dbias in a parallel chunk

  int64_t rows, width, classes, chunk;
  bool transposed, backward;
  float scale, cap;
  Labels labels;
  RowLoss loss;
  RowIn bias;
  DType type;            ///< of hidden and weight
  RowOut dhidden, dweight, dbias; ///< absent for the loss alone
  /// Of a whole chunk, and of the last one, which may have fewer rows.
  std::array<std::optional<StoredProduct>, 2> forwards, hiddens, weights;

  explicit Head(const Signature &call)
      : rows(call.operands[0].dims[0]), width(call.operands[0].dims[1]),
        classes(call.operands[1].dims[call.integer("transposed") ? 1 : 0]), chunk(call.integer("chunk")),
        transposed(call.integer("transposed") != 0), backward(call.kernel == "linear_cross_entropy_grad"),
        scale(static_cast<float>(call.real("logitScale", 1))), cap(static_cast<float>(call.real("softCap"))),
        labels(call, 3), loss(call), bias(call, kBias), type(call.operands[kHidden].type) {
    if (backward) {
      dhidden = RowOut(call, kDhidden);
      dweight = RowOut(call, kDweight);
      dbias = RowOut(call, kDbias);
    }
    chunk = chunk > 0 ? std::min(chunk, rows) : rows;
    for (const bool last : {false, true}) {
      const int64_t count = last ? (rows - 1) % chunk + 1 : chunk;
      forwards[last].emplace(forwardGemm(count), scale, StoredProduct::Types{type, type, DType::f32});
      if (!backward)
        continue;
      hiddens[last].emplace(hiddenGemm(count), 1, StoredProduct::Types{type, type, inParts() ? DType::f32 : type}, 1,
                            classChunks(classes));
      weights[last].emplace(weightGemm(count), 1, StoredProduct::Types{type, type, DType::f32});
    }
  }

  bool inParts() const { return classChunks(classes).count > 1; } ///< dhidden

  const StoredProduct &of(const std::array<std::optional<StoredProduct>, 2> &products, int64_t count) const {
    return *products[count != chunk];
  }

  /// One launch: its addresses and step constants.
  struct Pass {
    const Launch &launch;
    double inverseValid;
    double *losses;
    float *logits, *dhiddenParts;
    float *dweight, *dbias; ///< the gradients themselves, or their sums in the workspace
  };

  /// Row `row` of the chunk at `first`: logits -> loss, and logits -> their gradient before scaling by `scale`.
  void row(const Pass &pass, int64_t first, int64_t row) const {
    float *x = pass.logits + row * headLine(classes);
    int64_t label = labels.at(pass.launch, first + row);
    if (label < 0) {
      pass.losses[first + row] = 0;
      std::fill(x, x + classes, 0.0f); // in bf16, too
      return;
    }
    if (bias.present)
      vec::scale(bias.at(pass.launch, 0, classes, ThreadPool::scratchOf<float>(classes)), scale, x, classes, true);
    if (cap > 0)
      vec::capped(x, 1, cap, x, classes);
    RowStatistics statistics;
    const bool once = backward && cap <= 0; // exponentials, in place of the logits
    pass.losses[first + row] = loss(x, classes, label, statistics, once ? x : nullptr);
    if (backward)
      sendBack(x, label, statistics, pass.inverseValid * static_cast<double>(scale));
  }

  void sendBack(float *x, int64_t label, const RowStatistics &statistics, double factor) const {
    double share = cap > 0 ? static_cast<double>(x[label]) / static_cast<double>(cap) : 0;
    float scaled = static_cast<float>(factor * statistics.slope / statistics.total);
    float each = static_cast<float>(factor * loss.ofEach(classes));
    if (cap > 0)
      vec::cappedExponentials(x, statistics.most, scaled, each, cap, x, classes);
    else
      vec::scaleLess(x, scaled, each, x, classes);
    x[label] -= static_cast<float>(factor * loss.ofLabel() * (1 - share * share));
    if (type == DType::bf16) // in the first half of the row's place: each is read before it is written over
      vec::narrow(x, classes, false, reinterpret_cast<Bf16 *>(x));
  }

  Stored hiddenAt(const Pass &pass, int64_t row) const {
    return Stored{pass.launch.operands[kHidden], type}.at(row * width);
  }

  /// From a row of the logits' gradients to the next, in elements of their type.
  int64_t logitLine() const { return type == DType::bf16 ? 2 * headLine(classes) : headLine(classes); }
  Stored logitGradients(const Pass &pass) const { return {pass.logits, type}; }

  Gemm forwardGemm(int64_t count) const {
    return {false, !transposed, count, classes, width, width, transposed ? classes : width, headLine(classes)};
  }
  Gemm hiddenGemm(int64_t count) const {
    return {false, transposed, count, width, classes, logitLine(), transposed ? classes : width, width};
  }
  Gemm weightGemm(int64_t count) const {
    return transposed ? Gemm{true, false, width, classes, count, width, logitLine(), classes}
                      : Gemm{true, false, classes, width, count, logitLine(), width, width};
  }

  Scratch scratch() const {
    Scratch most{.own = bias.present ? sizeof(float) * static_cast<uint64_t>(classes) : 0};
    for (const auto *products : {&forwards, &hiddens, &weights})
      for (const std::optional<StoredProduct> &product : *products)
        most = product ? most.either(product->scratch()) : most;
    return most;
  }

  void forwardProduct(const Pass &pass, int64_t first, int64_t count) const {
    of(forwards, count)
        .multiplyOver(pass.launch.pool,
                      {.a = hiddenAt(pass, first), .b = {pass.launch.operands[kWeight], type}, .c = {pass.logits}});
  }

  void hiddenGradient(const Pass &pass, int64_t first, int64_t count) const {
    if (!pass.launch.operands[kDhidden])
      return;
    StoredResult out =
        StoredResult{pass.launch.operands[kDhidden], type, pass.launch.accumulates(kDhidden)}.at(first * width);
    float *parts = pass.dhiddenParts;
    if (inParts() && !dhidden.native) {
      out = {parts, DType::f32, false};
      parts += count * width;
    }
    of(hiddens, count)
        .multiplyOver(pass.launch.pool,
                      {.a = logitGradients(pass), .b = {pass.launch.operands[kWeight], type}, .c = out, .sums = parts});
    if (inParts())
      finishSums(pass.launch, dhidden, pass.dhiddenParts, first * width, count * width);
  }

  void weightGradient(const Pass &pass, int64_t first, int64_t count) const {
    if (!pass.launch.operands[kDweight])
      return;
    const Stored hidden = hiddenAt(pass, first), logits = logitGradients(pass);
    StoredResult out{pass.dweight, DType::f32, first > 0 || dweight.adds(pass.launch)};
    of(weights, count)
        .multiplyOver(pass.launch.pool,
                      {.a = transposed ? hidden : logits, .b = transposed ? logits : hidden, .c = out});
  }

  void biasGradient(const Pass &pass, int64_t first, int64_t count) const {
    if (!pass.launch.operands[kDbias])
      return;
    bool adds = first > 0 || dbias.adds(pass.launch);
    pass.launch.pool.parallelFor(ceilDivide(classes, kColumns), [&](int64_t block) {
      int64_t begin = block * kColumns, columns = std::min(kColumns, classes - begin);
      double sums[kColumns] = {};
      float values[kColumns];
      for (int64_t i = 0; i < count; ++i) {
        loader<float>(type)(pass.logits, i * logitLine() + begin, 1, columns, values);
        for (int64_t j = 0; j < columns; ++j)
          sums[j] += static_cast<double>(values[j]);
      }
      float *out = pass.dbias + begin;
      for (int64_t j = 0; j < columns; ++j)
        out[j] = adds ? out[j] + static_cast<float>(sums[j]) : static_cast<float>(sums[j]);
    });
  }

  /// Sums of a gradient's elements from `first` on become, or are added to, the gradient, if they are not that
  /// themselves.
  void finishSums(const Launch &launch, const RowOut &gradient, const float *sums, int64_t first,
                  int64_t elements) const {
    if (!gradient.present || gradient.native)
      return;
    constexpr int64_t kChunk = 16384;
    launch.pool.parallelFor(ceilDivide(elements, kChunk), [&](int64_t chunk) {
      int64_t begin = chunk * kChunk;
      gradient.finish(launch, first + begin, std::min(kChunk, elements - begin), sums + begin);
    });
  }

  /// The workspace, as the catalogue orders it.
  Pass begin(const Launch &launch) const {
    double *losses = static_cast<double *>(launch.operands.back());
    float *logits = reinterpret_cast<float *>(losses + headLosses(rows)), *parts = logits + chunk * headLine(classes), *sums = parts;
    if (dhidden.present && inParts())
      sums += (classChunks(classes).count - dhidden.native) * chunk * width;
    float *dweightSums = dweight.place(launch, 0, sums);
    sums += dweight.present && !dweight.native ? classes * width : 0;
    return {launch,
            launch.at<const double>(kScalars)[Scalars::kInverseValid],
            losses,
            logits,
            parts,
            dweightSums,
            dbias.place(launch, 0, sums)};
  }

  Status operator()(const Launch &launch) const {
    MT_TRY(labels.verify(launch, classes));
    Pass pass = begin(launch);
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
    finishSums(launch, dweight, pass.dweight, 0, classes * width);
    finishSums(launch, dbias, pass.dbias, 0, classes);
    finishLoss(launch, kLoss, pass.losses, rows, pass.inverseValid);
    return {};
  }
};

Result<Run> prepareHead(const Signature &call) {
  return Run(Head(call));
}

constexpr Entry kEntries[] = {{"linear_cross_entropy", prepareHead}, {"linear_cross_entropy_grad", prepareHead}};

} // namespace

std::span<const Entry> headEntries() { return kEntries; }

} // namespace mt::kernels::cpu
