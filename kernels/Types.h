// Element types and the step's scalars: what kernels, device code too, share with the catalogue without its libraries.
#ifndef MT_KERNELS_TYPES_H
#define MT_KERNELS_TYPES_H

#include <cstdint>

namespace mt::kernels {

/// Element types. `boolean` is one byte, 0 or 1.
enum class DType : uint8_t { f32 = 0, bf16 = 1, f16 = 2, f64 = 3, i64 = 4, i32 = 5, i16 = 6, i8 = 7, u8 = 8, boolean = 9 };

/// Places in the step's scalars, rows of `kCount` doubles that the feed command writes: one for the whole step, which
/// losses read, and after it one for each parameter of the plan, which its update reads: the rows differ in what users
/// choose for groups of parameters. The training loop fills them once a step. `step_norm` writes a copy with
/// kGradientNorm and kClipScale filled in, in every row, and kStep 0 where the step is skipped.
struct Scalars {
  enum : int {
    kStep = 0, ///< 1-based optimizer step; 0: updates touch nothing
    kLearningRate = 1,
    kBiasCorrection1 = 2, ///< 1 - beta1^step
    kBiasCorrection2 = 3, ///< 1 - beta2^step
    kSkips = 4,           ///< 1: a gradient that is not finite skips the step; 0: it is an error
    kInverseValid = 5,    ///< 1 / labels of the step that count; a loss is the sum over its rows times this
    kClipThreshold = 6,   ///< infinity: no clipping
    kClipScale = 7,       ///< min(1, threshold / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_
    kGradientNorm = 8,
    kSeed = 9, ///< of random numbers: an integer below 2^53
    kBeta1 = 10,
    kBeta2 = 11,
    kEpsilon = 12,
    kDecay = 13, ///< of weights
    kMomentum = 14,
    kDraw = 15, ///< which random numbers (kernels/Random.h): the step, in training; of evaluations below zero
    kAverageDecay = kDraw, ///< of a parameter's row, by which nothing is drawn: what its average keeps of itself
    kCount = 16
  };
};

} // namespace mt::kernels
#endif
