// Convolutions and their gradients on one thread a block: columns of what windows see times the kernel as a matrix
// (im2col: Chellapilla, Puri, Simard 2006), as many results at a time as stay in the cache; groups of few channels
// plane by plane (ConvolutionPlanes.cpp). Blocks depend on shapes alone, and sums are in their order; on units for
// bf16, where sums do not depend on blocks, these are cut for the pool's size.
#include "kernels/cpu/Convolution.h"

#include "kernels/cpu/Bf16Columns.h"
#include "kernels/cpu/Bf16Panels.h"
#include "kernels/cpu/FactorRows.h"
#include "kernels/cpu/TransposeTile.h"
#include "kernels/cpu/Vector.h"
#include "kernels/cpu/WindowRuns.h"

#include <algorithm>

namespace mt::kernels::cpu {
namespace {

constexpr int64_t kBlockElements = 1 << 17; ///< of columns
constexpr int64_t kFewAdded = 64;           ///< elements of which a call would take longer than the sums

/// What multiplies is T: floats, or bf16 on the processor's units. On those, whose products are of whole panels, all
/// images of the batch are one, the places of one behind those of another: blocks then need not end where images do.
template <typename T> struct ByMatrices : Convolution {
  static constexpr bool kOnUnits = std::is_same_v<T, Bf16>;
  int64_t held = 1; ///< channels of a block
  bool isPoint; ///< a window sees the place of its result and no other: columns lie in the image

  explicit ByMatrices(Convolution all) : Convolution(std::move(all)) {
    const Windows &w = windows();
    isPoint = w.places() == 1 && std::ranges::equal(w.image, w.result) &&
              std::ranges::all_of(w.stride, [](int64_t one) { return one == 1; }) &&
              std::ranges::all_of(w.low, [](int64_t low) { return low == 0; });
  }

  int64_t rows() const { return held * windows().places(); }
  /// How many images are apart, and the places of results of each.
  int64_t images() const { return kOnUnits ? 1 : shape.batch; }
  int64_t places() const { return windows().resultPlaces() * (kOnUnits ? shape.batch : 1); }
  /// Calls body(image, place, from, many) for what places [begin, end) are of an image.
  template <typename Body> void eachImage(int64_t image, int64_t begin, int64_t end, const Body &body) const {
    const int64_t whole = windows().resultPlaces();
    image += begin / whole;
    for (int64_t at = begin, place = begin % whole, many; at < end; at += many, place = 0) {
      many = std::min(whole - place, end - at);
      body(image++, place, at - begin, many);
    }
  }
  /// Places of a block where there should be about so many: on units blocks are alike, and whole panels but the last.
  int64_t alike(int64_t wanted) const {
    return std::min(places(), kOnUnits ? Chunks(places(), ceilDivide(places(), wanted), kPanel).size : wanted);
  }
  /// Places of a block, `most` or fewer: on units whole panels, so that the threads of a pool end together, where each
  /// is computed `others` times.
  int64_t balanced(int64_t most, int64_t others, int64_t threads) const {
    constexpr double kOwn = 0.3; // of a block, as in panels
    if (!kOnUnits)
      return most;
    const int64_t panels = ceilDivide(places(), kPanel);
    int64_t best = 1;
    double least = 0;
    for (int64_t size = 1; size <= ceilDivide(most, kPanel); ++size) {
      const int64_t whole = panels / size * others, left = panels % size, rounds = ceilDivide(whole, threads);
      const int64_t after = left == 0 ? 0 : std::max<int64_t>(0, others - (rounds * threads - whole));
      const double time = static_cast<double>(rounds * size + ceilDivide(after, threads) * left) *
                          (1 + kOwn / static_cast<double>(size));
      if (size == 1 || time < least)
        best = size, least = time;
    }
    return best * kPanel;
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

  /// Rows of elements of the channels of images, or of filters, where an image's are `line` apart and images `jump`.
  Factor<T> rowsOf(const T *data, int64_t line, int64_t jump, int64_t begin) const {
    const bool isOne = !kOnUnits || shape.batch == 1;
    return {isOne ? data + begin : data, line, isOne ? Pieces() : Pieces{line, jump, begin}};
  }

  void bringColumn(const Launch &launch, const Place &place, int64_t base, int64_t begin, int64_t end, T *to) const {
    if constexpr (kOnUnits)
      bringPlace(windows(), place, there(launch, image, base), begin, end, to);
    else
      eachRun(windows(), place, begin, end, [&](int64_t at, int64_t element, int64_t run) {
        bringFactor<T>(launch, image, base + element, windows().stride[2], run, to + at - begin);
      });
  }

  /// What places [begin, end) see of `channels` channels of a group: [channels * places of a window, end - begin].
  Factor<T> columns(const Launch &launch, int64_t n, int64_t group, int64_t first, int64_t channels, int64_t begin,
                    int64_t end, T *out) const {
    const int64_t seen = windows().places(), count = end - begin, plane = windows().imagePlaces();
    if (isPoint && isFactor<T>(image))
      return rowsOf(there(launch, image, planeOf(n, group, first)), plane, planeOf(1, 0, 0), begin);
    if constexpr (!kOnUnits)
      std::fill(out, out + channels * seen * count, T());
    T *to = out;
    for (int64_t channel = first; channel < first + channels; ++channel)
      for (int64_t place = 0; place < seen; ++place, to += count) {
        const Place at(windows(), place);
        eachImage(n, begin, end, [&](int64_t of, int64_t from, int64_t behind, int64_t many) {
          bringColumn(launch, at, planeOf(of, group, channel), from, from + many, to + behind);
        });
      }
    return {out, count};
  }

  /// Places [begin, end) of the results of so many filters of a group: [filters, end - begin].
  Factor<T> gradients(const Launch &launch, int64_t n, int64_t group, int64_t filter, int64_t filters, int64_t begin,
                      int64_t end, T *buffer) const {
    if (isFactor<T>(gradient))
      return rowsOf(there(launch, gradient, resultOf(n, group, filter)), windows().resultPlaces(), resultOf(1, 0, 0),
                    begin);
    const int64_t count = end - begin;
    for (int64_t m = 0; m < filters; ++m)
      bringFactor<T>(launch, gradient, resultOf(n, group, filter + m) + begin, 1, count, buffer + m * count);
    return {buffer, count};
  }

  /// Whether products go straight into the result.
  bool isDirect(const Launch &launch) const {
    return !kOnUnits && result.native && !launch.accumulates(result.operand);
  }
  static T *elements(float *at) { return reinterpret_cast<T *>(at); }
  /// Floats of scratch for so many elements of operands that are copied: units take all as they are stored.
  static int64_t copyFloats(int64_t elements) { return kOnUnits ? 0 : factorFloats<T>(elements); }
};

template <typename T> struct Forward : ByMatrices<T> {
  using Base = ByMatrices<T>;
  static constexpr int64_t kNarrow = 192; ///< places: with fewer a product takes too long to copy the kernel
  static constexpr int64_t kUnits = 224;  ///< the same on units for bf16
  int64_t wide;                           ///< places of a block

  /// Rather than few places of all channels, a block has more of some channels after others.
  explicit Forward(Convolution all) : Base(std::move(all)) {
    constexpr bool kOnUnits = Base::kOnUnits;
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
                                 Base::elements(seen + factorFloats<T>(this->rows() * wide + kBeyond)));
    const bool direct = this->isDirect(launch);
    float *into = direct ? launch.at<float>(this->result.operand) + this->resultOf(n, group, 0) + begin : products;
    const int64_t line = direct ? this->windows().resultPlaces() : count;
    for (int64_t m = 0; m < filters && this->bias.present; ++m)
      std::fill_n(into + m * line, count, this->biasOf(launch, group * filters + m));
    for (int64_t first = 0; first < shape.channels; first += this->held) {
      const int64_t channels = std::min(this->held, shape.channels - first), rows = channels * this->windows().places();
      const Factor<T> image = this->columns(launch, n, group, first, channels, begin, end, Base::elements(seen));
      product().multiply({.m = filters, .n = count, .k = rows, .ldc = line},
                         {weights + first * this->windows().places(), depth}, image, first > 0 || this->bias.present,
                         into, products);
    }
    if (!direct)
      this->eachImage(n, begin, end, [&](int64_t of, int64_t from, int64_t behind, int64_t many) {
        for (int64_t m = 0; m < filters; ++m)
          this->write(launch, products + m * count + behind, this->resultOf(of, group, m) + from, many);
      });
  }
  int64_t scratchFloats() const {
    const int64_t filters = this->shape.filters;
    return filters * wide + factorFloats<T>(this->rows() * wide + kBeyond) +
           Base::copyFloats(filters * this->shape.depth());
  }
  FactorProduct<T> product() const { return {this->shape.filters, wide, this->rows()}; }
  Scratch scratch() const { return product().scratch(scratchFloats()); }

  Status operator()(const Launch &launch) const {
    const int64_t others = this->images() * this->shape.groups,
                  size = this->balanced(wide, others, launch.pool.threads()), each = ceilDivide(this->places(), size);
    launch.pool.parallelFor(others * each, [&](int64_t part) {
      const int64_t begin = part % each * size;
      block(launch, part / each / this->shape.groups, part / each % this->shape.groups, begin,
            std::min(begin + size, this->places()));
    });
    return {};
  }
};

/// Where windows do not skip places, a convolution of the result's gradient with the kernel turned around, filters for
/// channels: rather than columns that are added back it has sums that stay where they are, and a kernel that lies as
/// products take it.
struct TurnedDataGrad {
  Convolution given;
  Forward<Bf16> turned;

