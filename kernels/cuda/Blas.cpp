#include "kernels/cuda/Blas.h"

#include "runtime/base/Log.h"

namespace mt::kernels::cuda {

Result<std::unique_ptr<Blas>> Blas::open(const LibraryFolders &folders) {
  MT_ASSIGN(SharedLibrary library,
            openShared("libcublasLt.so.13", folders,
                       "install cuBLAS of CUDA 13 (pip install nvidia-cublas), or name the folder that holds it in "
                       "MT_CUDA_LIBRARIES"));
  auto blas = std::make_unique<Blas>();
#define MT_BLAS_NAME(function) #function,
#define MT_BLAS_PLACE(function) reinterpret_cast<void **>(&blas->call.function),
  const char *const names[] = {MT_BLAS_FUNCTIONS(MT_BLAS_NAME)};
  void **const places[] = {MT_BLAS_FUNCTIONS(MT_BLAS_PLACE)};
#undef MT_BLAS_NAME
#undef MT_BLAS_PLACE
  MT_TRY(findFunctions(library, names, places));
  if (cublasStatus_t status = blas->call.cublasLtCreate(&blas->handle); status != CUBLAS_STATUS_SUCCESS)
    return fail("{}: making a handle: {}", library.file, blas->call.cublasLtGetStatusString(status));
  log().info("cuBLASLt {} from {}", blas->call.cublasLtGetVersion(), library.file);
  return blas;
}

Blas::~Blas() {
  if (handle)
    call.cublasLtDestroy(handle);
}

Result<Product> Blas::product(const ProductShape &shape, uint64_t scratch) {
  std::scoped_lock lock(mutex);
  auto known = chosen.find({shape, scratch});
  if (known != chosen.end())
    return known->second;
  MT_ASSIGN(Product made, Product::choose(*this, shape, scratch));
  chosen.emplace(std::pair(shape, scratch), made);
  return made;
}

} // namespace mt::kernels::cuda
