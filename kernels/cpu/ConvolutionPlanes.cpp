// Convolutions of few channels: every plane is laid out, in 32 bits and with zeros around it, so that what a tap of the
// window sees of it, result after result, is a run; sums over taps then go by vectors, whatever the window.
#include "kernels/Blocks.h"
#include "kernels/cpu/Convolution.h"
#include "kernels/cpu/FactorRows.h"
#include "kernels/cpu/WindowSums.h"

#include <algorithm>
#include <numeric>

namespace mt::kernels::cpu {
namespace {

constexpr int64_t kFewProducts = 8;                      ///< of a channel and a filter
constexpr int64_t kTaskElements = 1 << 13, kTasks = 512; ///< elements of a task's planes, if there are so many tasks
constexpr int kDims = Windows::kDims;
using Sizes = std::array<int64_t, kDims>;

int64_t product(const Sizes &sizes) { return sizes[0] * sizes[1] * sizes[2]; }
int64_t ceiling(int64_t value, int64_t by) { return value > 0 ? ceilDivide(value, by) : -(-value / by); }

/// Calls visit(sizes) for each of these places, in row-major order.
template <typename Visit> void eachOf(const Sizes &sizes, Visit visit) {
  for (int64_t i = 0; i < sizes[0]; ++i)
    for (int64_t j = 0; j < sizes[1]; ++j)
      for (int64_t k = 0; k < sizes[2]; ++k)
        visit(Sizes{i, j, k});
}

/// A plane by phases: element e of a dimension is number (e + before) / step of phase (e + before) % step. Each phase
/// has `extent` elements, zero where there are none.
struct Layout {
  Sizes source, step, before, extent;

  int64_t floats() const { return product(step) * product(extent); }
  int64_t line() const { return extent[2]; }
  /// Where a layer begins.
  int64_t layer(int64_t i) const { return i * extent[1] * extent[2]; }

  /// Of element 0 of the plane moved so far on: where it lies.
  int64_t at(const Sizes &moved) const {
    int64_t phase = 0, number = 0;
    for (size_t d = 0; d < kDims; ++d) {
      phase = phase * step[d] + moved[d] % step[d];
      number = number * extent[d] + moved[d] / step[d];
    }
    return phase * product(extent) + number;
  }

  void fill(const float *from, float *to) const {
    eachOf(step, [&](const Sizes &phase) {
      eachOf({extent[0], extent[1], 1}, [&](const Sizes &row) {
        fillRow(from, phase, row, to);
        to += extent[2];
      });
    });
  }

private:
  void fillRow(const float *from, const Sizes &phase, const Sizes &row, float *to) const {
    const int64_t i = row[0] * step[0] + phase[0] - before[0], j = row[1] * step[1] + phase[1] - before[1];
    const int64_t shift = before[2] - phase[2]; // of the first element
    const bool isThere = i >= 0 && i < source[0] && j >= 0 && j < source[1];
    const int64_t first = isThere ? std::clamp<int64_t>(ceiling(shift, step[2]), 0, extent[2]) : extent[2];
    const int64_t last = isThere ? std::clamp(ceiling(source[2] + shift, step[2]), first, extent[2]) : extent[2];
    std::fill_n(to, first, 0.0F);
    if (first < last)
      bringRow(from + (i * source[1] + j) * source[2] + first * step[2] - shift, last - first, to + first);
    std::fill(to + last, to + extent[2], 0.0F);
  }
  void bringRow(const float *from, int64_t count, float *to) const {
    if (step[2] == 1)
      copyFew(from, count, to);
    else
      everyOf(from, step[2], count, to);
  }
};

struct ByPlanes : Convolution {
  explicit ByPlanes(const Convolution &all) : Convolution(all) {}

