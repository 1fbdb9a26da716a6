// Low-rank adapters on the module: `mt.adapters`, of which parameters they are wanted and, after mt-add-adapters, which
// there are. The pipeline states what users ask for, the pass executes it, plans repeat it.
#ifndef MT_PASSES_NN_ADAPTERS_H
#define MT_PASSES_NN_ADAPTERS_H
#include "compiler/nn/Nn.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace mt::passes {

/// Of an argument that is a parameter which the model's file does not have: what makes its initial values, a dictionary
/// of `generator`, `seed`, `deviation` and `value` (plan::Initial).
inline constexpr llvm::StringLiteral kInitialAttr = "nn.initial";

struct AdapterEntry {
  std::string parameter; ///< the weight's, of [out, in]
  std::string module;    ///< before the names of the adapter's own parameters: the weight's without its last part
  int64_t rank = 0, seed = 0;
  double scale = 1, dropout = 0;
  bool transposed = false; ///< the weight is of [in, out]; known when the pass has run

  /// Of [rank, in] and of [out, rank], as PEFT calls them.
  std::string downName() const { return module + ".lora_A.weight"; }
  std::string upName() const { return module + ".lora_B.weight"; }
};

/// In the module's order; empty where it states none.
std::vector<AdapterEntry> adaptersOf(mlir::ModuleOp module);
void stateAdapters(mlir::ModuleOp module, const std::vector<AdapterEntry> &entries);

} // namespace mt::passes
#endif
