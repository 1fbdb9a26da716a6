// PyTorch's detach, where the exporter optimized it away (`optimize=True`): the notes of the nodes that take the value
// still call it detached.
#ifndef MT_COMPILER_ONNX_LOSTDETACHES_H
#define MT_COMPILER_ONNX_LOSTDETACHES_H

#include "compiler/onnx/ExportMetadata.h"

#include <map>
#include <string>
#include <vector>

namespace mt::onnx {

struct LostDetaches {
  struct Place {
    size_t input;
    std::string name; ///< that the detached value had
  };
  std::map<const ::onnx::NodeProto *, std::vector<Place>> places;
  std::vector<std::string> unplaced; ///< names of values detached, where nothing says for certain which they are
};

/// An input is found where the notes explain every operand of a call and the values that led to it. `origins` are those
/// of the graph's initializers.
LostDetaches lostDetaches(const ::onnx::GraphProto &graph, const std::map<std::string, Origin> &origins);

} // namespace mt::onnx
#endif
