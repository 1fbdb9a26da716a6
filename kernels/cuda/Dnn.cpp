#include "kernels/cuda/Dnn.h"

#include "kernels/DeviceScratch.h"
#include "runtime/base/Log.h"

#include <nvrtc.h>

#include <cstdlib>

namespace mt::kernels::cuda {
namespace {

/// Of the library that is open: one version serves all devices of a process.
DnnFunctions forwarded;

constexpr std::string_view kRemedy = "install cuDNN 9 for CUDA 13 (pip install nvidia-cudnn-cu13), or name the folder "
                                     "that holds it in MT_CUDA_LIBRARIES";

} // namespace

Result<std::unique_ptr<Dnn>> Dnn::load(const LibraryFolders &folders) {
  // cuDNN opens these by name when it needs them; where only Python's packages have them, it finds them opened.
  (void)openShared("libcublasLt.so.13", folders, "");
  if (Result<SharedLibrary> nvrtc = openShared("libnvrtc.so.13", folders, ""))
    openBeside(*nvrtc, "libnvrtc-builtins.so.13."); // without it no kernel of attention can be compiled
  // The headers that build graphs read this: on Hopper gradients of more pairs, which are not cut into parts, go by
  // sums of queries in a fixed order, without room for all pairs. cuDNN has those since 9.25.
  setenv("CUDNN_FRONTEND_ATTN_DP_WORKSPACE_LIMIT", std::to_string(FusedAttention::kEnough).c_str(), 0);
  MT_ASSIGN(SharedLibrary library, openShared("libcudnn.so.9", folders, kRemedy));
  auto dnn = std::make_unique<Dnn>();
#define MT_DNN_NAME(function) #function,
#define MT_DNN_PLACE(function) reinterpret_cast<void **>(&dnn->call.function),
  const char *const names[] = {MT_DNN_FUNCTIONS(MT_DNN_NAME)};
  void **const places[] = {MT_DNN_FUNCTIONS(MT_DNN_PLACE)};
#undef MT_DNN_NAME
#undef MT_DNN_PLACE
  MT_TRY(findFunctions(library, names, places));
  if (dnn->call.cudnnGetCudartVersion() / 1000 != 13)
    return fail("{} is made for another CUDA than 13; {}", library.file, kRemedy);
  forwarded = dnn->call;
  log().info("cuDNN {} from {}", dnn->call.cudnnGetVersion(), library.file);
  return dnn;
}

Result<std::unique_ptr<Dnn>> Dnn::open(const LibraryFolders &folders) {
  MT_ASSIGN(std::unique_ptr<Dnn> dnn, load(folders));
  if (cudnnStatus_t status = dnn->call.cudnnCreate(&dnn->handle); status != CUDNN_STATUS_SUCCESS)
    return fail("cuDNN, making a handle: {}", dnn->call.cudnnGetErrorString(status));
  return dnn;
}

Dnn::~Dnn() {
  graphs.clear();
  if (handle)
    call.cudnnDestroy(handle);
}

} // namespace mt::kernels::cuda

// The names that the graphs' headers call. Hidden: a library that brings its own must not meet these.
#define MT_HIDDEN extern "C" __attribute__((visibility("hidden")))
using mt::kernels::cuda::forwarded;

MT_HIDDEN cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                     cudnnBackendDescriptor_t *descriptor) {
  return forwarded.cudnnBackendCreateDescriptor(type, descriptor);
}
MT_HIDDEN cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  return forwarded.cudnnBackendDestroyDescriptor(descriptor);
}
MT_HIDDEN cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                            cudnnBackendDescriptor_t pack) {
  return forwarded.cudnnBackendExecute(handle, plan, pack);
}
MT_HIDDEN cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  return forwarded.cudnnBackendFinalize(descriptor);
}
MT_HIDDEN cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                                 cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                                 int64_t requested, int64_t *count, void *elements) {
  return forwarded.cudnnBackendGetAttribute(descriptor, name, type, requested, count, elements);
}
MT_HIDDEN cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                                 cudnnBackendAttributeType_t type, int64_t count,
                                                 const void *elements) {
  return forwarded.cudnnBackendSetAttribute(descriptor, name, type, count, elements);
}
MT_HIDDEN const char *cudnnGetErrorString(cudnnStatus_t status) { return forwarded.cudnnGetErrorString(status); }
MT_HIDDEN void cudnnGetLastErrorString(char *message, size_t size) { forwarded.cudnnGetLastErrorString(message, size); }
MT_HIDDEN cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t *stream) {
  return forwarded.cudnnGetStream(handle, stream);
}
MT_HIDDEN size_t cudnnGetVersion() { return forwarded.cudnnGetVersion(); }

// The headers also hold an engine that compiles kernels for a normalization, and an interface that reorders the kernels
// of convolutions in 8 bits; no graph of ours has either.
MT_HIDDEN cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *) { return CUDNN_STATUS_NOT_SUPPORTED; }
MT_HIDDEN cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t) { return CUDNN_STATUS_NOT_SUPPORTED; }
MT_HIDDEN cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t, cudnnDataType_t, cudnnTensorFormat_t, int,
                                                   const int[]) {
  return CUDNN_STATUS_NOT_SUPPORTED;
}
MT_HIDDEN cudnnStatus_t cudnnReorderFilterAndBias(cudnnHandle_t, const cudnnFilterDescriptor_t, cudnnReorderType_t,
                                                  const void *, void *, int, const void *, void *) {
  return CUDNN_STATUS_NOT_SUPPORTED;
}
MT_HIDDEN nvrtcResult nvrtcCreateProgram(nvrtcProgram *, const char *, const char *, int, const char *const *,
                                         const char *const *) {
  return NVRTC_ERROR_INTERNAL_ERROR;
}
MT_HIDDEN nvrtcResult nvrtcCompileProgram(nvrtcProgram, int, const char *const *) { return NVRTC_ERROR_INTERNAL_ERROR; }
MT_HIDDEN nvrtcResult nvrtcDestroyProgram(nvrtcProgram *) { return NVRTC_ERROR_INTERNAL_ERROR; }
MT_HIDDEN nvrtcResult nvrtcGetCUBIN(nvrtcProgram, char *) { return NVRTC_ERROR_INTERNAL_ERROR; }
MT_HIDDEN nvrtcResult nvrtcGetCUBINSize(nvrtcProgram, size_t *) { return NVRTC_ERROR_INTERNAL_ERROR; }
MT_HIDDEN nvrtcResult nvrtcGetProgramLog(nvrtcProgram, char *) { return NVRTC_ERROR_INTERNAL_ERROR; }
MT_HIDDEN nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram, size_t *) { return NVRTC_ERROR_INTERNAL_ERROR; }
