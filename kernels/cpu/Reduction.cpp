// reduce and cumsum: the summed dimensions are walked in a fixed order; floats are summed in 64 bits.
#include "kernels/cpu/Elements.h"
#include "kernels/cpu/Family.h"
#include "kernels/cpu/ReduceOrder.h"
#include "kernels/cpu/Vector.h"
#include "kernels/cpu/View.h"

#include <cmath>
#include <limits>
#include <type_traits>

namespace mt::kernels::cpu {
namespace {

enum class Kind { sum, mean, max, min, prod };

Kind kindOf(const std::string &text) {
  return text == "sum"    ? Kind::sum
         : text == "mean" ? Kind::mean
         : text == "max"  ? Kind::max
         : text == "min"  ? Kind::min
                          : Kind::prod;
}

template <typename S> S neutral(Kind kind) {
  if (kind == Kind::prod)
    return 1;
  if constexpr (std::is_floating_point_v<S>)
    return kind == Kind::max   ? -std::numeric_limits<S>::infinity()
           : kind == Kind::min ? std::numeric_limits<S>::infinity()
                               : 0;
  return kind == Kind::max ? std::numeric_limits<S>::min() : kind == Kind::min ? std::numeric_limits<S>::max() : 0;
}

// Integers wrap around.
template <typename S> S plus(S a, S b) {
  if constexpr (std::is_integral_v<S>)
    return static_cast<S>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return a + b;
}
template <typename S> S times(S a, S b) {
  if constexpr (std::is_integral_v<S>)
    return static_cast<S>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else
    return a * b;
}

vec::Fold foldOf(Kind kind) {
  return kind == Kind::max ? vec::Fold::largest : kind == Kind::min ? vec::Fold::smallest : vec::Fold::sum;
}

template <typename S, typename C> void combine(Kind kind, const C *in, int64_t count, S *sums) {
  if constexpr (std::is_same_v<C, float>)
    if (kind != Kind::prod)
      return vec::foldRows(foldOf(kind), in, 0, 1, count, sums);
  if (kind == Kind::prod)
    for (int64_t i = 0; i < count; ++i)
      sums[i] = times(sums[i], static_cast<S>(in[i]));
  else if (kind == Kind::max)
    for (int64_t i = 0; i < count; ++i)
      sums[i] = in[i] != in[i] || static_cast<S>(in[i]) > sums[i] ? static_cast<S>(in[i]) : sums[i];
  else if (kind == Kind::min)
    for (int64_t i = 0; i < count; ++i)
      sums[i] = in[i] != in[i] || static_cast<S>(in[i]) < sums[i] ? static_cast<S>(in[i]) : sums[i];
  else
    for (int64_t i = 0; i < count; ++i)
      sums[i] = plus(sums[i], static_cast<S>(in[i]));
}

/// Into sums[i % lanes].
template <typename S, typename C> void combineLanes(Kind kind, const C *in, int64_t count, S *sums) {
  if constexpr (std::is_same_v<C, float>)
    if (kind != Kind::prod)
      return vec::foldLanes(foldOf(kind), in, count, sums);
  for (int64_t i = 0; i < count; i += vec::kFoldLanes)
    combine(kind, in + i, std::min(vec::kFoldLanes, count - i), sums);
}

/// By ReduceOrder, of elements that are computed with as C.
template <typename C> struct Reduce {
  using S = std::conditional_t<std::is_integral_v<C>, int64_t, double>;
  static constexpr int64_t kColumns = 256, kLanes = ReduceOrder::kLanes, kShort = 64;

  Kind kind;
  ReduceOrder order;
  LoadRow<C> load;
  StoreRow<S> store;
  DType type;
  bool isStored = isNative<C>(type); ///< as it is computed with

  /// Elements `stride` apart, where they lie or in a row.
  const C *bring(const void *operand, int64_t at, int64_t stride, int64_t width, C *row) const {
    if (isStored && stride == 1)
      return static_cast<const C *>(operand) + at;
    load(operand, at, stride, width, row);
    return row;
  }

  /// Elements [begin, end) of results side by side, a row of the operand at a time.
  void rows(const void *operand, int64_t base, int64_t begin, int64_t end, int64_t width, S *sums) const {
    C row[kColumns];
    order.eachRun(begin, end, [&](int64_t offset, int64_t stride, int64_t many) {
      if constexpr (std::is_same_v<C, float>)
        if (kind != Kind::prod && (isStored || type == DType::bf16)) {
          const auto fold = [&](const auto *from) {
            vec::foldRows(foldOf(kind), from + base + offset, stride, many, width, sums);
          };
          return isStored ? fold(static_cast<const float *>(operand)) : fold(static_cast<const Bf16 *>(operand));
        }
      for (int64_t i = 0; i < many; ++i)
        combine(kind, bring(operand, base + offset + i * stride, 1, width, row), width, sums);
    });
  }

  S single(const void *operand, int64_t base, int64_t begin, int64_t end) const {
    C row[kColumns];
    S lanes[kLanes];
    const int64_t used = ReduceOrder::lanesOf(end - begin);
    std::fill(lanes, lanes + used, neutral<S>(kind));
    order.eachRun(begin, end, [&](int64_t offset, int64_t stride, int64_t many) {
      const int64_t most = !isStored || stride != 1 ? kColumns : many;
      for (int64_t i = 0; i < many; i += most) {
        const int64_t width = std::min(most, many - i);
        combineLanes(kind, bring(operand, base + offset + i * stride, stride, width, row), width, lanes);
      }
    });
    for (int64_t half = used / 2; half > 0; half /= 2)
      combine(kind, lanes + half, half, lanes);
    return lanes[0];
  }

  /// Whether results lie one behind the other in the operand, each of so few elements that no two share a lane.
  bool isShort() const {
    const auto isOneRun = [](const Walk &walk, int64_t stride) {
      return walk.elements() == 1 || (walk.sizes.size() == 1 && walk.strides[0] == stride);
    };
    return order.inner == 1 && order.parts.count == 1 && order.count <= kLanes && isOneRun(order.reduced, 1) &&
           isOneRun(order.kept, order.count);
  }
  /// What single() gives for some of those, side by side.
  void shortResults(const Launch &launch, int64_t first, int64_t width) const {
    C row[kLanes * kShort];
    S lanes[kLanes][kShort];
    const int64_t count = order.count;
    const C *in = bring(launch.operands[0], first * count, 1, width * count, row);
    const int64_t used = ReduceOrder::lanesOf(count);
    for (int64_t lane = 0; lane < used; ++lane)
      std::fill_n(lanes[lane], width, neutral<S>(kind));
    for (int64_t lane = 0; lane < count; ++lane) {
      C column[kShort];
      for (int64_t i = 0; i < width; ++i)
        column[i] = in[i * count + lane];
      combine(kind, column, width, lanes[lane]);
    }
    for (int64_t half = used / 2; half > 0; half /= 2)
      for (int64_t lane = 0; lane < half; ++lane)
        combine(kind, lanes[lane + half], width, lanes[lane]);
    finish(launch, first, width, lanes[0]);
  }
  /// A part of results [first, first + width) of a group, first + width <= inner.
  void compute(const Launch &launch, int64_t part, int64_t group, int64_t first, int64_t width, S *sums) const {
    std::fill(sums, sums + width, neutral<S>(kind));
    const int64_t base = order.base(group, first), begin = order.parts.begin(part), end = order.parts.end(part);
    if (order.inner > 1)
      rows(launch.operands[0], base, begin, end, width, sums);
    else
      sums[0] = single(launch.operands[0], base, begin, end);
  }

  void finish(const Launch &launch, int64_t first, int64_t width, S *sums) const {
    for (int64_t i = 0; i < width && kind == Kind::mean; ++i)
      sums[i] /= static_cast<S>(order.count);
    store(sums, launch.operands[1], first, width, launch.accumulates(1));
  }

  Status operator()(const Launch &launch) const {
    if (isShort()) {
      constexpr int64_t kTogether = 64 * kShort;
      launch.pool.parallelFor(ceilDivide(order.groups, kTogether), [&](int64_t chunk) {
        for (int64_t first = chunk * kTogether; first < std::min(order.groups, (chunk + 1) * kTogether);
             first += kShort)
          shortResults(launch, first, std::min(kShort, order.groups - first));
      });
      return {};
    }
    struct Row {
      S sums[kColumns];
    };
    if (order.parts.count == 1) {
      const auto start = [] { return Row(); };
      order.each(launch.pool, kColumns, start,
                 [&](Row &row, int64_t part, int64_t group, int64_t first, int64_t width) {
                   compute(launch, part, group, first, width, row.sums);
                   finish(launch, group * order.inner + first, width, row.sums);
                 });
      return {};
    }
    const int64_t results = order.results();
    S *all = static_cast<S *>(launch.operands.back());
    const auto start = [all] { return all; };
    order.each(launch.pool, kColumns, start, [&](S *sums, int64_t part, int64_t group, int64_t first, int64_t width) {
      compute(launch, part, group, first, width, sums + part * results + group * order.inner + first);
    });
    for (int64_t part = 1; part < order.parts.count; ++part)
      combine(kind, all + part * results, results, all);
    finish(launch, 0, results, all);
    return {};
  }
};

Result<Run> prepareReduce(const Signature &call) {
  const OperandType &operand = call.operands[0];
  if (!call.operands[1].present)
    return Run([](const Launch &) { return Status(); });
  return withArithmetic(operand.type, [&](auto arithmetic) -> Result<Run> {
    using C = decltype(arithmetic);
    return Run(Reduce<C>{kindOf(call.text("kind")), ReduceOrder::of(operand.dims, call.integers("axes")),
                         loader<C>(operand.type), storer<typename Reduce<C>::S>(call.operands[1].type), operand.type});
  });
}

/// One running sum along the axis for each place around it; places side by side share a row.
template <typename C> struct Cumsum {
  using S = std::conditional_t<std::is_integral_v<C>, int64_t, double>;
  static constexpr int64_t kColumns = 256;
  int64_t outer, size, inner;
  bool exclusive, reverse;
  LoadRow<C> load;
  StoreRow<S> store;

  void compute(const Launch &launch, int64_t base, int64_t width) const {
    C row[kColumns];
    S sums[kColumns] = {};
    for (int64_t step = 0; step < size; ++step) {
      int64_t at = base + (reverse ? size - 1 - step : step) * inner;
      load(launch.operands[0], at, 1, width, row);
      if (exclusive)
        store(sums, launch.operands[1], at, width, launch.accumulates(1));
      combine(Kind::sum, row, width, sums);
      if (!exclusive)
        store(sums, launch.operands[1], at, width, launch.accumulates(1));
    }
  }

  Status operator()(const Launch &launch) const {
    int64_t blocks = ceilDivide(inner, kColumns);
    launch.pool.parallelFor(outer * blocks, [&](int64_t part) {
      int64_t first = part % blocks * kColumns;
      compute(launch, part / blocks * size * inner + first, std::min(kColumns, inner - first));
    });
    return {};
  }
};

Result<Run> prepareCumsum(const Signature &call) {
  const OperandType &operand = call.operands[0];
  size_t axis = static_cast<size_t>(call.integer("axis"));
  int64_t size = operand.dims[axis], inner = rowMajor(operand.dims)[axis];
  if (!call.operands[1].present)
    return Run([](const Launch &) { return Status(); });
  return withArithmetic(operand.type, [&](auto arithmetic) -> Result<Run> {
    using C = decltype(arithmetic);
    return Run(Cumsum<C>{operand.elements() / size / inner, size, inner, call.integer("exclusive") != 0,
                         call.integer("reverse") != 0, loader<C>(operand.type),
                         storer<typename Cumsum<C>::S>(operand.type)});
  });
}

constexpr Entry kEntries[] = {{"reduce", prepareReduce}, {"cumsum", prepareCumsum}};

} // namespace

std::span<const Entry> reductionEntries() { return kEntries; }

} // namespace mt::kernels::cpu
