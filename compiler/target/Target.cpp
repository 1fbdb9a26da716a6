#include "compiler/target/Target.h"

#include "compiler/target/Builtins.h"
#include "compiler/target/Rates.h"
#include "kernels/InstructionSets.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace mt::target {
namespace {

Status checkMemory(std::string_view field, uint64_t bytes) {
  if (bytes < kSmallestMemory || bytes > kGreatestMemory)
    return fail("{} is {} bytes; it must be between 1 KiB and 1024 TiB", field, bytes);
  return {};
}

Status checkRate(std::string_view field, double value, double least, double greatest) {
  if (!std::isfinite(value) || value < least || value > greatest)
    return fail("{} is {}; it must be between {:g} and {:g}", field, value, least, greatest);
  return {};
}

Status checkNumbers(const Target &target) {
  if (target.name.empty())
    return fail("name is empty");
  if (target.device != "cpu" && target.device != "cuda")
    return fail("device is '{}'; it must be cpu or cuda", target.device);
  if (!target.isa.empty() &&
      std::ranges::find(kernels::kInstructionSets, target.isa) == kernels::kInstructionSets.end())
    return fail("isa is '{}'; it must be one of {}", target.isa, fmt::join(kernels::kInstructionSets, ", "));
  if (target.devices < 1 || target.devices > kMostDevices)
    return fail("devices is {}; it must be between 1 and {}", target.devices, kMostDevices);
  if (target.devices > 1 && target.unified)
    return fail("devices is {}; a device that shares the host's memory is the only one", target.devices);
  MT_TRY(checkMemory("device_memory", target.deviceMemory));
  MT_TRY(checkMemory("host_memory", target.hostMemory));
  constexpr double kLeastBandwidth = 1e3, kGreatestBandwidth = 1e16, kLeastFlops = 1e3, kGreatestFlops = 1e19;
  MT_TRY(checkRate("upload_bandwidth", target.uploadBandwidth, kLeastBandwidth, kGreatestBandwidth));
  MT_TRY(checkRate("download_bandwidth", target.downloadBandwidth, kLeastBandwidth, kGreatestBandwidth));
  MT_TRY(checkRate("host_bandwidth", target.hostBandwidth, kLeastBandwidth, kGreatestBandwidth));
  MT_TRY(checkRate("device_bandwidth", target.deviceBandwidth, kLeastBandwidth, kGreatestBandwidth));
  MT_TRY(checkRate("fp32_flops", target.fp32Flops, kLeastFlops, kGreatestFlops));
  MT_TRY(checkRate("bf16_flops", target.bf16Flops, kLeastFlops, kGreatestFlops));
  MT_TRY(checkRate("kernel_overhead_seconds", target.kernelOverheadSeconds, 0, 10));
  MT_TRY(checkRate("copy_overhead_seconds", target.copyOverheadSeconds, 0, 10));
  if (target.ranks < 1 || target.ranks > kMostRanks)
    return fail("ranks is {}; it must be between 1 and {}", target.ranks, kMostRanks);
  MT_TRY(checkRate("network_overhead_seconds", target.networkOverheadSeconds, 0, 10));
  if (target.networkBandwidth != 0)
    MT_TRY(checkRate("network_bandwidth", target.networkBandwidth, kLeastBandwidth, kGreatestBandwidth));
  if (target.deviceNetworkBandwidth != 0)
    MT_TRY(checkRate("device_network_bandwidth", target.deviceNetworkBandwidth, kLeastBandwidth, kGreatestBandwidth));
  if (target.diskMemory == 0)
    return {};
  MT_TRY(checkMemory("disk_memory", target.diskMemory));
  MT_TRY(checkRate("disk_read_bandwidth", target.diskReadBandwidth, kLeastBandwidth, kGreatestBandwidth));
  MT_TRY(checkRate("disk_write_bandwidth", target.diskWriteBandwidth, kLeastBandwidth, kGreatestBandwidth));
  return {};
}

constexpr std::array<std::string_view, kKindsOfWork> kKinds = {"upload", "compute", "download", "host",          "peer",
                                                               "read",   "write",   "network",  "device_network"};

Status readContention(Target &target) {
  target.shares = {};
  for (size_t i = 0; i < target.contention.size(); ++i) {
    std::istringstream line(target.contention[i]);
    std::string first, second, rest;
    double share = -1;
    line.imbue(std::locale::classic());
    line >> first >> second >> share;
    const auto a = std::ranges::find(kKinds, first), b = std::ranges::find(kKinds, second);
    if (!line || line >> rest || a == kKinds.end() || b == kKinds.end() || !(share >= 0 && share <= 100))
      return fail(
          "contention[{}] is '{}'; it must be two of {} (of two devices, if it is one twice), and how much longer "
          "one takes beside the other, as in 'upload host 0.24'",
          i, target.contention[i], fmt::join(kKinds, ", "));
    const auto row = static_cast<size_t>(a - kKinds.begin()), column = static_cast<size_t>(b - kKinds.begin());
    target.shares[row][column] = target.shares[column][row] = share;
  }
  return {};
}

Status readPeers(Target &target) {
  target.peerBandwidth.assign(target.devices, std::vector<double>(target.devices, 0));
  for (size_t i = 0; i < target.peers.size(); ++i) {
    std::istringstream line(target.peers[i]);
    line.imbue(std::locale::classic());
    std::string first, rest;
    uint32_t a = 0, b = 0;
    double bandwidth = 0;
    line >> first;
    const bool all = first == "all";
    if (!all) {
      std::istringstream number(first);
      number.imbue(std::locale::classic());
      if (!(number >> a) || !number.eof())
        a = target.devices;
      line >> b;
    }
    line >> bandwidth;
    if (!line || line >> rest || (!all && (a >= target.devices || b >= target.devices || a == b)) ||
        !(bandwidth >= 1e3 && bandwidth <= 1e16))
      return fail(
          "peers[{}] is '{}'; it must be two of the {} devices, or 'all', and bytes per second, as in '0 1 56e9'", i,
          target.peers[i], target.devices);
    for (uint32_t from = 0; from < target.devices; ++from)
      for (uint32_t to = 0; to < target.devices; ++to)
        if (from != to && (all || (from == a && to == b) || (from == b && to == a)))
          target.peerBandwidth[from][to] = bandwidth;
  }
  return {};
}

Result<std::string> readFile(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream || text.fail())
    return fail("{}: cannot be read", path);
  return text.str();
}

} // namespace

