// matmul and matmul_add: f32 and bf16 through Gemm, other types by plain loops in their own arithmetic, to which
// matmul_add adds afterwards.
#include "kernels/Blocks.h"
#include "kernels/FusedProduct.h"
#include "kernels/cpu/Elements.h"
#include "kernels/cpu/Family.h"
#include "kernels/cpu/GemmStored.h"

#include <type_traits>

namespace mt::kernels::cpu {
namespace {

/// A product per batch; `Gemm` describes one. A step of 0 reads the same matrix for every batch.
struct Batched {
  Gemm gemm;
  ProductOperands at;
  int64_t batches = 1, stepA = 0, stepB = 0, stepC = 0;
  bool bias = false;
};

Batched describe(const Signature &call) {
  const Dims &lhs = call.operands[0].dims, &rhs = call.operands[1].dims;
  bool tl = call.integer("transposeLhs") != 0, tr = call.integer("transposeRhs") != 0;
  Batched product;
  Gemm &gemm = product.gemm;
  gemm = {tl, tr, lhs[lhs.size() - 2 + tl], rhs[rhs.size() - 2 + !tr], lhs[lhs.size() - 2 + !tl], 0, 0, 0};
  gemm.lda = lhs.back();
  gemm.ldb = rhs.back();
  gemm.ldc = gemm.n;
  product.batches = call.operands[0].elements() / (gemm.m * gemm.k);
  product.bias = call.operands[2].present;
  if (rhs.size() == 2 && !tl) {
    gemm.m *= product.batches;
    product.batches = 1;
  }
  product.stepA = gemm.m * gemm.k;
  product.stepB = rhs.size() == 2 ? 0 : gemm.k * gemm.n;
  product.stepC = gemm.m * gemm.n;
  return product;
}

/// Of f32 or bf16.
struct Matmul {
  Batched batched;
  StoredProduct product;
  DType type, bias, result;

  Matmul(const Signature &call, const Batched &batched)
      : batched(batched), product(batched.gemm, 1,
                                  {call.operands[0].type, call.operands[1].type, call.operands[batched.at.result].type,
                                   batched.bias ? std::optional(call.operands[batched.at.bias].type) : std::nullopt,
                                   batched.at.addend.has_value()},
                                  batched.batches, depthOf(call)),
        type(call.operands[0].type), bias(call.operands[batched.at.bias].type),
        result(call.operands[batched.at.result].type) {}

  Scratch scratch() const { return product.scratch(); }

  Status operator()(const Launch &launch) const {
    product.multiplyOver(launch.pool,
                         {.a = {launch.operands[0], type},
                          .b = {launch.operands[1], type},
                          .c = {launch.operands[batched.at.result], result, launch.accumulates(batched.at.result)},
                          .bias = {launch.operands[batched.at.bias], bias},
                          .addend = {batched.at.addend ? launch.operands[*batched.at.addend] : nullptr, result},
                          .sums = static_cast<float *>(launch.operands.back()), // where it is in parts
                          .stepA = batched.stepA,
                          .stepB = batched.stepB,
                          .stepC = batched.stepC});
    return {};
  }
};

/// A row of the result at a time: sum over k of one element of lhs times a row of rhs.
template <typename C> struct MatmulPlain {
  static constexpr int64_t kColumns = 256;
  Batched product;
  LoadRow<C> load, loadBias;
  StoreRow<C> store;

  void compute(const Launch &launch, int64_t batch, int64_t row, int64_t column) const {
    const Gemm &gemm = product.gemm;
    int64_t width = std::min(kColumns, gemm.n - column);
    C sums[kColumns] = {}, values[kColumns], factor;
    for (int64_t k = 0; k < gemm.k; ++k) {
      int64_t a = batch * product.stepA + (gemm.transposeA ? k * gemm.lda + row : row * gemm.lda + k);
      int64_t b = batch * product.stepB + (gemm.transposeB ? column * gemm.ldb + k : k * gemm.ldb + column);
      load(launch.operands[0], a, 1, 1, &factor);
      load(launch.operands[1], b, gemm.transposeB ? gemm.ldb : 1, width, values);
      for (int64_t i = 0; i < width; ++i)
        sums[i] += factor * values[i];
    }
    if (product.bias) {
      loadBias(launch.operands[2], column, 1, width, values);
      for (int64_t i = 0; i < width; ++i)
        sums[i] += values[i];
    }
    store(sums, launch.operands[3], batch * product.stepC + row * gemm.ldc + column, width, launch.accumulates(3));
  }

  Status operator()(const Launch &launch) const {
    int64_t across = ceilDivide(product.gemm.n, kColumns), each = product.gemm.m * across;
    launch.pool.parallelFor(product.batches * each, [&](int64_t chunk) {
      int64_t inside = chunk % each;
      compute(launch, chunk / each, inside / across, inside % across * kColumns);
    });
    return {};
  }
};

Result<Run> prepareMatmul(const Signature &call) {
  const ProductOperands at = ProductOperands::of(call);
  Batched product = describe(at.addend ? partsOf(call).front().call : call);
  product.at = at;
  DType type = call.operands[0].type, bias = call.operands[at.bias].type, result = call.operands[at.result].type;
  if (!call.operands[at.result].present)
    return Run([](const Launch &) { return Status(); });
  if (type == DType::f32 || type == DType::bf16)
    return Run(Matmul(call, product));
  if (at.addend)
    return prepareParts(call);
  if (type == DType::f64)
    return Run(MatmulPlain<double>{product, loader<double>(type), loader<double>(bias), storer<double>(result)});
  return Run(MatmulPlain<float>{product, loader<float>(type), loader<float>(bias), storer<float>(result)});
}

constexpr Entry kEntries[] = {{"matmul", prepareMatmul}, {"matmul_add", prepareMatmul}};

} // namespace

std::span<const Entry> matmulEntries() { return kEntries; }

} // namespace mt::kernels::cpu
