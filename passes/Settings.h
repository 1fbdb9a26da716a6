// What was chosen for a plan, on the module: `mt.settings` and `mt.target`. A choice is stated here and nowhere else: the
// pipeline asks for it here, the pass that executes it reads it here and records what it did, reports and plans repeat it.
#ifndef MT_PASSES_SETTINGS_H
#define MT_PASSES_SETTINGS_H
#include "compiler/target/Target.h"
#include "mlir/IR/BuiltinOps.h"
#include "runtime/plan/Program.h"

namespace mt::passes {

/// Sets those fields of `settings` that the module states (`nn.loss` among them); the others keep their values.
void readSettings(mlir::ModuleOp module, plan::Settings &settings);
/// States one choice on the module; the others stay as they are.
void stateSetting(mlir::ModuleOp module, std::string plan::Settings::*choice, const std::string &value);
void stateSetting(mlir::ModuleOp module, int64_t plan::Settings::*choice, int64_t value);
void stateSetting(mlir::ModuleOp module, double plan::Settings::*choice, double value);
void stateSetting(mlir::ModuleOp module, bool plan::Settings::*choice, bool value);
void stateSetting(mlir::ModuleOp module, std::vector<std::string> plan::Settings::*choice, const std::vector<std::string> &value);
/// States all of them but the loss, which mt-append-loss states as `nn.loss`.
void stateSettings(mlir::ModuleOp module, const plan::Settings &settings);

/// What the module states of a parameter's optimizer; empty: nothing.
std::string optimizerOf(mlir::ModuleOp module, size_t parameter);

/// The target that the module names. Fails with a diagnostic where it names none, or one that cannot be.
llvm::FailureOr<target::Target> readTarget(mlir::ModuleOp module);
void stateTarget(mlir::ModuleOp module, const target::Target &target);

} // namespace mt::passes
#endif
