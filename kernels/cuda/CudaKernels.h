// The GPU's implementation of the catalogue: a call is prepared once, when a plan is loaded, and then launched on a
// CUDA stream with device addresses. Preparing checks the signature and makes every choice (blocks, cuBLASLt plans,
// cuDNN graphs); launching allocates nothing, queries nothing, waits for nothing, and can be captured into a CUDA
// graph. What only host streams do (feeding, reporting) is not here.
#ifndef MT_KERNELS_CUDA_CUDAKERNELS_H
#define MT_KERNELS_CUDA_CUDAKERNELS_H

#include "kernels/Catalogue.h"
#include "kernels/cuda/Fault.h"
#include "kernels/cuda/Stream.h"
#include "runtime/base/Status.h"

#include <cuda_runtime_api.h>

#include <functional>

namespace mt::kernels::cuda {

/// The message for a fault, as the CPU's kernels word it.
std::string_view message(Fault fault);

struct Launch {
  /// One device address for each operand of the signature, aligned to its element; null where it is absent. Written
  /// operands overlap nothing else, unless the kernel is of the elementwise family, not several of it, and the ranges
  /// are equal.
  std::span<void *const> operands;
  uint64_t accumulate = 0; ///< bit i: operand i (a written one) adds to what is there
  Stream stream = {};
  uint32_t *fault = nullptr; ///< writable from the device; 0 unless a kernel stores a Fault

  template <typename T> T *at(size_t operand) const { return static_cast<T *>(operands[operand]); }
  bool accumulates(size_t operand) const { return operand < 64 && (accumulate >> operand & 1) != 0; }
};

/// Enqueues the work of a call. Errors are the driver's, without the call's name: the caller knows it.
using Run = std::function<Status(const Launch &)>;

/// What prepared calls share on one device: its properties and the vendor's libraries. Made by openLibrary().
class Library;

/// Whether the GPU has code for a kernel of the catalogue, for some element types at least.
bool supports(std::string_view kernel);

/// Errors: an unknown kernel, an invalid signature, element types that the GPU has no code for, no algorithm of the
/// vendor's libraries within the call's scratch bytes (the message gives both numbers). `library` outlives the result.
Result<Run> prepare(const Signature &call, Library &library);

} // namespace mt::kernels::cuda
#endif