  Sizes each(auto of) const {
    Sizes sizes;
    for (size_t d = 0; d < kDims; ++d)
      sizes[d] = of(d);
    return sizes;
  }
  Sizes sizesOf(const int64_t (&values)[kDims]) const { return {values[0], values[1], values[2]}; }
  Sizes imageSizes() const { return sizesOf(windows().image); }
  Sizes resultSizes() const { return sizesOf(windows().result); }
  Sizes windowSizes() const { return sizesOf(windows().size); }
  /// How far a tap lies behind the first.
  Sizes moved(const Sizes &tap) const {
    return each([&](size_t d) { return tap[d] * windows().dilation[d]; });
  }
  /// Images as windows see them.
  Layout imageLayout() const {
    const Windows &w = windows();
    return {imageSizes(), sizesOf(w.stride), sizesOf(w.low),
            each([&](size_t d) { return w.result[d] + (w.size[d] - 1) * w.dilation[d] / w.stride[d]; })};
  }

  /// A plane of an operand laid out; `plane` has room for it as it is stored.
  static void lay(const Launch &launch, const RowIn &in, int64_t at, const Layout &layout, float *plane, float *to) {
    layout.fill(in.at(launch, at, product(layout.source), plane), to);
  }
  static float *endWithLanes(float *end) { return std::fill_n(end, kWindowLanes, 0.0F); }

  static Scratch scratchOf(int64_t floats) { return {.own = sizeof(float) * static_cast<uint64_t>(floats)}; }

  /// Calls body(i, j, k) for all planes of so many by so many by so many, small ones several at a time.
  void eachPlane(const Launch &launch, const Sizes &counts, auto body) const {
    const int64_t planes = product(counts);
    const int64_t most =
        std::max<int64_t>(1, kTaskElements / std::max(windows().imagePlaces(), windows().resultPlaces()));
    const int64_t together = std::clamp<int64_t>(planes / kTasks, 1, most);
    launch.pool.parallelFor(ceilDivide(planes, together), [&](int64_t task) {
      for (int64_t plane = task * together; plane < std::min(planes, (task + 1) * together); ++plane)
        body(plane / counts[2] / counts[1], plane / counts[2] % counts[1], plane % counts[2]);
    });
  }

  /// Sums of all taps, a layer after another.
  static void sumLayers(const Layout &layout, const float *planes, std::span<const int64_t> taps, const float *weights,
                        float start, const Sizes &sizes, float *out) {
    for (int64_t i = 0; i < sizes[0]; ++i)
      windowSums({planes + layout.layer(i), taps, layout.line()}, weights, start, sizes[1], sizes[2],
                 out + i * sizes[1] * sizes[2]);
  }
};

struct Forward : ByPlanes {
  Layout layout;
  std::vector<int64_t> taps; ///< of all channels of a group

  explicit Forward(const Convolution &all) : ByPlanes(all), layout(imageLayout()) {
    for (int64_t c = 0; c < shape.channels; ++c)
      eachOf(windowSizes(), [&](const Sizes &tap) { taps.push_back(c * layout.floats() + layout.at(moved(tap))); });
  }

  void filter(const Launch &launch, int64_t n, int64_t group, int64_t m) const {
    float *planes = ThreadPool::scratchOf<float>(scratchFloats()),
          *plane = endWithLanes(planes + shape.channels * layout.floats());
    float *own = plane + windows().imagePlaces(), *sums = own + shape.depth();
    for (int64_t c = 0; c < shape.channels; ++c)
      lay(launch, image, planeOf(n, group, c), layout, plane, planes + c * layout.floats());
    const float *weights = kernel.at(launch, weightOf(group, m, 0), shape.depth(), own);
    sumLayers(layout, planes, taps, weights, biasOf(launch, group * shape.filters + m), resultSizes(), sums);
    write(launch, sums, resultOf(n, group, m), windows().resultPlaces());
  }

  int64_t scratchFloats() const {
    return shape.channels * layout.floats() + kWindowLanes + windows().imagePlaces() + shape.depth() +
           windows().resultPlaces();
  }
  Scratch scratch() const { return scratchOf(scratchFloats()); }

