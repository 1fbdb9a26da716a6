// Vectors of pairs with Highway, compiled for each instruction set, whose logarithms, sines and cosines may differ in
// their last bits: where that could change the float that comes out, the pair is made again by the formula in scalar
// double. So the values are the formula's, everywhere.
#include "runtime/host/Generator.h"

#include "kernels/Random.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/host/Generator.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#ifndef MT_RUNTIME_HOST_GENERATOR_ONCE
#define MT_RUNTIME_HOST_GENERATOR_ONCE

#include <algorithm>
#include <cmath>
#include <numbers>

namespace mt::host {
namespace {

using kernels::philox::kMultiply0, kernels::philox::kMultiply1, kernels::philox::kWeyl0, kernels::philox::kWeyl1,
    kernels::philox::kRounds;
constexpr uint64_t kLow = 0xFFFFFFFF;

/// 64 random bits each for elements 2 * pair and 2 * pair + 1.
std::array<uint64_t, 2> bitsOf(uint64_t key, uint64_t pair) {
  std::array<uint32_t, 4> words = philox({static_cast<uint32_t>(pair), static_cast<uint32_t>(pair >> 32), 0, 0},
                                         {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
  return {words[0] | static_cast<uint64_t>(words[1]) << 32, words[2] | static_cast<uint64_t>(words[3]) << 32};
}

/// In [0, 1).
double uniformElement(uint64_t key, uint64_t element) {
  return static_cast<double>(bitsOf(key, element / 2)[element % 2] >> 11) * 0x1p-53;
}

/// Two independent normal values: elements 2 * pair and 2 * pair + 1.
std::array<double, 2> normalPair(uint64_t key, uint64_t pair) {
  const auto [first, second] = bitsOf(key, pair);
  double u = static_cast<double>((first >> 11) + 1) * 0x1p-53; // (0, 1]
  double v = static_cast<double>(second >> 11) * 0x1p-53;      // [0, 1)
  double radius = std::sqrt(-2 * std::log(u)), angle = 2 * std::numbers::pi * v;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

} // namespace
} // namespace mt::host
#endif

HWY_BEFORE_NAMESPACE();
namespace mt::host {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Words = hn::ScalableTag<uint64_t>;
using Doubles = hn::ScalableTag<double>;
using Word = hn::Vec<Words>;
using Double = hn::Vec<Doubles>;

/// The low halves of two words, as one word.
HWY_INLINE Word joined(Word low, Word high) {
  return hn::Or(hn::And(low, hn::Set(Words(), kLow)), hn::ShiftLeft<32>(high));
}
/// The low halves times a factor of 32 bits.
HWY_INLINE Word multiplied(Word word, uint64_t factor) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(Words(), (hn::GetLane(word) & kLow) * factor);
#else
  const hn::Repartition<uint32_t, Words> halves;
  return hn::MulEven(hn::BitCast(halves, word), hn::BitCast(halves, hn::Set(Words(), factor)));
#endif
}

/// An integer below 2^52.
HWY_INLINE Double smallInteger(Word value) {
  const Double magic = hn::Set(Doubles(), 0x1p52);
  return hn::Sub(hn::BitCast(Doubles(), hn::Or(value, hn::BitCast(Words(), magic))), magic);
}
/// value * 2^-53, for an integer up to 2^53.
HWY_INLINE Double fraction(Word value) {
  const Double high = smallInteger(hn::ShiftRight<32>(value)),
               low = smallInteger(hn::And(value, hn::Set(Words(), kLow)));
  return hn::Add(hn::Mul(high, hn::Set(Doubles(), 0x1p-21)), hn::Mul(low, hn::Set(Doubles(), 0x1p-53)));
}

template <size_t kTerms> HWY_INLINE Double polynomial(Double x, const double (&terms)[kTerms]) {
  Double sum = hn::Set(Doubles(), terms[kTerms - 1]);
  for (size_t i = kTerms - 1; i-- > 0;)
    sum = hn::MulAdd(sum, x, hn::Set(Doubles(), terms[i]));
  return sum;
}

/// ln u for u in [2^-53, 1], within 1e-13 of it: u = 2^k m with m around 1, and ln m = 2 artanh((m - 1) / (m + 1)) by
/// its Taylor series.
HWY_INLINE Double logarithm(Double u) {
  constexpr double kTerms[] = {2, 2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13, 2.0 / 15};
  constexpr uint64_t kRootHalf = 0x3FE6A09E00000000, kBias = 1024; // bits of a number just below the root of 1/2
  const Words words;
  const Doubles doubles;
  const Word above = hn::Sub(hn::BitCast(words, u), hn::Set(words, kRootHalf - (kBias << 52)));
  const Word power = hn::ShiftRight<52>(above); // k + kBias
  const Double m =
      hn::BitCast(doubles, hn::Sub(hn::BitCast(words, u), hn::ShiftLeft<52>(hn::Sub(power, hn::Set(words, kBias)))));
  const Double k = hn::Sub(smallInteger(power), hn::Set(doubles, static_cast<double>(kBias)));
  const Double one = hn::Set(doubles, 1.0), ratio = hn::Div(hn::Sub(m, one), hn::Add(m, one));
  const Double rest = hn::Mul(ratio, polynomial(hn::Mul(ratio, ratio), kTerms));
  return hn::MulAdd(k, hn::Set(doubles, std::numbers::ln2), rest);
}

/// Cosine and sine of 2 pi v for v in [0, 1], within 1e-12, by their Taylor series within an eighth of a turn around
/// the axes.
HWY_INLINE void turned(Double v, Double &cosine, Double &sine) {
  constexpr double kSine[] = {1, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800};
  constexpr double kCosine[] = {1, -1.0 / 2, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600};
  const Doubles d;
  const Double quarters = hn::Mul(v, hn::Set(d, 4.0)), axis = hn::Round(quarters);
  const Double angle = hn::Mul(hn::Sub(quarters, axis), hn::Set(d, std::numbers::pi / 2)),
               square = hn::Mul(angle, angle);
  const Double s = hn::Mul(angle, polynomial(square, kSine)), c = polynomial(square, kCosine);
  const Double one = hn::Set(d, 1.0), two = hn::Set(d, 2.0), three = hn::Set(d, 3.0);
  const auto isOne = hn::Eq(axis, one), isTwo = hn::Eq(axis, two), isThree = hn::Eq(axis, three),
             isOdd = hn::Or(isOne, isThree);
  const Double across = hn::IfThenElse(isOdd, s, c), up = hn::IfThenElse(isOdd, c, s);
  cosine = hn::IfThenElse(hn::Or(isOne, isTwo), hn::Neg(across), across);
  sine = hn::IfThenElse(hn::Or(isTwo, isThree), hn::Neg(up), up);
}

/// The float that a value within `margin` rounds to; doubtful where it could be another.
template <class Mask> HWY_INLINE auto rounded(Double value, Double margin, Mask &doubtful) {
  const hn::Rebind<float, Doubles> floats;
  const auto low = hn::DemoteTo(floats, hn::Sub(value, margin)), high = hn::DemoteTo(floats, hn::Add(value, margin));
  doubtful = hn::Ne(low, high);
  return low;
}

/// Four words a pair, as many pairs as a vector has lanes.
struct Drawn {
  Word a, b, c, d;
};
HWY_INLINE Drawn counted(uint64_t pair) {
  const Words words;
  const Word counter = hn::Add(hn::Iota(words, 0), hn::Set(words, pair));
  return {counter, hn::ShiftRight<32>(counter), hn::Zero(words), hn::Zero(words)};
}
HWY_INLINE Drawn roundOf(const Drawn &at, Word low, Word high) {
  const Word first = multiplied(at.a, kMultiply0), second = multiplied(at.c, kMultiply1);
  return {hn::Xor3(hn::ShiftRight<32>(second), at.b, low), second, hn::Xor3(hn::ShiftRight<32>(first), at.d, high),
          first};
}

/// Mean and deviation, and how far a value may be off: by its radius, and by the mean.
struct Shape {
  double mean, deviation;
  double perRadius() const { return 1e-12 * std::abs(deviation); }
  double always() const { return 1e-15 * std::abs(mean); }
};

/// Writes the elements of the pairs from `pair` on.
HWY_INLINE void store(const Drawn &drawn, uint64_t key, uint64_t pair, const Shape &shape, float *out) {
  const Doubles doubles;
  const hn::Rebind<float, Doubles> floats;
  const Double u = fraction(hn::Add(hn::ShiftRight<11>(joined(drawn.a, drawn.b)), hn::Set(Words(), 1))),
               v = fraction(hn::ShiftRight<11>(joined(drawn.c, drawn.d)));
  const Double radius = hn::Sqrt(hn::Mul(hn::Set(doubles, -2.0), logarithm(u)));
  Double cosine, sine;
  turned(v, cosine, sine);
  const Double scale = hn::Set(doubles, shape.deviation), middle = hn::Set(doubles, shape.mean);
  const Double margin = hn::MulAdd(radius, hn::Set(doubles, shape.perRadius()), hn::Set(doubles, shape.always()));
  auto evenDoubtful = hn::Ne(hn::Zero(floats), hn::Zero(floats)), oddDoubtful = evenDoubtful;
  const Double length = hn::Mul(scale, radius);
  const auto even = rounded(hn::MulAdd(length, cosine, middle), margin, evenDoubtful);
  const auto odd = rounded(hn::MulAdd(length, sine, middle), margin, oddDoubtful);
  hn::StoreInterleaved2(even, odd, floats, out);
  if (HWY_UNLIKELY(!hn::AllFalse(floats, hn::Or(evenDoubtful, oddDoubtful))))
    for (uint64_t i = 0; i < hn::Lanes(doubles); ++i) {
      const std::array<double, 2> exact = normalPair(key, pair + i);
      for (uint64_t j = 0; j < 2; ++j)
        out[2 * i + j] = static_cast<float>(shape.mean + shape.deviation * exact[j]);
    }
}

/// Elements of `pairs` pairs from `pair` on, as many of them as fill vectors. Returns how many. Vectors are drawn in
/// twos: a round waits for the one before it.
uint64_t normals(uint64_t key, uint64_t pair, uint64_t pairs, double mean, double deviation, float *out) {
  const Words words;
  const uint64_t lanes = hn::Lanes(words);
  HWY_ALIGN uint64_t keys[kRounds][2][hn::MaxLanes(Words())];
  uint32_t low = static_cast<uint32_t>(key), high = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kRounds; ++round, low += kWeyl0, high += kWeyl1) {
    hn::StoreU(hn::Set(words, low), words, keys[round][0]);
    hn::StoreU(hn::Set(words, high), words, keys[round][1]);
  }
  uint64_t done = 0;
  for (; done + 2 * lanes <= pairs; done += 2 * lanes) {
    Drawn one = counted(pair + done), other = counted(pair + done + lanes);
    for (const auto &both : keys) {
      const Word first = hn::LoadU(words, both[0]), second = hn::LoadU(words, both[1]);
      one = roundOf(one, first, second), other = roundOf(other, first, second);
    }
    store(one, key, pair + done, {mean, deviation}, out + 2 * done);
    store(other, key, pair + done + lanes, {mean, deviation}, out + 2 * (done + lanes));
  }
  return done;
}

} // namespace HWY_NAMESPACE
} // namespace mt::host
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <xxhash.h>

