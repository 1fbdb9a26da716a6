// Walks a model's graph and converts node after node into the body of func @main: evaluates shape arithmetic, inlines
// functions and the taken branch of conditions, unrolls loops, and hands the rest to the converters. What is a weight
// and what is trained is decided afterwards (ParameterEvidence.h).
#ifndef MT_COMPILER_ONNX_GRAPHIMPORTER_H
#define MT_COMPILER_ONNX_GRAPHIMPORTER_H

#include "compiler/onnx/BindDimensions.h"
#include "compiler/onnx/ImportOptions.h"
#include "compiler/onnx/LostDetaches.h"
#include "compiler/onnx/NodeContext.h"
#include "compiler/onnx/ParameterEvidence.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <deque>
#include <map>

namespace mt::onnx {

/// How a Scan walks along one of its inputs or outputs.
struct Walk {
  int64_t axis = 0;
  bool backwards = false;
};

class GraphImporter {
public:
  GraphImporter(mlir::OpBuilder &builder, mlir::func::FuncOp function, const ModelFile &file, Problems &problems);

  /// Converts the whole graph; the inputs are the function's first arguments, stored tensors are appended to them.
  /// Returns the graph's outputs, in order; those that could not be converted are null.
  std::vector<mlir::Value> run(const BoundInputs &inputs);

  /// Whether it inlines the graphs of operator `op` of the default domain itself, which has no converter then.
  static bool inlines(const std::string &op) {
    return op == "If" || op == "Loop" || op == "Scan" || op == "SequenceMap";
  }

  /// The stored tensors that became arguments, in order.
  std::vector<Candidate> &candidates() { return stored; }
  /// Names of values that the original module detaches, and the graph does not.
  std::vector<std::string> leftOutDetaches() const;

private:
  /// The values visible in a graph or function body.
  struct Scope {
    std::map<std::string, NodeValue> values;
    std::set<std::string> absent; ///< inputs of a function that its caller left out
    Scope *outer = nullptr;       ///< null in a function, which sees nothing else
    bool isGraph = false;         ///< the model's own graph
    bool isAbsent(const std::string &name) const { return absent.contains(name) || (outer && outer->isAbsent(name)); }
    NodeValue *find(const std::string &name);
  };
  /// The function a node is in: its caller's attributes and its own operator sets.
  struct Frame {
    const NodeAttributes *call = nullptr;
    std::map<std::string, int64_t> opsets;
    int depth = 0;
    mlir::Value taken; ///< in a branch that data choose: whether they choose it
  };

  mlir::Value asModelHas(const BoundInput &input, mlir::Value data);
  void noteDescriptions(const BoundInputs &inputs);
  void importInitializers(const ::onnx::GraphProto &graph, Scope &scope);
  void importNodes(const NodeList &nodes, const std::vector<std::string> &outputs, Scope &scope, const Frame &frame);
  void importNode(const ::onnx::NodeProto &node, Scope &scope, const Frame &frame);
  void importCall(const ::onnx::NodeProto &node, const ::onnx::FunctionProto &function,
                  const NodeAttributes &attributes, const std::vector<NodeValue *> &inputs, Scope &scope,
                  const Frame &caller);
  void inlineGraphs(const ::onnx::NodeProto &node, const NodeAttributes &attributes,
                    const std::vector<NodeValue *> &inputs, Scope &scope, const Frame &frame);
  void chooseBranch(const ::onnx::NodeProto &node, const NodeAttributes &attributes, mlir::Value condition,
                    Scope &scope, const Frame &frame);
  void guardInputs(const ::onnx::NodeProto &node, mlir::Value taken, std::vector<NodeValue *> &inputs,
                   std::deque<NodeValue> &guarded);
  void importCondition(const ::onnx::NodeProto &node, const NodeAttributes &attributes,
                       const std::vector<NodeValue *> &inputs, Scope &scope, const Frame &frame);
  void importMap(const ::onnx::NodeProto &node, const NodeAttributes &attributes,
                 const std::vector<NodeValue *> &inputs, Scope &scope, const Frame &frame);
  void detachInputs(const ::onnx::NodeProto &node, std::vector<NodeValue *> &inputs, std::deque<NodeValue> &changed);
  NodeValue partOf(NodeValue value);
  std::vector<NodeValue> importBody(const ::onnx::GraphProto &body, std::vector<NodeValue> inputs, Scope &scope,
                                    const Frame &frame);
  void importLoop(const ::onnx::NodeProto &node, const NodeAttributes &attributes,
                  const std::vector<NodeValue *> &inputs, Scope &scope, const Frame &frame);
  void importScan(const ::onnx::NodeProto &node, const NodeAttributes &attributes,
                  const std::vector<NodeValue *> &inputs, Scope &scope, const Frame &frame);
  struct Unrolled; ///< a loop on its way (ImportLoops.cpp)
  void refuse(Unrolled &loop, const std::string &why);
  bool findBody(Unrolled &loop, size_t inputs, size_t outputs);
  bool mayUnroll(Unrolled &loop, int64_t iterations);
  std::optional<std::vector<NodeValue>> importIteration(Unrolled &loop, std::vector<NodeValue> inputs);
  std::optional<std::vector<std::vector<NodeValue>>> cutForScan(Unrolled &loop, size_t first,
                                                                const std::vector<Walk> &walks);
  void finishLoop(Unrolled &loop, const std::vector<Walk> &walks);
  void convert(const ::onnx::NodeProto &node, const NodeAttributes &attributes, std::vector<NodeValue *> inputs,
               Scope &scope, const Frame &frame);
  void store(const ::onnx::NodeProto &node, Scope &scope, std::vector<NodeValue> results);
  void noteStatistics(const NodeContext &context);
  void giveUp(const ::onnx::NodeProto &node, Scope &scope);
  NodeValue guessOf(const std::string &name);

  NodeValue valueOf(const ::onnx::TensorProto &tensor, const std::string &name, bool isConstantNode);
  NodeValue storedInteger(TensorSource source);
  StoredNumbers numbersOf(const TensorSource &source);
  NodeValue packedValue(const TensorSource &source);
  bool isVariable(const TensorSource &source) const;
  mlir::Value argumentFor(TensorSource source);
  mlir::Location locationOf(const std::string &name);
  const ::onnx::FunctionProto *functionOf(const ::onnx::NodeProto &node) const;

  mlir::OpBuilder &builder;
  mlir::func::FuncOp function;
  const ModelFile &file;
  Problems &problems;
  std::map<std::string, Origin> origins;
  std::map<std::string, std::vector<Alias>> moduleNames;
  const LostDetaches detaches;
  std::set<const ::onnx::NodeProto *> detached; ///< nodes that take what was detached as it was
  const VariableNames variableNames; ///< where the file says nothing of origins
  std::map<std::pair<std::string, std::string>, const ::onnx::FunctionProto *> functions;
  std::map<std::string, const ::onnx::ValueInfoProto *> described; ///< by the exporter: values of the graph, with types
  std::map<std::string, int64_t> symbols;                          ///< sizes of dimensions, as the inputs bind them
  std::vector<Candidate> stored;
  int64_t notedMasks = 0;                    ///< that select rows
  int64_t calledNodes = 0;                   ///< that calls of functions became
  int64_t unrolledNodes = 0;                 ///< that loops became, and iterations
  int loopsAround = 0;                       ///< of what is imported now
  std::deque<NodeAttributes> keptAttributes; ///< of calls, which nodes of their functions refer to
};

} // namespace mt::onnx
#endif
