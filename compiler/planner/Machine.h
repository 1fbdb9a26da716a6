// A target as the planner sees it: memories, the links between them, what runs kernels, and the streams that each serves. The
// one place where they are named; everything else asks.
#ifndef MT_COMPILER_PLANNER_MACHINE_H
#define MT_COMPILER_PLANNER_MACHINE_H

#include "compiler/target/CostModel.h"
#include "runtime/plan/Program.h"

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace mt::planner {

/// A memory: a device's, or one of the host's.
struct Space {
  std::string name;
  plan::SpaceKind kind = plan::SpaceKind::device;
  uint32_t device = 0; ///< which device's it is, or which it serves
};

/// Copies bytes from one space to another, in the order of a stream. What is small and others wait for does not queue behind
/// weights and gradients: `messages` is a stream of its own.
struct Link {
  uint32_t from = 0, to = 0;
  uint32_t stream = 0, messages = 0;
  double bytesPerSecond = 0, overheadSeconds = 0;
  double seconds(int64_t bytes) const { return static_cast<double>(bytes) / bytesPerSecond + overheadSeconds; }
};

/// Runs kernels in the order of a stream.
struct Engine {
  uint32_t stream = 0;
  uint32_t space = 0;  ///< of workspaces
  bool isHost = false; ///< bound by the host's memory
  kernels::Backend backend = kernels::Backend::cpu;
};

struct Device {
  uint32_t memory = 0; ///< its space
  Engine engine;
  /// What exchanges from its memory with those devices of other ranks that have its number, and adds up what came.
  std::optional<Engine> network = {};
};

struct Machine {
  explicit Machine(const target::Target &target);

  target::Target target;
  std::vector<Space> spaces;
  std::vector<plan::Stream> streams;
  std::vector<Link> links;
  std::vector<Device> devices;
  uint32_t staging = 0, state = 0;     ///< the host's spaces: what links reach, and what it alone does
  std::optional<uint32_t> file;        ///< a disk's
  /// The host's engines. The next step's batch is fed while this step's updates and report still run.
  Engine update, feed, report;
  /// What exchanges with other ranks, where there are any.
  std::optional<Engine> network;

  /// Seconds of an exchange of a tensor of so many bytes, of which each rank has one share.
  double exchangeSeconds(int64_t bytes, const Engine &by) const {
    const auto ranks = static_cast<double>(target.ranks);
    const double bandwidth = by.isHost ? target.networkBandwidth : target.deviceNetworkBandwidth;
    return static_cast<double>(bytes) * (ranks - 1) / ranks / bandwidth + (ranks - 1) * target.networkOverheadSeconds;
  }
  /// Of a copy within an exchange's memory: by one thread of the host, of which it takes a few to have all of its
  /// bandwidth, or by a device.
  double copySeconds(int64_t bytes, const Engine &by) const {
    return by.isHost ? 8 * static_cast<double>(bytes) / target.hostBandwidth
                     : 2 * static_cast<double>(bytes) / target.deviceBandwidth;
  }
  bool unified() const { return target.unified; }
  /// Whether every device copies to every other without the host.
  bool hasPeers() const {
    for (const Device &from : devices)
      for (const Device &to : devices)
        if (from.memory != to.memory && !link(from.memory, to.memory))
          return false;
    return devices.size() > 1;
  }
  bool isDevice(uint32_t space) const { return spaces[space].kind == plan::SpaceKind::device; }
  bool isHost(uint32_t space) const { return plan::isHostMemory(spaces[space].kind); }
  bool isFile(uint32_t space) const { return spaces[space].kind == plan::SpaceKind::file; }
  /// Whether a stream is that of a device's engine.
  bool computes(uint32_t stream) const { return engineOf[stream] != kNone; }
  /// The device whose memory a space is, or whose engine a stream is.
  uint32_t deviceOfSpace(uint32_t space) const { return spaces[space].device; }
  uint32_t deviceOfEngine(uint32_t stream) const { return engineOf[stream]; }
  /// Null: bytes cannot be copied from one to the other.
  const Link *link(uint32_t from, uint32_t to) const {
    const uint32_t index = linkOf[from * spaces.size() + to];
    return index == kNone ? nullptr : &links[index];
  }

  /// What a call of a kernel takes of an engine.
  struct Cost {
    double seconds = 0;
    uint64_t workspace = 0; ///< bytes
  };
  /// The same of one that was asked for before; `key` tells calls apart. A search asks for few, and for each of them
  /// often.
  template <typename Find> Cost cost(const std::string &key, Find find) const {
    auto [known, isNew] = costs.try_emplace(key);
    if (isNew)
      known->second = find();
    return known->second;
  }

private:
  static constexpr uint32_t kNone = UINT32_MAX;
  mutable std::unordered_map<std::string, Cost> costs;
  std::vector<uint32_t> engineOf; ///< by stream: the device whose engine's it is
  std::vector<uint32_t> linkOf;   ///< by spaces, from and to
};

} // namespace mt::planner
#endif
