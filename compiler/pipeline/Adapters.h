// What users say of low-rank adapters, `--lora PATTERN:rank=R,alpha=A`, and what becomes of it: for which parameters
// the module asks mt-add-adapters for one, and the adapters' own parameters as a plan has them.
#ifndef MT_COMPILER_PIPELINE_ADAPTERS_H
#define MT_COMPILER_PIPELINE_ADAPTERS_H
#include "mlir/IR/BuiltinOps.h"
#include "runtime/base/Status.h"
#include "runtime/plan/Program.h"

#include <string>
#include <vector>

namespace mt::pipeline {

struct AdapterRequest {
  std::string text, pattern; ///< a glob over names of parameters
  int64_t rank = 0, seed = 0;
  double alpha = 0; ///< what an adapter adds has the factor alpha / rank
  double dropout = 0;
};

/// Keys are `rank`, which must be there, `alpha` (default: the rank), `dropout` (0) and `seed` (0). Errors say what of
/// the text is wrong.
Result<AdapterRequest> parseAdapterRequest(const std::string &text);

/// Asks for an adapter for each frozen matrix among the module's parameters whose name matches; of several requests the
/// last one counts. Errors name the request: it matches none, or one that is trained.
Status requestAdapters(mlir::ModuleOp module, const std::vector<std::string> &texts,
                       const std::vector<plan::Parameter> &parameters);

/// What became of it, once mt-add-adapters ran; `parameters` are the model's. Errors name a request of which nothing
/// came; what others left out is remarked.
Status checkAdapters(mlir::ModuleOp module, const std::vector<std::string> &texts,
                     const std::vector<plan::Parameter> &parameters);

} // namespace mt::pipeline
#endif
