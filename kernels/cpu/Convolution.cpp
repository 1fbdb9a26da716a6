// Convolutions and their gradients on one thread a block: columns of what windows see times the kernel as a matrix
// (im2col: Chellapilla, Puri, Simard 2006), as many results at a time as stay in the cache; groups of few channels,
// which make no matrix worth the name, by loops over rows. Blocks depend on shapes alone, and sums are in their order.
#include "kernels/Blocks.h"
#include "kernels/Windows.h"
#include "kernels/cpu/FloatRows.h"
#include "kernels/cpu/Gemm.h"

#include <algorithm>

namespace mt::kernels::cpu {
namespace {

constexpr int64_t kBlockElements = 1 << 17; ///< of columns

/// A place of a window, counted in row-major order, in each dimension.
struct Place {
  int64_t at[Windows::kDims];
  Place(const Windows &w, int64_t place)
      : at{place / (w.size[1] * w.size[2]), place / w.size[2] % w.size[1], place % w.size[2]} {}
  /// Where the window of result 0 has this place in dimension `d` of the image.
  int64_t offset(const Windows &w, int d) const { return at[d] * w.dilation[d] - w.low[d]; }
};

/// Calls visit(result, element, count) for runs of results of [begin, end) whose place lies in the image: `count`
/// results side by side, whose elements are stride[2] apart.
template <typename Visit> void eachRun(const Windows &w, const Place &place, int64_t begin, int64_t end, Visit visit) {
  int64_t width = w.result[2], step = w.stride[2], shift = place.offset(w, 2);
  int64_t low = std::max<int64_t>(0, ceilDivide(std::max<int64_t>(0, -shift), step));
  int64_t high = w.image[2] - shift <= 0 ? 0 : std::min(width, ceilDivide(w.image[2] - shift, step));
  for (int64_t at = begin; at < end;) {
    int64_t x = at % width, row = at / width, run = std::min(width - x, end - at);
    int64_t i = row / w.result[1] * w.stride[0] + place.offset(w, 0),
            j = row % w.result[1] * w.stride[1] + place.offset(w, 1);
    int64_t first = std::max(x, low), last = std::min(x + run, high);
    if (i >= 0 && i < w.image[0] && j >= 0 && j < w.image[1] && first < last)
      visit(at + first - x, (i * w.image[1] + j) * w.image[2] + first * step + shift, last - first);
    at += run;
  }
}

/// Operands and shape of the three calls, and how they are cut.
struct Convolution {
  ConvShape shape;
  RowIn image, kernel, gradient; ///< those that are read
  RowIn bias;
  RowOut result;
  int64_t held = 1; ///< channels of a block

  const Windows &windows() const { return shape.windows; }
  int64_t rows() const { return held * windows().places(); }
  int64_t width() const {
    int64_t wanted = std::max<int64_t>(16, kBlockElements / rows() / 16 * 16);
    return std::min(windows().resultPlaces(), wanted);
  }
  int64_t blocks() const { return ceilDivide(windows().resultPlaces(), width()); }
  int64_t channelBlocks() const { return ceilDivide(shape.channels, held); }
  int64_t planeOf(int64_t n, int64_t group, int64_t channel) const {
    return ((n * shape.groups + group) * shape.channels + channel) * windows().imagePlaces();
  }
  int64_t resultOf(int64_t n, int64_t group, int64_t filter) const {
    return ((n * shape.groups + group) * shape.filters + filter) * windows().resultPlaces();
  }
  int64_t weightOf(int64_t group, int64_t filter, int64_t channel) const {
    return ((group * shape.filters + filter) * shape.channels + channel) * windows().places();
  }

  /// What results [begin, end) see of `channels` channels from element `base` on: [channels * places, end - begin].
  void columns(const Launch &launch, int64_t base, int64_t channels, int64_t begin, int64_t end, float *out) const {
    int64_t places = windows().places(), count = end - begin;
    std::fill(out, out + channels * places * count, 0.0F);
    for (int64_t row = 0; row < channels * places; ++row) {
      int64_t plane = base + row / places * windows().imagePlaces();
      eachRun(windows(), Place(windows(), row % places), begin, end, [&](int64_t at, int64_t element, int64_t run) {
        image.load(launch.operands[image.operand], plane + element, windows().stride[2], run,
                   out + row * count + at - begin);
      });
    }
  }

