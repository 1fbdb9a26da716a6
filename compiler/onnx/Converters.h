// The table of converters: ONNX operator -> the small function that turns one node into nn operations. Each family of
// operators has a file Convert*.cpp that adds its own.
#ifndef MT_COMPILER_ONNX_CONVERTERS_H
#define MT_COMPILER_ONNX_CONVERTERS_H

#include "compiler/onnx/NodeContext.h"

#include <map>
#include <string>

namespace mt::onnx {

/// Fails after reporting why through the context.
using Converter = llvm::LogicalResult (*)(NodeContext &);

class Converters {
public:
  static const Converters &table();
  /// Null where the operator is unknown. The default domain is "".
  Converter find(const std::string &domain, const std::string &op) const;
  void add(const std::string &op, Converter converter) { entries[{"", op}] = converter; }
  void addContrib(const std::string &op, Converter converter) { entries[{"com.microsoft", op}] = converter; }
  const std::map<std::pair<std::string, std::string>, Converter> &all() const { return entries; }

private:
  std::map<std::pair<std::string, std::string>, Converter> entries;
};

/// The first result of the standard's operator `op` for other inputs of a node, null where they are left out, and other
/// attributes; null, with a problem, where it can do nothing with them.
mlir::Value converted(NodeContext &node, const std::string &op, std::vector<NodeValue *> inputs,
                      const NodeAttributes &attributes);

/// `value` not below `low` and not above `high`, either of which may be null. Where it is one of them it has the whole
/// gradient, as in PyTorch's clamp, or, `flat`, none.
mlir::Value clipped(NodeContext &node, mlir::Value value, mlir::Value low, mlir::Value high, bool flat);

// Values whose size depends on data (Selection): a NonZero of data, an Expand to a shape of data, a SplitToSequence by
// sizes of data, and any node that takes one.
llvm::LogicalResult selectPlaces(NodeContext &node);
llvm::LogicalResult repeatByData(NodeContext &node);
llvm::LogicalResult splitByData(NodeContext &node); ///< as a sequence, or as the outputs of a Split
llvm::LogicalResult convertSelection(NodeContext &node);

void addElementwise(Converters &table);
void addBits(Converters &table);
void addActivations(Converters &table);
void addShapes(Converters &table);
void addStructure(Converters &table);
void addIndexing(Converters &table);
void addSequences(Converters &table);
void addPositions(Converters &table);
void addRandom(Converters &table);
void addReductions(Converters &table);
void addProducts(Converters &table);
void addConvolution(Converters &table);
void addPooling(Converters &table);
void addScatter(Converters &table);
void addPadding(Converters &table);
void addResize(Converters &table);
void addGeometry(Converters &table);
void addSampling(Converters &table);
void addSignals(Converters &table);
void addQuantization(Converters &table);
void addRecurrence(Converters &table);
void addNormalization(Converters &table);
void addSoftmax(Converters &table);
void addAttention(Converters &table);
void addStates(Converters &table);
void addLosses(Converters &table);
void addControl(Converters &table);
void addContrib(Converters &table);
void addContribAttention(Converters &table);

} // namespace mt::onnx
#endif
