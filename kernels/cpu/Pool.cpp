// pool and its gradient: a plane of one image and channel at a time.
#include "kernels/Blocks.h"
#include "kernels/Windows.h"
#include "kernels/cpu/FloatRows.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mt::kernels::cpu {
namespace {

enum class Kind { max, sum, mean };

Kind kindOf(const Signature &call) {
  std::string kind = call.text("kind");
  return kind == "max" ? Kind::max : kind == "sum" ? Kind::sum : Kind::mean;
}

/// Calls visit(element) for every element of the plane that the window of result (z, y, x) sees, in row-major order.
template <typename Visit> void eachSeen(const Windows &w, int64_t z, int64_t y, int64_t x, Visit visit) {
  for (int64_t a = 0; a < w.size[0]; ++a)
    for (int64_t b = 0; b < w.size[1]; ++b)
      for (int64_t c = 0; c < w.size[2]; ++c) {
        int64_t i = z * w.stride[0] + a * w.dilation[0] - w.low[0], j = y * w.stride[1] + b * w.dilation[1] - w.low[1],
                k = x * w.stride[2] + c * w.dilation[2] - w.low[2];
        if (i >= 0 && i < w.image[0] && j >= 0 && j < w.image[1] && k >= 0 && k < w.image[2])
          visit((i * w.image[1] + j) * w.image[2] + k);
      }
}

/// Calls visit(result, z, y, x) for every result of a plane.
template <typename Visit> void eachResult(const Windows &w, Visit visit) {
  int64_t at = 0;
  for (int64_t z = 0; z < w.result[0]; ++z)
    for (int64_t y = 0; y < w.result[1]; ++y)
      for (int64_t x = 0; x < w.result[2]; ++x)
        visit(at++, z, y, x);
}

/// The first of the window's largest elements; -1 of none. A NaN is larger than all.
int64_t largestSeen(const Windows &w, const float *plane, int64_t z, int64_t y, int64_t x) {
  int64_t best = -1;
  eachSeen(w, z, y, x, [&](int64_t at) {
    if (best < 0 || plane[at] > plane[best] || (std::isnan(plane[at]) && !std::isnan(plane[best])))
      best = at;
  });
  return best;
}

int64_t countSeen(const Windows &w, int64_t z, int64_t y, int64_t x) {
  int64_t count = 0;
  eachSeen(w, z, y, x, [&](int64_t) { ++count; });
  return std::max<int64_t>(count, 1);
}

struct Pool {
  Kind kind;
  Windows windows;
  int64_t planes;
  RowIn operand;
  RowOut result;

  float value(const float *plane, int64_t z, int64_t y, int64_t x) const {
    if (kind == Kind::max) {
      int64_t best = largestSeen(windows, plane, z, y, x);
      return best < 0 ? -std::numeric_limits<float>::infinity() : plane[best];
    }
    double sum = 0;
    eachSeen(windows, z, y, x, [&](int64_t at) { sum += plane[at]; });
    return static_cast<float>(kind == Kind::mean ? sum / static_cast<double>(countSeen(windows, z, y, x)) : sum);
  }

  Scratch scratch() const {
    return {.own = sizeof(float) * static_cast<uint64_t>(windows.imagePlaces() + windows.resultPlaces())};
  }

  Status operator()(const Launch &launch) const {
    int64_t in = windows.imagePlaces(), out = windows.resultPlaces();
    launch.pool.parallelFor(planes, [&](int64_t plane) {
      auto *buffers = ThreadPool::scratchOf<float>(in + out);
      const float *x = operand.at(launch, plane * in, in, buffers);
      float *y = result.place(launch, plane * out, buffers + in);
      bool adds = result.adds(launch);
      eachResult(windows, [&](int64_t at, int64_t a, int64_t b, int64_t c) {
        float made = value(x, a, b, c);
        y[at] = adds ? y[at] + made : made;
      });
      result.finish(launch, plane * out, out, y);
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

  void give(const float *x, float dy, int64_t a, int64_t b, int64_t c, float *dx) const {
    if (kind == Kind::max) {
      if (int64_t best = largestSeen(windows, x, a, b, c); best >= 0)
        dx[best] += dy;
      return;
    }
    float share = kind == Kind::mean ? dy / static_cast<float>(countSeen(windows, a, b, c)) : dy;
    eachSeen(windows, a, b, c, [&](int64_t at) { dx[at] += share; });
  }

  Scratch scratch() const {
    return {.own = sizeof(float) * static_cast<uint64_t>(2 * windows.imagePlaces() + windows.resultPlaces())};
  }

  Status operator()(const Launch &launch) const {
    int64_t in = windows.imagePlaces(), out = windows.resultPlaces();
    launch.pool.parallelFor(planes, [&](int64_t plane) {
      auto *buffers = ThreadPool::scratchOf<float>(2 * in + out);
      const float *x = operand.at(launch, plane * in, in, buffers);
      const float *dy = gradient.at(launch, plane * out, out, buffers + 2 * in);
      float *dx = result.place(launch, plane * in, buffers + in);
      if (!result.adds(launch))
        std::fill(dx, dx + in, 0.0F);
      eachResult(windows, [&](int64_t at, int64_t a, int64_t b, int64_t c) { give(x, dy[at], a, b, c, dx); });
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
  return Run(PoolGrad{kindOf(call), Windows::of(call, image, pooled, call.integers("size")), image[0] * image[1],
                      RowIn(call, 0), RowIn(call, 1), RowOut(call, 2)});
}

constexpr Entry kEntries[] = {{"pool", preparePool}, {"pool_grad", preparePoolGrad}};

} // namespace

std::span<const Entry> poolEntries() { return kEntries; }

} // namespace mt::kernels::cpu
