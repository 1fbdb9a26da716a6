// Writes slots and commands: the mechanics below Builder.cpp. It knows the machine and its costs, and nothing of layers or
// steps.
#ifndef MT_COMPILER_PLANNER_EMITTER_H
#define MT_COMPILER_PLANNER_EMITTER_H

#include "compiler/planner/Machine.h"
#include "compiler/planner/Schedule.h"

#include <fmt/format.h>

#include <span>

namespace mt::planner {

/// Slots, and the parameters within one, begin at multiples of so many bytes.
inline constexpr int64_t kSlotAlignment = 256;
int64_t aligned(int64_t bytes);
/// Bytes go between memory and a file in whole blocks where they lie alike in both.
inline constexpr int64_t kFileBlock = plan::kFileBlock;

inline constexpr uint32_t kNowhere = UINT32_MAX;
/// A place in a slot.
struct Place {
  uint32_t slot = kNowhere;
  int64_t offset = 0;
  explicit operator bool() const { return slot != kNowhere; }
  Place operator+(int64_t bytes) const { return {slot, offset + bytes}; }
};

/// Adds tensors to one, the first of them, pairwise.
struct Addition {
  Place into;
  std::vector<Place> others;
  const TensorType *type = nullptr;
};

/// Whether a copy goes with weights and gradients, or is small and others wait for it.
enum class Urgency : uint8_t { bulk, message };

class Emitter {
public:
  Emitter(const Model &model, const Machine &machine, bool named) : machine(machine), model(model), named(named) {}

  const Machine &machine;
  Schedule schedule;
  bool inStep() const { return commands == &schedule.step; }

  /// What the following commands belong to.
  void startProgram(std::vector<Command> &program) { commands = &program; }
  void setPlace(int64_t layerIndex, int64_t microBatchIndex) { layer = layerIndex, microBatch = microBatchIndex; }
  void setPhase(int64_t index) { phase = index; }

  template <typename... Args> std::string text(fmt::format_string<Args...> format, Args &&...args) const {
    return named ? fmt::format(format, std::forward<Args>(args)...) : std::string();
  }
  Place slot(std::string name, uint32_t space, Kind kind, int64_t bytes, bool persistent = false);
  static Access access(Place place, plan::BindingEffect effect, const TensorType &type);
  /// The same of a rank's share of such elements, which begin at `place`.
  Access accessShare(Place place, plan::BindingEffect effect, kernels::DType type, const kernels::Shares &shares);
  /// A type that lives as long as the schedule.
  const TensorType &type(kernels::DType element, kernels::Dims dims) {
    return schedule.types.emplace_back(TensorType{element, std::move(dims)});
  }
  /// On the link between the two spaces, which there is.
  Command &copy(std::string label, Place from, Place to, int64_t bytes, Urgency urgency = Urgency::bulk);
  /// The same, but by the host's memory, piece by piece, where one of the two is in a file.
  void move(const std::string &label, Place from, Place to, int64_t bytes);
  /// Brings bytes to the memory of another device: over their link, or through the host where there is none. Returns
  /// where.
  Place across(std::string label, Place from, uint32_t space, Kind kind, int64_t bytes);
  /// Runs a template on a device; a workspace is added where it needs one.
  void run(std::string label, int64_t code, const Device &device, std::vector<Access> accesses);
  /// Runs a kernel of the catalogue `groups` times.
  Command &kernel(std::string label, const Engine &engine, std::string name, std::vector<Access> accesses, int64_t groups = 1);
  /// Of one call of it.
  Machine::Cost costOf(const std::string &kernel, std::span<const Access> accesses, const Engine &engine);
  /// An exchange with other ranks, of tensors with such shares and so many bytes in all.
  Command &exchange(std::string label, const Engine &network, std::string name, std::vector<Access> accesses,
                    std::vector<int64_t> shares, int64_t bytes);
  /// One after another.
  void add(std::string label, const Engine &engine, const std::vector<Addition> &additions);

private:
  const Model &model;
  const bool named;
  std::vector<Command> *commands = nullptr;
  int64_t layer = -1, microBatch = -1, phase = 0;

  Command &begin(std::string label, uint32_t stream);
  std::string key; ///< of the call whose cost is asked for
};

} // namespace mt::planner
#endif