std::vector<std::string> targetNames() {
  std::vector<std::string> names;
  for (const Target &target : builtinTargets())
    names.push_back(target.name);
  return names;
}

Result<Target> findTarget(std::string_view nameOrFile) {
  for (Target &target : builtinTargets())
    if (target.name == nameOrFile) {
      MT_TRY(completeTarget(target));
      return std::move(target);
    }
  const std::string path(nameOrFile);
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored))
    return fail("'{}' is neither a target nor a file: use one of {}, or a JSON file as `mtrun probe -o` writes it",
                nameOrFile, fmt::join(targetNames(), ", "));
  MT_ASSIGN(const std::string json, readFile(path));
  return parseTarget(json, path);
}

Status setDevices(Target &target, uint32_t devices) {
  std::erase_if(target.peers, [&](const std::string &line) {
    std::istringstream words(line);
    uint32_t a = 0, b = 0;
    return words >> a >> b && (a >= devices || b >= devices);
  });
  target.devices = devices;
  MT_TRY(completeTarget(target));
  shareHostMemory(target);
  return completeTarget(target);
}

void shareHostMemory(Target &target) {
  const double copies = 2.0 * target.devices,
               wanted = target.devices * (target.uploadBandwidth + target.downloadBandwidth);
  const double share = (wanted / target.hostBandwidth - 1) / (copies - 1);
  if (target.unified || share <= 0)
    return;
  for (auto [a, b] : {std::pair(0, 2), std::pair(0, 0), std::pair(2, 2)})
    if (target.shares[static_cast<size_t>(a)][static_cast<size_t>(b)] < share && (a != b || target.devices > 1)) {
      const std::string kinds = fmt::format("{} {} ", kKinds[static_cast<size_t>(a)], kKinds[static_cast<size_t>(b)]);
      std::erase_if(target.contention, [&](const std::string &line) { return line.starts_with(kinds); });
      target.contention.push_back(fmt::format("{}{:.3g}", kinds, share));
    }
}

Status completeTarget(Target &target) {
  MT_TRY(checkNumbers(target));
  MT_TRY(readContention(target));
  MT_TRY(readPeers(target));
  MT_ASSIGN(target.rates, readRates(target));
  return {};
}

} // namespace mt::target
