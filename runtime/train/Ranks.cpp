#include "runtime/train/Ranks.h"

#include "runtime/base/Files.h"
#include "runtime/base/Log.h"
#include "runtime/device/MakeDevice.h"
#include "runtime/network/OpenNetwork.h"
#include "runtime/plan/Ranks.h"
#include "runtime/train/Interrupt.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace mt::train {

using network::Channel;

Status Ranks::open() {
  if (network || network::launchedRanks() == 1)
    return Status();
  MT_ASSIGN(network, network::openNetwork(network::launchedRanks()));
  MT_TRY(countNeighbours());
  if (!isFirst())
    nameLog(fmt::format("rank {}", rank()));
  return Status();
}

Status Ranks::join(plan::Plan &plan) {
  if (plan.ranks == 1 && count() > 1)
    return fail(
        "{} processes were started, and the plan is for one: compile it with --ranks {}, or start it without the "
        "launcher",
        count(), count());
  MT_TRY(network::checkLaunched(plan.ranks));
  plan::moveToRank(plan, rank());
  return Status();
}

/// The cores that this thread may run on, a digit each.
static std::string ownCores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  (void)::sched_getaffinity(0, sizeof(cores), &cores);
  std::string digits;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    digits += CPU_ISSET(i, &cores) ? '1' : '0';
  return digits;
}

/// Machines are told apart by what they have drawn when they started. A launcher may give each of its processes a core,
/// as mpirun does by default: those that have less than their part of the machine get all of it, to share.
Status Ranks::countNeighbours() {
  MT_ASSIGN(std::optional<std::string> machine, readFile("/proc/sys/kernel/random/boot_id"));
  const std::string cores = ownCores();
  MT_ASSIGN(std::vector<std::string> all, network::gatherTexts(*network, Channel::loop, cores + machine.value_or("")));
  auto machineOf = [&](const std::string &text) { return std::string_view(text).substr(cores.size()); };
  int64_t fewest = CPU_SETSIZE;
  onMachine = onCores = 0;
  for (uint32_t other = 0; other < all.size(); ++other) {
    if (machineOf(all[other]) != machineOf(all[rank()]))
      continue;
    numberOnMachine = other == rank() ? onMachine : numberOnMachine;
    ++onMachine;
    onCores += all[other] == all[rank()];
    fewest = std::min<int64_t>(fewest, std::count(all[other].begin(), all[other].begin() + CPU_SETSIZE, '1'));
  }
  if (fewest * onMachine < ::sysconf(_SC_NPROCESSORS_ONLN)) {
    cpu_set_t every;
    std::memset(&every, 0xFF, sizeof(every)); // of which the system takes those that the process may have at all
    (void)::sched_setaffinity(0, sizeof(every), &every);
    onCores = onMachine;
  }
  return Status();
}

/// Where GPUs were divided already, a process sees but its own.
static bool seesGpusOfAll(uint64_t wanted) {
  const char *visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return !visible || static_cast<uint64_t>(std::ranges::count(std::string_view(visible), ',')) + 1 >= wanted;
}

MachineOptions Ranks::shareOf(MachineOptions machine, const plan::Plan &plan) const {
  if (!machine.trace.empty() && !isFirst()) {
    const std::filesystem::path path = machine.trace;
    machine.trace =
        (path.parent_path() / fmt::format("{}.rank{}{}", path.stem().string(), rank(), path.extension().string()))
            .string();
  }
  if (onMachine == 1)
    return machine;
  const std::string &device = machine.device.empty() ? plan.target.device : machine.device;
  if (machine.threads == 0)
    machine.threads = std::max(1, device::kernelThreads(device, 0) / static_cast<int>(onCores));
  if (device == "cuda" && seesGpusOfAll(onMachine * plan::deviceCount(plan)))
    for (uint64_t each = plan::deviceCount(plan), i = 0; i < each; ++i)
      machine.device =
          fmt::format("{}{}{}", i == 0 ? "cuda" : machine.device, i == 0 ? ":" : ",", numberOnMachine * each + i);
  return machine;
}

Status Ranks::agree(const Status &own) { return network ? network::agree(*network, Channel::loop, own) : own; }

Result<std::string> Ranks::told(const Result<std::string> &byFirst) {
  return network ? network::broadcast(*network, Channel::loop, byFirst) : byFirst;
}

Result<bool> Ranks::any(bool own) {
  if (!network)
    return own;
  MT_ASSIGN(std::vector<std::string> all, network::gatherTexts(*network, Channel::loop, own ? "y" : "n"));
  return std::ranges::find(all, "y") != all.end();
}

Status Ranks::compare(const nlohmann::ordered_json &values) {
  if (!network)
    return Status();
  MT_ASSIGN(std::vector<std::string> all,
            network::gatherTexts(*network, Channel::loop,
                                 values.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)));
  const auto first = nlohmann::ordered_json::parse(all.front(), nullptr, false);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    const auto other = nlohmann::ordered_json::parse(all[rank], nullptr, false);
    for (const auto &[name, value] : first.items())
      if (!other.is_object() || other.value(name, nlohmann::ordered_json()) != value)
        return fail("rank {} has another {} than rank 0 ({} there, and {} here): all ranks of a job must have the same",
                    rank, name, other.is_object() ? other.value(name, nlohmann::ordered_json()).dump() : "nothing",
                    value.dump());
  }
  return Status();
}

bool Ranks::stop() {
  if (network && !stops) {
    const Result<bool> wanted = any(interrupted());
    stops = !wanted.ok() || *wanted;
  }
  return stopped();
}

bool Ranks::stopped() const { return network ? stops : interrupted(); }

Status Ranks::end(const Status &own) {
  if (!network)
    return own;
  if (!own)
    network->fail(own);
  else if (network::agree(*network, Channel::loop, own)) // all have come to their end
    return own;
  const Status reason = network->failure();
  const bool tells = isFirst() || (rank() == 1 && reason.message().starts_with(network::kSilentFirst));
  if (tells)
    return reason;
  network.reset();
  std::_Exit(EXIT_FAILURE);
}

} // namespace mt::train
