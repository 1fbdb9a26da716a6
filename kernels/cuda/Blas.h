// cuBLASLt on one device: exactly the functions that products call, as a table, so that the choice of algorithms can be
// tested where there is no GPU, and a handle. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_BLAS_H
#define MT_KERNELS_CUDA_BLAS_H

#include "kernels/cuda/Product.h"
#include "kernels/cuda/SharedLibrary.h"

#include <cublasLt.h>

#include <map>
#include <memory>
#include <mutex>

namespace mt::kernels::cuda {

#define MT_BLAS_FUNCTIONS(X)                                                                                           \
  X(cublasLtCreate)                                                                                                    \
  X(cublasLtDestroy)                                                                                                   \
  X(cublasLtGetVersion)                                                                                                \
  X(cublasLtGetStatusString)                                                                                           \
  X(cublasLtMatmul)                                                                                                    \
  X(cublasLtMatmulAlgoGetHeuristic)                                                                                    \
  X(cublasLtMatmulAlgoConfigGetAttribute)                                                                              \
  X(cublasLtMatmulDescInit_internal)                                                                                   \
  X(cublasLtMatmulDescSetAttribute)                                                                                    \
  X(cublasLtMatmulPreferenceInit_internal)                                                                             \
  X(cublasLtMatmulPreferenceSetAttribute)                                                                              \
  X(cublasLtMatrixLayoutInit_internal)                                                                                 \
  X(cublasLtMatrixLayoutSetAttribute)

struct BlasFunctions {
#define MT_BLAS_MEMBER(function) decltype(&::function) function = nullptr;
  MT_BLAS_FUNCTIONS(MT_BLAS_MEMBER)
#undef MT_BLAS_MEMBER
};

struct Blas {
  BlasFunctions call;
  cublasLtHandle_t handle = nullptr;

  /// Opens the library and makes a handle on the current device.
  static Result<std::unique_ptr<Blas>> open(const LibraryFolders &folders);
  Blas() = default;
  ~Blas();
  Blas(const Blas &) = delete;

  /// The product of a shape within that much scratch; chosen once, whoever asks.
  Result<Product> product(const ProductShape &shape, uint64_t scratch);

private:
  std::mutex mutex;
  std::map<std::pair<ProductShape, uint64_t>, Product> chosen;
};

} // namespace mt::kernels::cuda
#endif
