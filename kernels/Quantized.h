// How the elements of `dequantize` lie: whole numbers of a few bits, eight bits' worth to a byte, low bits first, and
// the scale that each is multiplied with. Shared by the catalogue and the kernels of every device.
#ifndef MT_KERNELS_QUANTIZED_H
#define MT_KERNELS_QUANTIZED_H

#include "kernels/Blocks.h"
#include "kernels/Catalogue.h"

#include <algorithm>
#include <array>
#include <optional>

namespace mt::kernels {

/// What the 16 codes of a 4-bit NormalFloat stand for, times the largest magnitude of their block (Dettmers et al.,
/// QLoRA, arXiv 2305.14314, appendix E).
inline constexpr std::array<double, 16> kNormalFloat4 = {-1.0,
                                                         -0.6961928009986877,
                                                         -0.5250730514526367,
                                                         -0.39491748809814453,
                                                         -0.28444138169288635,
                                                         -0.18477343022823334,
                                                         -0.09105003625154495,
                                                         0.0,
                                                         0.07958029955625534,
                                                         0.16093020141124725,
                                                         0.24611230194568634,
                                                         0.33791524171829224,
                                                         0.44070982933044434,
                                                         0.5626170039176941,
                                                         0.7229568362236023,
                                                         1.0};
inline constexpr int kMostLevels = 16;
/// Entries of a row that share a scale where weights are packed so.
inline constexpr int64_t kNormalFloatBlock = 64;

/// The result seen as [outer, entries, inner], with a scale for every `block` entries; steps, in scales, are 0 where
/// one scale serves all.
struct Quantized {
  int64_t total = 0, entries = 1, inner = 1, block = 1;
  int64_t outerStep = 0, blockStep = 0, innerStep = 0;
  int bits = 8;
  bool isSigned = false;
  int64_t zero = 0; ///< the number that stands for 0, where no operand tells
  bool hasLevels = false;
  float levels[kMostLevels] = {}; ///< what each value stands for, where it is not itself

  int64_t bytes() const { return ceilDivide(total * bits, 8); }
};

/// Of a call with operands values, scales, zeros?, result; none if its axis and blocks do not fit the scales' shape.
inline std::optional<Quantized> quantizedOf(const Signature &call) {
  const Dims &dims = call.operands[3].dims, &scales = call.operands[1].dims;
  Quantized q;
  q.total = call.operands[3].elements();
  q.bits = static_cast<int>(call.integer("bits"));
  q.isSigned = call.integer("isSigned") != 0;
  q.zero = call.integer("zero");
  const std::vector<double> levels = call.reals("levels");
  q.hasLevels = !levels.empty();
  std::copy_n(levels.begin(), std::min(levels.size(), size_t{kMostLevels}), q.levels);
  int64_t axis = call.integer("axis"), rank = static_cast<int64_t>(dims.size());
  if (scales.empty())
    return q;
  q.block = call.integer("block", 1);
  if (axis < 0 || axis >= rank || q.block < 1)
    return std::nullopt;
  q.entries = dims[static_cast<size_t>(axis)];
  for (int64_t d = axis + 1; d < rank; ++d)
    q.inner *= dims[static_cast<size_t>(d)];
  int64_t blocks = ceilDivide(q.entries, q.block);
  Dims along = dims;
  along[static_cast<size_t>(axis)] = blocks;
  if (scales == along)
    q.outerStep = blocks * q.inner, q.blockStep = q.inner, q.innerStep = 1;
  else if (scales == Dims{blocks})
    q.blockStep = 1;
  else
    return std::nullopt;
  return q;
}

} // namespace mt::kernels
#endif