  Status operator()(const Launch &launch) const {
    eachPlane(launch, {shape.batch, shape.groups, shape.filters},
              [&](int64_t n, int64_t group, int64_t m) { filter(launch, n, group, m); });
    return {};
  }
};

/// Elements of the image by phases: those of a phase are seen by the same taps.
struct DataGrad : ByPlanes {
  struct Phase {
    Sizes first, sizes;           ///< elements that it has
    std::vector<int64_t> taps;    ///< of all filters of a group
    std::vector<int64_t> weights; ///< which of the group's, of its first channel
  };
  Layout layout; ///< of gradients
  std::vector<Phase> phases;

  explicit DataGrad(const Convolution &all) : ByPlanes(all), layout(gradientLayout()) {
    eachOf(sizesOf(windows().stride), [&](const Sizes &phase) { addPhase(phase); });
  }

  /// Element e of the image is seen, by tap t, of result number(e) - t * dilation / stride.
  Layout gradientLayout() const {
    const Windows &w = windows();
    Layout made{resultSizes(), {1, 1, 1}, {}, {}};
    for (size_t d = 0; d < kDims; ++d) {
      const int64_t least = -ceiling(-w.low[d], w.stride[d]) - (w.size[d] - 1) * w.dilation[d] / w.stride[d];
      made.before[d] = std::max<int64_t>(0, -least);
      made.extent[d] = std::max(w.result[d], ceiling(w.image[d] + w.low[d], w.stride[d])) + made.before[d];
    }
    return made;
  }

  void addPhase(const Sizes &phase) {
    const Windows &w = windows();
    Phase made;
    Sizes number; // of its first element
    for (size_t d = 0; d < kDims; ++d) {
      const int64_t shift = w.low[d] - phase[d];
      number[d] = ceiling(shift, w.stride[d]);
      made.first[d] = number[d] * w.stride[d] - shift;
      made.sizes[d] = std::max<int64_t>(0, ceiling(w.image[d] + shift, w.stride[d]) - number[d]);
    }
    if (product(made.sizes) == 0)
      return;
    for (int64_t m = 0; m < shape.filters; ++m) {
      int64_t weight = m * shape.depth();
      eachOf(windowSizes(), [&](const Sizes &tap) {
        const Sizes far = moved(tap);
        bool sees = true;
        for (size_t d = 0; d < kDims; ++d)
          sees = sees && far[d] % w.stride[d] == phase[d];
        if (sees) {
          made.taps.push_back(m * layout.floats() + layout.at(each([&](size_t d) {
            return number[d] - far[d] / w.stride[d] + layout.before[d];
          })));
          made.weights.push_back(weight);
        }
        ++weight;
      });
    }
    phases.push_back(std::move(made));
  }

  void channel(const Launch &launch, int64_t n, int64_t group, int64_t c) const {
    float *planes = ThreadPool::scratchOf<float>(scratchFloats()),
          *plane = endWithLanes(planes + shape.filters * layout.floats());
    float *kernels = plane + windows().resultPlaces(), *weights = kernels + shape.filters * shape.depth();
    float *sums = weights + shape.filters * windows().places(), *result = sums + windows().imagePlaces();
    for (int64_t m = 0; m < shape.filters; ++m)
      lay(launch, gradient, resultOf(n, group, m), layout, plane, planes + m * layout.floats());
    const float *all =
        kernel.at(launch, weightOf(group, 0, 0), shape.filters * shape.depth(), kernels) + c * windows().places();
    for (const Phase &phase : phases) {
      for (size_t i = 0; i < phase.weights.size(); ++i)
        weights[i] = all[phase.weights[i]];
      sumLayers(layout, planes, phase.taps, weights, 0, phase.sizes, sums);
      if (phases.size() > 1)
        spread(phase, sums, result);
    }
    write(launch, phases.size() > 1 ? result : sums, planeOf(n, group, c), windows().imagePlaces());
  }

