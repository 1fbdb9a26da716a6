#include "runtime/base/Sizes.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <span>

namespace mt {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};
constexpr std::array<Unit, 10> kUnits{{{"", 1},
                                       {"b", 1},
                                       {"kib", 0x1p10},
                                       {"mib", 0x1p20},
                                       {"gib", 0x1p30},
                                       {"tib", 0x1p40},
                                       {"kb", 1e3},
                                       {"mb", 1e6},
                                       {"gb", 1e9},
                                       {"tb", 1e12}}};

Status invalidSize(std::string_view text) {
  return fail("'{}' is not a size: write a number and a unit, B KiB MiB GiB TiB (powers of 1024) or KB MB GB TB "
              "(powers of 1000), such as 24GiB",
              text);
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

/// Two decimals below ten, else one; whole where there is no unit prefix.
std::string scaled(double value, double step, std::span<const std::string_view> units) {
  size_t unit = 0;
  while (unit + 1 < units.size() && value >= step * (1 - 0.5e-4)) {
    value /= step;
    ++unit;
  }
  const int decimals = unit == 0 ? 0 : value < 9.995 ? 2 : 1;
  return units[unit].empty() ? fmt::format("{:.{}f}", value, decimals)
                             : fmt::format("{:.{}f} {}", value, decimals, units[unit]);
}

std::string grouped(uint64_t number) {
  std::string digits = std::to_string(number);
  for (size_t at = digits.size(); at > 3; at -= 3)
    digits.insert(at - 3, 1, ',');
  return digits;
}

} // namespace

Result<uint64_t> parseSize(std::string_view text) {
  double number = 0;
  const auto [rest, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || !std::isfinite(number) || number < 0)
    return invalidSize(text);
  std::string_view unitText(rest, static_cast<size_t>(text.data() + text.size() - rest));
  while (!unitText.empty() && unitText.front() == ' ')
    unitText.remove_prefix(1);
  const auto unit =
      std::find_if(kUnits.begin(), kUnits.end(), [name = lower(unitText)](const Unit &u) { return u.name == name; });
  if (unit == kUnits.end())
    return invalidSize(text);
  if (number * unit->factor >= 0x1p63)
    return fail("'{}' is more bytes than any machine addresses; check the unit", text);
  if (uint64_t whole = 0; unit->factor == 1 && std::from_chars(text.data(), rest, whole).ptr == rest)
    return whole;
  return static_cast<uint64_t>(number * unit->factor);
}

std::string formatSize(uint64_t bytes) {
  static constexpr std::array<std::string_view, 5> kNames{"B", "KiB", "MiB", "GiB", "TiB"};
  return scaled(static_cast<double>(bytes), 1024, kNames);
}

std::string formatExactSize(uint64_t bytes) {
  return bytes < 1024 ? formatSize(bytes) : fmt::format("{} ({} bytes)", formatSize(bytes), grouped(bytes));
}

std::string formatCount(double count) {
  static constexpr std::array<std::string_view, 5> kNames{"", "k", "M", "G", "T"};
  return scaled(count, 1000, kNames);
}

std::string formatFlops(double flops) {
  static constexpr std::array<std::string_view, 6> kNames{"flop", "kflop", "Mflop", "Gflop", "Tflop", "Pflop"};
  return scaled(flops, 1000, kNames);
}

std::string formatSeconds(double seconds) {
  if (!std::isfinite(seconds))
    return "unknown";
  if (seconds == 0)
    return "0 s";
  if (seconds >= 3600)
    return fmt::format("{:.0f} h {:.0f} min", std::floor(seconds / 3600), std::floor(std::fmod(seconds, 3600) / 60));
  if (seconds >= 100)
    return fmt::format("{:.0f} min {:.0f} s", std::floor(seconds / 60), std::floor(std::fmod(seconds, 60)));
  if (seconds >= 1)
    return fmt::format("{:.{}f} s", seconds, seconds < 10 ? 2 : 1);
  if (seconds >= 1e-3)
    return fmt::format("{:.{}f} ms", seconds * 1e3, seconds < 1e-2 ? 2 : 1);
  return fmt::format("{:.{}f} us", seconds * 1e6, seconds < 1e-5 ? 2 : 1);
}

std::string formatBandwidth(double bytesPerSecond) {
  static constexpr std::array<std::string_view, 5> kNames{"B/s", "KB/s", "MB/s", "GB/s", "TB/s"};
  return scaled(bytesPerSecond, 1000, kNames);
}

} // namespace mt
