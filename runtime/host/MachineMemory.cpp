#include "runtime/host/MachineMemory.h"

#include "runtime/base/ControlGroups.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <unistd.h>

#include <fmt/format.h>

namespace mt::host {
namespace {

/// The number after `key` at the start of a line.
std::optional<uint64_t> field(const std::string &file, const std::string &key) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    std::istringstream words(line);
    std::string name;
    uint64_t value = 0;
    if (words >> name >> value && name == key)
      return value;
  }
  return std::nullopt;
}

MachineMemory unlimited() { return {std::numeric_limits<uint64_t>::max(), "nothing"}; }

void limitBy(MachineMemory &memory, uint64_t available, const std::string &limit) {
  if (available < memory.available)
    memory = {available, limit};
}

/// What the process may still map, where that is limited (ulimit -v).
void limitByAddressSpace(MachineMemory &memory, const std::string &proc) {
  constexpr std::string_view kName = "Max address space";
  std::ifstream stream(proc + "/self/limits");
  for (std::string line; std::getline(stream, line);) {
    uint64_t limit = 0;
    if (!line.starts_with(kName) || !(std::istringstream(line.substr(kName.size())) >> limit))
      continue;
    uint64_t used = numberIn(proc + "/self/statm").value_or(0) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    limitBy(memory, limit - std::min(limit, used), "ulimit -v");
  }
}

/// A group's limit less its use; what the kernel gives back when asked, pages of files first of all, does not count as used.
void limitByGroup(MachineMemory &memory, const ControlGroup &group, const std::string &usageFile,
                  std::initializer_list<const char *> reclaimable) {
  std::optional<uint64_t> limit = numberIn(memoryLimitFile(group));
  if (!limit)
    return;
  uint64_t used = numberIn(group.folder + "/" + usageFile).value_or(0);
  for (const char *kind : reclaimable)
    used -= std::min(used, field(group.folder + "/memory.stat", kind).value_or(0));
  limitBy(memory, *limit - std::min(*limit, used), memoryLimitFile(group));
}

} // namespace

static std::atomic<bool> trusted = false;
void trustMachineMemory() { trusted = true; }
bool isMachineMemoryTrusted() { return trusted; }

MachineMemory sharedBy(MachineMemory memory, uint32_t processes) {
  if (processes > 1 && memory.available != std::numeric_limits<uint64_t>::max()) {
    memory.available /= processes;
    memory.limit += fmt::format(", for each of {} processes", processes);
  }
  return memory;
}

MachineMemory machineMemory() { return trusted ? unlimited() : machineMemory("/proc", "/sys/fs/cgroup"); }
MachineMemory memoryOfMapped() { return trusted ? unlimited() : memoryOfMapped("/proc", "/sys/fs/cgroup"); }

MachineMemory machineMemory(const std::string &proc, const std::string &cgroups) {
  MachineMemory memory = memoryOfMapped(proc, cgroups);
  limitByAddressSpace(memory, proc);
  return memory;
}

MachineMemory memoryOfMapped(const std::string &proc, const std::string &cgroups) {
  MachineMemory memory = unlimited();
  if (auto kibibytes = field(proc + "/meminfo", "MemAvailable:"))
    limitBy(memory, *kibibytes * 1024, "MemAvailable of /proc/meminfo");
  for (const ControlGroup &group : controlGroups("memory", proc, cgroups)) {
    if (group.unified)
      limitByGroup(memory, group, "memory.current", {"inactive_file", "active_file", "slab_reclaimable"});
    else
      limitByGroup(memory, group, "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"});
  }
  return memory;
}

} // namespace mt::host
