// Normalizations and softmax over the last dimension, and their gradients.
#include "kernels/Blocks.h"
#include "kernels/catalogue/Checker.h"
#include "kernels/catalogue/Entry.h"

namespace mt::kernels {
namespace {

using Kind = AttributeSpec::Kind;

/// Dims without the last; a statistic may keep it as one.
bool isStatistic(const OperandType &statistic, const Dims &dims) {
  if (!statistic.present)
    return true;
  Dims wanted(dims.begin(), dims.end() - 1);
  if (statistic.dims == wanted)
    return true;
  wanted.push_back(1);
  return statistic.dims == wanted;
}

Checker &rows(Checker &checker, int operand) {
  return checker.floating(operand).require(!checker.at(operand).dims.empty(), "the operand needs a dimension");
}

Checker &statistic(Checker &checker, int place, int operand) {
  return checker.type(place, DType::f32)
      .require(checker.at(operand).dims.empty() || isStatistic(checker.at(place), checker.at(operand).dims),
               "a statistic must have the operand's dimensions but the last");
}

Checker &vector(Checker &checker, int place, int operand) {
  return checker.floating(place).require(
      !checker.at(place).present ||
          (!checker.at(operand).dims.empty() && checker.at(place).dims == Dims{checker.at(operand).dims.back()}),
      "gain, bias and their gradients must have the size of the last dimension");
}

bool positive(const Signature &call) { return call.real("epsilon") >= 0 && call.real("epsilon") < 1e6; }

std::string checkLayerNorm(const Signature &call) {
  Checker checker(call);
  rows(checker, 0)
      .mixed(3, 0)
      .sameDims(3, 0)
      .require(positive(call), "attribute epsilon must be small and not negative");
  vector(vector(checker, 1, 0), 2, 0);
  statistic(statistic(checker, 4, 0), 5, 0);
  return checker.result();
}

std::string checkLayerNormGrad(const Signature &call) {
  Checker checker(call);
  rows(checker, 1).mixed(0, 1).sameDims(0, 1).like(5, 1).like(6, 1);
  statistic(statistic(checker, 2, 1), 3, 1);
  vector(vector(vector(checker, 4, 1), 7, 1), 8, 1).sameTypeOrF32(7, 4).sameTypeOrF32(8, 4);
  return checker.result();
}

std::string checkRmsNorm(const Signature &call) {
  Checker checker(call);
  rows(checker, 0)
      .mixed(2, 0)
      .sameDims(2, 0)
      .require(positive(call), "attribute epsilon must be small and not negative");
  statistic(vector(checker, 1, 0), 3, 0);
  return checker.result();
}

std::string checkRmsNormGrad(const Signature &call) {
  Checker checker(call);
  rows(checker, 1).mixed(0, 1).sameDims(0, 1).like(4, 1).like(5, 1);
  vector(vector(statistic(checker, 2, 1), 3, 1), 6, 1).sameTypeOrF32(6, 3);
  return checker.result();
}

std::string checkSoftmax(const Signature &call) {
  Checker checker(call);
  return rows(checker, 0).sameTypeOrF32(1, 0).sameDims(1, 0).result();
}

std::string checkSoftmaxGrad(const Signature &call) {
  Checker checker(call);
  return rows(checker, 0).mixed(1, 0).sameDims(1, 0).mixed(2, 0).sameDims(2, 0).result();
}

uint64_t partialSums(const OperandType &operand, uint64_t vectors) {
  int64_t columns = operand.dims.empty() ? 1 : operand.dims.back();
  int64_t chunks = normChunks(operand.elements() / std::max<int64_t>(1, columns)).count;
  return static_cast<uint64_t>(chunks * columns) * sizeof(double) * vectors;
}
uint64_t layerNormWorkspace(const Signature &call) { return partialSums(call.operands[1], 2); }
uint64_t rmsNormWorkspace(const Signature &call) { return partialSums(call.operands[1], 1); }

/// The sums of every chunk of rows, in 32 bits.
template <uint64_t vectors> uint64_t cudaNormWorkspace(const Signature &call) {
  const OperandType &operand = call.operands[1];
  int64_t width = operand.dims.back(), chunks = normGradChunks(operand.elements() / width, width).count;
  return static_cast<uint64_t>(chunks * width) * sizeof(float) * vectors;
}

constexpr AttributeSpec kEpsilon[] = {{"epsilon", Kind::real, true, "", "added to the variance"}};

} // namespace

std::span<const Kernel> normalizationKernels() {
  static const std::vector<Kernel> kernels = {
      entry("layer_norm", "operand gain? bias? -> result+ mean rstd", "Layer normalization over the last dimension.",
            "(x - mean) * rstd * gain + bias, rstd = 1 / sqrt(variance + epsilon). Ba et al., arXiv 1607.06450. "
            "Types: operand, gain, bias, result each f32 or bf16",
            flopsPerElement<8>, checkLayerNorm, {.attributes = kEpsilon}),
      entry("layer_norm_grad", "gradient operand mean rstd gain? addend? -> doperand+ dgain+ dbias+",
            "Gradients of a layer normalization.",
            "xhat = (x - mean) * rstd, g = gradient * gain; doperand = rstd * (g - mean(g) - xhat * mean(g * xhat)) "
            "+ addend; dgain = sum of gradient * xhat, dbias = sum of gradient over rows. Types: gradient, operand, gain "
            "each f32 or bf16; addend and doperand the operand's; dgain and dbias the gain's or f32",
            flopsPerElement<12>, checkLayerNormGrad,
            {.workspace = layerNormWorkspace, .cudaWorkspace = cudaNormWorkspace<2>}),
      entry("rms_norm", "operand gain? -> result+ rstd", "Root-mean-square normalization over the last dimension.",
            "x * rstd * gain, rstd = 1 / sqrt(mean(x^2) + epsilon). Zhang and Sennrich, arXiv 1910.07467. Types: "
            "operand, gain, result each f32 or bf16",
            flopsPerElement<5>, checkRmsNorm, {.attributes = kEpsilon}),
      entry("rms_norm_grad", "gradient operand rstd gain? addend? -> doperand+ dgain+",
            "Gradients of a root-mean-square normalization.",
            "xhat = x * rstd, g = gradient * gain; doperand = rstd * (g - xhat * mean(g * xhat)) + addend; dgain = sum "
            "of gradient * xhat over rows. Types: gradient, operand, gain each f32 or bf16; addend and doperand the "
            "operand's; dgain the gain's or f32",
            flopsPerElement<9>, checkRmsNormGrad,
            {.workspace = rmsNormWorkspace, .cudaWorkspace = cudaNormWorkspace<1>}),
      entry("softmax", "operand -> result+", "Softmax over the last dimension.",
            "e^(x - max) / sum of e^(x - max). Types: result the operand's or f32", flopsPerElement<5>, checkSoftmax),
      entry("softmax_grad", "gradient output -> result+", "Gradient of softmax, from its result y.",
            "y * (gradient - sum of gradient * y). Types: each f32 or bf16", flopsPerElement<4>, checkSoftmaxGrad),
      entry("log_softmax", "operand -> result+", "Logarithm of the softmax over the last dimension.",
            "x - max - log(sum of e^(x - max)). Types: result the operand's or f32", flopsPerElement<5>, checkSoftmax)};
  return kernels;
}

} // namespace mt::kernels
