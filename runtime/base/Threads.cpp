#include "runtime/base/Threads.h"

#include "runtime/base/ControlGroups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sched.h>
#include <set>
#include <system_error>
#include <thread>
#include <vector>

namespace mt {

namespace {

/// Processors that the process may run on.
std::vector<int> allowedProcessors() {
  std::vector<int> processors;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) // more of them than a set holds
    for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i)
      processors.push_back(static_cast<int>(i));
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &allowed))
      processors.push_back(i);
  return processors;
}

/// Processors whose time a group may use in a period of any length; infinite: as many as there are.
double quotaOf(const ControlGroup &group) {
  constexpr double kAll = std::numeric_limits<double>::infinity();
  double quota = 0, period = 0;
  if (group.unified) { // "max 100000" or "150000 100000"
    std::ifstream stream(group.folder + "/cpu.max");
    return stream >> quota >> period && period > 0 ? quota / period : kAll;
  }
  std::ifstream time(group.folder + "/cpu.cfs_quota_us"), each(group.folder + "/cpu.cfs_period_us"); // -1: all
  return time >> quota && each >> period && quota > 0 && period > 0 ? quota / period : kAll;
}

} // namespace

uint64_t coreCount() { return coreCount(allowedProcessors(), "/proc", "/sys"); }

uint64_t coreCount(std::span<const int> processors, const std::string &proc, const std::string &sys) {
  std::set<std::string> cores; // by the processors that share one
  for (int processor : processors) {
    std::ifstream stream(fmt::format("{}/devices/system/cpu/cpu{}/topology/thread_siblings_list", sys, processor));
    std::string siblings;
    if (!(stream >> siblings))
      siblings = fmt::format("cpu{}", processor);
    cores.insert(siblings);
  }
  double most = static_cast<double>(std::max<size_t>(1, cores.size()));
  for (const ControlGroup &group : controlGroups("cpu", proc, sys + "/fs/cgroup"))
    most = std::min(most, quotaOf(group));
  return static_cast<uint64_t>(std::max(1.0, std::ceil(most)));
}

void onThreads(uint64_t threads, const std::function<void()> &work) {
  std::vector<std::jthread> others; // joined on the way out
  try {
    while (others.size() + 1 < threads)
      others.emplace_back(work);
  } catch (const std::system_error &) {
  }
  work();
}

} // namespace mt
