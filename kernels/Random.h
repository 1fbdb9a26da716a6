// Random numbers as pure functions of a run's seed, the draw (the step), a node of the model and an element: the same
// on every device, with every number of threads, in any order. Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel
// Random Numbers: As Easy as 1, 2, 3, SC 2011) of the counter (element / 4, 64 bits; draw; node) under the seed as key;
// word element % 4 is the element's. Floats are made by sums and products of 32 bits in one order, none of them fused,
// so that host and device code have the same bits. Used by both.
#ifndef MT_KERNELS_RANDOM_H
#define MT_KERNELS_RANDOM_H

#include "kernels/Types.h"

#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define MT_RANDOM inline __host__ __device__
#else
#define MT_RANDOM inline
#endif

namespace mt::kernels {

namespace philox {
// Constants of the reference: multipliers of a round, and what the key grows by (golden ratio, sqrt(3) - 1).
constexpr uint64_t kMultiply0 = 0xD2511F53, kMultiply1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;
} // namespace philox

/// Four words of 32 bits: a counter, from the low word on, or what becomes of it.
struct Words {
  uint32_t at[4];
};

/// The ten rounds.
MT_RANDOM Words philoxOf(Words counter, uint32_t low, uint32_t high) {
  for (int round = 0; round < philox::kRounds; ++round) {
    const uint64_t first = philox::kMultiply0 * counter.at[0], second = philox::kMultiply1 * counter.at[2];
    counter = {{static_cast<uint32_t>(second >> 32) ^ counter.at[1] ^ low, static_cast<uint32_t>(second),
                static_cast<uint32_t>(first >> 32) ^ counter.at[3] ^ high, static_cast<uint32_t>(first)}};
    low += philox::kWeyl0;
    high += philox::kWeyl1;
  }
  return counter;
}

/// What the numbers of a call have in common.
struct Draw {
  uint32_t low = 0, high = 0, draw = 0, node = 0;
  bool trains = false; ///< else dropout keeps everything

  /// By the step's scalars, and the node's number.
  static MT_RANDOM Draw of(const double *scalars, int64_t number) {
    const auto seed = static_cast<uint64_t>(scalars[Scalars::kSeed]);
    const auto which = static_cast<int64_t>(scalars[Scalars::kDraw]);
    return {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), static_cast<uint32_t>(which),
            static_cast<uint32_t>(number), which > 0};
  }
  /// The words of elements 4 * block and the three after it.
  MT_RANDOM Words words(uint64_t block) const {
    return philoxOf({{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), draw, node}}, low, high);
  }
};

/// Elements that lie as [outer, rows, inner]: that of index `inner` of row r, which is row `number` of the batch, in
/// part o has the number (number * outer + o) * inner's size + inner.
struct Numbering {
  int64_t outer = 1, inner = 1;
  MT_RANDOM uint64_t first(int64_t part, int64_t number) const {
    return (static_cast<uint64_t>(number) * static_cast<uint64_t>(outer) + static_cast<uint64_t>(part)) *
           static_cast<uint64_t>(inner);
  }
};

/// A word below this is dropped by dropout; 2^32: every one is.
inline uint64_t dropBelow(double ratio) { return static_cast<uint64_t>(std::ceil(ratio * 4294967296.0)); }
/// What dropout multiplies by what it keeps.
inline float keptScale(double ratio) { return ratio < 1 ? static_cast<float>(1 / (1 - ratio)) : 0.0f; }

namespace exact {
// Sums and products that no compiler fuses. On the host kernels are compiled without contraction.
#ifdef __CUDA_ARCH__
MT_RANDOM float add(float a, float b) { return __fadd_rn(a, b); }
MT_RANDOM float mul(float a, float b) { return __fmul_rn(a, b); }
MT_RANDOM float root(float a) { return __fsqrt_rn(a); }
#else
MT_RANDOM float add(float a, float b) { return a + b; }
MT_RANDOM float mul(float a, float b) { return a * b; }
MT_RANDOM float root(float a) { return std::sqrt(a); }
#endif
/// terms[0] + x * (terms[1] + ...)
template <int kTerms> MT_RANDOM float polynomial(float x, const float (&terms)[kTerms]) {
  float sum = terms[kTerms - 1];
  for (int i = kTerms - 1; i-- > 0;)
    sum = add(mul(sum, x), terms[i]);
  return sum;
}
} // namespace exact

