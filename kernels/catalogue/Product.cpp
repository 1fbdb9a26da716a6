// The matrix product, alone and fused.
#include "kernels/DeviceScratch.h"
#include "kernels/FusedProduct.h"
#include "kernels/catalogue/Checker.h"
#include "kernels/catalogue/Entry.h"

namespace mt::kernels {
namespace {

using Kind = AttributeSpec::Kind;

std::string checkMatmul(const Signature &call) {
  Dims lhs = call.operands[0].dims, rhs = call.operands[1].dims;
  if (lhs.size() < 2 || rhs.size() < 2)
    return "lhs and rhs need at least two dimensions";
  size_t l = lhs.size() - 2, r = rhs.size() - 2;
  bool tl = call.integer("transposeLhs"), tr = call.integer("transposeRhs");
  int64_t m = lhs[l + tl], k = lhs[l + !tl], n = rhs[r + !tr];
  if (k != rhs[r + tr])
    return fmt::format("lhs {} and rhs {} do not agree in the summed dimension", text(lhs), text(rhs));
  Dims wanted(lhs.begin(), lhs.end() - 2);
  if (r != 0 && Dims(rhs.begin(), rhs.end() - 2) != wanted)
    return fmt::format("lhs {} and rhs {} do not agree in the batch dimensions", text(lhs), text(rhs));
  wanted.insert(wanted.end(), {m, n});
  return Checker(call)
      .floating(0)
      .sameType(1, 0)
      .sameTypeOrF32(2, 0)
      .dims(2, {n})
      .sameTypeOrF32(3, 0)
      .dims(3, wanted)
      .result();
}

/// lhs [R, K], weight [E, K, N] or [E, N, K], experts [R], result [R, N].
std::string checkExperts(const Signature &call, int lhs, int weight, int experts, int result) {
  const Dims &rows = call.operands[static_cast<size_t>(lhs)].dims,
             &matrices = call.operands[static_cast<size_t>(weight)].dims;
  bool transposed = call.integer("transposed") != 0;
  if (rows.size() != 2 || matrices.size() != 3 || matrices[transposed ? 2 : 1] != rows[1])
    return fmt::format("rows {} and matrices {} do not fit", text(rows), text(matrices));
  return Checker(call)
      .integral(experts)
      .dims(experts, {rows[0]})
      .dims(result, {rows[0], matrices[transposed ? 1 : 2]})
      .result();
}
std::string checkExpertMatmul(const Signature &call) {
  return Checker(call).floating(0).sameType(1, 0).sameTypeOrF32(3, 0).also(checkExperts(call, 0, 1, 2, 3)).result();
}
std::string checkExpertMatmulGrad(const Signature &call) {
  if (!call.operands[3].present)
    return "the result is missing";
  return Checker(call).floating(0).sameType(1, 0).sameTypeOrF32(3, 0).also(checkExperts(call, 1, 3, 2, 0)).result();
}
double expertFlops(const Signature &call) {
  bool grad = call.kernel == "expert_matmul_grad";
  const Dims &rows = call.operands[grad ? 1 : 0].dims, &results = call.operands[grad ? 0 : 3].dims;
  return 2.0 * static_cast<double>(rows[0]) * static_cast<double>(rows[1]) * static_cast<double>(results[1]);
}
template <size_t kWeight> uint64_t groupedRows(const Signature &call) {
  return expertScratch(call.operands[2].elements(), call.operands[kWeight].dims[0]);
}
template <size_t kWeight> uint64_t sortedRows(const Signature &call) {
  return deviceExpertScratch(call.operands[2].elements(), call.operands[kWeight].dims[0]);
}

double matmulFlops(const Signature &call) {
  const Dims &lhs = call.operands[0].dims;
  int64_t k = lhs[lhs.size() - (call.integer("transposeLhs") ? 2 : 1)];
  return 2.0 * static_cast<double>(call.operands[3].elements()) * static_cast<double>(k);
}

/// Batch, M, N, K. Rows of a batch with one rhs for all lie one after another: they are rows of one product.
std::vector<double> matmulExtents(const Signature &call) {
  const Dims &lhs = call.operands[0].dims, &result = call.operands[3].dims;
  const bool transposed = call.integer("transposeLhs") != 0, folded = call.operands[1].dims.size() == 2 && !transposed;
  const auto k = static_cast<double>(lhs[lhs.size() - (transposed ? 2 : 1)]);
  const auto n = static_cast<double>(result.back()), m = static_cast<double>(result[result.size() - 2]);
  const double batch = static_cast<double>(call.operands[3].elements()) / (m * n);
  return folded ? std::vector{1.0, batch * m, n, k} : std::vector{batch, m, n, k};
}

/// What is added to a product where it is stored costs that it is read: a third of a sum that reads both and writes.
std::vector<Piece> fusedPieces(const Signature &call) {
  std::vector<Piece> pieces;
  for (const Part &part : partsOf(call))
    pieces.push_back({part.call, part.call.kernel == "add" ? 1.0 / 3 : 1.0});
  return pieces;
}

/// Sums of the parts after the first.
uint64_t partSums(const Signature &call) {
  return static_cast<uint64_t>(depthOf(call).count - 1) * static_cast<uint64_t>(call.operands[3].elements()) *
         sizeof(float);
}

uint64_t matmulScratch(const Signature &call) { return MatmulScratch::of(call).total(); }

constexpr AttributeSpec kMatmul[] = {{"transposeLhs", Kind::flag, false, "", "lhs is [batch.., K, M]"},
                                     {"transposeRhs", Kind::flag, false, "", "rhs is [batch.., N, K]"}};

constexpr AttributeSpec kExperts[] = {{"transposed", Kind::flag, false, "", "matrices are [E, N, K]"}};
constexpr AttributeSpec kSums[] = {
    {"transposeLhs", Kind::flag, false, "", "lhs is [K, M]"},
    {"transposeRhs", Kind::flag, false, "", "rhs is [N, K]"},
    {"sumsOfLhs", Kind::flag, false, "", "the sums are those of lhs [K, M]; else of rhs [K, N]"}};

std::string checkParts(const Signature &call) {
  for (const Part &part : partsOf(call))
    if (std::string problem = check(part.call); !problem.empty())
      return problem;
  return "";
}

std::string checkAdd(const Signature &call) { return Checker(call).also(checkParts(call)).like(2, 4).result(); }

std::string checkGelu(const Signature &call) { return Checker(call).also(checkParts(call)).like(4, 3).result(); }

std::string checkSums(const Signature &call) {
  bool left = call.integer("sumsOfLhs");
  return Checker(call)
      .rank(0, 2)
      .rank(1, 2)
      .require(left ? call.integer("transposeLhs") : !call.integer("transposeRhs"),
               "sums are over the first dimension of what is summed, which must be the product's summed one")
      .also(checkParts(call))
      .result();
}

double partFlops(const Signature &call) {
  double sum = 0;
  for (const Part &part : partsOf(call))
    sum += flops(part.call);
  return sum;
}

template <Backend kBackend> uint64_t partScratch(const Signature &call) {
  uint64_t most = 0;
  for (const Part &part : partsOf(call))
    most = std::max(most, workspaceBytes(part.call, kBackend));
  return most;
}

uint64_t fusedScratch(const Signature &call) {
  return std::max(partScratch<Backend::cuda>(call), FusedScratch::of(call).total());
}

} // namespace

std::span<const Kernel> productKernels() {
  static const std::vector<Kernel> kernels = {
      entry(
          "matmul", "lhs rhs bias? -> result+", "Matrix product over the last two dimensions, plus a bias row.",
          "result[m, n] = sum over k of lhs[m, k] * rhs[k, n], + bias[n]; lhs [batch.., M, K], rhs [batch.., K, N] or "
          "[K, N] for all batches. Types: lhs and rhs of one; bias and result that or f32; summed in f32",
          matmulFlops, checkMatmul,
          {.attributes = kMatmul, .workspace = partSums, .cudaWorkspace = matmulScratch, .extents = matmulExtents}),
      entry("expert_matmul", "lhs weight experts -> result+", "Each row times the matrix of its expert.",
            "result[i, n] = sum over k of lhs[i, k] * weight[experts[i], k, n]; rows of an expert are multiplied "
            "together, in "
            "their order. Types as in matmul",
            expertFlops, checkExpertMatmul,
            {.attributes = kExperts, .workspace = groupedRows<1>, .cudaWorkspace = sortedRows<1>}),
      entry("expert_matmul_grad", "gradient lhs experts -> result+", "Gradient of the experts' matrices.",
            "result[e, k, n] = sum over rows i of expert e, in order, of lhs[i, k] * gradient[i, n]; zero where it has "
            "none. "
            "Types as in matmul",
            expertFlops, checkExpertMatmulGrad,
            {.attributes = kExperts, .workspace = groupedRows<3>, .cudaWorkspace = sortedRows<3>}),
      entry("matmul_add", "lhs rhs addend bias? -> result+", "Matrix product and a sum with it.",
            "result = matmul(lhs, rhs, bias) + addend, rounded once or after each", partFlops, checkAdd,
            {.attributes = kMatmul,
             .workspace = partScratch<Backend::cpu>,
             .cudaWorkspace = partScratch<Backend::cuda>,
             .pieces = fusedPieces}),
      entry("matmul_gelu", "lhs rhs bias? -> result input", "Matrix product and gelu, in the form tanh, of it.",
            "input = matmul(lhs, rhs, bias); result = gelu(input), of the product as it is summed or as it is stored",
            partFlops, checkGelu,
            {.attributes = kMatmul,
             .workspace = partScratch<Backend::cpu>,
             .cudaWorkspace = fusedScratch,
             .pieces = fusedPieces}),
      entry("matmul_gelu_grad", "lhs rhs input -> result", "Matrix product times the derivative of gelu, tanh.",
            "matmul(lhs, rhs) * gelu'(input)", partFlops, checkParts,
            {.attributes = kMatmul,
             .workspace = partScratch<Backend::cpu>,
             .cudaWorkspace = fusedScratch,
             .pieces = fusedPieces}),
      entry("matmul_sums", "lhs rhs -> result+ sums+", "A weight's gradient and its bias's from one product.",
            "result = matmul(lhs, rhs); sums[m] = sum over k of lhs[k, m], or sums[n] = sum over k of rhs[k, n]",
            partFlops, checkSums,
            {.attributes = kSums,
             .workspace = partScratch<Backend::cpu>,
             .cudaWorkspace = fusedScratch,
             .pieces = fusedPieces})};
  return kernels;
}

} // namespace mt::kernels
