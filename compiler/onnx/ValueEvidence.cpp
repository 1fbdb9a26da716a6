#include "compiler/onnx/ValueEvidence.h"

#include <cmath>
#include <set>

namespace mt::onnx {
namespace {

constexpr double kTolerance = 2e-2; // tables stored in 16 bits are recognized too

// Whether squares of the pairs that `pair` names add up to the same number; not where either side is constant.
template <typename Pair> bool constantSquares(int64_t count, Pair pair) {
  if (count < 2)
    return false;
  auto [a0, b0] = pair(0);
  double radius = a0 * a0 + b0 * b0;
  bool varies = false;
  for (int64_t i = 0; i < count; ++i) {
    auto [a, b] = pair(i);
    if (!(std::abs(a * a + b * b - radius) <= kTolerance * radius))
      return false;
    varies = varies || std::abs(a - a0) > kTolerance;
  }
  return varies && radius > 0;
}

} // namespace

bool formCircle(const HostTensor &a, const HostTensor &b) {
  if (!a.real() || !b.real() || a.dims() != b.dims() || a.isSplat() || b.isSplat())
    return false;
  return constantSquares(a.elements(), [&](int64_t i) { return std::pair(a.realAt(i), b.realAt(i)); });
}

bool holdsCircle(const HostTensor &tensor) {
  if (!tensor.real() || tensor.isSplat() || tensor.rank() < 2 || tensor.dims().back() % 2 != 0)
    return false;
  int64_t width = tensor.dims().back(), half = width / 2;
  if (half == 0)
    return false;
  auto halves = [&](int64_t i) {
    int64_t at = i / half * width + i % half;
    return std::pair(tensor.realAt(at), tensor.realAt(at + half));
  };
  auto neighbours = [&](int64_t i) { return std::pair(tensor.realAt(2 * i), tensor.realAt(2 * i + 1)); };
  int64_t pairs = tensor.elements() / 2;
  return constantSquares(pairs, halves) || constantSquares(pairs, neighbours);
}

bool isMask(const HostTensor &tensor) {
  if (tensor.rank() < 2 || tensor.isSplat() || tensor.elements() < 4)
    return false;
  std::set<double> values;
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    double value = tensor.realAt(i);
    if (std::isnan(value))
      return false;
    values.insert(value);
    if (values.size() > 2)
      return false;
  }
  double low = *values.begin(), high = *values.rbegin();
  return values.size() == 2 && ((low <= -1e4 && high == 0) || (low == 0 && high == 1));
}

} // namespace mt::onnx
