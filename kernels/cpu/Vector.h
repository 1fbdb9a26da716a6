// Arithmetic on contiguous rows of f32 that families share, vectorized with run-time dispatch. Sums come in 64 bits:
// lanes of f32 over 512 elements, then double. Counts may be anything; rows need no alignment. Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_VECTOR_H
#define MT_KERNELS_CPU_VECTOR_H

#include "kernels/Bf16.h"

#include <cstdint>
#include <span>
#include <variant>

namespace mt::kernels::cpu::vec {

/// Between bf16 and floats: exactly, and to the nearest, replacing or adding to what is there. What is not added may lie
/// where the floats begin.
void widen(const Bf16 *from, int64_t count, float *to);
void narrow(const float *from, int64_t count, bool accumulate, Bf16 *to);
/// Floats to the nearest that bf16 holds; may be in place.
void roundToBf16(const float *from, int64_t count, float *to);

/// What many values become one by. Of NaN and another the larger, and the smaller, is NaN.
enum class Fold : uint8_t { sum, largest, smallest };
constexpr int64_t kFoldLanes = 32;
/// Folds x[i] into lanes[i % kFoldLanes].
void foldLanes(Fold fold, const float *x, int64_t count, double *lanes);
/// Folds x[i] into values[i], of one row after another, `step` elements apart.
void foldRows(Fold fold, const float *x, int64_t step, int64_t rows, int64_t count, double *values);
void foldRows(Fold fold, const Bf16 *x, int64_t step, int64_t rows, int64_t count, double *values);

/// Where x[i step] is larger than values[i], or from[i] is negative, values[i] becomes it and from[i] `element` + i
/// step, for i below `count`. NaN is larger than all, the first of several the largest.
void keepLargest(const float *x, int64_t step, int64_t count, int32_t element, float *values, int32_t *from);

double sum(const float *x, int64_t count);
double dot(const float *x, const float *y, int64_t count);
/// Sum of (x - center)^2.
double squaredDistance(const float *x, float center, int64_t count);
/// Sum of x^2, every square in 64 bits.
double squaredNorm(const float *x, int64_t count);
/// sums[i] += x[i]^2, in 64 bits, of one row after another, `step` elements apart.
void addSquares(const float *x, int64_t step, int64_t rows, int64_t count, double *sums);
/// Largest element; -infinity for none.
float largest(const float *x, int64_t count);
/// Sum of e^(x - shift), of x up to shift, of which those below 2^-100.5 are zero; with out, which may be x, that is
/// where the terms go.
double sumExp(const float *x, float shift, int64_t count);
double storeExp(const float *x, float shift, float *out, int64_t count);
/// out = e^(x - shift) * scale - offset. May be in place.
void exponentials(const float *x, float shift, float scale, float offset, float *out, int64_t count);
/// out = x * scale - offset. May be in place.
void scaleLess(const float *x, float scale, float offset, float *out, int64_t count);
/// out = cap * tanh(x * scale / cap). May be in place.
void capped(const float *x, float scale, float cap, float *out, int64_t count);

/// out = (e^(y - shift) * scale - offset) * (1 - (y / cap)^2), of the terms of sumExp(): what softmax sends back
/// through a cap of y. May be in place.
void cappedExponentials(const float *y, float shift, float scale, float offset, float cap, float *out, int64_t count);

/// Pairs (a, b) turned by angles of cosine c and sine s: (a c - b s, b c + a s); `back`: by -s. Of pairs that lie side by
/// side (`step` 2) or in two rows (`step` 1).
void rotate(const float *a, const float *b, const float *c, const float *s, bool back, int64_t step, int64_t pairs,
            float *outA, float *outB);
/// out = x * scale, or += it. May be in place.
void scale(const float *x, float factor, float *out, int64_t count, bool accumulate);
/// out += x.
void add(const float *x, float *out, int64_t count);
/// out = ((x - shift) * factor) * gain + bias, or += it; gain and bias may be null.
void affine(const float *x, float shift, float factor, const float *gain, const float *bias, float *out, int64_t count,
            bool accumulate);
/// Sums of g = gradient * gain and of g * xhat, xhat = (x - shift) * factor; gain may be null.
struct NormSums {
  double gradient, product;
};
NormSums normSums(const float *gradient, const float *x, const float *gain, float shift, float factor, int64_t count);
/// out = factor * (g - meanGradient - xhat * meanProduct), or += it.
void normGrad(const float *gradient, const float *x, const float *gain, float shift, float factor, float meanGradient,
              float meanProduct, float *out, int64_t count, bool accumulate);
/// dgain += gradient * xhat and dbias += gradient; either may be null.
void normParameters(const float *gradient, const float *x, float shift, float factor, float *dgain, float *dbias,
                    int64_t count);
/// out = y * (gradient - shift), or += it.
void softmaxGrad(const float *gradient, const float *y, float shift, float *out, int64_t count, bool accumulate);

/// What AdamW needs in a step, in 32 bits as PyTorch's loops have it: see the formula in the catalogue.
struct AdamW {
  float clip;     ///< factor of the gradient
  float keep;     ///< 1 - lr * decay
  float towards1; ///< 1 - beta1
  float beta2;    ///< and
  float towards2; ///< 1 - beta2
  float root2;    ///< sqrt(1 - beta2^t)
  float epsilon;  ///< and
  float step;     ///< lr / (1 - beta1^t)
};
struct Sgd {
  float clip, decay, momentum, rate;
};
struct Lion {
  float clip, keep; ///< as of AdamW
  float towards1, towards2, rate;
};
/// The new weight is the gradient.
struct Replace {};
using UpdateRule = std::variant<AdamW, Sgd, Lion, Replace>;

/// A weight in two halves.
struct SplitWeight {
  Bf16 *upper;
  int16_t *lower;
};

/// What follows the new weights: values += towards * (weight - values).
struct Average {
  float *values = nullptr; ///< null: none is kept
  float towards = 0;
};

/// Updates up to 512 elements, what the rule keeps of each and the average; false, and nothing written, if a new
/// weight, or its upper half, is not finite.
bool update(const UpdateRule &rule, const float *gradient, float *weight, float *const *state, const Average &average,
            int64_t count);
bool update(const UpdateRule &rule, const float *gradient, SplitWeight weight, float *const *state,
            const Average &average, int64_t count);
constexpr int64_t kUpdateBlock = 512, kUndoRun = kUpdateBlock / 8;
constexpr uint8_t kAllRuns = 0xff;
/// The same, and writes what takes it back, a block of an undo (kernels/Optimizers.h): so many bytes an element of each
/// part. Which runs of elements it left as they were, a bit of each: all where update() would refuse.
uint8_t begin(const UpdateRule &rule, const float *gradient, float *weight, float *const *state, const Average &average,
              int64_t count, std::span<const int64_t> parts, std::byte *undo);
uint8_t begin(const UpdateRule &rule, const float *gradient, SplitWeight weight, float *const *state,
              const Average &average, int64_t count, std::span<const int64_t> parts, std::byte *undo);
/// Takes back what begin() did by the same rule, but for the runs that it left.
void takeBack(const UpdateRule &rule, const float *gradient, float *weight, float *const *state, const Average &average,
              int64_t count, std::span<const int64_t> parts, const std::byte *undo, uint8_t left);
void takeBack(const UpdateRule &rule, const float *gradient, SplitWeight weight, float *const *state,
              const Average &average, int64_t count, std::span<const int64_t> parts, const std::byte *undo,
              uint8_t left);
/// Copies bytes that nobody reads soon: past the caches where `to` is aligned for it. Call endStreams before others
/// may read them.
void stream(const std::byte *from, std::byte *to, int64_t bytes);
void endStreams();

} // namespace mt::kernels::cpu::vec
#endif
