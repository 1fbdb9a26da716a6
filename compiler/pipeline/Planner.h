// Between a module of phase `layers` and the planner (compiler/planner): reads the model, lets it search, and states what it
// decided, so that mt-build-schedule executes it. Packing may need more than the bytes that the search counts; then it is
// asked again with as much less.
#ifndef MT_COMPILER_PIPELINE_PLANNER_H
#define MT_COMPILER_PIPELINE_PLANNER_H

#include "compiler/pipeline/Messages.h"
#include "compiler/pipeline/Options.h"
#include "compiler/target/Target.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "compiler/planner/Search.h"
#include "passes/Passes.h"
#include "passes/schedule/ReadModel.h"

#include <functional>
#include <optional>

namespace mt::pipeline {

/// What options and target leave to the planner.
planner::Constraints constraintsOf(const Options &options, const target::Target &target);

/// Prepares a module in phase `layers` for the planner, and reads it with its settings.
Result<passes::ReadModel> readForPlanner(mlir::ModuleOp layers, const Options &options, const target::Target &target, Messages &messages);

/// Share of a step that smaller micro-batches would have to gain to be tried further.
inline constexpr double kLittleGain = 0.005;

/// Bytes of device and host memory.
struct Needed {
  int64_t device = 0; ///< of the one that needs most
  int64_t host = 0;
  int64_t both() const { return device + host; }
};
/// What such a module, read, needs at least with what the options leave open.
Result<Needed> leastMemory(mlir::ModuleOp layers, const passes::ReadModel &read, const Options &options,
                           const target::Target &target);

/// What came of planning for one micro-batch: a scheduled module, or the message of why none fits.
struct Planned {
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< in phase `schedule`; null where nothing fits
  std::string problem;
  std::optional<planner::Found> found; ///< also where that lost too much in packing; none: nothing fits
  double expected = 0;                 ///< seconds of a step on average, where there is a module
  double bound = 0;                    ///< seconds that no decisions can do without
  bool fitsDevices = false;            ///< where nothing fits: it would, but for the host's memory
  bool isHopeless = false;             ///< no micro-batch fits
  bool fewerRowsHelp = false;          ///< a smaller batch might fit
  /// Finds out what more device memory would bring; empty: nothing.
  std::function<std::string()> more;
  std::string text; ///< for the report
};

/// Plans a module in phase `layers`, of one micro-batch. `messages` get what passes say. `before` was found for a
/// larger micro-batch (none: the search begins anew). A plan whose step takes `enough` seconds is not looked for.
Planned planSchedule(mlir::ModuleOp layers, const Options &options, const target::Target &target,
                     const std::optional<planner::Found> &before, double enough, Messages &messages);

/// The same of what needs least memory; where that does not fit, the problem says what is needed, and what takes the
/// room.
Planned planLeast(mlir::ModuleOp layers, const Options &options, const target::Target &target, Messages &messages);

} // namespace mt::pipeline
#endif
