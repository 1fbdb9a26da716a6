// Updates of whole and of split weights: one pass over gradient, weight and state, in blocks that are written
// only if they are finite.
#include "kernels/Blocks.h"
#include "kernels/Optimizers.h"
#include "kernels/cpu/Family.h"
#include "kernels/cpu/Vector.h"

#include <cmath>
#include <limits>

namespace mt::kernels::cpu {
namespace {

constexpr int64_t kChunk = 64 * vec::kUpdateBlock;

struct Shape {
  int64_t elements;
  int64_t first; ///< of the parameter's elements
  explicit Shape(const Signature &call) : elements(call.operands[kUpdateGradient].elements()), first(call.integer("first")) {}
};

float clipOf(const double *scalars) {
  return scalars[Scalars::kClipScale] < 1 ? static_cast<float>(scalars[Scalars::kClipScale]) : 1.0f;
}

/// Calls update(begin, count) over all blocks; it returns false where it refused. The error names the first block.
/// Scalars of step 0 say that nothing is pending (an update deferred from before the first step): nothing is touched.
template <typename Update> Status updateAll(const Launch &launch, const Shape &shape, Update update) {
  if (launch.at<const double>(kUpdateScalars)[Scalars::kStep] == 0)
    return {};
  if (double norm = *launch.at<const double>(kUpdateNorm); !std::isfinite(norm))
    return fail("the gradient's squared norm is {}: not finite", norm);
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> refused = kNone;
  launch.pool.parallelFor(ceilDivide(shape.elements, kChunk), [&](int64_t chunk) {
    for (int64_t at = chunk * kChunk, end = std::min(shape.elements, at + kChunk); at < end; at += vec::kUpdateBlock) {
      if (update(at, std::min(vec::kUpdateBlock, end - at)))
        continue;
      int64_t first = refused.load();
      while (at < first && !refused.compare_exchange_weak(first, at)) {
      }
    }
  });
  if (refused != kNone)
    return fail("a new weight is not finite, at element {} or a little after; try a lower learning rate",
                shape.first + refused.load());
  return {};
}

/// The weight among an update's operands, whole or in two halves.
struct Whole {
  static constexpr size_t kNext = 4; ///< place of the state
  static float *at(const Launch &launch, int64_t element) { return launch.at<float>(3) + element; }
};
struct Split {
  static constexpr size_t kNext = 5;
  static vec::SplitWeight at(const Launch &launch, int64_t element) {
    return {launch.at<Bf16>(3) + element, launch.at<int16_t>(4) + element};
  }
};

vec::UpdateRule adamw(const double *s) {
  const double rate = s[Scalars::kLearningRate];
  return vec::AdamW{clipOf(s),
                    static_cast<float>(1 - rate * s[Scalars::kDecay]),
                    static_cast<float>(1 - s[Scalars::kBeta1]),
                    static_cast<float>(s[Scalars::kBeta2]),
                    static_cast<float>(1 - s[Scalars::kBeta2]),
                    static_cast<float>(std::sqrt(s[Scalars::kBiasCorrection2])),
                    static_cast<float>(s[Scalars::kEpsilon]),
                    static_cast<float>(rate / s[Scalars::kBiasCorrection1])};
}

vec::UpdateRule sgd(const double *s) {
  return vec::Sgd{clipOf(s), static_cast<float>(s[Scalars::kDecay]), static_cast<float>(s[Scalars::kMomentum]),
                  static_cast<float>(s[Scalars::kLearningRate])};
}

vec::UpdateRule lion(const double *s) {
  const double rate = s[Scalars::kLearningRate];
  return vec::Lion{clipOf(s), static_cast<float>(1 - rate * s[Scalars::kDecay]), static_cast<float>(1 - s[Scalars::kBeta1]),
                   static_cast<float>(1 - s[Scalars::kBeta2]), static_cast<float>(rate)};
}

vec::UpdateRule replace(const double *) { return vec::Replace{}; }

/// `ruleOf` makes a step's rule of its scalars, which keeps `kState` parts; an average may lie behind them.
template <vec::UpdateRule (*ruleOf)(const double *), size_t kState, typename Weight>
Result<Run> prepareUpdate(const Signature &call) {
  constexpr size_t kAverageAt = Weight::kNext + kState;
  return Run([shape = Shape(call), averages = call.operands.size() > kAverageAt](const Launch &launch) {
    const auto *scalars = launch.at<const double>(kUpdateScalars);
    const vec::UpdateRule rule = ruleOf(scalars);
    const auto towards = static_cast<float>(1 - scalars[Scalars::kAverageDecay]);
    return updateAll(launch, shape, [&](int64_t at, int64_t count) {
      float *state[kState + 1];
      for (size_t i = 0; i < kState; ++i)
        state[i] = launch.at<float>(Weight::kNext + i) + at;
      const vec::Average average = {averages ? launch.at<float>(kAverageAt) + at : nullptr, towards};
      return vec::update(rule, launch.at<const float>(kUpdateGradient) + at, Weight::at(launch, at), state, average,
                         count);
    });
  });
}

constexpr Entry kEntries[] = {
    {"adamw", prepareUpdate<adamw, 2, Whole>},     {"adamw_split", prepareUpdate<adamw, 2, Split>},
    {"sgd", prepareUpdate<sgd, 1, Whole>},         {"sgd_split", prepareUpdate<sgd, 1, Split>},
    {"lion", prepareUpdate<lion, 1, Whole>},       {"lion_split", prepareUpdate<lion, 1, Split>},
    {"replace", prepareUpdate<replace, 0, Whole>}, {"replace_split", prepareUpdate<replace, 0, Split>}};

} // namespace

std::span<const Entry> optimizerEntries() { return kEntries; }

} // namespace mt::kernels::cpu
