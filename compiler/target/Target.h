// A target: what a plan is compiled for. Memory sizes, bandwidths and attainable rates of equal devices and their host;
// built-in descriptions and the JSON files that `mtrun probe` writes. Knows nothing of schedules: CostModel.h turns
// these numbers into seconds.
#ifndef MT_COMPILER_TARGET_TARGET_H
#define MT_COMPILER_TARGET_TARGET_H

#include "runtime/base/Status.h"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace mt::target {

class Rates;

inline constexpr uint32_t kMostDevices = 64, kMostRanks = 4096;
inline constexpr size_t kKindsOfWork = 9;
inline constexpr uint64_t kSmallestMemory = uint64_t(1) << 10, kGreatestMemory = uint64_t(1) << 50; ///< bytes

struct Target {
  std::string name;
  std::string device = "cpu";   ///< cpu or cuda
  bool unified = false;         ///< device and host memory are the same bytes: no copies in a plan
  std::string isa = {};         ///< that the host's kernels are held to (kernels/InstructionSets.h); empty: none
  uint32_t devices = 1;         ///< each with the memory, rates and link to the host that follow
  uint64_t deviceMemory = 0;    ///< bytes that a plan may use, of a device
  uint64_t hostMemory = 0;      ///< bytes that a plan may use
  double uploadBandwidth = 0;   ///< host to device, bytes per second
  double downloadBandwidth = 0; ///< device to host, bytes per second
  double hostBandwidth = 0;     ///< read and written bytes together, per second, of an update on the host
  double deviceBandwidth = 0;   ///< read and written bytes together, per second
  double fp32Flops = 0;         ///< attainable in large matrix products, per second
  double bf16Flops = 0;
  double kernelOverheadSeconds = 0; ///< of a kernel call
  double copyOverheadSeconds = 0;   ///< of a copy command
  uint64_t diskMemory = 0;          ///< bytes of a disk that a plan may use; 0: none
  double diskReadBandwidth = 0, diskWriteBandwidth = 0; ///< bytes per second, of either alone
  uint32_t ranks = 1;                                   ///< such machines, one process each, that train together
  double networkBandwidth = 0; ///< bytes per second that a rank sends while it receives as many; 0: not known
  double networkOverheadSeconds = 1e-5; ///< of an exchange, for each other rank
  /// The same of a device's memory, past the host's; 0: devices of different ranks reach each other through the host.
  double deviceNetworkBandwidth = 0;
  /// Devices that copy to each other without the host: "0 1 56e9" for two of them, both ways, "all 4e11" for any two;
  /// bytes per second of all that one sends at once.
  std::vector<std::string> peers = {};
  /// How much longer work of one kind takes while work of another is under way, where it does: "upload host 0.24"
  /// for 1.24 times as long; "upload upload 0.1" where two devices share something. The kinds are upload, compute,
  /// download, host, peer, read, write, network and device_network, which share a processor, a memory, a link or a
  /// disk.
  std::vector<std::string> contention = {};
  /// What calls took on this machine: "device 0.00213 matmul f32[...] ...", seconds behind where (device or host), the call
  /// as kernels/SignatureText.h writes it. None in the built-in targets.
  std::vector<std::string> calls = {};
  // Made of these by completeTarget:
  std::array<std::array<double, kKindsOfWork>, kKindsOfWork> shares = {};    ///< of contention, by the kinds in that order
  std::vector<std::vector<double>> peerBandwidth = {}; ///< from one device to another; 0: through the host
  std::shared_ptr<const Rates> rates = nullptr;     ///< of calls
};

/// A field by the name that files and the IR write it under.
struct TargetField {
  std::string_view name;
  std::variant<std::string Target::*, bool Target::*, uint32_t Target::*, uint64_t Target::*, double Target::*,
               std::vector<std::string> Target::*>
      member;
};
/// All fields, in the order in which they are written.
std::span<const TargetField> targetFields();

/// Names of the built-in targets.
std::vector<std::string> targetNames();

/// A built-in target by name, else the target that a JSON file of that path holds. Memory sizes of `cpu` targets are
/// this machine's, everything else is constant. Errors list the names or say what is wrong in the file, and where.
Result<Target> findTarget(std::string_view nameOrFile);

/// JSON as `mtrun probe` writes it: every field of Target in snake_case, sizes in bytes (or text such as "80GiB");
/// `isa`, `devices`, `peers`, `contention`, `calls` and what is of a disk or of ranks may be left out. An object
/// "measured" is left to people.
Result<Target> parseTarget(std::string_view json, std::string_view origin);
std::string printTarget(const Target &target);

/// Makes it one of another number of devices. Those that stay copy to each other as before; all use the host's memory.
Status setDevices(Target &target, uint32_t devices);

/// Where all links at once, both ways, carry more than the host's memory, adds that copies slow each other down: each
/// by every other, together to its bandwidth.
void shareHostMemory(Target &target);

/// Makes the rates of a target whose other fields are there. The error says what is wrong with one: zero or absurd sizes and
/// rates, an unknown device, a call that is none.
Status completeTarget(Target &target);

} // namespace mt::target
#endif
