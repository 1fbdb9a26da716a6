// From a model file to modules of its micro-batches: import, the loss, the phases nn and layers. Reads the model once.
#ifndef MT_COMPILER_PIPELINE_FRONT_H
#define MT_COMPILER_PIPELINE_FRONT_H
#include "compiler/onnx/ImportOnnx.h"
#include "compiler/pipeline/Pipeline.h"
#include "compiler/target/Target.h"

namespace mt::pipeline {

/// The batch is positive, and a micro-batch that was asked for divides it. Errors name the option.
Status checkBatches(const Options &options);

class Front {
public:
  /// All must outlive it.
  Front(mlir::MLIRContext &context, const Options &options, const target::Target &target)
      : context(context), options(options), target(target) {}

  /// Runs the phases nn and, if asked, layers for one micro-batch, out of the model of the whole batch. Fails where parts
  /// do not add up to it.
  Result<Compiled> module(int64_t microBatch, bool layers, Messages &messages);

private:
  mlir::MLIRContext &context;
  const Options &options;
  const target::Target &target;
  mlir::OwningOpRef<mlir::ModuleOp> model; ///< of the whole batch, up to its loss
  Messages ofModel;

  Status readModel();
  Status readModel(int64_t rows);
  Status describe(const onnx::ImportedModel &imported, std::vector<plan::Parameter> parameters,
                  mlir::ModuleOp module) const;
};

} // namespace mt::pipeline
#endif
