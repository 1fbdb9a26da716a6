// What memory the machine can still give: the kernel's estimate, or less where a control group or the process's own limit
// bounds us. Reads files under /proc and /sys only; reserves nothing.
#ifndef MT_RUNTIME_HOST_MACHINEMEMORY_H
#define MT_RUNTIME_HOST_MACHINEMEMORY_H

#include <cstdint>
#include <string>

namespace mt::host {

struct MachineMemory {
  uint64_t available = 0;
  std::string limit; ///< what bounds it: "MemAvailable", "ulimit -v", or the control group's file
};

/// The smallest of MemAvailable and what the limits of our address space, of our control group and of those above leave.
MachineMemory machineMemory();

/// The same from other roots of /proc and /sys/fs/cgroup, for tests. Without any readable file: unlimited.
MachineMemory machineMemory(const std::string &proc, const std::string &cgroups);

} // namespace mt::host
#endif
