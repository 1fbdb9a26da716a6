// What lives through all programs and where it lies: weights and state on the host and, of resident layers, on their
// device; norms, inputs and scalars.
#ifndef MT_COMPILER_PLANNER_LAYOUT_H
#define MT_COMPILER_PLANNER_LAYOUT_H

#include "compiler/planner/Context.h"

#include <map>

namespace mt::planner {

/// Types of what every program has.
extern const TensorType kScalarsType, kNormType, kLossType;

/// What an update reads and writes besides gradients and weights: by parameter, as Parameter::rest lists it.
using State = std::vector<std::vector<Place>>;

struct Layout {
  explicit Layout(Context &context);

  std::vector<Place> weights;                 ///< by parameter, host
  State state;                                ///< host
  std::vector<std::vector<int64_t>>
      resident; ///< by layer: parameters that it is the home of, where their weights are resident
  std::vector<Place> residentWeights;         ///< by parameter, device: of those
  State residentState;
  std::vector<Place> norms;  ///< by parameter, host, f64[1]
  /// Where ranks share gradients: by parameter, host, the sums of which a norm is made, of a rank's gradient and of all
  /// of it, and the norm of a rank's. Where devices share the batch: those of all of it.
  std::vector<Place> ownParts, allParts, ownNorms;
  std::vector<Place> inputs; ///< by input, host, all micro-batches
  /// Host. What is fed, a copy for the step (so that the next can be fed while this one's updates run), and the copy
  /// that the step's end completes.
  Place scalars, stepScalars, finalScalars;
  const TensorType *scalarRows = nullptr; ///< of each of them: a row for the step, and one for each parameter

  Place weightOf(int64_t p) const { return weights[static_cast<size_t>(p)]; }
  /// How many sums a norm is made of: of all of a parameter's gradient, and of a rank's.
  static int64_t allPartsOf(const Parameter &parameter);
  static int64_t ownPartsOf(const Parameter &parameter);
  Place normOf(int64_t p) const { return norms[static_cast<size_t>(p)]; }
  const std::vector<int64_t> &residentOf(int64_t l) const { return resident[static_cast<size_t>(l)]; }
  /// Whether a device updates what resident layers, or some with streamed state, have there.
  bool updatesOn(const Context &context, uint32_t device) const;

private:
  void placeWeights(Context &context, int64_t l);
  void placeResidents(Context &context);
  void placeNorms(Context &context);
  void placeInputs(Context &context);
};

/// Where in scalars the row of a parameter is.
int64_t scalarRowOf(int64_t p);

/// Places of what of trained parameters only updates use, in a slot; `into` has room for them. Returns what the slot
/// holds.
std::vector<Held> placeState(Context &context, std::string name, uint32_t space, const std::vector<int64_t> &parameters,
                             State &into, bool persistent);

/// Copies of neighbours between the host and a device: one for all that lie side by side on both.
class Moves {
public:
  void add(Place host, Place device, int64_t bytes);
  /// What parts of parameters' state have on a device.
  void addState(const Context &context, const Layout &layout, const std::vector<int64_t> &parameters,
                const State &onDevice);
  void emit(Emitter &out, const std::string &label, bool up);

private:
  struct Moved {
    Place host, device;
    int64_t bytes;
  };
  std::vector<Moved> list;
};

} // namespace mt::planner
#endif
