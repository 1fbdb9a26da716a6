// The parameters of a module, as a plan describes them: those of the model, and what passes made of them or put beside
// them - adapters, several as one, packed ones.
#ifndef MT_COMPILER_PIPELINE_PARAMETERS_H
#define MT_COMPILER_PIPELINE_PARAMETERS_H
#include "compiler/nn/Nn.h"
#include "compiler/onnx/ImportOnnx.h"
#include "runtime/plan/Program.h"

#include <string>
#include <vector>

namespace mt::pipeline {

/// An argument of @main that is a parameter.
struct ParameterArgument {
  std::string name;
  mlir::RankedTensorType type;
  bool trained;
  mlir::DictionaryAttr initial; ///< null: of the model's file
  unsigned number;              ///< among all arguments
  bool isFloat() const { return mlir::isa<mlir::FloatType>(type.getElementType()); }
};

/// In the order of the arguments.
std::vector<ParameterArgument> parametersOf(mlir::ModuleOp module);

/// Names of weights that products take as they are.
std::vector<std::string> productWeights(mlir::ModuleOp module);
/// The first few names, and how many more there are.
std::string listOf(const std::vector<std::string> &names);

/// Those of the model, in the order of its arguments.
std::vector<plan::Parameter> modelParameters(const onnx::ImportedModel &imported);
/// Those that the module has by now, in the order of its arguments; `ofModel` are the model's.
std::vector<plan::Parameter> planParameters(mlir::ModuleOp module, const std::vector<plan::Parameter> &ofModel);

/// An error if mt-pack-weights found nothing to pack.
Status checkPacked(mlir::ModuleOp module);

} // namespace mt::pipeline
#endif
