// What memory the machine can still give: the kernel's estimate, or less where a control group or the process's own limit
// bounds us. Reads files under /proc and /sys only; reserves nothing.
#ifndef MT_RUNTIME_HOST_MACHINEMEMORY_H
#define MT_RUNTIME_HOST_MACHINEMEMORY_H

#include <cstdint>
#include <string>
#include <string_view>

namespace mt::host {

/// Ends messages about too little memory.
constexpr std::string_view kTrustRemedy =
    "; where the machine's memory grows on demand, --host-memory-check off takes what it needs without asking";

struct MachineMemory {
  uint64_t available = 0;
  std::string limit; ///< what bounds it: "MemAvailable of /proc/meminfo", "ulimit -v", or the control group's file; and
                     ///< who shares it
};

/// The smallest of MemAvailable and what the limits of our address space, of our control group and of those above leave.
MachineMemory machineMemory();

/// The same for addresses that are mapped already and have no memory yet: the limit of our address space counts those.
MachineMemory memoryOfMapped();

/// What each of so many processes has of it that need as much as each other.
MachineMemory sharedBy(MachineMemory memory, uint32_t processes);

/// From here on machineMemory() sets no bound: for machines whose memory grows on demand, of which the kernel says
/// little at first. What cannot be had still fails where it is taken.
void trustMachineMemory();
bool isMachineMemoryTrusted();

/// The same from other roots of /proc and /sys/fs/cgroup, for tests. Without any readable file: unlimited.
MachineMemory machineMemory(const std::string &proc, const std::string &cgroups);
MachineMemory memoryOfMapped(const std::string &proc, const std::string &cgroups);

} // namespace mt::host
#endif
