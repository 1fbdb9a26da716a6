// How many tokens a row has where the user does not say: as many as the model has learned positions for. Found by
// structure, in the imported graph; a model whose inputs have a length of their own is bound to that by the importer.
#ifndef MT_COMPILER_PIPELINE_DEFAULTSEQUENCE_H
#define MT_COMPILER_PIPELINE_DEFAULTSEQUENCE_H
#include "compiler/pipeline/Options.h"
#include "mlir/IR/MLIRContext.h"

namespace mt::pipeline {

/// The sequence to import the model with: as many positions as every table has that positions are looked up in; 256
/// where no such table is trained (tables that follow a rule may be long) and none is shorter. None where the model, or
/// --dim, says how long its rows are, and where the model cannot be imported: importing it says why.
std::optional<int64_t> defaultSequence(mlir::MLIRContext &context, const Options &options);

} // namespace mt::pipeline
#endif
