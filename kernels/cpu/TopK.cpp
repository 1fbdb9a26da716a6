// top_k: a row's places, sorted as far as they are asked for.
#include "kernels/Blocks.h"
#include "kernels/cpu/Elements.h"
#include "kernels/cpu/Family.h"

#include <algorithm>
#include <numeric>

namespace mt::kernels::cpu {
namespace {

template <typename C> struct TopK {
  int64_t rows, width, k;
  bool largest;
  LoadRow<C> load;

  /// Whether `a` stands before `b`: NaN first, then by value, then by place.
  bool before(C a, int64_t placeOfA, C b, int64_t placeOfB) const {
    bool nan = a != a, otherNan = b != b;
    if (nan != otherNan)
      return nan;
    if (nan || a == b)
      return placeOfA < placeOfB;
    return largest ? a > b : a < b;
  }

  void row(const Launch &launch, int64_t at, C *values, int64_t *places) const {
    load(launch.operands[0], at * width, 1, width, values);
    std::iota(places, places + width, int64_t{0});
    std::partial_sort(places, places + k, places + width,
                      [&](int64_t a, int64_t b) { return before(values[a], a, values[b], b); });
    std::copy_n(places, k, launch.at<int64_t>(1) + at * k);
  }

  Scratch scratch() const { return {.own = static_cast<uint64_t>(width) * (sizeof(C) + sizeof(int64_t))}; }

  Status operator()(const Launch &launch) const {
    int64_t each = std::max<int64_t>(1, 4096 / width);
    launch.pool.parallelFor(ceilDivide(rows, each), [&](int64_t chunk) {
      std::byte *buffer = ThreadPool::scratch(scratch().own);
      auto *places = reinterpret_cast<int64_t *>(buffer);
      auto *values = reinterpret_cast<C *>(places + width);
      for (int64_t i = chunk * each; i < std::min(rows, (chunk + 1) * each); ++i)
        row(launch, i, values, places);
    });
    return {};
  }
};

Result<Run> prepareTopK(const Signature &call) {
  const OperandType &operand = call.operands[0];
  if (!call.operands[1].present)
    return Run([](const Launch &) { return Status(); });
  int64_t width = operand.dims.back();
  return withArithmetic(operand.type, [&](auto arithmetic) -> Result<Run> {
    using C = decltype(arithmetic);
    return Run(TopK<C>{operand.elements() / width, width, call.integer("k"), call.integer("largest") != 0,
                       loader<C>(operand.type)});
  });
}

constexpr Entry kEntries[] = {{"top_k", prepareTopK}};

} // namespace

std::span<const Entry> topKEntries() { return kEntries; }

} // namespace mt::kernels::cpu