/// In [0, 1), a multiple of 2^-24.
MT_RANDOM float uniformOf(uint32_t word) { return exact::mul(static_cast<float>(word >> 8), 0x1p-24f); }

/// ln u for a normal u in (0, 1]: u = 2^k m with m around 1, and the polynomial of logf in Cephes (Moshier).
MT_RANDOM float logarithmOf(float u) {
  const float kTerms[] = {3.3333331174e-1f,  -2.4999993993e-1f, 2.0000714765e-1f,  -1.6668057665e-1f, 1.4249322787e-1f,
                          -1.2420140846e-1f, 1.1676998740e-1f,  -1.1514610310e-1f, 7.0376836292e-2f};
  constexpr uint32_t kRootHalf = 0x3F3504F3; // bits of the root of 1/2
  uint32_t bits;
  std::memcpy(&bits, &u, sizeof(bits));
  const int32_t power = (static_cast<int32_t>(bits) - static_cast<int32_t>(kRootHalf)) >> 23;
  bits -= static_cast<uint32_t>(power) << 23;
  float m;
  std::memcpy(&m, &bits, sizeof(m));
  const float x = exact::add(m, -1.0f), square = exact::mul(x, x), k = static_cast<float>(power);
  float rest = exact::mul(exact::mul(x, square), exact::polynomial(x, kTerms));
  rest = exact::add(rest, exact::mul(k, -2.12194440e-4f)); // ln 2 in two parts
  rest = exact::add(rest, exact::mul(square, -0.5f));
  return exact::add(exact::add(x, rest), exact::mul(k, 0.693359375f));
}

/// Cosine and sine of word / 2^32 of a turn: within an eighth of a turn around the axes by the polynomials of sinf and
/// cosf in Cephes (Moshier).
MT_RANDOM void turnedBy(uint32_t word, float &cosine, float &sine) {
  const float kSine[] = {-1.6666654611e-1f, 8.3321608736e-3f, -1.9515295891e-4f};
  const float kCosine[] = {4.166664568298827e-2f, -1.388731625493765e-3f, 2.443315711809948e-5f};
  const uint32_t axis = (word + (1u << 29)) >> 30;
  const auto beside = static_cast<int32_t>(word - (axis << 30));
  const float x = exact::mul(static_cast<float>(beside), 1.4629180792671596e-9f); // 2 pi / 2^32
  const float square = exact::mul(x, x);
  const float s = exact::add(exact::mul(exact::mul(exact::polynomial(square, kSine), square), x), x);
  const float c = exact::add(
      exact::add(exact::mul(exact::mul(exact::polynomial(square, kCosine), square), square), exact::mul(square, -0.5f)),
      1.0f);
  const float across = axis & 1 ? s : c, up = axis & 1 ? c : s;
  cosine = axis == 1 || axis == 2 ? -across : across;
  sine = axis == 2 || axis == 3 ? -up : up;
}

/// Two independent normal numbers (Box and Muller 1958): of elements 2 i and 2 i + 1, whose words these are.
MT_RANDOM void normalsOf(uint32_t even, uint32_t odd, float &first, float &second) {
  const float u = exact::add(exact::mul(static_cast<float>(even), 0x1p-32f), 0x1p-33f); // (0, 1]
  const float radius = exact::root(exact::mul(logarithmOf(u), -2.0f));
  float cosine, sine;
  turnedBy(odd, cosine, sine);
  first = exact::mul(radius, cosine);
  second = exact::mul(radius, sine);
}

} // namespace mt::kernels
#endif
