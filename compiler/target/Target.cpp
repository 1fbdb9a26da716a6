#include "compiler/target/Target.h"

#include "compiler/target/Builtins.h"

#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace mt::target {
namespace {

constexpr uint64_t kSmallestMemory = uint64_t(1) << 10, kGreatestMemory = uint64_t(1) << 50;

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
    if (target.name == nameOrFile)
      return std::move(target);
  const std::string path(nameOrFile);
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored))
    return fail("'{}' is neither a target nor a file: use one of {}, or a JSON file as `mtrun probe -o` writes it",
                nameOrFile, fmt::join(targetNames(), ", "));
  MT_ASSIGN(const std::string json, readFile(path));
  return parseTarget(json, path);
}

Status checkTarget(const Target &target) {
  if (target.name.empty())
    return fail("name is empty");
  if (target.device != "cpu" && target.device != "cuda")
    return fail("device is '{}'; it must be cpu or cuda", target.device);
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
  return {};
}

} // namespace mt::target
