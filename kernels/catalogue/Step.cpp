// What a schedule needs besides the operations of a graph: feeding, norms, clipping, updates, reporting.
#include "kernels/Blocks.h"
#include "kernels/catalogue/Checker.h"
#include "kernels/catalogue/Entry.h"

namespace mt::kernels {
namespace {

using Kind = AttributeSpec::Kind;

std::string checkFeed(const Signature &) { return ""; }

std::string checkReport(const Signature &call) {
  return Checker(call).type(0, DType::f32).dims(0, {}).scalars(1).result();
}

std::string checkPairwiseSum(const Signature &call) {
  Checker checker(call);
  for (int i = 0; i < static_cast<int>(call.operands.size()); ++i)
    checker.type(i, DType::f32).sameDims(i, 0);
  return checker.result();
}

std::string checkSquaredNorm(const Signature &call) {
  return Checker(call).floating(0).type(1, DType::f64).dims(1, {1}).result();
}

std::string checkStepNorm(const Signature &call) {
  Checker checker(call);
  int result = static_cast<int>(call.operands.size()) - 1;
  checker.type(0, DType::f64).rank(0, 2).then([](Checker &c) {
    c.require(c.at(0).dims[1] == Scalars::kCount, "the scalars are no rows of the step's scalars");
  });
  for (int i = 1; i < result; ++i)
    checker.type(i, DType::f64).rank(i, 1);
  return checker.like(result, 0).result();
}

constexpr AttributeSpec kParameter[] = {{"parameter", Kind::integer, true, "", "index of the plan's parameter"},
                                         {"first", Kind::integer, false, "", "the first of its elements that the call is for"}};

std::string checkPart(Checker &checker, const Signature &call) {
  return checker.require(call.integer("parameter") >= 0, "attribute parameter must not be negative")
      .require(call.integer("first") >= 0, "attribute first must not be negative")
      .result();
}

std::string checkUpdate(const Signature &call) {
  Checker checker(call);
  checker.type(0, DType::f32).type(1, DType::f64).dims(1, {1}).scalars(2);
  for (int i = 3; i < static_cast<int>(call.operands.size()); ++i)
    checker.type(i, DType::f32).sameDims(i, 0);
  return checkPart(checker, call);
}

/// A master weight in two parts: kernels/Bf16.h.
std::string checkSplitUpdate(const Signature &call) {
  Checker checker(call);
  checker.type(0, DType::f32).type(1, DType::f64).dims(1, {1}).scalars(2);
  checker.type(3, DType::bf16).sameDims(3, 0).type(4, DType::i16).sameDims(4, 0);
  for (int i = 5; i < static_cast<int>(call.operands.size()); ++i)
    checker.type(i, DType::f32).sameDims(i, 0);
  return checkPart(checker, call);
}

double sumFlops(const Signature &call) {
  return static_cast<double>(call.operands.size() - 1) * static_cast<double>(call.operands[0].elements());
}

double normFlops(const Signature &call) {
  return 2 * static_cast<double>(call.operands[0].elements());
}

uint64_t normWorkspace(const Signature &call) {
  return static_cast<uint64_t>(squaredNormChunks(call.operands[0].elements()).count) * sizeof(double);
}

} // namespace

std::span<const Kernel> stepKernels() {
  static const std::vector<Kernel> kernels = {
      entry("feed", "-> parts*", "The step's inputs and scalars; done by the training loop.",
            "the parts of the plan's inputs, in order", noFlops, checkFeed),
      entry("report", "loss scalars -> ", "Hands the loss and the step's scalars to the training loop.", "no result",
            noFlops, checkReport),
      entry("pairwise_sum", "terms* => sum",
            "Adds tensors to one, the first, by a tree that their number alone decides.",
            "terms [a, a + 2^k), a being a multiple of 2^k, are the sum of their halves; what the number of terms "
            "leaves over is "
            "added from the end. Higham, SIAM J. Sci. Comput. 14 (1993)",
            sumFlops, checkPairwiseSum),
      entry("squared_norm", "x -> norm", "Squared Euclidean norm, by a fixed tree of 64-bit sums.", "sum of x^2",
            normFlops, checkSquaredNorm, {.workspace = normWorkspace}),
      entry("step_norm", "scalars norms* -> result", "The norm of the whole gradient and the clip scale.",
            "norm = sqrt(sum of all squared norms, in order); clip scale = min(1, threshold / (norm + 1e-6)) in every "
            "row, as "
            "torch.nn.utils.clip_grad_norm_; an error if the norm is not finite",
            noFlops, checkStepNorm),
      entry("adamw", "gradient squaredNorm scalars => weight firstMoment secondMoment",
            "One step of AdamW, and nothing at step 0; an error, before anything is written, if gradient norm or new "
            "weight is not finite.",
            "g = clip scale * gradient; w *= 1 - lr * decay; m += (1 - beta1) (g - m); v = beta2 v + (1 - beta2) g^2; "
            "w -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps). Loshchilov and Hutter, arXiv "
            "1711.05101; torch.optim.AdamW",
            flopsPerElement<15>, checkUpdate, {.attributes = kParameter}),
      entry("adamw_split", "gradient squaredNorm scalars => weight remainder firstMoment secondMoment",
            "One step of AdamW on a 32-bit master in two halves; errors as adamw.",
            "w = weight * 2^16 + remainder, as bits: bf16 and i16; w, m, v as adamw; weight = (w + 2^15) >> 16, "
            "remainder = w - weight * 2^16. A new weight whose upper half would be infinite is not finite",
            flopsPerElement<15>, checkSplitUpdate, {.attributes = kParameter}),
      entry("sgd", "gradient squaredNorm scalars => weight momentum",
            "One step of SGD with momentum, and nothing at step 0; an error, before anything is written, if gradient "
            "norm or new weight is not finite.",
            "g = clip scale * gradient + decay * w; b = momentum * b + g; w -= lr * b. torch.optim.SGD",
            flopsPerElement<7>, checkUpdate, {.attributes = kParameter}),
      entry("sgd_split", "gradient squaredNorm scalars => weight remainder momentum",
            "One step of SGD with momentum on a 32-bit master in two halves; errors as sgd.",
            "w = weight * 2^16 + remainder, as bits: bf16 and i16; w, b as sgd; weight and remainder as adamw_split",
            flopsPerElement<7>, checkSplitUpdate, {.attributes = kParameter}),
      entry("lion", "gradient squaredNorm scalars => weight firstMoment",
            "One step of Lion, and nothing at step 0; an error, before anything is written, if gradient norm or new "
            "weight is "
            "not finite.",
            "g = clip scale * gradient; w *= 1 - lr * decay; w -= lr * sign(m + (1 - beta1) (g - m)); m += (1 - beta2) "
            "(g - m). "
            "Chen et al., arXiv 2302.06675, algorithm 2",
            flopsPerElement<8>, checkUpdate, {.attributes = kParameter}),
      entry("lion_split", "gradient squaredNorm scalars => weight remainder firstMoment",
            "One step of Lion on a 32-bit master in two halves; errors as lion.",
            "w = weight * 2^16 + remainder, as bits: bf16 and i16; w, m as lion; weight and remainder as adamw_split",
            flopsPerElement<8>, checkSplitUpdate, {.attributes = kParameter})};
  return kernels;
}

} // namespace mt::kernels
