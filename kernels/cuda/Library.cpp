#include "kernels/cuda/Library.h"

#include "kernels/cuda/Blas.h"
#include "kernels/cuda/Dnn.h"
#include "kernels/cuda/Family.h"

namespace mt::kernels::cuda {

Status check(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess)
    return {};
  return fail("{}: {} ({})", what, cudaGetErrorString(error), cudaGetErrorName(error));
}

Result<std::unique_ptr<Library>> Library::open() {
  std::unique_ptr<Library> library(new Library());
  int device = 0, major = 0, minor = 0;
  MT_TRY(check(cudaGetDevice(&device), "asking for the current GPU"));
  MT_TRY(check(cudaDeviceGetAttribute(&library->multiprocessorCount, cudaDevAttrMultiProcessorCount, device),
               "asking for the GPU's multiprocessors"));
  MT_TRY(check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "asking for the GPU's kind"));
  MT_TRY(check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "asking for the GPU's kind"));
  library->capability = 10 * major + minor;
  return library;
}

Library::~Library() = default;

Result<Blas *> Library::blas() {
  std::scoped_lock lock(mutex);
  if (!blasLibrary) {
    MT_ASSIGN(blasLibrary, Blas::open(LibraryFolders::in(Surroundings::ofProcess())));
  }
  return blasLibrary.get();
}

Result<Dnn *> Library::dnn() {
  std::scoped_lock lock(mutex);
  if (!dnnLibrary && dnnProblem.ok()) {
    Result<std::unique_ptr<Dnn>> opened = Dnn::open(LibraryFolders::in(Surroundings::ofProcess()));
    if (opened)
      dnnLibrary = std::move(*opened);
    else
      dnnProblem = opened.status();
  }
  if (!dnnLibrary)
    return dnnProblem;
  return dnnLibrary.get();
}

} // namespace mt::kernels::cuda
