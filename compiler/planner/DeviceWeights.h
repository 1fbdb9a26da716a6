// Weights on the devices in the program that is being built: what a phase's templates read and is not there is brought.
#ifndef MT_COMPILER_PLANNER_DEVICEWEIGHTS_H
#define MT_COMPILER_PLANNER_DEVICEWEIGHTS_H

#include "compiler/planner/Layout.h"

namespace mt::planner {

class DeviceWeights {
public:
  DeviceWeights(Context &context, const Layout &layout) : context(context), layout(layout) {}

  void startProgram() { brought.assign(context.model.parameters.size() * context.machine.devices.size(), {}); }
  /// Of the layer's own weights in one copy, with the few between that the phase does not read, and of another layer's
  /// in one for each run of neighbours.
  void bring(int64_t phase);
  /// What the phase that runs takes.
  Place of(int64_t p, uint32_t device) const { return brought[indexOf(p, device)].place; }
  /// The same, or nowhere if the phase that runs does not take it.
  Place ifWanted(int64_t p, uint32_t device) const;

private:
  struct Brought {
    Place place;
    int64_t until = -1; ///< the last phase that it was wanted for
  };
  Context &context;
  const Layout &layout;
  std::vector<Brought> brought; ///< by parameter and device

  size_t indexOf(int64_t p, uint32_t device) const {
    return static_cast<size_t>(p) * context.machine.devices.size() + device;
  }
  std::vector<int64_t> missing(int64_t phase);
  void bringRun(int64_t l, const std::vector<int64_t> &run);
  void bringToAll(const std::string &label, Place begin, const std::vector<Place> &places, int64_t bytes);
  void bringResident(int64_t l, int64_t p);
};

} // namespace mt::planner
#endif
