// The control groups that this process is in: whose limits of memory and of processor time bind it. Reads files under /proc
// alone.
#ifndef MT_RUNTIME_BASE_CONTROLGROUPS_H
#define MT_RUNTIME_BASE_CONTROLGROUPS_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mt {

struct ControlGroup {
  std::string folder;
  bool unified; ///< of version 2: all controllers in one hierarchy
};

/// Folders with the files of `controller` ("memory", "cpu"), from the process's own group to the root, of whatever version
/// the machine has. `proc` and `groups` are the roots of /proc and /sys/fs/cgroup, other ones for tests.
std::vector<ControlGroup> controlGroups(std::string_view controller, const std::string &proc = "/proc",
                                        const std::string &groups = "/sys/fs/cgroup");

/// The first number in a file; nothing where there is none, as in a group without a limit ("max").
std::optional<uint64_t> numberIn(const std::string &file);

/// The file that says how many bytes of memory a group may have.
std::string memoryLimitFile(const ControlGroup &group);

} // namespace mt
#endif
