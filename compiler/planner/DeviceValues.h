// Activations on the devices in the program that is being built: inputs, values and what forward saves, their
// gradients, those that wait on the host, and their ways between devices.
#ifndef MT_COMPILER_PLANNER_DEVICEVALUES_H
#define MT_COMPILER_PLANNER_DEVICEVALUES_H

#include "compiler/planner/BlockSums.h"
#include "compiler/planner/Layout.h"

#include <tuple>

namespace mt::planner {

class DeviceValues {
public:
  DeviceValues(Context &context, const Layout &layout) : context(context), layout(layout) {}

  void startProgram();
  /// What the step's scalars are on a device.
  void setScalars(uint32_t device, Place place) { scalars[device] = place; }
  Place scalarsOf(uint32_t device) const { return scalars.at(device); }

  /// Brings what a phase reads and is not on its device: inputs, activations that waited on the host, values of other
  /// devices.
  void bring(const Phase &phase, int64_t microBatch);
  /// An operand of a layer that is no parameter, where bring() has it.
  Place operand(const Phase &phase, const Operand &what, int64_t microBatch);

  /// Where a layer writes a result.
  Place result(int64_t l, int64_t v, int64_t microBatch, const TensorType &type);
  /// After the forward of a layer: sums of the step go on, and what waits on the host goes there.
  void endForward(int64_t l, int64_t microBatch);
  /// After that of all micro-batches.
  void endForward(int64_t l);

  void placeSaved(int64_t l, int64_t microBatch);
  Place savedOf(int64_t l, int64_t microBatch, int64_t index) const {
    return saved.at({l, microBatch})[static_cast<size_t>(index)];
  }
  /// All of it, to a simulation.
  Access savedAsOne(int64_t l, int64_t microBatch, plan::BindingEffect effect) const;

  /// Where a layer adds its part of the gradient of a value, and whether it is the first to do so.
  std::pair<Place, bool> gradient(int64_t l, int64_t v, int64_t microBatch, const TensorType &type);
  /// The gradient of a layer's result, complete once all its users' backward ran; zeros if none of them gave any.
  Place arrivingGradient(int64_t l, int64_t v, int64_t microBatch, const TensorType &type);

private:
  using Key = std::pair<int64_t, int64_t>;                  ///< (index, micro-batch)
  using DeviceKey = std::tuple<int64_t, int64_t, uint32_t>; ///< and device
  struct Gradient {
    Place place;
    uint32_t device = 0;
  };
  Context &context;
  const Layout &layout;
  std::map<uint32_t, Place> scalars;
  std::map<DeviceKey, Place> inputs, values;
  std::map<DeviceKey, Place> returned; ///< values that waited on the host
  std::map<Key, Place> parked;         ///< where they wait
  std::map<Key, Gradient> gradients;   ///< of values
  std::map<int64_t, Place> parts;      ///< of sums of the step, by value: what the micro-batch that runs gives
  std::map<int64_t, std::map<uint32_t, BlockSums<Place>>> sums; ///< of the step, by value and device
  std::map<Key, std::vector<Place>> saved; ///< (layer, micro-batch): by saved index; of what is one, the first
  std::map<Key, Place> parkedSaved;        ///< (layer, micro-batch): of all of them, one after another

  Key keyOf(int64_t v, int64_t microBatch) const { return {v, context.value(v).isStepSum ? 0 : microBatch}; }
  Place input(int64_t index, int64_t microBatch, uint32_t device);
  Place value(const Phase &phase, int64_t v, int64_t microBatch);
  Place acrossRanks(int64_t v, Place own);
  void addTo(int64_t v, const Engine &engine, Place into, const std::vector<Place> &others);
  void park(int64_t l, int64_t microBatch);
  Place toHost(int64_t l, const std::string &label, Place from, int64_t bytes);
  void moveGradient(Gradient &gradient, uint32_t device, std::string label, int64_t bytes);
  Place savedTogether(int64_t l, int64_t microBatch);
  void placeTogether(int64_t l, int64_t microBatch, Place place);
};

} // namespace mt::planner
#endif
