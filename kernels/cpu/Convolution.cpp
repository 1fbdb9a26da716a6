// Convolutions and their gradients on one thread a block: columns of what windows see times the kernel as a matrix
// (im2col: Chellapilla, Puri, Simard 2006), as many results at a time as stay in the cache; groups of few channels
// plane by plane (ConvolutionPlanes.cpp). Blocks depend on shapes alone, and sums are in their order.
#include "kernels/cpu/Convolution.h"

#include "kernels/cpu/Bf16Panels.h"
#include "kernels/cpu/FactorRows.h"
#include "kernels/cpu/Vector.h"
#include "kernels/cpu/WindowRuns.h"

#include <algorithm>

namespace mt::kernels::cpu {
namespace {

constexpr int64_t kBlockElements = 1 << 17; ///< of columns
constexpr int64_t kFewAdded = 64;           ///< elements of which a call would take longer than the sums

/// A matrix, and the distance of its rows.
template <typename T> struct Matrix {
  const T *data;
  int64_t line;
};

/// What multiplies is T: floats, or bf16 on the processor's units.
template <typename T> struct ByMatrices : Convolution {
  int64_t held = 1; ///< channels of a block
  bool isPoint; ///< a window sees the place of its result and no other: columns lie in the image

  explicit ByMatrices(Convolution all) : Convolution(std::move(all)) {
    const Windows &w = windows();
    isPoint = w.places() == 1 && std::ranges::equal(w.image, w.result) &&
              std::ranges::all_of(w.stride, [](int64_t one) { return one == 1; }) &&
              std::ranges::all_of(w.low, [](int64_t low) { return low == 0; });
  }

  int64_t rows() const { return held * windows().places(); }
  /// Places of a block where there should be about so many: on units for bf16 blocks are alike, and whole panels but the last.
  int64_t alike(int64_t wanted) const {
    const int64_t places = windows().resultPlaces();
    return std::min(places, std::is_same_v<T, Bf16> ? Chunks(places, ceilDivide(places, wanted), kPanel).size : wanted);
  }
  int64_t width() const {
    return alike(std::max<int64_t>(16, kBlockElements / (rows() + shape.filters) / 16 * 16));
  }
  int64_t channelBlocks() const { return ceilDivide(shape.channels, held); }

  static const T *there(const Launch &launch, const RowIn &operand, int64_t at) {
    return launch.at<const T>(operand.operand) + at;
  }
  static const T *all(const Launch &launch, const RowIn &operand, int64_t at, int64_t count, T *buffer) {
    if (isFactor<T>(operand))
      return there(launch, operand, at);
    bringFactor<T>(launch, operand, at, 1, count, buffer);
    return buffer;
  }

  /// What results [begin, end) see of `channels` channels from element `base` on: [channels * places, end - begin].
  Matrix<T> columns(const Launch &launch, int64_t base, int64_t channels, int64_t begin, int64_t end, T *out) const {
    const int64_t places = windows().places(), count = end - begin;
    if (isPoint && isFactor<T>(image))
      return {there(launch, image, base + begin), windows().imagePlaces()};
    std::fill(out, out + channels * places * count, T());
    for (int64_t row = 0; row < channels * places; ++row) {
      const int64_t plane = base + row / places * windows().imagePlaces();
      eachRun(windows(), Place(windows(), row % places), begin, end, [&](int64_t at, int64_t element, int64_t run) {
        bringFactor<T>(launch, image, plane + element, windows().stride[2], run, out + row * count + at - begin);
      });
    }
    return {out, count};
  }

  /// Results [begin, end) of so many filters of a group: [filters, end - begin].
  Matrix<T> gradients(const Launch &launch, int64_t n, int64_t group, int64_t filter, int64_t filters, int64_t begin,
                      int64_t end, T *buffer) const {
    if (isFactor<T>(gradient))
      return {there(launch, gradient, resultOf(n, group, filter) + begin), windows().resultPlaces()};
    const int64_t count = end - begin;
    for (int64_t m = 0; m < filters; ++m)
      bringFactor<T>(launch, gradient, resultOf(n, group, filter + m) + begin, 1, count, buffer + m * count);
    return {buffer, count};
  }

  /// Whether products go straight into the result.
  bool isDirect(const Launch &launch) const { return result.native && !launch.accumulates(result.operand); }

  static T *elements(float *at) { return reinterpret_cast<T *>(at); }
};

template <typename T> struct Forward : ByMatrices<T> {
  using Base = ByMatrices<T>;
  static constexpr int64_t kNarrow = 192; ///< places: with fewer a product takes too long to copy the kernel
  static constexpr int64_t kUnits = 224;  ///< the same on units for bf16
  int64_t wide;                           ///< places of a block

  /// Rather than few places of all channels, a block has more of some channels after others.
  explicit Forward(Convolution all) : Base(std::move(all)) {
    constexpr bool kOnUnits = std::is_same_v<T, Bf16>;
    const int64_t places = this->windows().places(), least = this->alike(kOnUnits ? kUnits : kNarrow);
    this->held = this->shape.channels;
    wide = std::max(this->width(), this->isPoint ? 0 : least);
    if (wide <= this->width())
      return;
    int64_t channels = kBlockElements / wide / places;
    if (kOnUnits && channels > kPanel)
      channels = channels / kPanel * kPanel; // of the kernel, whole panels are read where they lie
    this->held = std::clamp(channels, int64_t{1}, this->shape.channels);
  }

  void block(const Launch &launch, int64_t n, int64_t group, int64_t begin, int64_t end) const {
    const ConvShape &shape = this->shape;
    const int64_t depth = shape.depth(), count = end - begin, filters = shape.filters;
    float *products = product().behind(scratchFloats()), *seen = products + filters * wide;
    const T *weights = Base::all(launch, this->kernel, this->weightOf(group, 0, 0), filters * depth,
                                 Base::elements(seen + factorFloats<T>(this->rows() * wide)));
    const bool direct = this->isDirect(launch);
    float *into = direct ? launch.at<float>(this->result.operand) + this->resultOf(n, group, 0) + begin : products;
    const int64_t line = direct ? this->windows().resultPlaces() : count;
    for (int64_t m = 0; m < filters && this->bias.present; ++m)
      std::fill_n(into + m * line, count, this->biasOf(launch, group * filters + m));
    for (int64_t first = 0; first < shape.channels; first += this->held) {
      const int64_t channels = std::min(this->held, shape.channels - first), rows = channels * this->windows().places();
      const Matrix<T> image =
          this->columns(launch, this->planeOf(n, group, first), channels, begin, end, Base::elements(seen));
      product().multiply({false, false, filters, count, rows, depth, image.line, line},
                         weights + first * this->windows().places(), image.data, first > 0 || this->bias.present, into,
                         products);
    }
    for (int64_t m = 0; m < filters && !direct; ++m)
      this->write(launch, products + m * count, this->resultOf(n, group, m) + begin, count);
  }

  int64_t scratchFloats() const {
    const int64_t filters = this->shape.filters;
    return filters * wide + factorFloats<T>(this->rows() * wide) + factorFloats<T>(filters * this->shape.depth());
  }
  FactorProduct<T> product() const { return {this->shape.filters, wide, this->rows()}; }
  Scratch scratch() const { return product().scratch(scratchFloats()); }

  Status operator()(const Launch &launch) const {
    const int64_t each = ceilDivide(this->windows().resultPlaces(), wide);
    launch.pool.parallelFor(this->shape.batch * this->shape.groups * each, [&](int64_t part) {
      const int64_t begin = part % each * wide;
      block(launch, part / each / this->shape.groups, part / each % this->shape.groups, begin,
            std::min(begin + wide, this->windows().resultPlaces()));
    });
    return {};
  }
};

template <typename T> struct DataGrad : ByMatrices<T> {
  using Base = ByMatrices<T>;
  explicit DataGrad(Convolution all) : Base(std::move(all)) {
    this->held = std::clamp<int64_t>(2 * kBlockElements / this->windows().imagePlaces(), 1,
                                     ceilDivide(this->shape.channels, int64_t{8}));
  }

  void block(const Launch &launch, int64_t n, int64_t group, int64_t first) const {
    const ConvShape &shape = this->shape;
    const Windows &windows = this->windows();
    const int64_t channels = std::min(this->held, shape.channels - first), places = windows.places(),
                  filters = shape.filters;
    const int64_t width = this->width();
    float *planes = product().behind(scratchFloats()), *seen = planes + this->held * windows.imagePlaces();
    T *buffer = Base::elements(seen + this->rows() * width),
      *copied = Base::elements(seen + this->rows() * width + factorFloats<T>(filters * width));
    std::fill_n(planes, channels * windows.imagePlaces(), 0.0F);
    const T *weights =
        Base::all(launch, this->kernel, this->weightOf(group, 0, 0), filters * shape.depth(), copied) + first * places;
    for (int64_t begin = 0; begin < windows.resultPlaces(); begin += width) {
      const int64_t end = std::min(begin + width, windows.resultPlaces());
      const Matrix<T> dy = this->gradients(launch, n, group, 0, filters, begin, end, buffer);
      product().multiply({true, false, channels * places, end - begin, filters, shape.depth(), dy.line, end - begin},
                         weights, dy.data, false, seen, planes);
      addBack(seen, channels, begin, end, planes);
    }
    this->write(launch, planes, this->planeOf(n, group, first), channels * windows.imagePlaces());
  }

  /// Adds columns back to where they were seen, planes of 32-bit sums.
  void addBack(const float *from, int64_t channels, int64_t begin, int64_t end, float *planes) const {
    const int64_t places = this->windows().places(), count = end - begin, step = this->windows().stride[2];
    for (int64_t row = 0; row < channels * places; ++row) {
      float *plane = planes + row / places * this->windows().imagePlaces();
      eachRun(this->windows(), Place(this->windows(), row % places), begin, end,
              [&](int64_t at, int64_t element, int64_t run) {
                const float *in = from + row * count + at - begin;
                if (step == 1 && run > kFewAdded)
                  return vec::add(in, plane + element, run);
                for (int64_t i = 0; i < run && step == 1; ++i)
                  plane[element + i] += in[i];
                for (int64_t i = 0; i < run && step > 1; ++i)
                  plane[element + i * step] += in[i];
              });
    }
  }

  int64_t scratchFloats() const {
    const int64_t filters = this->shape.filters;
    return this->held * this->windows().imagePlaces() + this->rows() * this->width() +
           factorFloats<T>(filters * this->width()) + factorFloats<T>(filters * this->shape.depth());
  }
  FactorProduct<T> product() const { return {this->rows(), this->width(), this->shape.filters}; }
  Scratch scratch() const { return product().scratch(scratchFloats()); }

  Status operator()(const Launch &launch) const {
    const int64_t each = this->channelBlocks();
    launch.pool.parallelFor(this->shape.batch * this->shape.groups * each, [&](int64_t part) {
      block(launch, part / each / this->shape.groups, part / each % this->shape.groups, part % each * this->held);
    });
    return {};
  }
};

/// Of points it is a product, whose columns are places.
template <typename T> struct PointDataGrad : ByMatrices<T> {
  using Base = ByMatrices<T>;
  static constexpr int64_t kFewest = 64, kParts = 64; ///< channels of a block; blocks that there should be
  int64_t wide;                                       ///< places of a block

  explicit PointDataGrad(Convolution all) : Base(std::move(all)) {
    const ConvShape &shape = this->shape;
    this->held = shape.channels;
    wide = this->width();
    const int64_t parts = shape.batch * shape.groups * across(), least = std::min(kFewest, shape.channels);
    this->held = std::clamp(ceilDivide(shape.channels * parts, 16 * kParts) * 16, least, shape.channels);
  }
  int64_t across() const { return ceilDivide(this->windows().resultPlaces(), wide); }

  void block(const Launch &launch, int64_t n, int64_t group, int64_t first, int64_t begin, int64_t end) const {
    const ConvShape &shape = this->shape;
    const int64_t rows = std::min(this->held, shape.channels - first), count = end - begin, filters = shape.filters;
    float *products = product().behind(scratchFloats());
    T *buffer = Base::elements(products + this->held * wide),
      *copied = Base::elements(products + this->held * wide + factorFloats<T>(filters * wide));
    const T *weights =
        Base::all(launch, this->kernel, this->weightOf(group, 0, 0), filters * shape.channels, copied) + first;
    const Matrix<T> dy = this->gradients(launch, n, group, 0, filters, begin, end, buffer);
    const int64_t at = this->planeOf(n, group, first) + begin, places = this->windows().imagePlaces();
    const bool direct = this->isDirect(launch);
    float *into = direct ? launch.at<float>(this->result.operand) + at : products;
    product().multiply({true, false, rows, count, filters, shape.channels, dy.line, direct ? places : count}, weights,
                       dy.data, false, into, products);
    for (int64_t row = 0; row < rows && !direct; ++row)
      this->write(launch, products + row * count, at + row * places, count);
  }

  int64_t scratchFloats() const {
    const int64_t filters = this->shape.filters;
    return this->held * wide + factorFloats<T>(filters * wide) + factorFloats<T>(filters * this->shape.channels);
  }
  FactorProduct<T> product() const { return {this->held, wide, this->shape.filters}; }
  Scratch scratch() const { return product().scratch(scratchFloats()); }

  Status operator()(const Launch &launch) const {
    const int64_t each = this->channelBlocks() * across(), groups = this->shape.groups;
    launch.pool.parallelFor(this->shape.batch * groups * each, [&](int64_t part) {
      const int64_t begin = part % across() * wide;
      block(launch, part / each / groups, part / each % groups, part % each / across() * this->held, begin,
            std::min(begin + wide, this->windows().resultPlaces()));
    });
    return {};
  }
};

/// The kernel's gradient in blocks of filters and of channels, not too narrow for a product.
template <typename T> struct WeightGrad : ByMatrices<T> {
  using Base = ByMatrices<T>;
  static constexpr int64_t kFewest = 64, kParts = 16; ///< rows or columns of a block; blocks that there should be
  int64_t filters;                                    ///< of a block

  explicit WeightGrad(Convolution all) : Base(std::move(all)) {
    const ConvShape &shape = this->shape;
    this->held = std::min(shape.channels,
                          std::max(ceilDivide(kFewest, this->windows().places()), ceilDivide(shape.channels, kParts)));
    filters = std::min(shape.filters, std::max(kFewest, ceilDivide(shape.filters * this->channelBlocks(), kParts)));
  }

  void block(const Launch &launch, int64_t group, int64_t filter, int64_t first) const {
    const ConvShape &shape = this->shape;
    const int64_t channels = std::min(this->held, shape.channels - first), own = channels * this->windows().places(),
                  width = this->width();
    const int64_t rows = std::min(filters, shape.filters - filter);
    float *sums = product().behind(scratchFloats());
    T *seen = Base::elements(sums + filters * this->rows()),
      *buffer = Base::elements(sums + filters * this->rows() + factorFloats<T>(this->rows() * width));
    bool adds = false;
    for (int64_t n = 0; n < shape.batch; ++n)
      for (int64_t begin = 0; begin < this->windows().resultPlaces(); begin += width, adds = true) {
        const int64_t end = std::min(begin + width, this->windows().resultPlaces());
        const Matrix<T> image = this->columns(launch, this->planeOf(n, group, first), channels, begin, end, seen);
        const Matrix<T> dy = this->gradients(launch, n, group, filter, rows, begin, end, buffer);
        product().multiply({false, true, rows, own, end - begin, dy.line, image.line, own}, dy.data, image.data, adds, sums,
                           sums);
      }
    for (int64_t m = 0; m < rows; ++m)
      this->write(launch, sums + m * own, this->weightOf(group, filter + m, first), own);
  }

  int64_t scratchFloats() const {
    return filters * this->rows() + factorFloats<T>(this->rows() * this->width()) +
           factorFloats<T>(filters * this->width());
  }
  FactorProduct<T> product() const { return {filters, this->rows(), this->width()}; }
  Scratch scratch() const { return product().scratch(scratchFloats()); }

  Status operator()(const Launch &launch) const {
    const int64_t across = this->channelBlocks(), each = across * ceilDivide(this->shape.filters, filters);
    launch.pool.parallelFor(this->shape.groups * each, [&](int64_t part) {
      block(launch, part / each, part % each / across * filters, part % across * this->held);
    });
    return {};
  }
};

template <template <typename> typename Matrices> Result<Run> byMatrices(const Signature &call, Convolution made) {
  if (takesUnits(call))
    return Run(Matrices<Bf16>(std::move(made)));
  return Run(Matrices<float>(std::move(made)));
}

Result<Run> prepareForward(const Signature &call) {
  Convolution made{ConvShape::of(call), RowIn(call, 0), RowIn(call, 1), {}, RowIn(call, 2), RowOut(call, 3)};
  return hasFewChannels(made.shape) ? forwardByPlanes(made) : byMatrices<Forward>(call, std::move(made));
}
Result<Run> prepareDataGrad(const Signature &call) {
  Convolution made{ConvShape::of(call), {}, RowIn(call, 1), RowIn(call, 0), {}, RowOut(call, 2)};
  if (hasFewChannels(made.shape))
    return dataGradByPlanes(made);
  return ByMatrices<float>(made).isPoint ? byMatrices<PointDataGrad>(call, std::move(made))
                                         : byMatrices<DataGrad>(call, std::move(made));
}
Result<Run> prepareWeightGrad(const Signature &call) {
  Convolution made{ConvShape::of(call), RowIn(call, 1), {}, RowIn(call, 0), {}, RowOut(call, 2)};
  return hasFewChannels(made.shape) ? weightGradByPlanes(made) : byMatrices<WeightGrad>(call, std::move(made));
}

constexpr Entry kEntries[] = {
    {"conv", prepareForward}, {"conv_data_grad", prepareDataGrad}, {"conv_weight_grad", prepareWeightGrad}};

} // namespace

std::span<const Entry> convolutionEntries() { return kEntries; }

} // namespace mt::kernels::cpu
