// What a file of GPU kernels offers: names with the functions that prepare them. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_FAMILY_H
#define MT_KERNELS_CUDA_FAMILY_H

#include "kernels/cuda/CudaKernels.h"

namespace mt::kernels::cuda {

/// Prepares a call that the catalogue has checked.
using Prepare = Result<Run> (*)(const Signature &, Library &);
struct Entry {
  std::string_view kernel;
  Prepare prepare;
};

std::span<const Entry> elementwiseEntries();
std::span<const Entry> expressionEntries();
std::span<const Entry> structureEntries();
std::span<const Entry> reductionEntries();
std::span<const Entry> indexingEntries();
std::span<const Entry> topKEntries();
std::span<const Entry> dequantizeEntries();
std::span<const Entry> convolutionEntries();
std::span<const Entry> windowEntries();
std::span<const Entry> expertEntries();
std::span<const Entry> normEntries();
std::span<const Entry> softmaxEntries();
std::span<const Entry> recurrenceEntries();
std::span<const Entry> rotaryEntries();
std::span<const Entry> lossEntries();
std::span<const Entry> randomEntries();
std::span<const Entry> stepEntries();
std::span<const Entry> optimizerEntries();
std::span<const Entry> matmulEntries();
std::span<const Entry> fusedProductEntries();
std::span<const Entry> attentionEntries();
std::span<const Entry> headEntries();

/// Success, or what the last launch or call of the CUDA runtime met.
Status check(cudaError_t error, std::string_view what);

} // namespace mt::kernels::cuda
#endif
