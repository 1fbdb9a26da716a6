// attention and its gradient in 16 bits through cuDNN's fused graph. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_GRAPHATTENTION_H
#define MT_KERNELS_CUDA_GRAPHATTENTION_H

#include "kernels/cuda/Library.h"

#include <string>

namespace mt::kernels::cuda {

/// For calls that FusedAttention says can be cut. Launches that add to a result run `adding`, since the graph cannot.
/// Errors: no cuDNN, a call that it does not do on this GPU, more scratch than the plan gives (with both numbers).
Result<Run> prepareGraphAttention(const Signature &call, Library &library, Run adding);

/// Bytes of scratch that the graph of such a call takes; errors as above. For GPUs that are described.
Result<uint64_t> graphScratch(const Signature &call, Dnn &dnn);
/// Has `dnn` build for a GPU of a compute capability (10 * major + minor) that is described by JSON, as cuDNN writes that.
Status describeGpu(Dnn &dnn, int capability, const std::string &description);

} // namespace mt::kernels::cuda
#endif
