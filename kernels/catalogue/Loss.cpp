// Losses: scalars that add up over the micro-batches of a step.
#include "kernels/Blocks.h"
#include "kernels/DeviceScratch.h"
#include "kernels/catalogue/Checker.h"
#include "kernels/catalogue/Entry.h"

#include <cmath>

namespace mt::kernels {
namespace {

using Kind = AttributeSpec::Kind;

void checkRows(Checker &c) {
  c.floating(0).rank(0, 2).integral(1).scalars(2).then([](Checker &d) { d.dims(1, {d.at(0).dims[0]}); });
  c.type(3, DType::f32).dims(3, {});
}

void checkTerms(Checker &c, const Signature &call) {
  const double smoothing = call.real("labelSmoothing"), zLoss = call.real("zLoss");
  c.require(smoothing >= 0 && smoothing <= 1, "attribute labelSmoothing must be from 0 to 1")
      .require(std::isfinite(zLoss) && zLoss >= 0, "attribute zLoss must be finite and not negative");
}

std::string checkCrossEntropy(const Signature &call) {
  Checker checker(call);
  checkRows(checker);
  checkTerms(checker, call);
  return checker.result();
}

std::string checkCrossEntropyGrad(const Signature &call) {
  Checker checker(call);
  checkRows(checker);
  checkTerms(checker, call);
  return checker.like(4, 0).result();
}

int64_t vocabulary(const Signature &call) {
  const Dims &weight = call.operands[1].dims;
  return weight[call.integer("transposed") ? 1 : 0];
}

void checkHead(Checker &c, const Signature &call) {
  c.floating(0).rank(0, 2).sameType(1, 0).rank(1, 2).integral(3).scalars(4).then([&](Checker &d) {
    int64_t rows = d.at(0).dims[0], width = d.at(0).dims[1], classes = vocabulary(call);
    d.dims(1, call.integer("transposed") ? Dims{width, classes} : Dims{classes, width})
        .sameTypeOrF32(2, 0)
        .dims(2, {classes})
        .dims(3, {rows})
        .require(rows <= (int64_t{1} << 50) / classes, "rows times classes are too many");
  });
  double scale = call.real("logitScale", 1), cap = call.real("softCap");
  c.type(5, DType::f32)
      .dims(5, {})
      .require(std::isfinite(scale) && std::isfinite(cap) && cap >= 0,
               "attributes logitScale and softCap must be finite, softCap not negative")
      .require(call.integer("chunk") >= 0, "attribute chunk must not be negative");
  checkTerms(c, call);
}

std::string checkLinear(const Signature &call) {
  Checker checker(call);
  checkHead(checker, call);
  return checker.result();
}

std::string checkLinearGrad(const Signature &call) {
  Checker checker(call);
  checkHead(checker, call);
  return checker.like(6, 0)
      .sameTypeOrF32(7, 0)
      .sameDims(7, 1)
      .sameTypeOrF32(8, 0)
      .require(!checker.at(8).present || checker.at(2).present, "dbias without a bias")
      .sameDims(8, 2)
      .result();
}

std::string checkSquaredError(const Signature &call) {
  return Checker(call).floating(0).like(1, 0).scalars(2).type(3, DType::f32).dims(3, {}).result();
}

std::string checkSquaredErrorGrad(const Signature &call) {
  return Checker(call).floating(0).like(1, 0).scalars(2).type(3, DType::f32).dims(3, {}).like(4, 0).result();
}

/// The loss of every row, in 64 bits.
uint64_t rowSums(const Signature &call) {
  int64_t rows = call.operands[0].dims.empty() ? 1 : call.operands[0].dims[0];
  return static_cast<uint64_t>(rows) * sizeof(double);
}

uint64_t elementSums(const Signature &call) {
  return static_cast<uint64_t>(lossChunks(call.operands[0].elements()).count) * sizeof(double);
}

/// 32-bit sums of a gradient that is narrower itself.
uint64_t wideSums(const OperandType &gradient) {
  return gradient.type == DType::f32 || !gradient.present ? 0
                                                          : static_cast<uint64_t>(gradient.elements()) * sizeof(float);
}

/// The losses of all rows, then the logits of one chunk, then the sums of its dhidden's parts, the first of them too
/// where they are not f32, then those of dweight and dbias where they are not f32.
uint64_t headWorkspace(const Signature &call) {
  bool backward = call.kernel == "linear_cross_entropy_grad";
  uint64_t sums = backward ? wideSums(call.operands[7]) + wideSums(call.operands[8]) : 0;
  int64_t rows = call.operands[0].dims[0], width = call.operands[0].dims[1], chunk = call.integer("chunk");
  int64_t held = chunk > 0 ? std::min(chunk, rows) : rows;
  const int64_t parts = classChunks(vocabulary(call)).count;
  if (backward && call.operands[6].present && parts > 1)
    sums += static_cast<uint64_t>(parts - (call.operands[6].type == DType::f32)) * static_cast<uint64_t>(held * width) *
            sizeof(float);
  return static_cast<uint64_t>(headLosses(rows)) * sizeof(double) +
         static_cast<uint64_t>(held * headLine(vocabulary(call))) * sizeof(float) + sums;
}

template <int Count> double flopsPerLogit(const Signature &call) {
  return Count * static_cast<double>(call.operands[0].elements());
}

template <int Products> double headFlops(const Signature &call) {
  return 2.0 * Products * static_cast<double>(call.operands[0].elements()) * static_cast<double>(vocabulary(call));
}

/// Chunk by chunk: the logits, what is made of them, and the products of their gradient. That of the weight adds to what
/// the chunks before have left.
std::vector<Piece> headPieces(const Signature &call) {
  const OperandType &hidden = call.operands[0], &weight = call.operands[1];
  const int64_t rows = hidden.dims[0], width = hidden.dims[1], classes = vocabulary(call), chunk = call.integer("chunk");
  const int64_t held = chunk > 0 ? std::min(chunk, rows) : rows;
  const double times = static_cast<double>(rows) / static_cast<double>(held);
  const bool transposed = call.integer("transposed") != 0, backward = call.kernel == "linear_cross_entropy_grad";
  const OperandType absent{.type = hidden.type, .dims = {}, .present = false};
  auto read = [](DType type, Dims dims) { return OperandType{type, std::move(dims)}; };
  auto written = [](DType type, Dims dims, Effect effect = Effect::write) { return OperandType{type, std::move(dims), effect}; };
  auto product = [&](bool left, bool right, OperandType lhs, OperandType rhs, OperandType result) {
    return Piece{{"matmul", {{"transposeLhs", int64_t{left}}, {"transposeRhs", int64_t{right}}}, {lhs, rhs, absent, result}}, times};
  };
  const OperandType input = read(hidden.type, {held, width}), logits = read(DType::f32, {held, classes});
  const OperandType slopes = read(hidden.type, {held, classes}), loss = written(DType::f32, {}, Effect::update);
  const OperandType labels = read(call.operands[3].type, {held}), scalars = call.operands[4];
  std::vector<Piece> pieces = {product(false, !transposed, input, weight, written(DType::f32, {held, classes}))};
  if (!backward) {
    pieces.push_back({{"cross_entropy", {}, {logits, labels, scalars, loss}}, times});
    return pieces;
  }
  pieces.push_back({{"cross_entropy_grad", {}, {logits, labels, scalars, loss, written(DType::f32, {held, classes})}}, times});
  if (call.operands[6].present)
    pieces.push_back(product(false, transposed, slopes, weight, written(hidden.type, {held, width})));
  if (call.operands[7].present) {
    const OperandType sums = written(DType::f32, weight.dims, Effect::update);
    pieces.push_back(transposed ? product(true, false, input, slopes, sums) : product(true, false, slopes, input, sums));
  }
  return pieces;
}

constexpr AttributeSpec kSmoothing = {"labelSmoothing", Kind::real, false, "", "s; default 0"};
constexpr AttributeSpec kZLoss = {"zLoss", Kind::real, false, "", "z; default 0"};
constexpr AttributeSpec kTerms[] = {kSmoothing, kZLoss};
constexpr AttributeSpec kHead[] = {{"transposed", Kind::flag, false, "", "weight is [D, V], else [V, D]"},
                                   {"logitScale", Kind::real, false, "", "of the logits; default 1"},
                                   {"softCap", Kind::real, false, "", "c > 0: c * tanh(logit / c); default 0, none"},
                                   {"chunk", Kind::integer, false, "", "rows at a time; default 0, all"},
                                   kSmoothing,
                                   kZLoss};

} // namespace

std::span<const Kernel> lossKernels() {
  static const std::vector<Kernel> kernels = {
      entry(
          "cross_entropy", "logits labels scalars -> loss+", "Cross-entropy of logits [N, V] against labels [N].",
          "sum over rows with label >= 0 of (l - (1 - s) row[label] - s mean(row) + z l^2) * inverse valid, l = "
          "logsumexp(row): Szegedy et al., arXiv 1512.00567, section 7; Chowdhery et al., arXiv 2204.02311, section 5",
          flopsPerLogit<4>, checkCrossEntropy, {.attributes = kTerms, .workspace = rowSums}),
      entry(
          "cross_entropy_grad", "logits labels scalars -> loss+ dlogits+", "The loss and the gradient of the logits.",
          "dlogits = ((1 + 2 z l) softmax(row) - (1 - s) onehot(label) - s / V) * inverse valid, zero where label < 0",
          flopsPerLogit<6>, checkCrossEntropyGrad, {.attributes = kTerms, .workspace = rowSums}),
      entry("linear_cross_entropy", "hidden weight bias? labels scalars -> loss+",
            "Head product and cross-entropy by chunks of rows, so that all logits never exist.",
            "logits = logitScale * (hidden . weight + bias), capped, in f32; then as cross_entropy. Types: hidden and "
            "weight of one; bias that or f32",
            headFlops<1>, checkLinear,
            {.attributes = kHead, .workspace = headWorkspace, .cudaWorkspace = headScratch, .pieces = headPieces}),
      entry("linear_cross_entropy_grad", "hidden weight bias? labels scalars -> loss+ dhidden+ dweight+ dbias+",
            "The loss and the gradients of hidden, weight and bias, chunk by chunk; sums in 32 bits.",
            "dlogits as cross_entropy_grad, through cap and scale; dhidden = dlogits . weight^T, dweight = dlogits^T . "
            "hidden, dbias = sum of dlogits over rows. Types: hidden, weight, dhidden of one, to which dlogits are "
            "rounded before the products; bias, dweight, dbias that or f32; dweight and dbias are summed in f32",
            headFlops<3>, checkLinearGrad,
            {.attributes = kHead, .workspace = headWorkspace, .cudaWorkspace = headScratch, .pieces = headPieces}),
      entry("squared_error", "prediction target scalars -> loss+", "Sum of squared differences.",
            "sum of (prediction - target)^2 * inverse valid", flopsPerLogit<3>, checkSquaredError,
            {.workspace = elementSums}),
      entry("squared_error_grad", "prediction target scalars -> loss+ dprediction+",
            "The loss and the gradient of the prediction.", "dprediction = 2 (prediction - target) * inverse valid",
            flopsPerLogit<5>, checkSquaredErrorGrad, {.workspace = elementSums})};
  return kernels;
}

} // namespace mt::kernels
