// Products fused with what stands beside them: as one product of cuBLASLt, or as their parts. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_FUSEDPRODUCT_H
#define MT_KERNELS_CUDA_FUSEDPRODUCT_H

#include "kernels/cuda/CudaKernels.h"

namespace mt::kernels::cuda {

struct Blas;

/// The parts (kernels/FusedProduct.h), one after another.
Result<Run> prepareParts(const Signature &call, Library &library);

/// A call whose product's epilogue does the rest. Errors: the call asks what no epilogue does, or the library has none
/// within the call's scratch that repeats its bits.
Result<Run> prepareEpilogue(const Signature &call, Blas &blas);

} // namespace mt::kernels::cuda
#endif
