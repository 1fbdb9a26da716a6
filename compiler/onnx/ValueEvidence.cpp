#include "compiler/onnx/ValueEvidence.h"

#include <cmath>
#include <optional>
#include <set>
#include <utility>

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

namespace {
// One row of a table of sinusoids: its pairs, as `partner` finds them, lie on the circle of radius one.
template <typename Partner> bool isOnUnitCircle(const HostTensor &tensor, int64_t row, int64_t width, double tolerance, Partner partner) {
  for (int64_t i = 0; i < width; ++i) {
    double a = tensor.realAt(row * width + i), b = tensor.realAt(row * width + partner(i));
    if (!(std::abs(a * a + b * b - 1) <= tolerance))
      return false;
  }
  return true;
}
bool isZeroRow(const HostTensor &tensor, int64_t row, int64_t width) {
  for (int64_t i = 0; i < width; ++i)
    if (tensor.realAt(row * width + i) != 0)
      return false;
  return true;
}
template <typename Partner> bool rowsOnUnitCircle(const HostTensor &tensor, Partner partner) {
  double tolerance = tensor.type() == DType::f32 || tensor.type() == DType::f64 ? 1e-3 : kTolerance;
  int64_t width = tensor.dims().back(), rows = tensor.elements() / width, first = -1;
  bool varies = false;
  for (int64_t row = 0; row < rows; ++row) {
    if (isZeroRow(tensor, row, width))
      continue;
    if (!isOnUnitCircle(tensor, row, width, tolerance, partner))
      return false;
    first = first < 0 ? row : first;
    for (int64_t i = 0; i < width && !varies; ++i)
      varies = std::abs(tensor.realAt(row * width + i) - tensor.realAt(first * width + i)) > kTolerance;
  }
  return varies;
}
} // namespace

bool holdsSinusoids(const HostTensor &tensor) {
  if (!tensor.real() || tensor.isSplat() || tensor.rank() < 2 || tensor.dims().back() < 4 || tensor.dims().back() % 2 != 0)
    return false;
  int64_t width = tensor.dims().back(), half = width / 2, quarter = width / 4;
  auto within = [](int64_t block) { return [block](int64_t i) { return i / (2 * block) * 2 * block + (i + block) % (2 * block); }; };
  return rowsOnUnitCircle(tensor, [half](int64_t i) { return (i + half) % (2 * half); }) ||
         rowsOnUnitCircle(tensor, within(1)) || (width % 4 == 0 && rowsOnUnitCircle(tensor, within(quarter)));
}

// Whether element i of every line along a dimension is its first element plus i times the line's step.
static bool isRampAlong(const HostTensor &tensor, int64_t size, int64_t inner) {
  bool rises = false;
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    int64_t at = i / inner % size, first = i - at * inner;
    double start = tensor.realAt(first), step = tensor.realAt(first + inner) - start;
    double expected = start + step * static_cast<double>(at);
    if (!(std::abs(tensor.realAt(i) - expected) <= 1e-4 * (std::abs(expected) + std::abs(step))))
      return false;
    rises = rises || step != 0;
  }
  return rises;
}

bool isRamp(const HostTensor &tensor) {
  if (tensor.rank() < 2 || tensor.isSplat())
    return false;
  int64_t inner = 1;
  for (int64_t d = tensor.rank(); d-- > 0; inner *= tensor.dims()[static_cast<size_t>(d)]) {
    int64_t size = tensor.dims()[static_cast<size_t>(d)];
    if (size >= 4 && isRampAlong(tensor, size, inner))
      return true;
  }
  return false;
}

namespace {
enum class Steps : uint8_t { none, constant, regular };

// Whether a line is start + step * (i / run % size).
template <typename At> Steps stepsOf(int64_t count, At at) {
  int64_t run = 1, size = 1;
  if (count < 3)
    return Steps::none;
  while (run < count && at(run) == at(0))
    ++run;
  if (run == count)
    return Steps::constant;
  double start = at(0), step = at(run) - start;
  auto is = [&](int64_t i, int64_t place) {
    return std::abs(at(i) - start - step * static_cast<double>(place)) <= 0.05 * std::abs(step); // of rounded numbers
  };
  while (size * run < count && is(size * run, size))
    ++size;
  for (int64_t i = 0; i < count; ++i)
    if (!is(i, i / run % size))
      return Steps::none;
  return size >= 3 ? Steps::regular : Steps::none;
}
} // namespace

bool isGrid(const HostTensor &tensor) {
  if (!tensor.real() || tensor.isSplat())
    return false;
  int64_t inner = 1;
  for (int64_t d = tensor.rank(); d-- > 0; inner *= tensor.dims()[static_cast<size_t>(d)]) {
    int64_t lines = tensor.dims()[static_cast<size_t>(d)], regular = 0, constant = 0;
    if (lines < 2 || lines > 4)
      continue;
    for (int64_t line = 0; line < lines; ++line) {
      Steps steps = stepsOf(tensor.elements() / lines,
                            [&](int64_t i) { return tensor.realAt((i / inner * lines + line) * inner + i % inner); });
      regular += steps == Steps::regular;
      constant += steps == Steps::constant;
    }
    if (regular >= 2 && constant <= 1 && regular + constant == lines)
      return true;
  }
  return false;
}

bool isUniform(const HostTensor &tensor) {
  for (int64_t i = 1; i < tensor.elements(); ++i)
    if (tensor.realAt(i) != tensor.realAt(0))
      return false;
  return true;
}

/// The two values that all elements have, the lower first; none: not in two dimensions, or others.
static std::optional<std::pair<double, double>> twoValues(const HostTensor &tensor) {
  if (tensor.rank() < 2 || tensor.isSplat() || tensor.elements() < 4)
    return std::nullopt;
  std::set<double> values;
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    double value = tensor.realAt(i);
    if (std::isnan(value))
      return std::nullopt;
    values.insert(value);
    if (values.size() > 2)
      return std::nullopt;
  }
  return values.size() == 2 ? std::optional(std::pair(*values.begin(), *values.rbegin())) : std::nullopt;
}

static bool areOfAddedMask(const std::pair<double, double> &values) {
  return (values.first <= -1e4 && values.second == 0) || (values.first == 0 && values.second >= 1e4);
}

bool isAddedMask(const HostTensor &tensor) {
  const auto values = twoValues(tensor);
  return values && areOfAddedMask(*values);
}

bool isMask(const HostTensor &tensor) {
  const auto values = twoValues(tensor);
  return values && (areOfAddedMask(*values) || *values == std::pair(0.0, 1.0));
}

} // namespace mt::onnx
