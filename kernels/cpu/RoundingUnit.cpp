#include "kernels/cpu/RoundingUnit.h"

#include <hwy/highway.h>
#include <hwy/targets.h>

#if defined(__x86_64__)
#include <immintrin.h>

#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" // in GCC 12's own headers of vectors
#endif

// Functions of their own instruction set: what else this file instantiates runs on any processor.
#define MT_UNIT __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))

namespace mt::kernels::cpu {
namespace {

constexpr int64_t kLanes = 16;

MT_UNIT __mmask16 first(int64_t count) { return static_cast<__mmask16>(count < kLanes ? (1U << count) - 1 : 0xffff); }

/// The unit takes subnormal numbers for zero: those are rounded as integers.
MT_UNIT __m256i nearestHalves(__m512 x) {
  constexpr int kSubnormal = 0x20;
  const __m256i rounded = (__m256i)_mm512_cvtneps_pbh(x);
  const __mmask16 subnormal = _mm512_fpclass_ps_mask(x, kSubnormal);
  if (subnormal == 0)
    return rounded;
  const __m512i bits = _mm512_castps_si512(x),
                odd = _mm512_and_epi32(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1)),
                up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  return _mm256_mask_mov_epi16(rounded, subnormal, _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16)));
}

} // namespace

bool roundsByUnit() {
  static const bool does = (hwy::SupportedTargets() & HWY_AVX3) != 0 && __builtin_cpu_supports("avx512bf16") > 0;
  return does;
}

MT_UNIT void narrowByUnit(const float *from, int64_t count, Bf16 *to) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const __mmask16 mask = first(count - i);
    _mm256_mask_storeu_epi16(to + i, mask, nearestHalves(_mm512_maskz_loadu_ps(mask, from + i)));
  }
}

MT_UNIT void roundByUnit(const float *from, int64_t count, float *to) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const __mmask16 mask = first(count - i);
    const __m256i halves = nearestHalves(_mm512_maskz_loadu_ps(mask, from + i));
    _mm512_mask_storeu_epi32(to + i, mask, _mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
  }
}

} // namespace mt::kernels::cpu

#else

namespace mt::kernels::cpu {

bool roundsByUnit() { return false; }
void narrowByUnit(const float *, int64_t, Bf16 *) {}
void roundByUnit(const float *, int64_t, float *) {}

} // namespace mt::kernels::cpu
#endif