  /// Adds such columns back to where they were seen, planes of 32-bit sums.
  void addBack(const float *from, int64_t channels, int64_t begin, int64_t end, float *planes) const {
    int64_t places = windows().places(), count = end - begin, step = windows().stride[2];
    for (int64_t row = 0; row < channels * places; ++row) {
      float *plane = planes + row / places * windows().imagePlaces();
      eachRun(windows(), Place(windows(), row % places), begin, end, [&](int64_t at, int64_t element, int64_t run) {
        const float *in = from + row * count + at - begin;
        for (int64_t i = 0; i < run; ++i)
          plane[element + i * step] += in[i];
      });
    }
  }

  /// Results [begin, end) of all filters of a group: [filters, end - begin], or in place with the distance `line`.
  const float *gradients(const Launch &launch, int64_t n, int64_t group, int64_t begin, int64_t end, float *buffer,
                         int64_t &line) const {
    line = gradient.native ? windows().resultPlaces() : end - begin;
    if (gradient.native)
      return launch.at<const float>(gradient.operand) + resultOf(n, group, 0) + begin;
    for (int64_t m = 0; m < shape.filters; ++m)
      gradient.load(launch.operands[gradient.operand], resultOf(n, group, m) + begin, 1, line, buffer + m * line);
    return buffer;
  }
  void write(const Launch &launch, const float *from, int64_t at, int64_t count) const {
    result.store(from, launch.operands[result.operand], at, count, launch.accumulates(result.operand));
  }
  float biasOf(const Launch &launch, int64_t filter) const {
    float value = 0;
    return bias.present ? *bias.at(launch, filter, 1, &value) : 0;
  }
};

//===-- by matrices -----------------------------------------------------------------------------------------===//

struct Forward : Convolution {
  explicit Forward(Convolution all) : Convolution(std::move(all)) { held = shape.channels; }

  void block(const Launch &launch, int64_t n, int64_t group, int64_t begin, int64_t end) const {
    int64_t depth = shape.depth(), count = end - begin, filters = shape.filters;
    auto *seen = ThreadPool::scratchOf<float>(scratchElements());
    float *products = seen + depth * width(), *buffer = products + filters * width();
    columns(launch, planeOf(n, group, 0), shape.channels, begin, end, seen);
    const float *weights = kernel.at(launch, weightOf(group, 0, 0), filters * depth, buffer);
    for (int64_t m = 0; m < filters; ++m)
      std::fill_n(products + m * count, count, biasOf(launch, group * filters + m));
    multiply({false, false, filters, count, depth, depth, count, count}, 1, weights, seen, 1, products);
    for (int64_t m = 0; m < filters; ++m)
      write(launch, products + m * count, resultOf(n, group, m) + begin, count);
  }

  int64_t scratchElements() const {
    return (shape.depth() + shape.filters) * width() + (kernel.native ? 0 : shape.filters * shape.depth());
  }
  Scratch scratch() const {
    return {.own = sizeof(float) * static_cast<uint64_t>(scratchElements()),
            .library = libraryScratch(shape.filters, width(), shape.depth())};
  }

  Status operator()(const Launch &launch) const {
    int64_t each = blocks();
    launch.pool.parallelFor(shape.batch * shape.groups * each, [&](int64_t part) {
      int64_t begin = part % each * width();
      block(launch, part / each / shape.groups, part / each % shape.groups, begin,
            std::min(begin + width(), windows().resultPlaces()));
    });
    return {};
  }
};

struct DataGrad : Convolution {
  explicit DataGrad(Convolution all) : Convolution(std::move(all)) {
    held = std::clamp<int64_t>(2 * kBlockElements / windows().imagePlaces(), 1, ceilDivide(shape.channels, 8));
  }

  void block(const Launch &launch, int64_t n, int64_t group, int64_t first) const {
    int64_t channels = std::min(held, shape.channels - first), places = windows().places(), filters = shape.filters;
    auto *planes = ThreadPool::scratchOf<float>(scratchElements());
    float *seen = planes + held * windows().imagePlaces(), *buffer = seen + rows() * width();
    float *copied = buffer + (gradient.native ? 0 : filters * width());
    std::fill_n(planes, channels * windows().imagePlaces(), 0.0F);
    const float *weights = kernel.at(launch, weightOf(group, 0, 0), filters * shape.depth(), copied) + first * places;
    for (int64_t begin = 0; begin < windows().resultPlaces(); begin += width()) {
      int64_t end = std::min(begin + width(), windows().resultPlaces()), line = 0;
      const float *dy = gradients(launch, n, group, begin, end, buffer, line);
      multiply({true, false, channels * places, end - begin, filters, shape.depth(), line, end - begin}, 1, weights, dy,
               0, seen);
      addBack(seen, channels, begin, end, planes);
    }
    write(launch, planes, planeOf(n, group, first), channels * windows().imagePlaces());
  }

