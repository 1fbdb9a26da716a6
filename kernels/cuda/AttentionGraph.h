// One graph of cuDNN's that computes attention or its gradient, or a part of it. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_ATTENTIONGRAPH_H
#define MT_KERNELS_CUDA_ATTENTIONGRAPH_H

#include "kernels/cuda/Library.h"

#include <array>
#include <optional>
#include <string>

namespace mt::kernels::cuda {

/// What a graph computes: everything but addresses. Queries lie as [rows, allQueries, allHeads, width], keys and values
/// as [rows, allKeys, allGroups, width]; logsumexp as [rows, heads, queries].
struct AttentionGraph {
  DType type = DType::bf16;
  bool gradient = false;
  bool statistics = false; ///< forward: the logsumexp is wanted
  float scale = 1;
  int64_t rows = 1, heads = 1, groups = 1, queries = 1, keys = 1, width = 1, valueWidth = 1;
  int64_t allHeads = 1, allGroups = 1, allQueries = 1, allKeys = 1;
  bool apart = false; ///< gradients of keys and values lie as [keys, width]: `rows` and `groups` are 1
  std::optional<int64_t> left = {}, right = {}; ///< query q sees keys in (q - left, q + right]

  std::string text() const;
};

/// Addresses of a graph's tensors, all but logsumexp such as isGraphAligned; the latter three are of gradients.
/// Logsumexp is null where forward does not want it.
enum class GraphTensor : uint8_t { query, key, value, output, logsumexp, gradient, dquery, dkey, dvalue, count };
/// Launches of a graph at most: sums of gradient and output, the gradients, those of queries, shared heads.
constexpr int64_t kGraphLaunches = 4;
using GraphAddresses = std::array<void *, static_cast<size_t>(GraphTensor::count)>;

/// Enqueues a graph; the workspace has the bytes that it was prepared for.
using GraphRun = std::function<Status(Stream stream, GraphAddresses addresses, void *workspace)>;

/// Errors: no cuDNN, a graph that it does not do on this GPU, more workspace than `scratch` bytes (with both numbers).
Result<GraphRun> prepareGraph(const AttentionGraph &graph, uint64_t scratch, Library &library);

/// Bytes of workspace that a graph takes; errors as above. For GPUs that are described.
Result<uint64_t> graphWorkspace(const AttentionGraph &graph, uint64_t scratch, Dnn &dnn);

} // namespace mt::kernels::cuda
#endif
