#include "runtime/train/ChooseToken.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace mt::train {
namespace {

/// The likeliest first: all of them, or the first `count`.
std::vector<uint32_t> ranked(std::span<const float> logits, size_t count) {
  std::vector<uint32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  auto isLikelier = [&](uint32_t a, uint32_t b) { return logits[a] > logits[b] || (logits[a] == logits[b] && a < b); };
  std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(count), order.end(), isLikelier);
  order.resize(count);
  return order;
}

} // namespace

Result<uint32_t> chooseToken(std::span<const float> logits, const ChoiceOptions &options, double uniform) {
  const auto bad = std::ranges::find_if(logits, [](float logit) { return std::isnan(logit); });
  if (bad != logits.end() || logits.empty())
    return fail("what the model predicts for token {} is not a number", bad - logits.begin());
  if (options.temperature == 0)
    return static_cast<uint32_t>(std::ranges::max_element(logits) - logits.begin());
  const size_t most = options.topK > 0 ? std::min(logits.size(), static_cast<size_t>(options.topK)) : logits.size();
  const std::vector<uint32_t> order = ranked(logits, most);
  std::vector<double> weights;
  for (uint32_t token : order)
    weights.push_back(
        std::exp((static_cast<double>(logits[token]) - static_cast<double>(logits[order[0]])) / options.temperature));
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  size_t count = 0;
  for (double sum = 0; count < weights.size() && sum < options.topP * all;)
    sum += weights[count++];
  weights.resize(std::max<size_t>(1, count));
  double left = uniform * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t i = 0; i < weights.size(); ++i)
    if ((left -= weights[i]) < 0)
      return order[i];
  return order[weights.size() - 1]; // rounding
}

} // namespace mt::train
