// The whole line from a model file to a plan, for mtc: import, phases, the planner's search, emission.
#ifndef MT_COMPILER_PIPELINE_PIPELINE_H
#define MT_COMPILER_PIPELINE_PIPELINE_H
#include "compiler/pipeline/Messages.h"
#include "compiler/pipeline/Options.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/base/Status.h"
#include "runtime/plan/Program.h"

namespace mt::pipeline {

struct Compiled {
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< at the phase that was asked for
  plan::Plan plan;                          ///< of phase plan
  std::vector<std::string> considered;      ///< one line a candidate of the planner's search
  double bound = 0;                         ///< seconds that no decisions could do without
  std::string more;                         ///< what more device memory would bring; empty: nothing that was found
  std::string forced;                       ///< why the micro-batch must be the whole batch; empty: it need not
};

/// Loads the dialects that the pipeline needs.
void loadDialects(mlir::MLIRContext &context);
/// Compiles up to `phase`. Errors are complete messages, several joined by newlines. `messages` become the warnings and
/// remarks about what was compiled, on failure about what was tried last.
Result<Compiled> compile(mlir::MLIRContext &context, const Options &options, Phase phase, const std::string &producer,
                         Messages &messages);
/// The module as text that can be read again. In phase nn every operation names the model's node beside it; later phases
/// have the names as attributes.
std::string print(mlir::ModuleOp module, Phase phase);
/// What --report prints: what was found and chosen.
std::string report(const Compiled &compiled);
/// The last line of a successful compilation.
std::string summary(const plan::Plan &plan, const std::string &file);

} // namespace mt::pipeline
#endif
