// The nodes of an ONNX graph in an order in which they can be converted, without those that no output depends on.
// Finds what makes a graph invalid: values defined twice, inputs nobody defines, cycles.
#ifndef MT_COMPILER_ONNX_GRAPHORDER_H
#define MT_COMPILER_ONNX_GRAPHORDER_H

#include "third_party/onnx/onnx-ml.pb.h"

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace mt::onnx {

using NodeList = google::protobuf::RepeatedPtrField<::onnx::NodeProto>;
/// Complete messages, one a problem: what is wrong, where, what to do.
using Problems = std::vector<std::string>;

/// "node 'name' (Op)", with the domain where it is not ONNX's own.
std::string nodeText(const ::onnx::NodeProto &node);
/// The name by which a node is known: its own, else its first output's.
std::string nodeName(const ::onnx::NodeProto &node);
/// "" for ONNX's default domain under either of its names.
std::string domainOf(const ::onnx::NodeProto &node);

/// Names a node reads: its inputs, and what its subgraphs capture.
std::set<std::string> namesRead(const ::onnx::NodeProto &node);

/// Live nodes in a valid order, the file's own where that is valid. `outside` says whether a name is defined outside
/// the nodes (graph inputs, initializers, an enclosing graph). Appends to `problems` what is wrong.
std::vector<const ::onnx::NodeProto *> orderNodes(const NodeList &nodes, const std::vector<std::string> &outputs,
                                                  const std::function<bool(const std::string &)> &outside,
                                                  Problems &problems);

} // namespace mt::onnx
#endif
