// cuBLASLt's matrices are column-major, ours row-major: it is asked for the transposed product, b's matrix first, and
// every row-major matrix is the column-major one of its transpose, with the same distance of rows. Sums are in 32 bits
// (of f64 in 64), never in TF32, and never of parts that were rounded to the result's type. Large products run at the
// device's rate.
#include "kernels/cuda/Product.h"

#include "kernels/cuda/Blas.h"

#include <algorithm>
#include <vector>

namespace mt::kernels::cuda {
namespace {

constexpr int kCandidates = 32;
constexpr uint64_t kPackedBytes = 16;

cudaDataType_t libraryType(DType type) {
  return type == DType::bf16  ? CUDA_R_16BF
         : type == DType::f16 ? CUDA_R_16F
         : type == DType::f64 ? CUDA_R_64F
                              : CUDA_R_32F;
}

Status check(const Blas &blas, cublasStatus_t status, std::string_view what) {
  if (status == CUBLAS_STATUS_SUCCESS)
    return {};
  return fail("cuBLASLt, {}: {}", what, blas.call.cublasLtGetStatusString(status));
}

template <typename T>
Status set(const Blas &blas, cublasLtMatmulDescOpaque_t &to, cublasLtMatmulDescAttributes_t which, const T &value) {
  return check(blas, blas.call.cublasLtMatmulDescSetAttribute(&to, which, &value, sizeof value),
               "describing a product");
}
template <typename T>
Status set(const Blas &blas, cublasLtMatrixLayoutOpaque_t &to, cublasLtMatrixLayoutAttribute_t which, const T &value) {
  return check(blas, blas.call.cublasLtMatrixLayoutSetAttribute(&to, which, &value, sizeof value),
               "describing a matrix");
}
template <typename T>
Status set(const Blas &blas, cublasLtMatmulPreferenceOpaque_t &to, cublasLtMatmulPreferenceAttributes_t which,
           const T &value) {
  return check(blas, blas.call.cublasLtMatmulPreferenceSetAttribute(&to, which, &value, sizeof value),
               "bounding the choice of algorithms");
}

std::string describe(const ProductShape &shape) {
  std::string batch = shape.batches > 1 ? fmt::format("{} times ", shape.batches) : "";
  return fmt::format("the product {}[{}, {}] by [{}, {}] of {} into {}", batch, shape.m, shape.k, shape.k, shape.n,
                     name(shape.type), name(shape.result));
}

/// What the choice may rely on and use.
struct Bounds {
  uint64_t scratch, alignmentA, alignmentB, alignmentC;
};

Result<cublasLtMatmulPreferenceOpaque_t> preferenceFor(const Blas &blas, const Bounds &bounds) {
  cublasLtMatmulPreferenceOpaque_t preference = {};
  MT_TRY(check(blas, blas.call.cublasLtMatmulPreferenceInit_internal(&preference, sizeof preference),
               "bounding the choice of algorithms"));
  uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  uint64_t implementations = ~static_cast<uint64_t>(CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_TF32);
  uint32_t first = static_cast<uint32_t>(bounds.alignmentB), second = static_cast<uint32_t>(bounds.alignmentA),
           result = static_cast<uint32_t>(bounds.alignmentC);
  MT_TRY(set(blas, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, bounds.scratch));
  MT_TRY(set(blas, preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes));
  MT_TRY(set(blas, preference, CUBLASLT_MATMUL_PREF_IMPL_MASK, implementations));
  MT_TRY(set(blas, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, first));
  MT_TRY(set(blas, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, second));
  MT_TRY(set(blas, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, result));
  MT_TRY(set(blas, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, result));
  return preference;
}

Candidate candidateOf(const Blas &blas, const cublasLtMatmulHeuristicResult_t &proposed) {
  uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_MASK;
  size_t written = 0;
  bool known =
      blas.call.cublasLtMatmulAlgoConfigGetAttribute(&proposed.algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &reduction,
                                                     sizeof reduction, &written) == CUBLAS_STATUS_SUCCESS;
  return {known && proposed.state == CUBLAS_STATUS_SUCCESS, proposed.workspaceSize, reduction};
}

/// Sums go where a bias would come from; what gelu is taken of lies in a matrix of its own.
bool makesSums(Epilogue epilogue) { return epilogue == Epilogue::sumsOfA || epilogue == Epilogue::sumsOfB; }
bool hasMatrix(Epilogue epilogue) { return epilogue == Epilogue::geluStored || epilogue == Epilogue::geluGrad; }

cublasLtEpilogue_t libraryEpilogue(const ProductShape &shape) {
  switch (shape.epilogue) {
  case Epilogue::gelu:
    return shape.bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
  case Epilogue::geluStored:
    return shape.bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
  case Epilogue::geluGrad:
    return CUBLASLT_EPILOGUE_DGELU;
  case Epilogue::sumsOfA: // the library's second matrix
    return CUBLASLT_EPILOGUE_BGRADB;
  case Epilogue::sumsOfB:
    return CUBLASLT_EPILOGUE_BGRADA;
  case Epilogue::none:
    break;
  }
  return shape.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

bool isPacked(const void *address, int64_t step, DType type) {
  return (reinterpret_cast<uintptr_t>(address) | (static_cast<uint64_t>(step) * byteSize(type))) % kPackedBytes == 0;
}

} // namespace

size_t firstUsable(std::span<const Candidate> candidates, uint64_t scratch) {
  auto usable = [&](const Candidate &one) {
    bool ordered =
        one.reduction == CUBLASLT_REDUCTION_SCHEME_NONE || one.reduction == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    return one.valid && ordered && one.scratch <= scratch;
  };
  return static_cast<size_t>(std::ranges::find_if(candidates, usable) - candidates.begin());
}

Result<Product> Product::choose(Blas &blas, const ProductShape &shape, uint64_t scratch) {
  Product product;
  product.blas = &blas;
  product.shape = shape;
  MT_TRY(product.describe());
  MT_ASSIGN(product.algorithms[packed], product.algorithmFor(packed, scratch));
  Result<Algorithm> found = product.algorithmFor(loose, scratch);
  bool neverPacked = !isPacked(nullptr, shape.stepA, shape.type) || !isPacked(nullptr, shape.stepB, shape.type) ||
                     !isPacked(nullptr, shape.stepC, shape.result);
  if (found)
    product.algorithms[loose] = *found;
  else if (neverPacked) // else an error only if such addresses come
    return found.status();
  return product;
}

Status Product::describeMatrix(cublasLtMatrixLayoutOpaque_t &matrix, DType type, int64_t rows, int64_t columns,
                               int64_t ld, int64_t step) const {
  // Row-major [rows, columns] is column-major [columns, rows].
  MT_TRY(check(*blas,
               blas->call.cublasLtMatrixLayoutInit_internal(&matrix, sizeof matrix, libraryType(type),
                                                            static_cast<uint64_t>(columns), static_cast<uint64_t>(rows),
                                                            ld),
               "describing a matrix"));
  int32_t batches = static_cast<int32_t>(shape.batches);
  MT_TRY(set(*blas, matrix, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batches));
  return set(*blas, matrix, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, step);
}

Status Product::describe() {
  if (shape.batches > INT32_MAX)
    return fail("{}: the batch is too large", cuda::describe(shape));
  bool wide = shape.type == DType::f64;
  MT_TRY(check(*blas,
               blas->call.cublasLtMatmulDescInit_internal(&description, sizeof description,
                                                          wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                                          wide ? CUDA_R_64F : CUDA_R_32F),
               "describing a product"));
  int32_t first = shape.transposeB ? CUBLAS_OP_T : CUBLAS_OP_N, second = shape.transposeA ? CUBLAS_OP_T : CUBLAS_OP_N;
  MT_TRY(set(*blas, description, CUBLASLT_MATMUL_DESC_TRANSA, first));
  MT_TRY(set(*blas, description, CUBLASLT_MATMUL_DESC_TRANSB, second));
  MT_TRY(set(*blas, description, CUBLASLT_MATMUL_DESC_EPILOGUE, libraryEpilogue(shape)));
  if (hasMatrix(shape.epilogue))
    MT_TRY(set(*blas, description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, shape.ldc));
  MT_TRY(describeMatrix(a, shape.type, shape.transposeA ? shape.k : shape.m, shape.transposeA ? shape.m : shape.k,
                        shape.lda, shape.stepA));
  MT_TRY(describeMatrix(b, shape.type, shape.transposeB ? shape.n : shape.k, shape.transposeB ? shape.k : shape.n,
                        shape.ldb, shape.stepB));
  return describeMatrix(c, shape.result, shape.m, shape.n, shape.ldc, shape.stepC);
}

Result<Product::Algorithm> Product::algorithmFor(Alignment alignment, uint64_t scratch) {
  uint64_t operand = alignment == packed ? kPackedBytes : byteSize(shape.type),
           result = alignment == packed ? kPackedBytes : byteSize(shape.result);
  void *example = reinterpret_cast<void *>(result); // never read: its bits say how what lies there will be aligned
  MT_TRY(pointAt(description, example, example));
  uint64_t most = uint64_t{1} << 40;
  for (uint64_t bound : {scratch, most}) {
    MT_ASSIGN(cublasLtMatmulPreferenceOpaque_t preference, preferenceFor(*blas, {bound, operand, operand, result}));
    std::vector<cublasLtMatmulHeuristicResult_t> proposed(kCandidates);
    int count = 0;
    cublasStatus_t status = blas->call.cublasLtMatmulAlgoGetHeuristic(
        blas->handle, &description, &b, &a, &c, &c, &preference, kCandidates, proposed.data(), &count);
    if (status != CUBLAS_STATUS_SUCCESS && status != CUBLAS_STATUS_NOT_SUPPORTED)
      return check(*blas, status, cuda::describe(shape));
    std::vector<Candidate> candidates;
    for (int i = 0; i < count; ++i)
      candidates.push_back(candidateOf(*blas, proposed[static_cast<size_t>(i)]));
    size_t usable = firstUsable(candidates, bound);
    if (usable < candidates.size() && bound == scratch)
      return Algorithm{proposed[usable].algo, candidates[usable].scratch};
    if (usable < candidates.size())
      return fail("{}: cuBLASLt needs {} bytes of scratch, the plan gives {}; compile the plan anew with this version",
                  cuda::describe(shape), candidates[usable].scratch, scratch);
  }
  return fail("{}: cuBLASLt has no algorithm that repeats its bits", cuda::describe(shape));
}

Status Product::pointAt(cublasLtMatmulDescOpaque_t &to, const void *bias, void *aside) const {
  if (shape.bias)
    MT_TRY(set(*blas, to, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias));
  if (makesSums(shape.epilogue))
    MT_TRY(set(*blas, to, CUBLASLT_MATMUL_DESC_BIAS_POINTER, aside));
  if (hasMatrix(shape.epilogue))
    MT_TRY(set(*blas, to, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aside));
  return {};
}

Product::Alignment Product::alignmentOf(const ProductPlaces &places) const {
  bool all = isPacked(places.a, shape.stepA, shape.type) && isPacked(places.b, shape.stepB, shape.type) &&
             isPacked(places.c, shape.stepC, shape.result) && (!shape.bias || isPacked(places.bias, 0, shape.result)) &&
             isPacked(places.aside, 0, shape.result) && isPacked(places.addend, 0, shape.result);
  return all ? packed : loose;
}

Status Product::run(Stream stream, const ProductPlaces &places) const {
  cublasLtMatmulDescOpaque_t own = description; // launches may run side by side
  MT_TRY(pointAt(own, places.bias, places.aside));
  const std::optional<Algorithm> &algorithm = algorithms[alignmentOf(places)];
  if (!algorithm)
    return fail("{}: its matrices lie at no multiples of {} bytes, and cuBLASLt has no algorithm for that",
                cuda::describe(shape), kPackedBytes);
  auto layout = [](const cublasLtMatrixLayoutOpaque_t &matrix) {
    return const_cast<cublasLtMatrixLayoutOpaque_t *>(&matrix); // the library's interface knows no const
  };
  double alpha = static_cast<double>(places.alpha), beta = static_cast<double>(places.beta);
  bool wide = shape.type == DType::f64;
  const void *scale = wide ? static_cast<const void *>(&alpha) : &places.alpha,
             *keep = wide ? static_cast<const void *>(&beta) : &places.beta;
  MT_TRY(stream.launching(2)); // the product, and sums of its parts
  cublasStatus_t status =
      blas->call.cublasLtMatmul(blas->handle, &own, scale, places.b, layout(b), places.a, layout(a), keep,
                                places.addend ? places.addend : places.c, layout(c), places.c, layout(c),
                                &algorithm->choice, places.scratch, algorithm->scratch, stream);
  return check(*blas, status, cuda::describe(shape));
}

} // namespace mt::kernels::cuda