  void spread(const Phase &phase, const float *from, float *plane) const {
    const Windows &w = windows();
    eachOf({phase.sizes[0], phase.sizes[1], 1}, [&](const Sizes &row) {
      float *to =
          plane +
          ((phase.first[0] + row[0] * w.stride[0]) * w.image[1] + phase.first[1] + row[1] * w.stride[1]) * w.image[2] +
          phase.first[2];
      for (int64_t i = 0; i < phase.sizes[2]; ++i)
        to[i * w.stride[2]] = *from++;
    });
  }

  int64_t scratchFloats() const {
    return shape.filters * (layout.floats() + shape.depth() + windows().places()) + kWindowLanes +
           windows().resultPlaces() + 2 * windows().imagePlaces();
  }
  Scratch scratch() const { return scratchOf(scratchFloats()); }

  Status operator()(const Launch &launch) const {
    eachPlane(launch, {shape.batch, shape.groups, shape.channels},
              [&](int64_t n, int64_t group, int64_t c) { channel(launch, n, group, c); });
    return {};
  }
};

struct WeightGrad : ByPlanes {
  Layout layout, factors; ///< of images, and of gradients: rows of whole vectors
  std::vector<int64_t> taps;

  explicit WeightGrad(const Convolution &all)
      : ByPlanes(all), layout(imageLayout()), factors{resultSizes(), {1, 1, 1}, {0, 0, 0}, resultSizes()} {
    factors.extent[2] = ceilDivide(factors.extent[2], kWindowLanes) * kWindowLanes;
    eachOf(windowSizes(), [&](const Sizes &tap) { taps.push_back(layout.at(moved(tap))); });
  }

  void window(const Launch &launch, int64_t group, int64_t m, int64_t c) const {
    float *planes = ThreadPool::scratchOf<float>(scratchFloats()), *plane = endWithLanes(planes + layout.floats());
    float *slopes = plane + std::max(windows().imagePlaces(), windows().resultPlaces()),
          *sums = slopes + factors.floats();
    std::fill_n(sums, kWindowLanes * windows().places(), 0.0F);
    for (int64_t n = 0; n < shape.batch; ++n) {
      lay(launch, image, planeOf(n, group, c), layout, plane, planes);
      lay(launch, gradient, resultOf(n, group, m), factors, plane, slopes);
      for (int64_t i = 0; i < windows().result[0]; ++i)
        windowDots({planes + layout.layer(i), taps, layout.line()}, slopes + factors.layer(i), windows().result[1],
                   factors.line(), sums);
    }
    float *dots = planes; // which are done with
    for (int64_t tap = 0; tap < windows().places(); ++tap)
      dots[tap] = std::accumulate(sums + tap * kWindowLanes, sums + (tap + 1) * kWindowLanes, 0.0F);
    write(launch, dots, weightOf(group, m, c), windows().places());
  }

  int64_t scratchFloats() const {
    return layout.floats() + kWindowLanes + std::max(windows().imagePlaces(), windows().resultPlaces()) +
           factors.floats() + kWindowLanes * windows().places();
  }
  Scratch scratch() const { return scratchOf(scratchFloats()); }

  Status operator()(const Launch &launch) const {
    eachPlane(launch, {shape.groups, shape.filters, shape.channels},
              [&](int64_t group, int64_t m, int64_t c) { window(launch, group, m, c); });
    return {};
  }
};

} // namespace

bool hasFewChannels(const ConvShape &shape) { return shape.channels * shape.filters <= kFewProducts; }
Run forwardByPlanes(const Convolution &made) { return Run(Forward(made)); }
Run dataGradByPlanes(const Convolution &made) { return Run(DataGrad(made)); }
Run weightGradByPlanes(const Convolution &made) { return Run(WeightGrad(made)); }

} // namespace mt::kernels::cpu
