#include "runtime/plan/Dump.h"

#include "runtime/base/Sizes.h"
#include "runtime/plan/LayerIndex.h"

#include <fmt/ranges.h>

#include <array>
#include <set>

namespace mt::plan {
namespace {

constexpr std::array<std::string_view, 4> kFormats{"text", "json", "trace", "html"};

/// A kind read from a file is validated before; a name is still needed for one that is not.
template <size_t N, typename Kind> std::string_view pick(const std::array<std::string_view, N> &names, Kind kind) {
  const size_t index = static_cast<size_t>(kind);
  return index < N ? names[index] : "invalid";
}

} // namespace

std::optional<DumpFormat> dumpFormatFromName(std::string_view name) {
  for (size_t i = 0; i < kFormats.size(); ++i)
    if (kFormats[i] == name)
      return static_cast<DumpFormat>(i);
  return std::nullopt;
}

std::string dumpPlan(const Plan &plan, DumpFormat format) {
  switch (format) {
  case DumpFormat::text:
    return dumpText(plan);
  case DumpFormat::json:
    return dumpJson(plan);
  case DumpFormat::trace:
    return dumpTrace(plan);
  case DumpFormat::html:
    return dumpHtml(plan);
  }
  return {};
}

std::string_view name(SpaceKind kind) {
  return pick(std::to_array<std::string_view>({"device", "staging", "state", "file"}), kind);
}
std::string_view name(StreamKind kind) {
  return pick(std::to_array<std::string_view>(
                  {"upload", "compute", "download", "host", "peer", "read", "write", "network", "device_network"}),
              kind);
}
std::string_view name(Alias::Kind kind) {
  return pick(std::to_array<std::string_view>({"initializer", "module"}), kind);
}
std::string_view name(InputKind kind) {
  return pick(std::to_array<std::string_view>({"data", "labels", "scalars", "rows"}), kind);
}
std::string_view name(Role role) {
  return pick(std::to_array<std::string_view>({"prefetch", "compute", "offload", "update"}), role);
}
std::string_view name(ByteKind kind) {
  return pick(std::to_array<std::string_view>(
                  {"unknown", "weight", "gradient", "state", "activation", "input", "scalar", "workspace"}),
              kind);
}
std::string_view name(BindingEffect effect) {
  return pick(std::to_array<std::string_view>({"read", "write", "accumulate", "update"}), effect);
}
std::string describeAdapters(const Plan &plan) {
  if (plan.adapters.empty())
    return "";
  std::set<int64_t> ranks;
  std::set<double> scales;
  double trained = 0;
  for (const Adapter &adapter : plan.adapters) {
    ranks.insert(plan.parameters[adapter.down].dims[0]);
    scales.insert(adapter.scale);
    trained += elementsOf(plan.parameters[adapter.down]) + elementsOf(plan.parameters[adapter.up]);
  }
  return fmt::format("{}, rank {}, scale {}, {} parameters", plan.adapters.size(), fmt::join(ranks, " and "),
                     fmt::join(scales, " and "), formatCount(trained));
}

std::string describePacked(const Plan &plan) {
  size_t count = 0;
  double elements = 0, bytes = 0;
  for (const Parameter &parameter : plan.parameters)
    if (parameter.initial.packing) {
      count += !parameter.holdsScales();
      elements += elementsOf(parameter);
      bytes += static_cast<double>(bytesOf(parameter));
    }
  return count == 0 ? ""
                    : fmt::format("{}, {} parameters in {:.3g} bits each, scales included", count,
                                  formatCount(elements), 8 * bytes / elements);
}

std::string_view name(ProgramKind kind) {
  return pick(std::to_array<std::string_view>({"step", "finish", "evaluate", "load", "store"}), kind);
}

} // namespace mt::plan
