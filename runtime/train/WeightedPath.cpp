#include "runtime/train/WeightedPath.h"

#include <charconv>
#include <cmath>
#include <filesystem>

namespace mt::train {
namespace {

/// The number that a text is as a whole.
std::optional<double> numberOf(const std::string &text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

} // namespace

Result<WeightedPaths> parseWeightedPaths(const std::vector<std::string> &texts) {
  WeightedPaths all;
  for (const std::string &text : texts) {
    std::error_code error;
    const size_t colon = text.rfind(':');
    std::optional<double> weight;
    if (colon != std::string::npos && colon > 0 && !std::filesystem::exists(text, error))
      weight = numberOf(text.substr(colon + 1));
    if (weight && !(*weight > 0 && std::isfinite(*weight)))
      return fail("{}: the weight of a part must be a positive number, such as 0.3", text);
    all.paths.push_back(weight ? text.substr(0, colon) : text);
    if (weight)
      all.weights.push_back(*weight);
    if (!all.weights.empty() && all.weights.size() != all.paths.size())
      return fail("{}: either all have a weight or none has: give {} one, as {}:1", text,
                  weight ? all.paths.front() : text, weight ? all.paths.front() : text);
  }
  return all;
}

} // namespace mt::train
