// What fits: the table of `mtc fit`, one row for each micro-batch and rung.
#ifndef MT_COMPILER_PIPELINE_FIT_H
#define MT_COMPILER_PIPELINE_FIT_H
#include "compiler/pipeline/Messages.h"
#include "compiler/pipeline/Options.h"
#include "mlir/IR/MLIRContext.h"
#include "runtime/base/Status.h"

namespace mt::pipeline {

/// Bytes and predicted step time for every micro-batch that divides the batch and every rung, with a mark where the
/// budgets admit it.
Result<std::string> fitTable(mlir::MLIRContext &context, const Options &options, Messages &messages);

} // namespace mt::pipeline
#endif
