// What `mtc` is given as a model: an ONNX file, or a checkpoint folder, whose graph models/ writes into memory. Nothing
// is written beside either, and weights stay where they are.
#ifndef MT_COMPILER_PIPELINE_OPENMODEL_H
#define MT_COMPILER_PIPELINE_OPENMODEL_H

#include "compiler/onnx/ImportOnnx.h"

namespace mt::pipeline {

/// Opens and imports the model at `path`; `packed`: of a folder, with rows that hold several sequences; problems and
/// warnings as importOnnx has them.
llvm::FailureOr<onnx::ImportedModel> importModel(mlir::MLIRContext &context, const std::string &path, bool packed,
                                                 const onnx::ImportOptions &options, onnx::Problems &problems);

/// The batch that an ONNX file fixes for all inputs; none: it fixes none, or cannot be read.
std::optional<int64_t> fixedBatch(const std::string &path, const onnx::ImportOptions &options);

/// Absolute, and without a slash at the end of a folder's.
std::string modelPath(const std::string &path);
/// What a model is called: a file's name without its ending, a folder's name; in the hub's cache the repository's.
std::string modelName(const std::string &path);

} // namespace mt::pipeline
#endif
