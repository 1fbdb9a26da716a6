// When everything of a step happens: its commands on streams that run at once, in steady state, each as soon as its
// data, its stream and memory allow. The one simulation of the planner: the search judges by it, and mt-build-schedule
// lists commands in the order of the starts that it gives.
//
// Memory is counted here, in bytes and not yet in offsets. What is computed takes its place when it is computed. What
// is uploaded comes in order of need, and as early as it fits beside all that will be there until its last use; so no
// upload takes the room of one that is needed before it, and a step that fits at all never locks itself up. What comes
// from another device has its room from a little before its first use on, and comes then. What is copied away holds its
// place until that has ended. Every device's memory is counted for itself, by the commands of its own engine.
//
// On the host's stream, in downloads and in exchanges with other ranks what is needed first goes first: windows of
// updates, from the landing of a layer's gradients to the next step's need of its weights, lie within each other, and
// for such the earliest deadline first is optimal (Jackson's rule with release times).
#ifndef MT_COMPILER_PLANNER_ORDER_H
#define MT_COMPILER_PLANNER_ORDER_H

#include "compiler/planner/Decisions.h"
#include "compiler/planner/Machine.h"
#include "compiler/planner/Schedule.h"

namespace mt::planner {

struct Timing {
  /// Bytes of device or, before that, of host memory that are missing, one of both; 0: the step runs.
  int64_t missingDevice = 0, missingHost = 0;
  int64_t deviceUsed = 0, hostUsed = 0; ///< the least limits with which the step is the same, if it fits
  double seconds = 0;                   ///< from one step to the next, where no gradient is clipped
  double expected = 0; ///< the same on average at most, where a search counts those whose is; else the same
  /// By command, from the start of the step's first computation; what is listed in the next step (Command::late) counts
  /// from that one's. Negative before. Where streams share a memory's bandwidth, some take longer than they would alone.
  std::vector<double> start, end;
  std::vector<double> busy;  ///< by stream
  /// By layer: the first part from which on updates, and gradients' ways down to them, start after the next step has;
  /// beyond any, where gradients come down before they are added up.
  std::vector<int64_t> pending, pendingDown;
  std::vector<bool> vain; ///< by layer: its speculative update, or a part of it, begins when the norm is known,
                          ///< or the next step has begun
  bool fits() const { return missingDevice == 0 && missingHost == 0; }
};

/// Times the commands of a program of `schedule`, listed in the order of data; `cyclic`: it repeats.
Timing time(const Schedule &schedule, std::span<const Command> program, const Machine &machine, const Decisions &decisions,
            bool cyclic);

/// The order in which a program, `cyclic` or not, is listed: that of the starts, as numbers of its commands, but each
/// behind what it needs of the same listing, however little time lies between. What is late is listed in the next step.
std::vector<uint32_t> listingOf(const Schedule &schedule, std::span<const Command> program, const Timing &timing,
                                bool cyclic);
/// Puts commands and their times in such an order.
void putInOrder(std::vector<Command> &program, Timing &timing, std::span<const uint32_t> listing);

/// What finish does in the order in which a step, which is in the order of data, lists what is late: so what is there
/// when a step ends is there as long in both, and bytes that two gradients have one after the other are the second's no
/// sooner.
void sortAsLate(std::vector<Command> &finish, std::span<const Command> step, std::span<const uint32_t> listing);

} // namespace mt::planner
#endif
