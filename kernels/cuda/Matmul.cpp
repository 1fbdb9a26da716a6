// matmul and matmul_add: one product of cuBLASLt, with the bias in its epilogue and the addend where what it adds to
// would lie. A bias of another type than the result is cast first, or added after where casting would round it, and in
// f64, which has no epilogue; there matmul_add is its parts.
#include "kernels/DeviceScratch.h"
#include "kernels/FusedProduct.h"
#include "kernels/cuda/Blas.h"
#include "kernels/cuda/CastElements.h"
#include "kernels/cuda/Family.h"
#include "kernels/cuda/FusedProduct.h"
#include "kernels/cuda/Library.h"
#include "kernels/cuda/Scratch.h"

namespace mt::kernels::cuda {

ProductShape matmulShape(const Signature &call) {
  const Dims &lhs = call.operands[0].dims, &rhs = call.operands[1].dims;
  ProductShape shape;
  shape.transposeA = call.integer("transposeLhs") != 0, shape.transposeB = call.integer("transposeRhs") != 0;
  shape.m = lhs[lhs.size() - (shape.transposeA ? 1 : 2)];
  shape.k = lhs[lhs.size() - (shape.transposeA ? 2 : 1)];
  shape.n = rhs[rhs.size() - (shape.transposeB ? 2 : 1)];
  shape.lda = lhs.back(), shape.ldb = rhs.back(), shape.ldc = shape.n;
  shape.type = call.operands[0].type, shape.result = call.operands[3].type;
  bool wide = MatmulScratch::of(call).wideResult > 0;
  shape.result = wide ? DType::f32 : shape.result;
  shape.bias = call.operands[2].present && shape.type != DType::f64 && !wide;
  shape.batches = call.operands[0].elements() / (shape.m * shape.k);
  if (rhs.size() == 2 && !shape.transposeA) { // rows of all batches against one matrix: one product
    shape.m *= shape.batches;
    shape.batches = 1;
  }
  if (shape.batches > 1) {
    shape.stepA = shape.m * shape.k, shape.stepC = shape.m * shape.n;
    shape.stepB = rhs.size() == 2 ? 0 : shape.k * shape.n;
  }
  return shape;
}

namespace {

struct Matmul {
  Product product;
  ProductOperands at;
  MatmulScratch sizes;
  int64_t rows, columns; ///< of the results of all batches
  DType biasType, result;
  bool bias;

  Status operator()(const Launch &launch) const {
    Scratch scratch(launch.operands.back());
    void *cast = scratch.take(sizes.bias), *wide = scratch.take(sizes.wideResult);
    bool adds = launch.accumulates(at.result);
    ProductPlaces places{
        .a = launch.operands[0], .b = launch.operands[1], .c = wide ? wide : launch.operands[at.result]};
    places.scratch = scratch.take(sizes.library);
    places.bias = cast ? cast : launch.operands[at.bias];
    places.beta = adds && !wide ? 1.0f : 0.0f;
    if (at.addend && adds) // to both: first to what is there
      MT_TRY(castElements(launch.stream, launch.operands[*at.addend], result, places.c, result, rows * columns, true));
    else if (at.addend)
      places.addend = launch.operands[*at.addend], places.beta = 1;
    if (cast)
      MT_TRY(castElements(launch.stream, launch.operands[at.bias], biasType, cast, result, columns, false));
    MT_TRY(product.run(launch.stream, places));
    if (wide)
      return castElements(launch.stream, wide, DType::f32, launch.operands[3], result, rows * columns, adds,
                          launch.at<const float>(2), columns);
    if (bias && result == DType::f64)
      return addToRows(launch.stream, launch.at<const double>(2), launch.at<double>(3), rows, columns);
    return {};
  }
};

Result<Run> prepareMatmul(const Signature &call, Library &library) {
  const ProductOperands at = ProductOperands::of(call);
  const Signature whole = at.addend ? partsOf(call).front().call : call;
  const OperandType &bias = whole.operands[2], &result = whole.operands[3];
  const MatmulScratch sizes = MatmulScratch::of(whole);
  if (at.addend && (sizes.wideResult > 0 || result.type == DType::f64))
    return prepareParts(call, library);
  MT_ASSIGN(Blas * blas, library.blas());
  const ProductShape shape = matmulShape(whole);
  MT_ASSIGN(Product product, blas->product(shape, sizes.library));
  return Run(Matmul{product, at, sizes, result.elements() / shape.n, shape.n, bias.type, result.type, bias.present});
}

} // namespace

std::span<const Entry> matmulEntries() {
  static constexpr Entry kEntries[] = {{"matmul", prepareMatmul}, {"matmul_add", prepareMatmul}};
  return kEntries;
}

} // namespace mt::kernels::cuda
