#include "runtime/train/Adapters.h"

#include "runtime/base/Threads.h"
#include "runtime/train/Aliases.h"

#include <algorithm>
#include <atomic>

namespace mt::train {
namespace {

using nlohmann::json;

bool isAdapter(const json &entry) {
  auto is = [&](const char *key, bool (json::*kind)() const noexcept) {
    auto at = entry.find(key);
    return at != entry.end() && ((*at).*kind)();
  };
  return entry.is_object() && is("weight", &json::is_string) && is("down", &json::is_string) &&
         is("up", &json::is_string) && is("scale", &json::is_number) && is("dropout", &json::is_number) &&
         is("transposed", &json::is_boolean) && is("dims", &json::is_array) && entry["dims"].size() == 2 &&
         std::ranges::all_of(entry["dims"], [](const json &size) { return size.is_number_unsigned(); });
}

std::vector<float> transposed(std::span<const float> values, size_t rows, size_t columns) {
  std::vector<float> turned(values.size());
  for (size_t row = 0; row < rows; ++row)
    for (size_t column = 0; column < columns; ++column)
      turned[column * rows + row] = values[row * columns + column];
  return turned;
}

} // namespace

json adaptersOf(const plan::Plan &plan) {
  json all;
  for (const plan::Adapter &adapter : plan.adapters) {
    const plan::Parameter &weight = plan.parameters[adapter.weight];
    all.push_back({{"weight", weight.name},
                   {"aliases", aliasesOf(weight)},
                   {"dims", weight.modelDims()},
                   {"down", plan.parameters[adapter.down].name},
                   {"up", plan.parameters[adapter.up].name},
                   {"scale", adapter.scale},
                   {"dropout", adapter.dropout},
                   {"transposed", adapter.transposed}});
  }
  return all;
}

Result<std::vector<StoredAdapter>> readAdapters(const json &adapters) {
  std::vector<StoredAdapter> all;
  if (!adapters.is_null() && !adapters.is_array())
    return fail("its adapters are no list");
  for (const json &entry : adapters) {
    if (!isAdapter(entry))
      return fail("adapter {} of {} is none", all.size(), adapters.size());
    MT_ASSIGN(auto aliases, readAliases({{"", entry.value("aliases", json::array())}}));
    all.push_back({entry["weight"], entry["down"], entry["up"], aliases[""], entry["dims"].get<Dims>(), entry["scale"],
                   entry["dropout"], entry["transposed"]});
  }
  return all;
}

void addAdapter(std::span<const float> down, std::span<const float> up, int64_t rank, double scale, bool isTransposed,
                std::span<float> weight) {
  const auto r = static_cast<size_t>(rank);
  const size_t in = down.size() / r, out = up.size() / r;
  std::vector<float> turnedDown, turnedUp;
  if (isTransposed) // then rows are of inputs
    turnedDown = transposed(down, r, in), turnedUp = transposed(up, out, r);
  const std::span<const float> left = isTransposed ? turnedDown : up, right = isTransposed ? turnedUp : down;
  const size_t rows = isTransposed ? in : out, columns = isTransposed ? out : in;
  std::atomic<size_t> next = 0;
  onThreads(std::min<uint64_t>(coreCount(), rows), [&] {
    std::vector<float> sum(columns);
    for (size_t row = next++; row < rows; row = next++) {
      std::ranges::fill(sum, 0.0f);
      for (size_t k = 0; k < r; ++k) {
        const float factor = left[row * r + k];
        for (size_t i = 0; i < columns; ++i)
          sum[i] += factor * right[k * columns + i];
      }
      for (size_t i = 0; i < columns; ++i)
        weight[row * columns + i] += static_cast<float>(scale) * sum[i];
    }
  });
}

} // namespace mt::train
