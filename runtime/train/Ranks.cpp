#include "runtime/train/Ranks.h"

#include "runtime/base/Files.h"
#include "runtime/device/MakeDevice.h"
#include "runtime/network/OpenNetwork.h"
#include "runtime/plan/Ranks.h"
#include "runtime/train/Interrupt.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace mt::train {

using network::Channel;

Status Ranks::join(plan::Plan &plan) {
  if (plan.ranks == 1) {
    if (const uint32_t launched = network::launchedRanks(); launched > 1)
      return fail(
          "{} processes were started, and the plan is for one: compile it with --ranks {}, or start it without the "
          "launcher",
          launched, launched);
    return Status();
  }
  if (!network) {
    MT_ASSIGN(network, network::openNetwork(plan.ranks));
    MT_TRY(countNeighbours());
    if (!isFirst())
      nameLog(fmt::format("rank {}", rank()));
  }
  plan::moveToRank(plan, rank());
  return Status();
}

/// Machines are told apart by what they have drawn when they started.
Status Ranks::countNeighbours() {
  MT_ASSIGN(std::optional<std::string> machine, readFile("/proc/sys/kernel/random/boot_id"));
  MT_ASSIGN(std::vector<std::string> all, network::gatherTexts(*network, Channel::loop, machine.value_or("")));
  onMachine = static_cast<uint32_t>(std::ranges::count(all, all[rank()]));
  numberOnMachine = static_cast<uint32_t>(std::count(all.begin(), all.begin() + rank(), all[rank()]));
  return Status();
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
    machine.threads = std::max(1, device::kernelThreads(device, 0) / static_cast<int>(onMachine));
  if (device == "cuda")
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
  MT_ASSIGN(std::vector<std::string> all, network::gatherTexts(*network, Channel::loop, values.dump()));
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
  if (!network || own)
    return own;
  network->fail(own);
  const Status reason = network->failure();
  const bool tells = isFirst() || (rank() == 1 && reason.message().starts_with(network::kSilentFirst));
  if (tells)
    return reason;
  network.reset();
  std::_Exit(EXIT_FAILURE);
}

} // namespace mt::train
