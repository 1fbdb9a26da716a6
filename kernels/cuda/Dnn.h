// cuDNN on one device: the functions that its graphs call, and a handle. The headers that build graphs call cuDNN by
// its global names; Dnn.cpp gives them those, forwarding to the library opened here, so that nothing links it. Private
// to kernels/cuda.
#ifndef MT_KERNELS_CUDA_DNN_H
#define MT_KERNELS_CUDA_DNN_H

#include "kernels/cuda/SharedLibrary.h"

#include <cudnn.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace cudnn_frontend {
class DeviceProperties;
}

namespace mt::kernels::cuda {

/// Whether a graph takes an address: its tensors are of whole packs.
constexpr uintptr_t kGraphAlignment = 16;
inline bool isGraphAligned(const void *address) { return reinterpret_cast<uintptr_t>(address) % kGraphAlignment == 0; }

#define MT_DNN_FUNCTIONS(X)                                                                                            \
  X(cudnnBackendCreateDescriptor)                                                                                      \
  X(cudnnBackendDestroyDescriptor)                                                                                     \
  X(cudnnBackendExecute)                                                                                               \
  X(cudnnBackendFinalize)                                                                                              \
  X(cudnnBackendGetAttribute)                                                                                          \
  X(cudnnBackendSetAttribute)                                                                                          \
  X(cudnnCreate)                                                                                                       \
  X(cudnnDestroy)                                                                                                      \
  X(cudnnGetCudartVersion)                                                                                             \
  X(cudnnGetErrorString)                                                                                               \
  X(cudnnGetLastErrorString)                                                                                           \
  X(cudnnGetStream)                                                                                                    \
  X(cudnnGetVersion)                                                                                                   \
  X(cudnnSetStream)

struct DnnFunctions {
#define MT_DNN_MEMBER(function) decltype(&::function) function = nullptr;
  MT_DNN_FUNCTIONS(MT_DNN_MEMBER)
#undef MT_DNN_MEMBER
};

struct Dnn {
  DnnFunctions call;
  cudnnHandle_t handle = nullptr;
  /// Of a GPU that is not there, for which graphs are built and not run; null: the handle's is there.
  std::shared_ptr<const cudnn_frontend::DeviceProperties> described;
  int describedCapability = 0;                         ///< 10 * major + minor
  std::mutex mutex;                                    ///< guards graphs
  std::map<std::string, std::shared_ptr<void>> graphs; ///< built ones, by what they compute

  /// Opens the library and makes a handle on the current device.
  static Result<std::unique_ptr<Dnn>> open(const LibraryFolders &folders);
  /// The same without a handle.
  static Result<std::unique_ptr<Dnn>> load(const LibraryFolders &folders);
  Dnn() = default;
  ~Dnn();
  Dnn(const Dnn &) = delete;
};

/// Has `dnn` build for a GPU of a compute capability (10 * major + minor) that is described by JSON, as cuDNN writes
/// that.
Status describeGpu(Dnn &dnn, int capability, const std::string &description);

} // namespace mt::kernels::cuda
#endif
