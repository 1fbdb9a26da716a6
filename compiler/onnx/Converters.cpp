#include "compiler/onnx/Converters.h"

namespace mt::onnx {

const Converters &Converters::table() {
  static const Converters table = [] {
    Converters built;
    for (auto *addFamily :
         {addElementwise, addBits,         addActivations, addShapes,        addStructure,       addIndexing,
          addSequences,   addPositions,    addRandom,      addReductions,    addProducts,        addConvolution,
          addPooling,     addScatter,      addPadding,     addResize,        addGeometry,        addSampling,
          addSignals,     addQuantization, addRecurrence,  addNormalization, addSoftmax,         addAttention,
          addStates,      addLosses,       addControl,     onnx::addContrib, addContribAttention})
      addFamily(built);
    return built;
  }();
  return table;
}

Converter Converters::find(const std::string &domain, const std::string &op) const {
  auto at = entries.find({domain, op});
  return at == entries.end() ? nullptr : at->second;
}

mlir::Value converted(NodeContext &node, const std::string &op, std::vector<NodeValue *> inputs,
                      const NodeAttributes &attributes) {
  NodeContext inner = node.with(std::move(inputs), attributes, node.file.opset());
  if (failed(Converters::table().find("", op)(inner))) {
    if (!inner.failed())
      (void)inner.fail("its inputs or attributes have a form that is not supported");
    (void)node.failAs(inner);
    return {};
  }
  NodeValue result = std::move(inner.takeResults().front());
  return !result.value && result.known ? node.constant(*result.known) : result.value;
}

} // namespace mt::onnx
