// What fits: the table of `mtc fit`.
#ifndef MT_COMPILER_PIPELINE_FIT_H
#define MT_COMPILER_PIPELINE_FIT_H
#include "compiler/pipeline/Messages.h"
#include "compiler/pipeline/Options.h"
#include "mlir/IR/MLIRContext.h"
#include "runtime/base/Status.h"

namespace mt::pipeline {

/// The best step within the budgets, what bounds it and what was chosen for it: by sequence (that of the options, else
/// a few as far as the model has positions) and by batch, up to that of the options, as far as it fits; and the least
/// memory that works. Bytes are counted, not packed, as the planner's search counts them, but for the least. Where
/// options name numbers of hosts or devices: a line for each of them, the batch being that of a host.
Result<std::string> fitTable(mlir::MLIRContext &context, const Options &options, Messages &messages);

} // namespace mt::pipeline
#endif
