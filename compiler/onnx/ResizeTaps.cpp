#include "compiler/onnx/ResizeTaps.h"

#include <algorithm>
#include <cmath>

namespace mt::onnx {
namespace {

constexpr double kFarthest = 1e15; // elements from the line: all lie as far outside, and fit an integer

// What lies between results, of asymmetric lines: PyTorch and TensorFlow have it in 32 bits, and multiply by it. A
// scale that a node gives is one over a fraction, or over decimals, that its 32 bits do not hold.
float distanceBetween(const ResizeLine &line) {
  constexpr int kLargest = 100;
  const auto given = static_cast<float>(line.scale);
  for (int below = 1; below <= kLargest && given == line.scale; ++below)
    if (const double above = std::round(line.scale * below); above > 0 && static_cast<float>(above / below) == given)
      return static_cast<float>(below / above);
  return static_cast<float>(1 / line.scale);
}

// Where result `i` lies in the line: ONNX, Resize, coordinate_transformation_mode.
double exactCoordinateOf(const ResizeLine &line, int64_t i) {
  double x = static_cast<double>(i), from = static_cast<double>(line.from), to = static_cast<double>(line.to);
  if (line.transformation == "asymmetric" && line.mode == "nearest" && line.nearest == "floor")
    return static_cast<float>(i) * distanceBetween(line);
  if (line.transformation == "asymmetric")
    return x / line.scale;
  if (line.transformation == "align_corners")
    return line.to == 1 ? 0 : x * (from - 1) / (to - 1);
  if (line.transformation == "pytorch_half_pixel")
    return line.to == 1 ? 0 : (x + 0.5) / line.scale - 0.5;
  if (line.transformation == "tf_crop_and_resize")
    return line.to == 1 ? 0.5 * (line.start + line.end) * (from - 1)
                        : line.start * (from - 1) + x * (line.end - line.start) * (from - 1) / (to - 1);
  if (line.transformation == "half_pixel_symmetric") {
    double exact = to / (line.scale * from); // how much of the whole the rounded size is
    return from / 2 * (1 - exact) + (x + 0.5) / line.scale - 0.5;
  }
  return (x + 0.5) / line.scale - 0.5;
}

double coordinateOf(const ResizeLine &line, int64_t i) {
  double x = exactCoordinateOf(line, i);
  return x > -kFarthest ? std::min(x, kFarthest) : -kFarthest; // so for what is no number
}

int64_t nearestTo(const ResizeLine &line, double x) {
  double whole = std::floor(x);
  bool half = x - whole == 0.5;
  if (line.nearest == "floor")
    return static_cast<int64_t>(whole);
  if (line.nearest == "ceil")
    return static_cast<int64_t>(std::ceil(x));
  if (line.nearest == "round_prefer_ceil")
    return static_cast<int64_t>(half ? whole + 1 : std::round(x));
  return static_cast<int64_t>(half ? whole : std::round(x));
}

double triangle(double x) { return std::max(0.0, 1 - std::abs(x)); }
// Keys, Cubic convolution interpolation, 1981; `a` is -0.5 there.
double cubic(double x, double a) {
  x = std::abs(x);
  if (x <= 1)
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// How much narrower than the results' elements the line's are seen, and how far an element then reaches.
double stretchOf(const ResizeLine &line) { return line.antialias && line.scale < 1 ? line.scale : 1; }
double reachOf(const ResizeLine &line) { return (line.mode == "cubic" ? 2 : 1) / stretchOf(line); }

/// Elements from `first` on, with their weights.
struct Taps {
  int64_t first = 0;
  std::vector<double> weights;
};

Taps tapsAt(const ResizeLine &line, double x) {
  if (line.mode == "nearest")
    return {nearestTo(line, x), {1}};
  double stretch = stretchOf(line), reach = reachOf(line);
  Taps taps{static_cast<int64_t>(std::floor(x - reach)) + 1, {}};
  for (int64_t place = taps.first; static_cast<double>(place) < x + reach; ++place) {
    double distance = (static_cast<double>(place) - x) * stretch;
    taps.weights.push_back(line.mode == "cubic" ? cubic(distance, line.cubic) : triangle(distance));
  }
  bool drops = line.excludesOutside;
  double total = 0;
  for (size_t t = 0; t < taps.weights.size(); ++t) {
    int64_t place = taps.first + static_cast<int64_t>(t);
    if (drops && (place < 0 || place >= line.from))
      taps.weights[t] = 0;
    total += taps.weights[t];
  }
  for (double &weight : taps.weights)
    weight = (drops || line.antialias) && total != 0 ? weight / total : weight;
  return taps;
}

} // namespace

double mostTaps(const ResizeLine &line) { return line.mode == "nearest" ? 1 : std::ceil(2 * reachOf(line)); }

ResizeTaps tapsOf(const ResizeLine &line) {
  std::vector<Taps> all;
  size_t most = 1;
  ResizeTaps taps;
  for (int64_t i = 0; i < line.to; ++i) {
    double x = coordinateOf(line, i);
    taps.outside.push_back(line.transformation == "tf_crop_and_resize" &&
                           (x < 0 || x > static_cast<double>(line.from - 1)));
    all.push_back(tapsAt(line, x));
    most = std::max(most, all.back().weights.size());
  }
  taps.places.assign(most, std::vector<int64_t>(all.size(), 0));
  taps.weights.assign(most, std::vector<double>(all.size(), 0));
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t t = 0; t < all[i].weights.size(); ++t) {
      taps.places[t][i] = std::clamp<int64_t>(all[i].first + static_cast<int64_t>(t), 0, line.from - 1);
      taps.weights[t][i] = taps.outside[i] ? 0 : all[i].weights[t];
    }
  return taps;
}

} // namespace mt::onnx