  static bool holds(const Signature &call) { return takesUnits(call) && workspaceBytes(call, Backend::cpu) > 0; }

  explicit TurnedDataGrad(const Convolution &made) : given(made), turned(turn(made)) {}

  Scratch scratch() const { return turned.scratch(); }

  Status operator()(const Launch &launch) const {
    const int64_t channels = given.shape.channels, filters = given.shape.filters, down = ceilDivide(channels, kTile),
                  each = down * ceilDivide(filters, kTile);
    launch.pool.parallelFor(given.shape.groups * each, [&](int64_t part) {
      const int64_t channel = part % down * kTile, filter = part % each / down * kTile;
      turnTile(launch, part / each, channel, std::min(channels - channel, kTile), filter,
               std::min(filters - filter, kTile));
    });
    return turned(launch);
  }

private:
  static Convolution turn(Convolution made) {
    const RowIn gradient = made.gradient;
    Windows &windows = made.shape.windows;
    for (int d = 0; d < Windows::kDims; ++d) {
      std::swap(windows.image[d], windows.result[d]);
      windows.low[d] = (windows.size[d] - 1) * windows.dilation[d] - windows.low[d];
    }
    std::swap(made.shape.channels, made.shape.filters);
    made.image = gradient, made.gradient = {};
    made.kernel.operand = made.result.operand + 1; // the scratch
    return made;
  }

