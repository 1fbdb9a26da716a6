// dequantize: runs of elements that lie beside each other, widened in vectors, then less their zero and by their scale.
#include "kernels/Quantized.h"
#include "kernels/cpu/FloatRows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/Dequantize.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mt::kernels::cpu {
namespace HWY_NAMESPACE {

// Loops that compilers make vectors of: the same numbers in every instruction set.

template <int Bits> void widenBytes(const uint8_t *from, int64_t bytes, int low, float *to) {
  constexpr int kEach = 8 / Bits, kMask = (1 << Bits) - 1;
  for (int64_t i = 0; i < bytes; ++i)
    for (int part = 0; part < kEach; ++part)
      to[i * kEach + part] = static_cast<float>(((from[i] >> (part * Bits) & kMask) ^ low) - low);
}

/// All numbers of whole bytes; `low` is the sign's bit, or 0 where there is none.
void widen(const uint8_t *from, int64_t bytes, int bits, int low, float *to) {
  if (bits == 8)
    widenBytes<8>(from, bytes, low, to);
  else if (bits == 4)
    widenBytes<4>(from, bytes, low, to);
  else
    widenBytes<2>(from, bytes, low, to);
}

/// What the numbers of whole bytes stand for: `each` of them a byte, whose reals are an entry of `table`.
template <int Each> void lookUpBytes(const uint8_t *from, int64_t bytes, const float *table, float *to) {
  for (int64_t i = 0; i < bytes; ++i)
    for (int part = 0; part < Each; ++part)
      to[i * Each + part] = table[from[i] * Each + part];
}
void lookUp(const uint8_t *from, int64_t bytes, int each, const float *table, float *to) {
  if (each == 2)
    lookUpBytes<2>(from, bytes, table, to);
  else
    lookUpBytes<4>(from, bytes, table, to);
}

void scaleByOne(const float *numbers, int64_t count, float zero, float scale, float *to) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = (numbers[i] - zero) * scale;
}
void scaleByEach(const float *numbers, int64_t count, const float *zeros, float zero, const float *scales, float *to) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = (numbers[i] - (zeros ? zeros[i] : zero)) * scales[i];
}

} // namespace HWY_NAMESPACE
} // namespace mt::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mt::kernels::cpu {
namespace {
HWY_EXPORT(widen);
HWY_EXPORT(lookUp);
HWY_EXPORT(scaleByOne);
HWY_EXPORT(scaleByEach);

constexpr int64_t kRun = 2048, kMostOfAByte = 4;

struct Dequantize {
  Quantized q;
  RowIn scales, zeros;
  RowOut result;
  std::vector<float> table; ///< of values with levels: those of each byte's values

  Dequantize(const Signature &call)
      : q(*quantizedOf(call)), scales(call, 1), zeros(call, 2), result(call, 3), table(tableOf(q)) {}

  static std::vector<float> tableOf(const Quantized &q) {
    std::vector<float> table;
    for (int byte = 0; q.hasLevels && byte < 256; ++byte)
      for (int bit = 0; bit < 8; bit += q.bits)
        table.push_back(q.levels[static_cast<size_t>(byte >> bit & ((1 << q.bits) - 1))]);
    return table;
  }

  /// Widened numbers, with those that share their first and last bytes; scales; zeros; results.
  Scratch scratch() const { return {.own = sizeof(float) * static_cast<uint64_t>(4 * kRun + 2 * kMostOfAByte)}; }

  /// The elements [begin, end), no more than kRun.
  void run(const Launch &launch, int64_t begin, int64_t end) const {
    auto *numbers = ThreadPool::scratchOf<float>(static_cast<size_t>(4 * kRun + 2 * kMostOfAByte));
    float *scaleRoom = numbers + kRun + 2 * kMostOfAByte, *zeroRoom = scaleRoom + kRun, *room = zeroRoom + kRun;
    const int64_t each = 8 / q.bits, first = begin / each;
    const uint8_t *bytes = launch.at<const uint8_t>(0) + first;
    if (q.hasLevels)
      HWY_DYNAMIC_DISPATCH(lookUp)
    (bytes, ceilDivide(end, each) - first, static_cast<int>(each), table.data(), numbers);
    else HWY_DYNAMIC_DISPATCH(widen)(bytes, ceilDivide(end, each) - first, q.bits, q.isSigned ? 1 << (q.bits - 1) : 0,
                                     numbers);
    numbers += begin - first * each;
    float *to = result.place(launch, begin, room);
    for (int64_t at = begin; at < end;) {
      int64_t line = at / q.inner, within = at % q.inner, entry = line % q.entries, outer = line / q.entries;
      // As far as one scale, or a row of scales, reaches.
      int64_t reach = q.innerStep && q.inner > 1 ? q.inner - within
                      : q.blockStep == 0
                          ? end - at
                          : (std::min(q.entries, (entry / q.block + 1) * q.block) - entry) * q.inner - within;
      int64_t count = std::min(reach, end - at);
      int64_t scale = outer * q.outerStep + entry / q.block * q.blockStep + within * q.innerStep;
      bool apart = q.innerStep && q.inner > 1;
      const float *by = scales.at(launch, scale, apart ? count : 1, scaleRoom);
      const float *less = zeros.at(launch, scale, apart ? count : 1, zeroRoom);
      const auto zero = static_cast<float>(q.zero);
      if (apart)
        HWY_DYNAMIC_DISPATCH(scaleByEach)(numbers + (at - begin), count, less, zero, by, to + (at - begin));
      else
        HWY_DYNAMIC_DISPATCH(scaleByOne)
      (numbers + (at - begin), count, less ? *less : zero, *by, to + (at - begin));
      at += count;
    }
    result.finish(launch, begin, end - begin, to);
  }

  Status operator()(const Launch &launch) const {
    launch.pool.parallelFor(ceilDivide(q.total, kRun),
                            [&](int64_t chunk) { run(launch, chunk * kRun, std::min(q.total, (chunk + 1) * kRun)); });
    return {};
  }
};

Result<Run> prepareDequantize(const Signature &call) {
  return Run(Dequantize(call));
}

constexpr Entry kEntries[] = {{"dequantize", prepareDequantize}};

} // namespace

std::span<const Entry> dequantizeEntries() { return kEntries; }

} // namespace mt::kernels::cpu
#endif
