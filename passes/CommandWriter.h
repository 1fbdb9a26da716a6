// Writes slots and commands of a schedule: the mechanics below ScheduleBuilder. It knows the dialect and the cost
// model, and nothing of layers or steps.
#ifndef MT_PASSES_COMMANDWRITER_H
#define MT_PASSES_COMMANDWRITER_H
#include "compiler/target/Target.h"
#include "passes/Passes.h"

namespace mt::passes {

/// A place in a slot.
struct Place {
  mlir::Value slot;
  int64_t offset = 0;
  explicit operator bool() const { return bool(slot); }
  Place operator+(int64_t bytes) const { return {slot, offset + bytes}; }
};

/// An operand of a run.
struct Bound {
  Place place;
  schedule::Effect effect = schedule::Effect::read;
  mlir::Type type; ///< of kernel operands; templates know theirs
};

/// Which stream each kind of work goes to. The next step's batch is fed while updates and the report of this one still
/// run, so feeding has a stream of its own.
struct StreamMap {
  int64_t upload = 0, compute = 0, download = 0, host = 0, update = 0, feed = 0;
};

class CommandWriter {
public:
  /// Creates @schedule at the end of `module` and declares spaces and streams on it.
  CommandWriter(mlir::ModuleOp module, const target::Target &target);

  const StreamMap &streams() const { return map; }
  bool unified() const { return target.unified; }
  /// What the following commands belong to.
  void setProgram(schedule::Program value) { program = value; }
  void setPlace(int64_t layerIndex, int64_t microBatchIndex) { layer = layerIndex, microBatch = microBatchIndex; }

  mlir::Value slot(const llvm::Twine &name, llvm::StringRef space, int64_t bytes, bool persistent = false);
  void prefetch(const llvm::Twine &label, Place from, Place to, int64_t bytes);
  void offload(const llvm::Twine &label, Place from, Place to, int64_t bytes);
  /// Says what a persistent slot holds: triples (parameter of @main, plan::PartRole, offset).
  void holds(mlir::Value slot, llvm::ArrayRef<int64_t> triples);
  /// Says which input (index, -1: the scalars) a slot is.
  void isInput(mlir::Value slot, int64_t input);
  /// Runs a template on the compute stream; a workspace is added where it needs one.
  void compute(const llvm::Twine &label, mlir::func::FuncOp callee, llvm::ArrayRef<Bound> operands);
  /// Runs a kernel of the catalogue `groups` times.
  void kernel(const llvm::Twine &label, int64_t stream, llvm::StringRef name, llvm::ArrayRef<Bound> operands,
              int64_t groups = 1, llvm::ArrayRef<int64_t> parameters = {}, mlir::DictionaryAttr settings = {});
  void update(const llvm::Twine &label, llvm::StringRef kernel, llvm::ArrayRef<Bound> operands, int64_t groups,
              llvm::ArrayRef<int64_t> parameters);

private:
  mlir::ModuleOp module;
  const target::Target &target;
  mlir::OpBuilder slots, commands;
  mlir::func::FuncOp function;
  StreamMap map;
  schedule::Program program = schedule::Program::step;
  int64_t layer = -1, microBatch = -1;
  llvm::DenseMap<mlir::Operation *, double> templateSeconds;

  template <typename Op>
  void run(const llvm::Twine &label, int64_t stream, llvm::ArrayRef<Bound> operands, mlir::func::FuncOp callee,
           llvm::StringRef kernel, int64_t groups, llvm::ArrayRef<int64_t> parameters, mlir::DictionaryAttr settings);
  double secondsOf(mlir::func::FuncOp callee);
  double secondsOf(llvm::StringRef kernel, llvm::ArrayRef<Bound> operands, int64_t groups, bool onHost);
};

} // namespace mt::passes
#endif
