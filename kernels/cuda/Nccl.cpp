#include "kernels/cuda/Nccl.h"

#include "runtime/base/Log.h"

namespace mt::kernels::cuda {
namespace {

constexpr int kLeastVersion = 21400; // of messages between two, of errors in words, of its numbers
constexpr std::string_view kRemedy =
    "install NCCL for CUDA 13 (pip install nvidia-nccl-cu13), or name the folder that holds it in MT_CUDA_LIBRARIES; "
    "or compile the model again without a network of devices (one rate after --network)";

} // namespace

Result<Nccl> Nccl::open(const LibraryFolders &folders) {
  MT_ASSIGN(SharedLibrary library, openShared("libnccl.so.2", folders, kRemedy));
  Nccl nccl;
#define MT_NCCL_FUNCTIONS(X)                                                                                           \
  X(ncclGetVersion)                                                                                                    \
  X(ncclGetErrorString)                                                                                                \
  X(ncclGetLastError)                                                                                                  \
  X(ncclGetUniqueId)                                                                                                   \
  X(ncclCommInitRank)                                                                                                  \
  X(ncclCommAbort)                                                                                                     \
  X(ncclCommGetAsyncError)                                                                                             \
  X(ncclGroupStart)                                                                                                    \
  X(ncclGroupEnd)                                                                                                      \
  X(ncclSend)                                                                                                          \
  X(ncclRecv)
#define MT_NCCL_NAME(function) #function,
#define MT_NCCL_PLACE(function) reinterpret_cast<void **>(&nccl.function),
  const char *const names[] = {MT_NCCL_FUNCTIONS(MT_NCCL_NAME)};
  void **const places[] = {MT_NCCL_FUNCTIONS(MT_NCCL_PLACE)};
#undef MT_NCCL_NAME
#undef MT_NCCL_PLACE
#undef MT_NCCL_FUNCTIONS
  MT_TRY(findFunctions(library, names, places));
  int version = 0;
  MT_TRY(nccl.told(nccl.ncclGetVersion(&version), "ncclGetVersion"));
  if (version < kLeastVersion)
    return fail("{} is NCCL {}.{}, which is too old; {}", library.file, version / 10000, version / 100 % 100, kRemedy);
  log().info("NCCL {}.{}.{} from {}", version / 10000, version / 100 % 100, version % 100, library.file);
  return nccl;
}

Status Nccl::told(NcclResult result, std::string_view call, NcclComm comm) const {
  if (result == NcclResult::success || result == NcclResult::inProgress)
    return {};
  const char *more = ncclGetLastError(comm);
  return fail("{}: {}{}{}", call, ncclGetErrorString(result), more && *more ? ": " : "", more ? more : "");
}

} // namespace mt::kernels::cuda
