// What `mtc check` tells about a model before anything is compiled: everything that stands in the way, at once, and
// what was found - parameters, inputs, outputs, operators.
#ifndef MT_COMPILER_ONNX_CHECKONNX_H
#define MT_COMPILER_ONNX_CHECKONNX_H

#include "compiler/onnx/ImportOnnx.h"

#include <map>

namespace mt::onnx {

struct ModelCheck {
  Problems problems;                    ///< empty: the model can be imported
  std::map<std::string, int> operators; ///< how often each occurs, subgraphs and functions included
  int64_t opset = 0;
  std::string producer;
  int64_t trainableTensors = 0, frozenTensors = 0;
  int64_t trainableElements = 0;
  std::optional<ImportedModel> model; ///< where there are no problems
};

ModelCheck checkOnnx(mlir::MLIRContext &context, const std::string &path, const ImportOptions &options);

} // namespace mt::onnx
#endif
