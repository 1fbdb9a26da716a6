#include "tests/kernels/FakeBlas.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace mt::kernels::test {
namespace {

FakeBlas *current = nullptr;

// What this library keeps in the descriptors.
struct Matrix {
  int64_t type, rows, columns, line, batches, step;
};
struct Description {
  int64_t transposeA, transposeB, epilogue, computeType;
  void *bias;
  void *aside;
  int64_t asideLine;
};
struct Preference {
  uint64_t scratch, reductions, implementations, alignment;
};
static_assert(sizeof(Matrix) <= sizeof(cublasLtMatrixLayoutOpaque_t));
static_assert(sizeof(Description) <= sizeof(cublasLtMatmulDescOpaque_t));
static_assert(sizeof(Preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t));

template <typename T> T &in(void *opaque) { return *static_cast<T *>(opaque); }

int64_t read(const void *value, size_t bytes) {
  int64_t number = 0;
  std::memcpy(&number, value, bytes);
  return number;
}

cublasStatus_t initMatrix(cublasLtMatrixLayout_t matrix, size_t, cudaDataType type, uint64_t rows, uint64_t columns,
                          int64_t line) {
  in<Matrix>(matrix) = {type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), line, 1, 0};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t setMatrix(cublasLtMatrixLayout_t matrix, cublasLtMatrixLayoutAttribute_t which, const void *value,
                         size_t bytes) {
  (which == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? in<Matrix>(matrix).batches : in<Matrix>(matrix).step) =
      read(value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t initDescription(cublasLtMatmulDesc_t made, size_t, cublasComputeType_t type, cudaDataType_t) {
  in<Description>(made) = {CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, type, nullptr, nullptr, 0};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t setDescription(cublasLtMatmulDesc_t made, cublasLtMatmulDescAttributes_t which, const void *value,
                              size_t bytes) {
  Description &to = in<Description>(made);
  if (which == CUBLASLT_MATMUL_DESC_BIAS_POINTER)
    std::memcpy(&to.bias, value, sizeof to.bias);
  else if (which == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER)
    std::memcpy(&to.aside, value, sizeof to.aside);
  else if (which == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD)
    to.asideLine = read(value, bytes);
  else
    (which == CUBLASLT_MATMUL_DESC_TRANSA   ? to.transposeA
     : which == CUBLASLT_MATMUL_DESC_TRANSB ? to.transposeB
                                            : to.epilogue) = read(value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t initPreference(cublasLtMatmulPreference_t made, size_t) {
  in<Preference>(made) = {0, CUBLASLT_REDUCTION_SCHEME_MASK, ~uint64_t{0}, 256};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t setPreference(cublasLtMatmulPreference_t made, cublasLtMatmulPreferenceAttributes_t which,
                             const void *value, size_t bytes) {
  Preference &to = in<Preference>(made);
  uint64_t number = static_cast<uint64_t>(read(value, bytes));
  if (which == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    to.scratch = number;
  else if (which == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
    to.reductions = number;
  else if (which == CUBLASLT_MATMUL_PREF_IMPL_MASK)
    to.implementations = number;
  else
    to.alignment = std::min(to.alignment, number);
  return CUBLAS_STATUS_SUCCESS;
}

bool isFused(int64_t epilogue) { return epilogue != CUBLASLT_EPILOGUE_DEFAULT && epilogue != CUBLASLT_EPILOGUE_BIAS; }

cublasStatus_t propose(cublasLtHandle_t, cublasLtMatmulDesc_t description, cublasLtMatrixLayout_t,
                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                       cublasLtMatmulPreference_t preference, int most, cublasLtMatmulHeuristicResult_t results[],
                       int *count) {
  const Preference &bounds = in<Preference>(preference);
  current->implementations = bounds.implementations;
  ++current->queries;
  *count = 0;
  if (!current->fuses && isFused(in<Description>(description).epilogue))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  for (const Proposal &one : current->proposals) {
    if (one.scratch > bounds.scratch || one.alignment > bounds.alignment || *count == most)
      continue;
    cublasLtMatmulHeuristicResult_t &result = results[(*count)++];
    result = {};
    result.state = CUBLAS_STATUS_SUCCESS;
    result.workspaceSize = one.scratch;
    result.algo.data[0] = one.reduction, result.algo.data[1] = one.alignment, result.algo.data[2] = one.scratch;
  }
  return *count > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}
cublasStatus_t configuration(const cublasLtMatmulAlgo_t *algorithm, cublasLtMatmulAlgoConfigAttributes_t, void *value,
                             size_t bytes, size_t *written) {
  std::memcpy(value, &algorithm->data[0], bytes);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

/// A column-major matrix of f32, f64 or bf16.
struct Reader {
  const Matrix &matrix;
  const void *base;
  double at(int64_t batch, int64_t row, int64_t column) const {
    int64_t place = batch * matrix.step + column * matrix.line + row;
    if (matrix.type == CUDA_R_32F)
      return static_cast<double>(static_cast<const float *>(base)[place]);
    if (matrix.type == CUDA_R_64F)
      return static_cast<const double *>(base)[place];
    uint32_t bits = uint32_t{static_cast<const uint16_t *>(base)[place]} << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return static_cast<double>(value);
  }
};

void write(const Matrix &matrix, void *base, int64_t place, double value) {
  float narrow = static_cast<float>(value);
  if (matrix.type == CUDA_R_32F) {
    static_cast<float *>(base)[place] = narrow;
    return;
  }
  if (matrix.type == CUDA_R_64F) {
    static_cast<double *>(base)[place] = value;
    return;
  }
  uint32_t bits;
  std::memcpy(&bits, &narrow, sizeof bits);
  static_cast<uint16_t *>(base)[place] = static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

double gelu(double x) { return x / 2 * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }
double geluSlope(double x) { return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5; }

/// Whether all of a matrix may be touched.
bool mayTouch(const Matrix &matrix, const void *base, bool writes) {
  const int64_t last = (matrix.batches - 1) * matrix.step + (matrix.columns - 1) * matrix.line + matrix.rows;
  const int64_t size = matrix.type == CUDA_R_64F ? 8 : matrix.type == CUDA_R_32F ? 4 : 2;
  return !current->touches || current->touches(base, static_cast<uint64_t>(last * size), writes);
}

/// One result as the epilogue makes it of a product.
double finished(const Description &how, const Matrix &made, int64_t row, int64_t column, double product) {
  Matrix beside = made;
  beside.line = how.asideLine;
  int64_t place = column * beside.line + row;
  switch (how.epilogue) {
  case CUBLASLT_EPILOGUE_GELU_AUX:
  case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
    write(beside, how.aside, place, product);
    return gelu(product);
  case CUBLASLT_EPILOGUE_GELU:
  case CUBLASLT_EPILOGUE_GELU_BIAS:
    return gelu(product);
  case CUBLASLT_EPILOGUE_DGELU:
    return product * geluSlope(Reader{beside, how.aside}.at(0, row, column));
  default:
    return product;
  }
}

cublasStatus_t multiply(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void *alpha, const void *a,
                        cublasLtMatrixLayout_t layoutA, const void *b, cublasLtMatrixLayout_t layoutB, const void *beta,
                        const void *c, cublasLtMatrixLayout_t, void *d, cublasLtMatrixLayout_t layoutD,
                        const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t scratch, cudaStream_t stream) {
  if (current->instead && current->instead(stream))
    return CUBLAS_STATUS_SUCCESS;
  const Description &how = in<Description>(description);
  const Matrix &made = in<Matrix>(layoutD);
  for (const void *address : {a, b, c, static_cast<const void *>(d), static_cast<const void *>(how.bias),
                              static_cast<const void *>(how.aside)})
    if (reinterpret_cast<uintptr_t>(address) % algorithm->data[1] != 0)
      return CUBLAS_STATUS_INVALID_VALUE;
  if (scratch < algorithm->data[2] || reinterpret_cast<uintptr_t>(workspace) % 16 != 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  Reader left{in<Matrix>(layoutA), a}, right{in<Matrix>(layoutB), b}, before{made, c}, bias{made, how.bias};
  Matrix beside = made, row = made;
  beside.line = how.asideLine;
  const bool hasBias = how.epilogue & CUBLASLT_EPILOGUE_BIAS, sumsA = how.epilogue == CUBLASLT_EPILOGUE_BGRADA,
             sumsB = how.epilogue == CUBLASLT_EPILOGUE_BGRADB;
  row.rows = sumsB ? made.columns : made.rows, row.columns = row.batches = 1;
  const bool stores = how.epilogue == CUBLASLT_EPILOGUE_GELU_AUX || how.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  if (!mayTouch(left.matrix, a, false) || !mayTouch(right.matrix, b, false) || !mayTouch(made, d, true) ||
      ((hasBias || sumsA || sumsB) && !mayTouch(row, how.bias, !hasBias)) ||
      (how.aside && how.asideLine > 0 && !mayTouch(beside, how.aside, stores)) ||
      (scratch > 0 && current->touches && !current->touches(workspace, scratch, true)))
    return CUBLAS_STATUS_EXECUTION_FAILED;
  int64_t inner = how.transposeA ? left.matrix.rows : left.matrix.columns;
  auto factor = [&](const void *at) {
    return how.computeType == CUBLAS_COMPUTE_64F ? *static_cast<const double *>(at)
                                                 : static_cast<double>(*static_cast<const float *>(at));
  };
  double scale = factor(alpha), keep = factor(beta);
  if (keep != 0 && !mayTouch(made, c, false))
    return CUBLAS_STATUS_EXECUTION_FAILED;
  std::vector<double> wide(static_cast<size_t>(inner * made.rows)), sums(static_cast<size_t>(made.rows));
  for (int64_t batch = 0; batch < made.batches; ++batch) {
    for (int64_t i = 0; i < inner; ++i)
      for (int64_t row = 0; row < made.rows; ++row)
        wide[static_cast<size_t>(i * made.rows + row)] =
            how.transposeA ? left.at(batch, i, row) : left.at(batch, row, i);
    for (int64_t column = 0; column < made.columns; ++column) {
      std::ranges::fill(sums, 0);
      for (int64_t i = 0; i < inner; ++i) {
        const double factor = how.transposeB ? right.at(batch, column, i) : right.at(batch, i, column);
        const double *from = wide.data() + i * made.rows;
        for (size_t row = 0; row < sums.size(); ++row)
          sums[row] += from[row] * factor;
      }
      for (int64_t row = 0; row < made.rows; ++row) {
        double sum = scale * sums[static_cast<size_t>(row)] + (keep == 0 ? 0 : keep * before.at(batch, row, column));
        if (hasBias)
          sum += bias.at(0, row, 0);
        write(made, d, batch * made.step + column * made.line + row, finished(how, made, row, column, sum));
      }
    }
  }
  bool ofA = how.epilogue == CUBLASLT_EPILOGUE_BGRADA;
  for (int64_t one = 0; (ofA || how.epilogue == CUBLASLT_EPILOGUE_BGRADB) && one < (ofA ? made.rows : made.columns);
       ++one) {
    double sum = 0;
    for (int64_t i = 0; i < inner; ++i)
      sum += ofA ? (how.transposeA ? left.at(0, i, one) : left.at(0, one, i))
                 : (how.transposeB ? right.at(0, one, i) : right.at(0, i, one));
    write(made, how.bias, one, sum);
  }
  ++current->products;
  current->chosenScratch = scratch;
  return CUBLAS_STATUS_SUCCESS;
}

const char *describeStatus(cublasStatus_t) { return "the fake library's status"; }

} // namespace

FakeBlas::FakeBlas() {
  current = this;
  blas.call.cublasLtGetStatusString = describeStatus;
  blas.call.cublasLtMatmul = multiply;
  blas.call.cublasLtMatmulAlgoGetHeuristic = propose;
  blas.call.cublasLtMatmulAlgoConfigGetAttribute = configuration;
  blas.call.cublasLtMatmulDescInit_internal = initDescription;
  blas.call.cublasLtMatmulDescSetAttribute = setDescription;
  blas.call.cublasLtMatmulPreferenceInit_internal = initPreference;
  blas.call.cublasLtMatmulPreferenceSetAttribute = setPreference;
  blas.call.cublasLtMatrixLayoutInit_internal = initMatrix;
  blas.call.cublasLtMatrixLayoutSetAttribute = setMatrix;
}

FakeBlas::~FakeBlas() { current = nullptr; }

} // namespace mt::kernels::test
