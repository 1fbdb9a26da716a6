// One product of matrices (or of a batch of them) through cuBLASLt: described row-major, its algorithm chosen once.
// What matmul, attention and the head's loss are made of. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_PRODUCT_H
#define MT_KERNELS_CUDA_PRODUCT_H

#include "kernels/cuda/CudaKernels.h"

#include <cublasLt.h>

#include <array>
#include <compare>
#include <optional>

namespace mt::kernels::cuda {

struct Blas;

/// What the library does with a product before it stores it.
enum class Epilogue : uint8_t {
  none,
  gelu,       ///< c = gelu(product), tanh
  geluStored, ///< the same, and aside[m, n] = product, in c's type
  geluGrad,   ///< c = product * gelu'(aside[m, n])
  sumsOfA,    ///< aside[m] = sum over k of a[m, k], in c's type
  sumsOfB     ///< aside[n] = sum over k of b[k, n]
};

/// c[m, n] = alpha * sum over k of a[m, k] * b[k, n] + bias[n] + beta * addend[m, n], row-major. `ld` is the distance
/// of rows as they lie in memory, `step` that of the matrices of a batch, 0 where one serves all.
struct ProductShape {
  int64_t m = 1, n = 1, k = 1;
  bool transposeA = false, transposeB = false; ///< a lies as [k, m], b as [n, k]
  int64_t lda = 1, ldb = 1, ldc = 1;
  int64_t batches = 1, stepA = 0, stepB = 0, stepC = 0;
  DType type = DType::f32, result = DType::f32; ///< of a and b; of c and bias
  bool bias = false;                            ///< not in f64
  Epilogue epilogue = Epilogue::none;           ///< others of one batch alone, with alpha 1 and beta 0
  auto operator<=>(const ProductShape &) const = default;
};

/// Of a call of matmul.
ProductShape matmulShape(const Signature &call);

/// Of a chunk of `rows` rows of linear_cross_entropy or its gradient.
struct HeadProducts {
  ProductShape logits, dhidden, dweight;
  static HeadProducts of(const Signature &call, int64_t rows);
};

/// Addresses of one product.
struct ProductPlaces {
  const void *a = nullptr, *b = nullptr;
  void *c = nullptr;
  void *scratch = nullptr; ///< aligned to kScratchAlignment, as large as the product was chosen for
  const void *bias = nullptr;
  void *aside = nullptr; ///< what the epilogue reads or writes
  const void *addend = nullptr; ///< lies as c does; null: c itself
  float alpha = 1, beta = 0;
};

/// An algorithm that the library proposes.
struct Candidate {
  bool valid = false;
  uint64_t scratch = 0;
  uint32_t reduction = 0; ///< cublasLtReductionScheme_t
};
/// The first whose sums do not depend on the order in which blocks end and that fits; none: the number of candidates.
size_t firstUsable(std::span<const Candidate> candidates, uint64_t scratch);

class Product {
public:
  /// Errors: no algorithm fits into `scratch` bytes; the message gives both numbers.
  static Result<Product> choose(Blas &blas, const ProductShape &shape, uint64_t scratch);
  Status run(Stream stream, const ProductPlaces &places) const;

private:
  /// Algorithms for addresses that are multiples of 16 bytes, and for any that elements can have.
  enum Alignment : size_t { packed, loose, kAlignments };
  struct Algorithm {
    cublasLtMatmulAlgo_t choice = {};
    uint64_t scratch = 0;
  };

  Blas *blas = nullptr;
  ProductShape shape;
  cublasLtMatmulDescOpaque_t description = {};
  cublasLtMatrixLayoutOpaque_t a = {}, b = {}, c = {};
  std::array<std::optional<Algorithm>, kAlignments> algorithms;

  Status describe();
  Status describeMatrix(cublasLtMatrixLayoutOpaque_t &matrix, DType type, int64_t rows, int64_t columns, int64_t ld,
                        int64_t step) const;
  Result<Algorithm> algorithmFor(Alignment alignment, uint64_t scratch);
  Alignment alignmentOf(const ProductPlaces &places) const;
  Status pointAt(cublasLtMatmulDescOpaque_t &to, const void *bias, void *aside) const;
};

} // namespace mt::kernels::cuda
#endif
