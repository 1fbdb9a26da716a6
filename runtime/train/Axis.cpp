#include "runtime/train/Axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace mt::train {
namespace {

constexpr double kTicks = 5;      // about so many
constexpr double kLogRatio = 100; // from which on a logarithmic axis shows more

/// The smallest of 1, 2, 5 times a power of ten that is no smaller.
double roundUp(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (double digit : {1.0, 2.0, 5.0})
    if (digit * power >= value * (1 - 1e-9))
      return digit * power;
  return 10 * power;
}

/// A number whose neighbours on the axis are `distance` away: 0.05, 12, 150 k, 3e-06.
std::string tickText(double value, double distance) {
  if (value == 0)
    return "0";
  if (std::abs(value) >= 1e15 || distance < 0.9e-5)
    return fmt::format("{:.3g}", value);
  struct Unit {
    double factor;
    const char *name;
  };
  for (Unit unit : {Unit{1e12, " T"}, Unit{1e9, " G"}, Unit{1e6, " M"}, Unit{1e3, " k"}})
    if (std::abs(value) >= 10 * unit.factor || (std::abs(value) >= unit.factor && distance >= unit.factor / 10))
      return fmt::format("{:.{}f}{}", value / unit.factor, distance < unit.factor * 0.99 ? 1 : 0, unit.name);
  const int decimals = static_cast<int>(std::max(0.0, std::ceil(-std::log10(distance) - 1e-9)));
  return fmt::format("{:.{}f}", value, decimals);
}

/// Multiples of a round distance within the range.
void addTicks(Axis &axis, double distance) {
  const double first = std::ceil(axis.low / distance - 1e-9), last = std::floor(axis.high / distance + 1e-9);
  for (int i = 0; first + i <= last; ++i) {
    const double value = (first + i) * distance;
    axis.ticks.push_back({value, tickText(value, distance)});
  }
}

/// 1, 2 and 5 of each power of ten; over many powers 1 alone, and not of each.
void addLogTicks(Axis &axis) {
  const double first = std::floor(std::log10(axis.low)), last = std::ceil(std::log10(axis.high));
  const double apart = std::max(1.0, std::ceil((last - first) / (kTicks + 1)));
  for (double power = first; power <= last; power += apart)
    for (double digit : {1.0, 2.0, 5.0}) {
      const double value = digit * std::pow(10, power);
      if ((digit == 1 || last - first <= 3) && value >= axis.low * (1 - 1e-9) && value <= axis.high * (1 + 1e-9))
        axis.ticks.push_back({value, tickText(value, std::pow(10, power))});
    }
}

} // namespace

double Axis::at(double value) const {
  const double share =
      isLog ? (std::log(value) - std::log(low)) / (std::log(high) - std::log(low)) : (value - low) / (high - low);
  return std::clamp(share, 0.0, 1.0);
}

Axis stepAxis(double first, double last) {
  Axis axis;
  axis.low = first;
  axis.high = std::max(last, first + 1);
  addTicks(axis, std::max(1.0, roundUp((axis.high - axis.low) / kTicks)));
  return axis;
}

Axis valueAxis(double least, double most, bool fromZero, bool mayBeLog) {
  Axis axis;
  if (mayBeLog && least > 0 && most / least >= kLogRatio) {
    axis.low = least;
    axis.high = most;
    axis.isLog = true;
    addLogTicks(axis);
    return axis;
  }
  if (fromZero && least >= 0)
    least = 0;
  if (most - least <= 1e-9 * std::max(std::abs(most), std::abs(least))) { // a level curve lies in the middle
    const double around = most == 0 ? 1 : std::abs(most) / 10;
    least -= around;
    most += around;
  }
  const double distance = roundUp((most - least) / kTicks);
  axis.low = std::floor(least / distance + 1e-9) * distance;
  axis.high = std::ceil(most / distance - 1e-9) * distance;
  addTicks(axis, distance);
  return axis;
}

} // namespace mt::train
