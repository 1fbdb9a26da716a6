// NCCL: exactly the functions that exchanges between the GPUs of several processes call, as a table, opened at run
// time. They are declared here, as its header says: nothing else of it is needed to build. Private to kernels/cuda and
// runtime/device/cuda.
#ifndef MT_KERNELS_CUDA_NCCL_H
#define MT_KERNELS_CUDA_NCCL_H

#include "kernels/cuda/SharedLibrary.h"

#include <cuda_runtime_api.h>

#include <array>

namespace mt::kernels::cuda {

/// What all who are to make a communicator together name it by.
struct NcclId {
  std::array<char, 128> bytes;
};
/// ncclResult_t, ncclDataType_t, ncclComm_t.
enum class NcclResult : int { success = 0, inProgress = 7 };
enum class NcclType : int { uint8 = 1 };
using NcclComm = void *;

struct Nccl {
  NcclResult (*ncclGetVersion)(int *version) = nullptr;
  const char *(*ncclGetErrorString)(NcclResult result) = nullptr;
  const char *(*ncclGetLastError)(NcclComm comm) = nullptr;
  NcclResult (*ncclGetUniqueId)(NcclId *id) = nullptr;
  NcclResult (*ncclCommInitRank)(NcclComm *comm, int ranks, NcclId id, int rank) = nullptr;
  NcclResult (*ncclCommAbort)(NcclComm comm) = nullptr;
  NcclResult (*ncclCommGetAsyncError)(NcclComm comm, NcclResult *error) = nullptr;
  NcclResult (*ncclGroupStart)() = nullptr;
  NcclResult (*ncclGroupEnd)() = nullptr;
  NcclResult (*ncclSend)(const void *data, size_t count, NcclType type, int peer, NcclComm comm,
                         cudaStream_t stream) = nullptr;
  NcclResult (*ncclRecv)(void *data, size_t count, NcclType type, int peer, NcclComm comm,
                         cudaStream_t stream) = nullptr;

  /// Errors: it is nowhere, or too old.
  static Result<Nccl> open(const LibraryFolders &folders);
  /// Success, or NCCL's words about a call. `comm`: its own, or null.
  Status told(NcclResult result, std::string_view call, NcclComm comm = nullptr) const;
};

} // namespace mt::kernels::cuda
#endif
