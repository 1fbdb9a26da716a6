#include "runtime/base/ControlGroups.h"

#include <charconv>
#include <fstream>
#include <optional>

namespace mt {
namespace {

/// The group's path of a line of /proc/self/cgroup: "0::/a/b" (version 2), "5:cpu,cpuacct:/a/b" (version 1).
std::optional<ControlGroup> parse(const std::string &line, std::string_view controller) {
  const size_t first = line.find(':'), second = first == line.npos ? first : line.find(':', first + 1);
  if (second == line.npos)
    return std::nullopt;
  const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
  const bool unified = controllers == ",,";
  if (!unified && controllers.find("," + std::string(controller) + ",") == controllers.npos)
    return std::nullopt;
  return ControlGroup{line.substr(second + 1), unified};
}

} // namespace

std::vector<ControlGroup> controlGroups(std::string_view controller, const std::string &proc, const std::string &groups) {
  std::vector<ControlGroup> found;
  std::ifstream stream(proc + "/self/cgroup");
  for (std::string line; std::getline(stream, line);) {
    const std::optional<ControlGroup> group = parse(line, controller);
    if (!group)
      continue;
    const std::string root = group->unified ? groups : groups + "/" + std::string(controller);
    for (std::string path = group->folder == "/" ? "" : group->folder;; path = path.substr(0, path.rfind('/'))) {
      found.push_back({root + path, group->unified});
      if (path.find('/') == path.npos)
        break;
    }
  }
  return found;
}

std::optional<uint64_t> numberIn(const std::string &file) {
  std::ifstream stream(file);
  std::string word;
  uint64_t value = 0;
  if (!(stream >> word) || std::from_chars(word.data(), word.data() + word.size(), value).ec != std::errc())
    return std::nullopt;
  return value;
}

std::string memoryLimitFile(const ControlGroup &group) {
  return group.folder + (group.unified ? "/memory.max" : "/memory.limit_in_bytes");
}

} // namespace mt