  void turnTile(const Launch &launch, int64_t group, int64_t channel, int64_t channels, int64_t filter,
                int64_t filters) const {
    const int64_t places = given.windows().places();
    TileLines<const uint16_t> from;
    TileLines<uint16_t> to;
    for (size_t i = 0; i < static_cast<size_t>(filters); ++i)
      from[i] = launch.at<const uint16_t>(given.kernel.operand) +
                given.weightOf(group, filter + static_cast<int64_t>(i), channel);
    for (size_t i = 0; i < static_cast<size_t>(channels); ++i)
      to[i] = launch.at<uint16_t>(turned.kernel.operand) +
              turned.weightOf(group, channel + static_cast<int64_t>(i), filter);
    if (places == 1)
      return transposeTile(from, channels, filters, to);
    for (size_t i = 0; i < static_cast<size_t>(channels); ++i)
      for (size_t j = 0; j < static_cast<size_t>(filters); ++j) {
        const uint16_t *window = from[j] + static_cast<int64_t>(i) * places;
        std::reverse_copy(window, window + places, to[i] + static_cast<int64_t>(j) * places);
      }
  }
};

template <typename T> struct DataGrad : ByMatrices<T> {
  using Base = ByMatrices<T>;
  int64_t together = 1; ///< images of a block

  explicit DataGrad(Convolution all) : Base(std::move(all)) {
    const int64_t plane = this->windows().imagePlaces();
    this->held = std::clamp<int64_t>(2 * kBlockElements / plane, 1, ceilDivide(this->shape.channels, int64_t{8}));
    int64_t least = 0;
    for (int64_t images = 1;
         Base::kOnUnits && images <= std::min(this->shape.batch, 2 * kBlockElements / (plane * this->held)); ++images) {
      const int64_t results = this->windows().resultPlaces(), rest = this->shape.batch % images,
                    filled = this->shape.batch / images * padded(images * results) + padded(rest * results);
      if (images == 1 || 100 * filled < 97 * least) // few images are more blocks
        together = images, least = filled;
    }
  }

  void block(const Launch &launch, int64_t n, int64_t group, int64_t first) const {
    const ConvShape &shape = this->shape;
    const Windows &windows = this->windows();
    const int64_t channels = std::min(this->held, shape.channels - first), places = windows.places(),
                  filters = shape.filters, images = std::min(together, shape.batch - n), plane = windows.imagePlaces(),
                  width = this->width();
    float *planes = product().behind(scratchFloats()), *seen = planes + together * this->held * plane;
    T *buffer = Base::elements(seen + this->rows() * width),
      *copied = Base::elements(seen + this->rows() * width + Base::copyFloats(filters * width));
    std::fill_n(planes, images * channels * plane, 0.0F);
    const T *weights =
        Base::all(launch, this->kernel, this->weightOf(group, 0, 0), filters * shape.depth(), copied) + first * places;
    const int64_t results = windows.resultPlaces(), from = Base::kOnUnits ? n * results : 0;
    for (int64_t begin = from; begin < from + images * results; begin += width) {
      const int64_t end = std::min(begin + width, from + images * results), of = Base::kOnUnits ? 0 : n;
      const Factor<T> dy = this->gradients(launch, of, group, 0, filters, begin, end, buffer);
      product().multiply(
          {.transposeA = true, .m = channels * places, .n = end - begin, .k = filters, .ldc = end - begin},
          {weights, shape.depth()}, dy, false, seen, planes);
      this->eachImage(of, begin, end, [&](int64_t image, int64_t place, int64_t behind, int64_t many) {
        addBack(seen + behind, end - begin, channels, place, place + many, planes + (image - n) * channels * plane);
      });
    }
    for (int64_t image = 0; image < images; ++image)
      this->write(launch, planes + image * channels * plane, this->planeOf(n + image, group, first), channels * plane);
  }

  /// Adds columns, `line` apart, back to where they were seen, planes of 32-bit sums.
  void addBack(const float *from, int64_t line, int64_t channels, int64_t begin, int64_t end, float *planes) const {
    const int64_t places = this->windows().places(), step = this->windows().stride[2];
    for (int64_t row = 0; row < channels * places; ++row) {
      float *plane = planes + row / places * this->windows().imagePlaces();
      eachRun(this->windows(), Place(this->windows(), row % places), begin, end,
              [&](int64_t at, int64_t element, int64_t run) {
                const float *in = from + row * line + at - begin;
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
    return together * this->held * this->windows().imagePlaces() + this->rows() * this->width() +
           Base::copyFloats(filters * this->width()) + Base::copyFloats(filters * this->shape.depth());
  }
  FactorProduct<T> product() const { return {this->rows(), this->width(), this->shape.filters}; }
  Scratch scratch() const { return product().scratch(scratchFloats()); }

  Status operator()(const Launch &launch) const {
    const int64_t each = this->channelBlocks(), groups = this->shape.groups;
    launch.pool.parallelFor(ceilDivide(this->shape.batch, together) * groups * each, [&](int64_t part) {
      block(launch, part / each / groups * together, part / each % groups, part % each * this->held);
    });
    return {};
  }
};

/// Of points it is a product, whose columns are places.
struct PointDataGrad : ByMatrices<float> {
  static constexpr int64_t kFewest = 64, kParts = 64; ///< channels of a block; blocks that there should be
  int64_t wide;                                       ///< places of a block

  explicit PointDataGrad(Convolution all) : ByMatrices(std::move(all)) {
    held = shape.channels;
    wide = width();
    const int64_t parts = shape.batch * shape.groups * across(), least = std::min(kFewest, shape.channels);
    held = std::clamp(ceilDivide(shape.channels * parts, 16 * kParts) * 16, least, shape.channels);
  }
  int64_t across() const { return ceilDivide(places(), wide); }

  void block(const Launch &launch, int64_t n, int64_t group, int64_t first, int64_t begin, int64_t end) const {
    const int64_t rows = std::min(held, shape.channels - first), count = end - begin, filters = shape.filters;
    float *products = product().behind(scratchFloats()), *buffer = products + held * wide,
          *copied = buffer + filters * wide;
    const float *weights = all(launch, kernel, weightOf(group, 0, 0), filters * shape.channels, copied) + first;
    const Factor<float> dy = gradients(launch, n, group, 0, filters, begin, end, buffer);
    const int64_t at = planeOf(n, group, first) + begin;
    const bool direct = isDirect(launch);
    float *into = direct ? launch.at<float>(result.operand) + at : products;
    product().multiply({.transposeA = true, .m = rows, .n = count, .k = filters, .ldc = direct ? places() : count},
                       {weights, shape.channels}, dy, false, into, products);
    for (int64_t row = 0; row < rows && !direct; ++row)
      write(launch, products + row * count, at + row * places(), count);
  }

  int64_t scratchFloats() const { return (held + shape.filters) * wide + shape.filters * shape.channels; }
  FactorProduct<float> product() const { return {held, wide, shape.filters}; }
  Scratch scratch() const { return product().scratch(scratchFloats()); }

  Status operator()(const Launch &launch) const {
    const int64_t each = channelBlocks() * across();
    launch.pool.parallelFor(shape.batch * shape.groups * each, [&](int64_t part) {
      const int64_t begin = part % across() * wide;
      block(launch, part / each / shape.groups, part / each % shape.groups, part % each / across() * held, begin,
            std::min(begin + wide, places()));
    });
    return {};
  }
};

/// The kernel's gradient in blocks of filters and of channels, not too narrow for a product. Sums are those of some
/// places after others, as many whatever the blocks: on units those are the larger, the fewer threads there are.
template <typename T> struct WeightGrad : ByMatrices<T> {
  using Base = ByMatrices<T>;
  static constexpr int64_t kFewest = 64;            ///< rows or columns of a block
  static constexpr int64_t kParts = 16, kLeast = 4; ///< blocks that there should be, and on units at least
  struct Blocks {
    int64_t channels, filters; ///< of each
  };
  int64_t filters; ///< of the largest block, whose channels are `held`
  int64_t wide;    ///< places after others

  explicit WeightGrad(Convolution all) : Base(std::move(all)) {
    const Blocks largest = blocks(Base::kOnUnits ? kLeast : kParts);
    this->held = largest.channels, filters = largest.filters;
    wide =
        Base::kOnUnits ? this->alike(std::max(kPanel, 2 * kBlockElements / (this->rows() + filters))) : this->width();
  }

  /// About so many.
  Blocks blocks(int64_t parts) const {
    const ConvShape &shape = this->shape;
    const int64_t channels = std::min(
        shape.channels, std::max(ceilDivide(kFewest, this->windows().places()), ceilDivide(shape.channels, parts)));
    return {channels,
            std::min(shape.filters,
                     std::max(kFewest, ceilDivide(shape.filters * ceilDivide(shape.channels, channels), parts)))};
  }

  /// Of filters [filter, filter + rows) and channels [first, first + channels).
  void block(const Launch &launch, int64_t group, int64_t filter, int64_t rows, int64_t first, int64_t channels) const {
    const int64_t own = channels * this->windows().places();
    float *sums = product().behind(scratchFloats());
    T *seen = Base::elements(sums + filters * this->rows()),
      *buffer = Base::elements(sums + filters * this->rows() + factorFloats<T>(this->rows() * wide + kBeyond));
    bool adds = false;
    for (int64_t n = 0; n < this->images(); ++n)
      for (int64_t begin = 0; begin < this->places(); begin += wide, adds = true) {
        const int64_t end = std::min(begin + wide, this->places());
        const Factor<T> image = this->columns(launch, n, group, first, channels, begin, end, seen);
        const Factor<T> dy = this->gradients(launch, n, group, filter, rows, begin, end, buffer);
        product().multiply({.transposeB = true, .m = rows, .n = own, .k = end - begin, .ldc = own}, dy, image, adds,
                           sums, sums);
      }
    for (int64_t m = 0; m < rows; ++m)
      this->write(launch, sums + m * own, this->weightOf(group, filter + m, first), own);
  }

  int64_t scratchFloats() const {
    return filters * this->rows() + factorFloats<T>(this->rows() * wide + kBeyond) + Base::copyFloats(filters * wide);
  }
  FactorProduct<T> product() const { return {filters, this->rows(), wide}; }
  Scratch scratch() const { return product().scratch(scratchFloats()); }

  Status operator()(const Launch &launch) const {
    const ConvShape &shape = this->shape;
    const int64_t wanted = Base::kOnUnits ? std::max<int64_t>(kLeast, 2 * launch.pool.threads()) : kParts;
    const Blocks size = blocks(wanted);
    const int64_t across = ceilDivide(shape.channels, size.channels),
                  each = across * ceilDivide(shape.filters, size.filters);
    launch.pool.parallelFor(shape.groups * each, [&](int64_t part) {
      const int64_t filter = part % each / across * size.filters, first = part % across * size.channels;
      block(launch, part / each, filter, std::min(size.filters, shape.filters - filter), first,
            std::min(size.channels, shape.channels - first));
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
  if (TurnedDataGrad::holds(call))
    return Run(TurnedDataGrad(made));
  if (!takesUnits(call) && ByMatrices<float>(made).isPoint)
    return Run(PointDataGrad(std::move(made)));
  return byMatrices<DataGrad>(call, std::move(made));
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