namespace mt::host {
HWY_EXPORT(normals);

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  const kernels::Words made = kernels::philoxOf({{counter[0], counter[1], counter[2], counter[3]}}, key[0], key[1]);
  return {made.at[0], made.at[1], made.at[2], made.at[3]};
}

uint64_t generatorKey(std::string_view name, uint64_t seed) {
  return XXH3_64bits_withSeed(name.data(), name.size(), seed);
}

double normalElement(uint64_t key, uint64_t element) { return normalPair(key, element / 2)[element % 2]; }

void generateNormal(uint64_t key, uint64_t first, double mean, double deviation, std::span<float> values) {
  uint64_t at = 0;
  auto one = [&] {
    values[at] = static_cast<float>(mean + deviation * normalElement(key, first + at));
    ++at;
  };
  if (first % 2 == 1 && !values.empty())
    one();
  if (std::abs(deviation) > 1e-25) // or floats would be too coarse to tell what is doubtful
    at += 2 * HWY_DYNAMIC_DISPATCH(normals)(key, (first + at) / 2, (values.size() - at) / 2, mean, deviation,
                                            values.data() + at);
  while (at < values.size())
    one();
}

void generateUniform(uint64_t key, uint64_t first, double mean, double deviation, std::span<float> values) {
  for (uint64_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(mean + deviation * std::numbers::sqrt3 * (2 * uniformElement(key, first + i) - 1));
}

bool generate(const Generator &generator, uint64_t first, std::span<float> values) {
  const auto &[kind, key, value, deviation] = generator;
  if (kind == "normal")
    generateNormal(key, first, value, deviation, values);
  else if (kind == "uniform")
    generateUniform(key, first, value, deviation, values);
  else if (kind == "constant" || kind == "zeros" || kind == "ones")
    std::ranges::fill(values, kind == "constant" ? static_cast<float>(value) : kind == "ones" ? 1.0f : 0.0f);
  else
    return false;
  return true;
}

} // namespace mt::host
#endif
