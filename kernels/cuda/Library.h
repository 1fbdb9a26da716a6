// One GPU and the vendor's libraries on it, opened at run time: cuBLASLt and cuDNN are looked for on the system and in
// Python's nvidia-* packages, so that programs start, and say what is missing, where there is none. Private to
// kernels/cuda and runtime/device/cuda.
#ifndef MT_KERNELS_CUDA_LIBRARY_H
#define MT_KERNELS_CUDA_LIBRARY_H

#include "kernels/cuda/CudaKernels.h"

#include <memory>
#include <mutex>

namespace mt::kernels::cuda {

struct Blas; ///< cuBLASLt: its functions and a handle
struct Dnn;  ///< cuDNN: its functions and a handle

class Library {
public:
  /// Of the calling thread's current CUDA device. Errors name the library, where it was looked for, and the remedy.
  static Result<std::unique_ptr<Library>> open();
  ~Library();

  /// Opened at first use, when a call is prepared; from any thread.
  Result<Blas *> blas();
  Result<Dnn *> dnn();
  int multiprocessors() const { return multiprocessorCount; }
  int computeCapability() const { return capability; } ///< 10 * major + minor

private:
  Library() = default;
  std::unique_ptr<Blas> blasLibrary;
  std::unique_ptr<Dnn> dnnLibrary;
  Status dnnProblem; ///< of the first attempt: a missing library is not looked for again
  std::mutex mutex;
  int multiprocessorCount = 0, capability = 0;
};

} // namespace mt::kernels::cuda
#endif
