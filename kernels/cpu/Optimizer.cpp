// Updates of whole and of split weights: one pass over gradient, weight and state, in blocks that are written
// only if they are finite. Those that speculate write a block's undo, or take it back by that, while it is in the
// cache.
#include "kernels/Blocks.h"
#include "kernels/Optimizers.h"
#include "kernels/cpu/Family.h"
#include "kernels/cpu/Vector.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace mt::kernels::cpu {
namespace {

constexpr int64_t kChunk = 64 * vec::kUpdateBlock;
static_assert(vec::kUpdateBlock == kUndoBlock && vec::kUndoRun == kUndoRun);

float clipOf(const double *scalars) {
  return scalars[Scalars::kClipScale] < 1 ? static_cast<float>(scalars[Scalars::kClipScale]) : 1.0f;
}

/// The weight in what an update replaces, whole or in two halves.
struct Whole {
  static constexpr size_t kParts = 1;
  static float *in(std::byte *const *parts) { return reinterpret_cast<float *>(parts[0]); }
};
struct Split {
  static constexpr size_t kParts = 2;
  static vec::SplitWeight in(std::byte *const *parts) {
    return {reinterpret_cast<Bf16 *>(parts[0]), reinterpret_cast<int16_t *>(parts[1])};
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
template <vec::UpdateRule (*ruleOf)(const double *), size_t kState, typename Weight> class Update {
public:
  explicit Update(const Signature &call)
      : elements(call.operands[kUpdateGradient].elements()), first(call.integer("first")),
        speculation(speculationOf(call)), weight(speculation == Speculation::ends ? kUpdateUndo + 1 : kUpdateUndo),
        undoOperand(speculation == Speculation::ends ? kUpdateUndo : call.operands.size() - 1), undo(undoOf(call)) {
    const size_t end = speculation == Speculation::begins ? undoOperand : call.operands.size();
    for (size_t i = 0; i < kParts && weight + i < end; ++i)
      sizes[i] = static_cast<int64_t>(byteSize(call.operands[weight + i].type));
  }

  Status operator()(const Launch &launch) const {
    switch (speculation) {
    case Speculation::begins:
      return begin(launch);
    case Speculation::ends:
      return end(launch);
    case Speculation::none:
      break;
    }
    const auto *scalars = launch.at<const double>(kUpdateScalars);
    if (scalars[Scalars::kStep] == 0)
      return {};
    const Rule rule = ruleFor(scalars);
    if (double norm = *launch.at<const double>(kUpdateNorm); !std::isfinite(norm))
      return fail("the gradient's squared norm is {}: not finite", std::abs(norm)); // without a NaN's sign
    return failure(eachBlock(launch, [&](int64_t at, int64_t count) { return update(launch, rule, at, count); }));
  }

private:
  static constexpr size_t kParts = Weight::kParts + kState + 1; ///< that it replaces; the last is the average
  int64_t elements, first;                                      ///< of the parameter's elements
  Speculation speculation;
  size_t weight, undoOperand;             ///< the first that it replaces, and the undo
  std::array<int64_t, kParts> sizes = {}; ///< of an element of each part; 0: there is none
  Undo undo;

  struct Rule {
    vec::UpdateRule rule;
    float averageTowards;
  };
  static Rule ruleFor(const double *scalars) {
    return {ruleOf(scalars), static_cast<float>(1 - scalars[Scalars::kAverageDecay])};
  }

  /// Of a block that begins at an element: gradient, weight, state and average.
  template <typename Body> auto withBlock(const Launch &launch, const Rule &rule, int64_t at, Body body) const {
    std::array<std::byte *, kParts> parts = {}; // null: there is none
    for (size_t i = 0; i < kParts; ++i)
      parts[i] = sizes[i] > 0 ? launch.at<std::byte>(weight + i) + at * sizes[i] : nullptr;
    float *state[kState + 1];
    for (size_t i = 0; i <= kState; ++i)
      state[i] = reinterpret_cast<float *>(parts[Weight::kParts + i]);
    return body(launch.at<const float>(kUpdateGradient) + at, Weight::in(parts.data()), state,
                vec::Average{state[kState], rule.averageTowards});
  }
  /// False where it refused.
  bool update(const Launch &launch, const Rule &rule, int64_t at, int64_t count) const {
    return withBlock(launch, rule, at, [&](auto gradient, auto weight, auto state, const vec::Average &average) {
      return vec::update(rule.rule, gradient, weight, state, average, count);
    });
  }
  std::byte *undoBlock(const Launch &launch, int64_t at) const {
    return launch.at<std::byte>(undoOperand) + undo.blocksAt() + at / kUndoBlock * undo.blockBytes();
  }
  /// Which runs of a block the begin left as they were.
  uint8_t &leftOf(const Launch &launch, int64_t at) const {
    return launch.at<uint8_t>(undoOperand)[Undo::leftAt() + at / kUndoBlock];
  }
  void takeBack(const Launch &launch, const Rule &rule, int64_t at, int64_t count) const {
    if (const uint8_t left = leftOf(launch, at); left != vec::kAllRuns)
      withBlock(launch, rule, at, [&](auto gradient, auto weight, auto state, const vec::Average &average) {
        vec::takeBack(rule.rule, gradient, weight, state, average, count, undo.parts, undoBlock(launch, at), left);
      });
  }

  static constexpr int64_t kNone = -1;
  /// Calls body(begin, count) over all blocks; it returns false where it refused: the first such element, or kNone.
  template <typename Body> int64_t eachBlock(const Launch &launch, Body body) const {
    std::atomic<int64_t> refused = std::numeric_limits<int64_t>::max();
    launch.pool.parallelFor(ceilDivide(elements, kChunk), [&](int64_t chunk) {
      for (int64_t at = chunk * kChunk, end = std::min(elements, at + kChunk); at < end; at += vec::kUpdateBlock) {
        if (body(at, std::min(vec::kUpdateBlock, end - at)))
          continue;
        int64_t least = refused.load();
        while (at < least && !refused.compare_exchange_weak(least, at)) {
        }
      }
      if (speculation == Speculation::begins)
        vec::endStreams();
    });
    return refused == std::numeric_limits<int64_t>::max() ? kNone : first + refused;
  }
  static Status failure(int64_t refused) {
    if (refused == kNone)
      return {};
    return fail("a new weight is not finite, at element {} or a little after; try a lower learning rate", refused);
  }

  /// What cannot be updated is not yet an error: the gradient may be clipped, or the step skipped.
  Status begin(const Launch &launch) const {
    auto *scalars = launch.at<double>(undoOperand); // the undo has them first
    std::copy_n(launch.at<const double>(kUpdateScalars), size_t{Scalars::kCount}, scalars);
    scalars[Scalars::kClipScale] = 1;
    const Rule rule = ruleFor(scalars);
    const bool updates = std::isfinite(*launch.at<const double>(kUpdateNorm));
    eachBlock(launch, [&](int64_t at, int64_t count) {
      alignas(64) std::array<std::byte, sizeof(float) * kUndoBlock * kParts> block;
      uint8_t &left = leftOf(launch, at);
      left = vec::kAllRuns;
      if (updates)
        left = withBlock(launch, rule, at, [&](auto gradient, auto weight, auto state, const vec::Average &average) {
          return vec::begin(rule.rule, gradient, weight, state, average, count, undo.parts, block.data());
        });
      if (left != vec::kAllRuns)
        vec::stream(block.data(), undoBlock(launch, at), undo.blockBytes());
      return true;
    });
    return {};
  }

  Status end(const Launch &launch) const {
    const auto *scalars = launch.at<const double>(kUpdateScalars);
    const bool skipped = scalars[Scalars::kStep] == 0;
    if (skipped && std::isfinite(scalars[Scalars::kGradientNorm])) // before the first step: nothing has begun
      return {};
    const Rule began = ruleFor(launch.at<const double>(undoOperand)), rule = ruleFor(scalars);
    if (skipped) {
      eachBlock(launch, [&](int64_t at, int64_t count) {
        takeBack(launch, began, at, count);
        return true;
      });
      return {};
    }
    if (scalars[Scalars::kClipScale] < 1)
      return failure(eachBlock(launch, [&](int64_t at, int64_t count) {
        takeBack(launch, began, at, count);
        return update(launch, rule, at, count);
      }));
    return failure(eachBlock(launch, [&](int64_t at, int64_t count) { // only what was left
      const uint8_t left = leftOf(launch, at);
      if (left == vec::kAllRuns)
        return update(launch, rule, at, count);
      bool updated = true;
      for (int64_t first = 0; left != 0 && first < count; first += kUndoRun)
        if (left >> (first / kUndoRun) & 1)
          updated &= update(launch, rule, at + first, std::min(kUndoRun, count - first));
      return updated;
    }));
  }
};

template <vec::UpdateRule (*ruleOf)(const double *), size_t kState, typename Weight>
Result<Run> prepareUpdate(const Signature &call) {
  return Run(Update<ruleOf, kState, Weight>(call));
}

constexpr Entry kEntries[] = {
    {"adamw", prepareUpdate<adamw, 2, Whole>},     {"adamw_split", prepareUpdate<adamw, 2, Split>},
    {"sgd", prepareUpdate<sgd, 1, Whole>},         {"sgd_split", prepareUpdate<sgd, 1, Split>},
    {"lion", prepareUpdate<lion, 1, Whole>},       {"lion_split", prepareUpdate<lion, 1, Split>},
    {"replace", prepareUpdate<replace, 0, Whole>}, {"replace_split", prepareUpdate<replace, 0, Split>}};

} // namespace

std::span<const Entry> optimizerEntries() { return kEntries; }

} // namespace mt::kernels::cpu
