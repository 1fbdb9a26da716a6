#include "compiler/onnx/CheckOnnx.h"

#include "compiler/onnx/ModelFile.h"

namespace mt::onnx {
namespace {

void countOperators(const NodeList &nodes, std::map<std::string, int> &operators) {
  for (const auto &node : nodes) {
    std::string domain = domainOf(node);
    ++operators[domain.empty() ? node.op_type() : domain + "." + node.op_type()];
    for (const auto &attribute : node.attribute())
      countOperators(attribute.g().node(), operators);
  }
}

void countParameters(const ImportedModel &model, ModelCheck &check) {
  for (const ImportedParameter &parameter : model.parameters) {
    ++(parameter.trainable ? check.trainableTensors : check.frozenTensors);
    if (parameter.trainable)
      check.trainableElements += elementCount(parameter.dims).value_or(0);
  }
}

} // namespace

ModelCheck checkOnnx(mlir::MLIRContext &context, const std::string &path, const ImportOptions &options) {
  ModelCheck check;
  if (Result<ModelFile> file = ModelFile::open(path); file.ok()) {
    check.opset = file->opset();
    check.producer = file->model.producer_name() + " " + file->model.producer_version();
    countOperators(file->model.graph().node(), check.operators);
    for (const auto &function : file->model.functions())
      countOperators(function.node(), check.operators);
  }
  llvm::FailureOr<ImportedModel> model = importOnnx(context, path, options, check.problems);
  if (failed(model))
    return check;
  countParameters(*model, check);
  check.model = std::move(*model);
  return check;
}

} // namespace mt::onnx
