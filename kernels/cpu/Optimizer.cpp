// adamw and sgd, on whole and on split weights: one pass over gradient, weight and moments, in blocks that are written
// only if they are finite.
#include "kernels/Blocks.h"
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
  bool matrix;   ///< two or more dimensions: the weight decay of matrices
  explicit Shape(const Signature &call)
      : elements(call.operands[0].elements()), first(call.integer("first")), matrix(call.operands[0].dims.size() >= 2) {}
};

double decayOf(const double *scalars, const Shape &shape) {
  return scalars[shape.matrix ? Scalars::kDecayMatrices : Scalars::kDecayOther];
}

float clipOf(const double *scalars) {
  return scalars[Scalars::kClipScale] < 1 ? static_cast<float>(scalars[Scalars::kClipScale]) : 1.0f;
}

/// Calls update(begin, count) over all blocks; it returns false where it refused. The error names the first block.
/// Scalars of step 0 say that nothing is pending (an update deferred from before the first step): nothing is touched.
template <typename Update> Status updateAll(const Launch &launch, const Shape &shape, Update update) {
  if (launch.at<const double>(2)[Scalars::kStep] == 0)
    return {};
  if (double norm = *launch.at<const double>(1); !std::isfinite(norm))
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
  static constexpr size_t kNext = 4; ///< place of the first moment
  static float *at(const Launch &launch, int64_t element) { return launch.at<float>(3) + element; }
};
struct Split {
  static constexpr size_t kNext = 5;
  static vec::SplitWeight at(const Launch &launch, int64_t element) {
    return {launch.at<Bf16>(3) + element, launch.at<int16_t>(4) + element};
  }
};

template <typename Weight> struct AdamWRun {
  Shape shape;
  Status operator()(const Launch &launch) const {
    const double *s = launch.at<const double>(2);
    double rate = s[Scalars::kLearningRate];
    vec::AdamW step{clipOf(s),
                    static_cast<float>(1 - rate * decayOf(s, shape)),
                    static_cast<float>(1 - s[Scalars::kBeta1]),
                    static_cast<float>(s[Scalars::kBeta2]),
                    static_cast<float>(1 - s[Scalars::kBeta2]),
                    static_cast<float>(std::sqrt(s[Scalars::kBiasCorrection2])),
                    static_cast<float>(s[Scalars::kEpsilon]),
                    static_cast<float>(rate / s[Scalars::kBiasCorrection1])};
    return updateAll(launch, shape, [&](int64_t at, int64_t count) {
      return vec::adamw(step, launch.at<const float>(0) + at, Weight::at(launch, at),
                        launch.at<float>(Weight::kNext) + at, launch.at<float>(Weight::kNext + 1) + at, count);
    });
  }
};

template <typename Weight> struct SgdRun {
  Shape shape;
  Status operator()(const Launch &launch) const {
    const double *s = launch.at<const double>(2);
    vec::Sgd step{clipOf(s), static_cast<float>(decayOf(s, shape)), static_cast<float>(s[Scalars::kMomentum]),
                  static_cast<float>(s[Scalars::kLearningRate])};
    return updateAll(launch, shape, [&](int64_t at, int64_t count) {
      return vec::sgd(step, launch.at<const float>(0) + at, Weight::at(launch, at),
                      launch.at<float>(Weight::kNext) + at, count);
    });
  }
};

template <typename Update> Result<Run> prepareUpdate(const Signature &call) {
  return Run(Update{Shape(call)});
}

constexpr Entry kEntries[] = {{"adamw", prepareUpdate<AdamWRun<Whole>>},
                              {"adamw_split", prepareUpdate<AdamWRun<Split>>},
                              {"sgd", prepareUpdate<SgdRun<Whole>>},
                              {"sgd_split", prepareUpdate<SgdRun<Split>>}};

} // namespace

std::span<const Entry> optimizerEntries() { return kEntries; }

} // namespace mt::kernels::cpu
