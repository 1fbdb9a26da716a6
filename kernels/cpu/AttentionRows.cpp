#include "kernels/cpu/AttentionRows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/AttentionRows.cpp"
#include "hwy/foreach_target.h"
#include "kernels/cpu/VectorMath-inl.h"

#include "kernels/cpu/Rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mt::kernels::cpu {
namespace HWY_NAMESPACE {

HWY_INLINE int64_t lanes() { return static_cast<int64_t>(hn::Lanes(D())); }

/// The vectors of a row that hold what it sees.
struct Whole {
  int64_t begin, end;
  explicit Whole(RowRange seen) : begin(seen.begin / lanes() * lanes()), end((seen.end + lanes() - 1) / lanes() * lanes()) {}
};

/// `hidden` goes where the first and the last of these vectors hold what is not seen.
HWY_INLINE void hideEdges(float *row, RowRange seen, Whole whole, float hidden) {
  const D d;
  const auto before = static_cast<size_t>(seen.begin - whole.begin);
  hn::Store(hn::IfThenElse(hn::FirstN(d, before), all(hidden), hn::Load(d, row + whole.begin)), d, row + whole.begin);
  float *last = row + whole.end - lanes();
  const auto in = static_cast<size_t>(lanes() - (whole.end - seen.end));
  hn::Store(hn::IfThenElse(hn::FirstN(d, in), hn::Load(d, last), all(hidden)), d, last);
}

HWY_INLINE void clear(float *row, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i += lanes())
    hn::Store(hn::Zero(D()), D(), row + i);
}

HWY_INLINE float largestOf(const float *row, Whole whole) {
  const D d;
  V high = hn::Load(d, row + whole.begin), other = high;
  int64_t i = whole.begin + lanes();
  for (; i + lanes() < whole.end; i += 2 * lanes()) {
    high = hn::Max(high, hn::Load(d, row + i));
    other = hn::Max(other, hn::Load(d, row + i + lanes()));
  }
  if (i < whole.end)
    high = hn::Max(high, hn::Load(d, row + i));
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(high, other)));
}

/// In 64 bits.
HWY_INLINE double sumOf(V x) {
#if HWY_TARGET == HWY_SCALAR
  return static_cast<double>(hn::GetLane(x));
#else
  const hn::Repartition<double, D> wide;
  const hn::Half<D> half;
  return hn::GetLane(hn::SumOfLanes(
      wide, hn::Add(hn::PromoteTo(wide, hn::LowerHalf(half, x)), hn::PromoteTo(wide, hn::UpperHalf(half, x)))));
#endif
}

HWY_INLINE V storeTerms(float *row, Whole whole, float scale, float most) {
  const D d;
  const auto term = [&](int64_t i) HWY_ATTR {
    const V y = weightOf(d, hn::MulSub(hn::Load(d, row + i), all(scale), all(most)));
    hn::Store(y, d, row + i);
    return y;
  };
  V sum = hn::Zero(d), other = sum;
  int64_t i = whole.begin;
  for (; i + lanes() < whole.end; i += 2 * lanes()) {
    sum = hn::Add(sum, term(i));
    other = hn::Add(other, term(i + lanes()));
  }
  if (i < whole.end)
    sum = hn::Add(sum, term(i));
  return hn::Add(sum, other);
}

/// Whether it sees something, with the largest that it has met then in `most`.
HWY_INLINE bool meetRow(float *row, RowRange seen, Whole whole, float scale, float &most) {
  if (seen.empty())
    return false;
  hideEdges(row, seen, whole, -std::numeric_limits<float>::infinity());
  most = std::max(most, largestOf(row, whole) * scale);
  return !std::isinf(most) || most > 0 ||
         std::any_of(row + seen.begin, row + seen.end, [](float score) { return std::isnan(score); });
}

/// Rows that a loop is done with before the next begins: what one of them waits for, the others fill.
constexpr int64_t kTogether = 16;

HWY_INLINE void foldTogether(const ScoreRows &scores, float scale, float *most, double *totals, float *factors) {
  const D d;
  HWY_ALIGN float sums[kTogether * HWY_MAX_BYTES / sizeof(float)];
  float before[kTogether];
  bool sees[kTogether];
  std::copy_n(most, scores.rows, before);
  for (int64_t i = 0; i < scores.rows; ++i)
    sees[i] = meetRow(scores.data + i * scores.step, scores.seen[i], Whole(scores.seen[i]), scale, most[i]);
  for (int64_t i = 0; i < scores.rows; ++i) {
    float *row = scores.data + i * scores.step;
    Whole whole(scores.seen[i]);
    if (!sees[i])
      whole.begin = whole.end = 0;
    hn::Store(storeTerms(row, whole, scale, most[i]), d, sums + i * lanes());
    clear(row, 0, whole.begin);
    clear(row, whole.end, scores.step);
  }
  for (int64_t i = 0; i < scores.rows; ++i) {
    factors[i] = !sees[i] || most[i] == before[i] ? 1 : std::isinf(before[i]) ? 0 : std::exp(before[i] - most[i]);
    totals[i] = totals[i] * static_cast<double>(factors[i]) + sumOf(hn::Load(d, sums + i * lanes()));
  }
}

void foldScores(const ScoreRows &scores, float scale, float *most, double *totals, float *factors) {
  for (int64_t i = 0; i < scores.rows; i += kTogether)
    foldTogether({scores.data + i * scores.step, std::min(kTogether, scores.rows - i), scores.step, scores.seen + i},
                 scale, most + i, totals + i, factors + i);
}

void sendBackScores(const ScoreRows &scores, float scale, const float *logsumexp, const float *deltas, float *slopes) {
  const D d;
  for (int64_t r = 0; r < scores.rows; ++r) {
    float *row = scores.data + r * scores.step, *back = slopes + r * scores.step;
    const RowRange seen = scores.seen[r];
    Whole whole(seen);
    if (seen.empty() || (std::isinf(logsumexp[r]) && logsumexp[r] < 0)) {
      whole.begin = whole.end = 0;
    } else {
      hideEdges(row, seen, whole, -std::numeric_limits<float>::infinity());
      hideEdges(back, seen, whole, 0);
    }
    for (int64_t i = whole.begin; i < whole.end; i += lanes()) {
      const V p = weightOf(d, hn::MulSub(hn::Load(d, row + i), all(scale), all(logsumexp[r])));
      hn::Store(p, d, row + i);
      hn::Store(hn::Mul(p, hn::Sub(hn::Load(d, back + i), all(deltas[r]))), d, back + i);
    }
    for (float *each : {row, back}) {
      clear(each, 0, whole.begin);
      clear(each, whole.end, scores.step);
    }
  }
}

} // namespace HWY_NAMESPACE
} // namespace mt::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mt::kernels::cpu {

HWY_EXPORT(foldScores);
HWY_EXPORT(sendBackScores);

void foldScores(const ScoreRows &scores, float scale, float *most, double *totals, float *factors) {
  HWY_DYNAMIC_DISPATCH(foldScores)(scores, scale, most, totals, factors);
}
void sendBackScores(const ScoreRows &scores, float scale, const float *logsumexp, const float *deltas, float *slopes) {
  HWY_DYNAMIC_DISPATCH(sendBackScores)(scores, scale, logsumexp, deltas, slopes);
}

} // namespace mt::kernels::cpu
#endif
