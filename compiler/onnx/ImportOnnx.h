// From a model file to a module of the nn dialect: binds every dimension, converts every node, decides what is
// trainable, and collects all problems before it fails. Weights stay where they are: the module names them, and
// ImportedParameter says which bytes of which file they are. The first phase of the pipeline; see docs/importing.md.
#ifndef MT_COMPILER_ONNX_IMPORTONNX_H
#define MT_COMPILER_ONNX_IMPORTONNX_H

#include "compiler/onnx/BindDimensions.h"
#include "compiler/onnx/ElementTypes.h"
#include "compiler/onnx/ExportMetadata.h"
#include "compiler/onnx/GraphOrder.h"
#include "compiler/onnx/ImportOptions.h"
#include "compiler/onnx/ModelFile.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>
#include <vector>

namespace mt::onnx {

/// A tensor that the module takes as an argument: a weight, or a buffer too large to be a constant.
struct ImportedParameter {
  std::string name;           ///< the ONNX initializer's
  std::vector<Alias> aliases; ///< other names of the tensor
  Dims dims;
  DType storedType = DType::f32; ///< of the stored elements
  std::string path;              ///< absolute; empty where a generator makes the values
  uint64_t offset = 0, length = 0;
  std::string generator; ///< normal, zeros, ones, constant; empty: `path`
  uint64_t seed = 0;
  double deviation = 0, value = 0;
  bool trainable = false;
  bool isRunning = false; ///< trainable, but a statistic that a step moves
};

struct ImportedModel {
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< holds func @main as NnDialect.td describes it
  std::vector<ImportedParameter> parameters; ///< in the order of the arguments
  std::vector<BoundInput> inputs;            ///< graph inputs, in the order of the arguments
  std::vector<std::string> outputs;          ///< graph outputs, in the order of the results
  uint64_t digest = 0;                       ///< of the graph without its weights' values
  std::vector<std::string> warnings;
  int64_t sequence = 0; ///< tokens per row; 0: the model has no sequence
  bool fixesSequence = false; ///< the model does
};

/// Imports an opened model, which `name` stands for in messages. On failure every problem that was found is in
/// `problems`, each a complete message. `context` must outlive the result; the nn and func dialects are loaded into it.
llvm::FailureOr<ImportedModel> importOnnx(mlir::MLIRContext &context, const ModelFile &file, const std::string &name,
                                          const ImportOptions &options, Problems &problems);
/// The same of the model at `path`.
llvm::FailureOr<ImportedModel> importOnnx(mlir::MLIRContext &context, const std::string &path,
                                          const ImportOptions &options, Problems &problems);

} // namespace mt::onnx
#endif
