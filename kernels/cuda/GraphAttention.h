// attention and its gradient in 16 bits through cuDNN's fused graph. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_GRAPHATTENTION_H
#define MT_KERNELS_CUDA_GRAPHATTENTION_H

#include "kernels/DeviceScratch.h"
#include "kernels/cuda/AttentionGraph.h"

#include <vector>

namespace mt::kernels::cuda {

/// A call cut along its queries: what one graph computes of some heads, from a query and a key on.
struct GraphPart {
  int64_t query = 0, key = 0;
  AttentionGraph graph;
};
std::vector<GraphPart> graphParts(const Signature &call, const FusedAttention &cut);

/// For calls that FusedAttention does not refuse. Launches that add to a result run `adding`, since the graph cannot.
/// Errors: no cuDNN, a call that it does not do on this GPU, more scratch than the plan gives (with both numbers).
Result<Run> prepareGraphAttention(const Signature &call, Library &library, Run adding);

} // namespace mt::kernels::cuda
#endif