  int64_t scratchElements() const {
    return held * windows().imagePlaces() + rows() * width() + (gradient.native ? 0 : shape.filters * width()) +
           (kernel.native ? 0 : shape.filters * shape.depth());
  }
  Scratch scratch() const {
    return {.own = sizeof(float) * static_cast<uint64_t>(scratchElements()),
            .library = libraryScratch(rows(), width(), shape.filters)};
  }

  Status operator()(const Launch &launch) const {
    int64_t each = channelBlocks();
    launch.pool.parallelFor(shape.batch * shape.groups * each, [&](int64_t part) {
      block(launch, part / each / shape.groups, part / each % shape.groups, part % each * held);
    });
    return {};
  }
};

struct WeightGrad : Convolution {
  explicit WeightGrad(Convolution all) : Convolution(std::move(all)) { held = ceilDivide(shape.channels, 16); }

  void block(const Launch &launch, int64_t group, int64_t first) const {
    int64_t channels = std::min(held, shape.channels - first), own = channels * windows().places();
    auto *sums = ThreadPool::scratchOf<float>(scratchElements());
    float *seen = sums + shape.filters * rows(), *buffer = seen + rows() * width();
    std::fill_n(sums, shape.filters * own, 0.0F);
    for (int64_t n = 0; n < shape.batch; ++n)
      for (int64_t begin = 0; begin < windows().resultPlaces(); begin += width()) {
        int64_t end = std::min(begin + width(), windows().resultPlaces()), line = 0;
        columns(launch, planeOf(n, group, first), channels, begin, end, seen);
        const float *dy = gradients(launch, n, group, begin, end, buffer, line);
        multiply({false, true, shape.filters, own, end - begin, line, end - begin, own}, 1, dy, seen, 1, sums);
      }
    for (int64_t m = 0; m < shape.filters; ++m)
      write(launch, sums + m * own, weightOf(group, m, first), own);
  }

  int64_t scratchElements() const {
    return shape.filters * rows() + rows() * width() + (gradient.native ? 0 : shape.filters * width());
  }
  Scratch scratch() const {
    return {.own = sizeof(float) * static_cast<uint64_t>(scratchElements()),
            .library = libraryScratch(shape.filters, rows(), width())};
  }

