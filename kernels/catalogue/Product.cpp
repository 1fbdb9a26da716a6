// The matrix product.
#include "kernels/DeviceScratch.h"
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

double matmulFlops(const Signature &call) {
  const Dims &lhs = call.operands[0].dims;
  int64_t k = lhs[lhs.size() - (call.integer("transposeLhs") ? 2 : 1)];
  return 2.0 * static_cast<double>(call.operands[3].elements()) * static_cast<double>(k);
}

uint64_t matmulScratch(const Signature &call) { return MatmulScratch::of(call).total(); }

constexpr AttributeSpec kMatmul[] = {{"transposeLhs", Kind::flag, false, "", "lhs is [batch.., K, M]"},
                                     {"transposeRhs", Kind::flag, false, "", "rhs is [batch.., N, K]"}};

} // namespace

std::span<const Kernel> productKernels() {
  static const std::vector<Kernel> kernels = {entry(
      "matmul", "lhs rhs bias? -> result+", "Matrix product over the last two dimensions, plus a bias row.",
      "result[m, n] = sum over k of lhs[m, k] * rhs[k, n], + bias[n]; lhs [batch.., M, K], rhs [batch.., K, N] or "
      "[K, N] for all batches. Types: lhs and rhs of one; bias and result that or f32; summed in f32",
      matmulFlops, checkMatmul, {.attributes = kMatmul, .cudaWorkspace = matmulScratch})};
  return kernels;
}

} // namespace mt::kernels
