// A schedule before offsets: slots, and the commands of every program on them. In what order the commands of a program
// are listed is said where one is made (Builder.h: by data; Order.h: by time).
#ifndef MT_COMPILER_PLANNER_SCHEDULE_H
#define MT_COMPILER_PLANNER_SCHEDULE_H

#include "compiler/planner/Model.h"
#include "runtime/plan/Program.h"

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mt::planner {

using Kind = plan::ByteKind;

/// What of a parameter lies in a slot.
struct Held {
  int64_t parameter = 0;
  int64_t part = plan::kWeightPart;
  int64_t offset = 0;
};

struct Slot {
  std::string name;
  uint32_t space = 0;
  Kind kind = Kind::activation;
  int64_t bytes = 0;
  bool persistent = false; ///< lives through all programs
  std::vector<Held> holds;
  std::optional<int64_t> input; ///< which input of the model it is (-1: the scalars)
};

struct Access {
  uint32_t slot = 0;
  int64_t offset = 0, bytes = 0;
  plan::BindingEffect effect = plan::BindingEffect::read;
  const TensorType *type = nullptr; ///< of kernels' operands; templates know theirs
  /// Rank r's are min(r * stride, reach) bytes further on.
  int64_t stride = 0, reach = 0;
  bool writes() const { return effect != plan::BindingEffect::read; }
};

/// A copy (of its first access to its second; what further ones read it only waits for), a run of a template, or a run of a kernel of the catalogue.
struct Command {
  plan::Role role = plan::Role::compute;
  bool isCopy = false;
  uint32_t stream = 0;
  std::string label;
  int64_t layer = -1, microBatch = -1;
  int64_t phase = 0; ///< of the step: where it is needed
  double seconds = 0;
  std::vector<Access> accesses;
  int64_t code = -1;  ///< a template
  std::string kernel; ///< applied `groups` times to an equal share of the accesses
  int64_t groups = 1;
  std::vector<int64_t> parameters; ///< of updates and norms: which one a group is for
  std::vector<int64_t> firsts;     ///< of updates: the first of its elements
  const TensorType *zeros = nullptr; ///< of constants: what is filled
  std::vector<int64_t> shares;       ///< of exchanges with other ranks: a rank's elements, by tensor
  int64_t chunk = 0;                 ///< of parts of norms: elements of one
  bool arrives = false;              ///< of a copy: from another device
  int64_t updates = -1; ///< of an update on the host: its layer
  int64_t lands = -1;   ///< of a gradient's way down to one: its layer
  int64_t part = 0;     ///< of both: which part of that
  bool late = false;    ///< of both: listed in the next step
  int64_t begins = -1;  ///< of a speculative update's begin: its layer
  std::optional<double> clippedSeconds = {}; ///< of its end: those that it takes where the gradient is clipped
};

struct Schedule {
  std::vector<Slot> slots;
  std::vector<Command> step, finish, evaluate, load, store;
  std::deque<TensorType> types; ///< of parts of parameters: what accesses point to
};

} // namespace mt::planner
#endif
