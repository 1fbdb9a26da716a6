// Evaluates shape arithmetic: the operators exporters compute shapes, bounds, axes and scales with, on small known
// tensors (and on splats of any size). Not a general interpreter: whatever it does not know stays an operation.
#ifndef MT_COMPILER_ONNX_EVALUATESHAPES_H
#define MT_COMPILER_ONNX_EVALUATESHAPES_H

#include "compiler/onnx/HostTensor.h"
#include "compiler/onnx/NodeAttributes.h"

#include <optional>
#include <string>
#include <vector>

namespace mt::onnx {

/// Known inputs of more elements than this are not computed with, unless they are splats.
inline constexpr int64_t kEvaluateInput = 64;
/// No result has more stored elements than this.
inline constexpr int64_t kEvaluateResult = 4096;

struct EvaluatedNode {
  std::string op; ///< of the default domain
  const NodeAttributes *attributes = nullptr;
  std::vector<const HostTensor *> inputs; ///< null: left out
  size_t outputs = 1;
};

/// The node's outputs, or none where it is not shape arithmetic that can be evaluated (also where the node is
/// invalid: its converter then says why).
std::optional<std::vector<HostTensor>> evaluateShapes(const EvaluatedNode &node);

/// Axis counted from the front; none if out of [-rank, rank).
std::optional<int64_t> frontAxis(int64_t axis, int64_t rank);
/// NumPy's broadcast of two shapes; none if they do not agree.
std::optional<Dims> broadcastDims(const Dims &a, const Dims &b);

/// Bounds of ONNX Slice along one dimension of `size`: first index, number of elements, step.
struct SliceBounds {
  int64_t start = 0, count = 0, step = 1;
};
SliceBounds sliceBounds(int64_t start, int64_t end, int64_t step, int64_t size);

/// The target of ONNX Reshape with its zeros and its -1 resolved; none if the elements do not fit.
std::optional<Dims> reshapeDims(const Dims &from, const std::vector<int64_t> &target, bool allowZero);

} // namespace mt::onnx
#endif
