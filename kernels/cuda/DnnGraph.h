// What graphs of cuDNN's have in common: how one is made, gets a plan and is enqueued. Includes the headers that build
// graphs, which are vast. Private to the files that describe graphs.
#ifndef MT_KERNELS_CUDA_DNNGRAPH_H
#define MT_KERNELS_CUDA_DNNGRAPH_H

#include "kernels/cuda/Dnn.h"
#include "kernels/cuda/Library.h"

#define CUDNN_FRONTEND_SKIP_JSON_LIB
#define NV_CUDNN_DISABLE_EXCEPTION
#include <cudnn_frontend.h>

namespace mt::kernels::cuda {

namespace graph = cudnn_frontend::graph;
using Note = cudnn_frontend::NumericalNote_t;

/// A graph whose plan can be looked at.
struct DnnGraph : graph::Graph {
  using ICudnn::plans;
};

Status check(cudnn_frontend::error_t error, std::string_view what);

/// For operands of 32 or 16 bits, computed in 32.
std::shared_ptr<DnnGraph> emptyGraph(DType type, const Dnn &dnn);

/// The first plan that cuDNN's heuristics propose for a graph, of those that take at most `scratch` bytes and have none
/// of the notes. Errors, with `what` the graph is of: none; more workspace than that (with both numbers).
Status buildPlan(DnnGraph &made, Dnn &dnn, uint64_t scratch, const std::vector<Note> &notes, std::string_view what);
inline uint64_t workspaceOf(const DnnGraph &made) { return static_cast<uint64_t>(made.get_workspace_size()); }

/// The graph of that name, built where there is none yet.
Result<std::shared_ptr<DnnGraph>> knownGraph(Dnn &dnn, const std::string &name,
                                             const std::function<Result<std::shared_ptr<DnnGraph>>()> &build);

/// Addresses are in the order of the tensors' identifiers.
Status enqueue(const DnnGraph &built, Dnn &dnn, Stream stream, int64_t launches, std::span<void *> addresses,
               void *workspace, std::string_view what);

} // namespace mt::kernels::cuda
#endif
