// pool and its gradient: a plane of one image and channel at a time.
#include "kernels/cpu/FloatRows.h"
#include "kernels/cpu/Vector.h"
#include "kernels/cpu/WindowRuns.h"

#include <limits>

namespace mt::kernels::cpu {
namespace {

enum class Kind { max, sum, mean };

Kind kindOf(const Signature &call) {
  std::string kind = call.text("kind");
  return kind == "max" ? Kind::max : kind == "sum" ? Kind::sum : Kind::mean;
}

/// Calls visit(result, element, count) for all results of a plane and all elements that their windows see, in runs of
/// results: of each result the elements come in row-major order, and of each place of the window the results.
template <typename Visit> void eachRunSeen(const Windows &w, Visit visit) {
  for (int64_t place = 0; place < w.places(); ++place)
    eachRun(w, Place(w, place), 0, w.resultPlaces(), visit);
}
/// The same one by one: visit(result, element).
template <typename Visit> void eachSeen(const Windows &w, Visit visit) {
  eachRunSeen(w, [&](int64_t at, int64_t element, int64_t run) {
    for (int64_t i = 0; i < run; ++i)
      visit(at + i, element + i * w.stride[2]);
  });
}

/// How many elements each window sees, at least 1.
void countSeen(const Windows &w, int64_t *counts) {
  std::fill_n(counts, w.resultPlaces(), int64_t{0});
  eachSeen(w, [&](int64_t at, int64_t) { ++counts[at]; });
  for (int64_t at = 0; at < w.resultPlaces(); ++at)
    counts[at] = std::max<int64_t>(counts[at], 1);
}

struct Pool {
  Kind kind;
  Windows windows;
  int64_t planes;
  RowIn operand;
  RowOut result;

  /// The largest that each window sees; NaN if one is.
  void largest(const float *x, float *y) const {
    std::fill_n(y, windows.resultPlaces(), -std::numeric_limits<float>::infinity());
    eachSeen(windows, [&](int64_t at, int64_t element) {
      const float value = x[element], best = y[at];
      y[at] = value > best || value != value ? value : best;
    });
  }

  void summed(const float *x, double *sums, int64_t *counts, float *y) const {
    const int64_t out = windows.resultPlaces();
    std::fill_n(sums, out, 0.0);
    eachSeen(windows, [&](int64_t at, int64_t element) { sums[at] += x[element]; });
    if (kind == Kind::mean)
      countSeen(windows, counts);
    for (int64_t at = 0; at < out; ++at)
      y[at] = static_cast<float>(kind == Kind::mean ? sums[at] / static_cast<double>(counts[at]) : sums[at]);
  }

  /// Sums and counts in 64 bits, results, the plane.
  int64_t floats() const { return 5 * windows.resultPlaces() + windows.imagePlaces(); }
  Scratch scratch() const { return {.own = sizeof(float) * static_cast<uint64_t>(floats())}; }

  Status operator()(const Launch &launch) const {
    const int64_t in = windows.imagePlaces(), out = windows.resultPlaces();
    launch.pool.parallelFor(planes, [&](int64_t plane) {
      auto *buffers = ThreadPool::scratchOf<float>(floats());
      float *made = buffers + 4 * out;
      const float *x = operand.at(launch, plane * in, in, made + out);
      if (kind == Kind::max)
        largest(x, made);
      else
        summed(x, reinterpret_cast<double *>(buffers), reinterpret_cast<int64_t *>(buffers + 2 * out), made);
      result.store(made, launch.operands[result.operand], plane * out, out, launch.accumulates(result.operand));
    });
    return {};
  }
};

struct PoolGrad {
  Kind kind;
  Windows windows;
  int64_t planes;
  RowIn gradient, operand;
  RowOut result;

  /// To the first of each window's largest elements; a NaN is larger than all.
  void toLargest(const float *x, const float *dy, float *best, int32_t *from, float *dx) const {
    const int64_t out = windows.resultPlaces();
    std::fill_n(from, out, -1);
    eachRunSeen(windows, [&](int64_t at, int64_t element, int64_t run) {
      vec::keepLargest(x + element, windows.stride[2], run, static_cast<int32_t>(element), best + at, from + at);
    });
    for (int64_t at = 0; at < out; ++at)
      if (from[at] >= 0)
        dx[from[at]] += dy[at];
  }

  void toAll(const float *dy, int64_t *counts, float *shares, float *dx) const {
    const int64_t out = windows.resultPlaces();
    if (kind == Kind::mean)
      countSeen(windows, counts);
    for (int64_t at = 0; at < out; ++at)
      shares[at] = kind == Kind::mean ? dy[at] / static_cast<float>(counts[at]) : dy[at];
    eachSeen(windows, [&](int64_t at, int64_t element) { dx[element] += shares[at]; });
  }

  /// Where results came from or what windows see, shares of gradients or largest elements, and both planes and results.
  int64_t floats() const { return 2 * windows.imagePlaces() + 4 * windows.resultPlaces(); }
  Scratch scratch() const { return {.own = sizeof(float) * static_cast<uint64_t>(floats())}; }

  Status operator()(const Launch &launch) const {
    const int64_t in = windows.imagePlaces(), out = windows.resultPlaces();
    launch.pool.parallelFor(planes, [&](int64_t plane) {
      auto *buffers = ThreadPool::scratchOf<float>(floats());
      float *shares = buffers + 2 * out, *own = shares + out;
      const float *dy = gradient.at(launch, plane * out, out, own);
      const float *x = operand.at(launch, plane * in, in, own + out);
      float *dx = result.place(launch, plane * in, own + out + in);
      if (!result.adds(launch))
        std::fill(dx, dx + in, 0.0F);
      if (kind == Kind::max)
        toLargest(x, dy, shares, reinterpret_cast<int32_t *>(buffers), dx);
      else
        toAll(dy, reinterpret_cast<int64_t *>(buffers), shares, dx);
      result.finish(launch, plane * in, in, dx);
    });
    return {};
  }
};

Result<Run> preparePool(const Signature &call) {
  if (!call.operands[1].present)
    return Run([](const Launch &) { return Status(); });
  const Dims &image = call.operands[0].dims, &pooled = call.operands[1].dims;
  return Run(Pool{kindOf(call), Windows::of(call, image, pooled, call.integers("size")), image[0] * image[1],
                  RowIn(call, 0), RowOut(call, 1)});
}

Result<Run> preparePoolGrad(const Signature &call) {
  const Dims &image = call.operands[2].dims, &pooled = call.operands[0].dims;
  const Windows windows = Windows::of(call, image, pooled, call.integers("size"));
  if (windows.imagePlaces() > std::numeric_limits<int32_t>::max())
    return fail("pool_grad: planes of images have less than 2^31 places each, not {}", windows.imagePlaces());
  return Run(PoolGrad{kindOf(call), windows, image[0] * image[1], RowIn(call, 0), RowIn(call, 1), RowOut(call, 2)});
}

constexpr Entry kEntries[] = {{"pool", preparePool}, {"pool_grad", preparePoolGrad}};

} // namespace

std::span<const Entry> poolEntries() { return kEntries; }

} // namespace mt::kernels::cpu
