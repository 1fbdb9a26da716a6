/* A libcuda.so.1 for cuDNN where there is no driver: enough for it to say what it can build, and to compile that. Every call
   but the version fails. */
int cuDriverGetVersion(int *version) {
  *version = 13000;
  return 0;
}

#define MT_STUBS(X)                                                                                                    \
  X(cuCtxGetCurrent) X(cuCtxGetDevice) X(cuCtxGetLimit) X(cuCtxPopCurrent) X(cuCtxPushCurrent) X(cuDeviceGet)          \
  X(cuDeviceGetAttribute) X(cuDeviceGetCount) X(cuDevicePrimaryCtxRelease) X(cuDevicePrimaryCtxReset)                  \
  X(cuDevicePrimaryCtxRetain) X(cuFuncGetAttribute) X(cuFuncSetAttribute) X(cuGetErrorName) X(cuGetErrorString)        \
  X(cuInit) X(cuKernelGetAttribute) X(cuKernelSetAttribute) X(cuLaunchCooperativeKernel) X(cuLaunchKernel)             \
  X(cuLaunchKernelEx) X(cuLibraryGetKernel) X(cuLibraryLoadData) X(cuLibraryLoadFromFile) X(cuLibraryUnload)           \
  X(cuLinkAddData) X(cuLinkAddData_v2) X(cuLinkAddFile_v2) X(cuLinkComplete) X(cuLinkCreate) X(cuLinkCreate_v2)        \
  X(cuLinkDestroy) X(cuMemcpyDtoH_v2) X(cuModuleGetFunction) X(cuModuleGetGlobal_v2) X(cuModuleLoadData)               \
  X(cuModuleLoadDataEx) X(cuModuleLoadFatBinary) X(cuModuleUnload) X(cuOccupancyMaxActiveBlocksPerMultiprocessor)      \
  X(cuOccupancyMaxPotentialClusterSize) X(cuStreamGetCtx) X(cuStreamSynchronize) X(cuTensorMapEncodeIm2col)     \
  X(cuTensorMapEncodeTiled) X(cuKernelGetFunction)

#define MT_STUB(name)                                                                                                  \
  int name(void) { return 3; } /* CUDA_ERROR_NOT_INITIALIZED */
MT_STUBS(MT_STUB)