  Status operator()(const Launch &launch) const {
    int64_t each = channelBlocks();
    launch.pool.parallelFor(shape.groups * each, [&](int64_t part) { block(launch, part / each, part % each * held); });
    return {};
  }
};

//===-- by rows ---------------------------------------------------------------------------------------------===//

/// Groups of at most so many products of a channel and a filter.
constexpr int64_t kFewProducts = 8;

/// A plane of an image, of a result, and of sums.
struct ByRows : Convolution {
  Scratch scratch() const {
    return {.own =
                sizeof(float) * static_cast<uint64_t>(2 * std::max(windows().imagePlaces(), windows().resultPlaces()) +
                                                      windows().resultPlaces() + windows().places())};
  }
  int64_t largest() const { return std::max(windows().imagePlaces(), windows().resultPlaces()); }
  float *buffers() const {
    return ThreadPool::scratchOf<float>(2 * largest() + windows().resultPlaces() + windows().places());
  }
  const float *weights(const Launch &launch, int64_t group, int64_t m, int64_t c, float *buffer) const {
    return kernel.at(launch, weightOf(group, m, c), windows().places(), buffer);
  }
  /// Calls visit(place, result, element, count) for all runs of all places.
  template <typename Visit> void eachPlace(Visit visit) const {
    for (int64_t place = 0; place < windows().places(); ++place)
      eachRun(windows(), Place(windows(), place), 0, windows().resultPlaces(),
              [&](int64_t at, int64_t element, int64_t run) { visit(place, at, element, run); });
  }
};

struct ForwardByRows : ByRows {
  void filter(const Launch &launch, int64_t n, int64_t group, int64_t m) const {
    float *sums = buffers(), *plane = sums + largest(), *own = plane + largest();
    int64_t step = windows().stride[2];
    std::fill_n(sums, windows().resultPlaces(), biasOf(launch, group * shape.filters + m));
    for (int64_t c = 0; c < shape.channels; ++c) {
      const float *x = image.at(launch, planeOf(n, group, c), windows().imagePlaces(), plane);
      const float *w = weights(launch, group, m, c, own);
      eachPlace([&](int64_t place, int64_t at, int64_t element, int64_t run) {
        for (int64_t i = 0; i < run; ++i)
          sums[at + i] += w[place] * x[element + i * step];
      });
    }
    write(launch, sums, resultOf(n, group, m), windows().resultPlaces());
  }
  Status operator()(const Launch &launch) const {
    int64_t filters = shape.filters, planes = shape.groups * filters;
    launch.pool.parallelFor(shape.batch * planes, [&](int64_t part) {
      filter(launch, part / planes, part % planes / filters, part % filters);
    });
    return {};
  }
};

struct DataGradByRows : ByRows {
  void channel(const Launch &launch, int64_t n, int64_t group, int64_t c) const {
    float *sums = buffers(), *plane = sums + largest(), *own = plane + largest();
    int64_t step = windows().stride[2];
    std::fill_n(sums, windows().imagePlaces(), 0.0F);
    for (int64_t m = 0; m < shape.filters; ++m) {
      const float *dy = gradient.at(launch, resultOf(n, group, m), windows().resultPlaces(), plane);
      const float *w = weights(launch, group, m, c, own);
      eachPlace([&](int64_t place, int64_t at, int64_t element, int64_t run) {
        for (int64_t i = 0; i < run; ++i)
          sums[element + i * step] += w[place] * dy[at + i];
      });
    }
    write(launch, sums, planeOf(n, group, c), windows().imagePlaces());
  }
  Status operator()(const Launch &launch) const {
    int64_t channels = shape.channels, planes = shape.groups * channels;
    launch.pool.parallelFor(shape.batch * planes, [&](int64_t part) {
      channel(launch, part / planes, part % planes / channels, part % channels);
    });
    return {};
  }
};

struct WeightGradByRows : ByRows {
  void window(const Launch &launch, int64_t group, int64_t m, int64_t c) const {
    float *plane = buffers(), *other = plane + largest(), *sums = other + windows().resultPlaces();
    int64_t step = windows().stride[2];
    std::fill_n(sums, windows().places(), 0.0F);
    for (int64_t n = 0; n < shape.batch; ++n) {
      const float *x = image.at(launch, planeOf(n, group, c), windows().imagePlaces(), plane);
      const float *dy = gradient.at(launch, resultOf(n, group, m), windows().resultPlaces(), other);
      eachPlace([&](int64_t place, int64_t at, int64_t element, int64_t run) {
        float sum = 0;
        for (int64_t i = 0; i < run; ++i)
          sum += dy[at + i] * x[element + i * step];
        sums[place] += sum;
      });
    }
    write(launch, sums, weightOf(group, m, c), windows().places());
  }
  Status operator()(const Launch &launch) const {
    int64_t each = shape.filters * shape.channels;
    launch.pool.parallelFor(shape.groups * each, [&](int64_t part) {
      window(launch, part / each, part % each / shape.channels, part % shape.channels);
    });
    return {};
  }
};

template <typename Matrices, typename Rows> Result<Run> runOf(Convolution call) {
  if (call.shape.channels * call.shape.filters <= kFewProducts)
    return Run(Rows{std::move(call)});
  return Run(Matrices(std::move(call)));
}

Result<Run> prepareForward(const Signature &call) {
  return runOf<Forward, ForwardByRows>(
      {ConvShape::of(call), RowIn(call, 0), RowIn(call, 1), {}, RowIn(call, 2), RowOut(call, 3)});
}
Result<Run> prepareDataGrad(const Signature &call) {
  return runOf<DataGrad, DataGradByRows>(
      {ConvShape::of(call), {}, RowIn(call, 1), RowIn(call, 0), {}, RowOut(call, 2)});
}
Result<Run> prepareWeightGrad(const Signature &call) {
  return runOf<WeightGrad, WeightGradByRows>(
      {ConvShape::of(call), RowIn(call, 1), {}, RowIn(call, 0), {}, RowOut(call, 2)});
}

constexpr Entry kEntries[] = {
    {"conv", prepareForward}, {"conv_data_grad", prepareDataGrad}, {"conv_weight_grad", prepareWeightGrad}};

} // namespace

std::span<const Entry> convolutionEntries() { return kEntries; }

} // namespace mt::kernels::cpu
