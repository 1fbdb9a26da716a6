// What attention and its gradient share: the call decoded, who sees whom, and scores of a block of queries by a block
// of keys. Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_ATTENTION_H
#define MT_KERNELS_CPU_ATTENTION_H

#include "kernels/AttentionOperands.h"
#include "kernels/Bf16.h"
#include "kernels/cpu/AttentionRows.h"
#include "kernels/cpu/FloatRows.h"

#include <array>

namespace mt::kernels::cpu {

/// A block of queries by keys of one head of one batch row, whose scores have rows `step` floats apart.
struct ScoreBlock {
  int64_t batch, head, query, queries, key, keys, step;
};

/// Rows of f32, `step` elements apart.
struct FloatPanel {
  const float *data;
  int64_t step;
};

struct AttentionCall {
  static constexpr int64_t kQueries = 64, kKeys = 256; ///< of a block of f32, and keys of any at most

  int64_t batch, queries, keys, heads, groups, width, valueWidth;
  float scale, cap, segmentBias;
  int64_t low, high, offset, prefix, chunk, dilation;
  AttentionOperands at;
  bool hasBias, hasKeyMask, hasSegments, hasPlaces;
  Dims biasDims, biasStrides; ///< strides are 0 where the bias is shared
  int64_t firstBias = 0;      ///< of the first query and key
  RowIn query, key, value, bias, sink;

  AttentionCall(const Signature &call, bool gradient);

  int64_t headsOfGroup() const { return heads / groups; }

  /// Keys that may be seen by any query of [query, query + count), by position alone.
  RowRange hull(int64_t query, int64_t count) const;
  /// Whether any query of the block sees any of its keys, by position alone.
  bool anySeen(const ScoreBlock &block) const;

  /// Columns of a block between the first and the last key that a row may see by position; empty: none.
  RowRange columns(const ScoreBlock &block, int64_t row) const;
  /// Those of all rows, into `seen`, which the result refers to.
  ScoreRows rowsOf(const ScoreBlock &block, float *scores, RowRange *seen) const;

  /// The entry of the bias for a row of the block and its first key; not of one by place.
  int64_t biasOffset(const ScoreBlock &block, int64_t row) const {
    return firstBias + block.batch * biasStrides[0] + block.head * biasStrides[1] +
           (block.query + row) * biasStrides[2] + block.key;
  }
  /// The first entry of a bias by place.
  int64_t lineOffset(const ScoreBlock &block) const {
    return block.batch * biasStrides[0] + block.head * biasStrides[1];
  }
  /// Floats of a buffer that a bias by place is widened into.
  int64_t lineFloats() const { return hasPlaces && !bias.native ? biasDims[3] : 0; }
  /// Calls what takes (key of the block, entry of the line) for every key that a row of the block meets.
  template <typename Each>
  void forEachPlace(const Launch &launch, const ScoreBlock &block, int64_t row, Each each) const {
    int64_t own = whole(launch, at.queryPlace, block.query + row);
    for (int64_t k = 0; k < block.keys; ++k)
      each(k, whole(launch, at.keyPlace, block.key + k) - own);
  }
  /// Errors: places beyond the bias.
  Status checkPlaces(const Launch &launch) const;

  /// Whether query, key and value are bf16 and are multiplied so, on the processor's units; else in f32.
  bool narrow = false;
  /// The first row of a block in a bf16 tensor [batch, rows, all heads, columns].
  static const Bf16 *rowsOf(const Launch &launch, const RowIn &in, int64_t row, int64_t columns) {
    return launch.at<const Bf16>(in.operand) + row * columns;
  }

  /// What scores of narrow operands are multiplied with before they are finished, and after that.
  float earlyScale() const { return lateScale() == 1 ? scale : 1; }
  float lateScale() const { return cap > 0 || hasBias || segmentBias != 0 || scale <= 0 ? 1 : scale; }

  void scaleEarly(const ScoreBlock &block, float *scores) const;
  /// Leaves of the keys of a block those that any of its queries may see by position, and whole
  /// panels of them; false if there is none.
  bool narrowToSeen(ScoreBlock &block) const;

  /// scores [queries, keys] of the block's rows, scaled.
  void multiplyScores(const ScoreBlock &block, FloatPanel query, FloatPanel key, float *out) const;
  /// The same capped, biased, -infinity where not seen though columns() has it. With `capped` not null, that gets the capped scores before the
  /// bias. `line` has room for lineFloats().
  void finishScores(const Launch &launch, const ScoreBlock &block, float *out, float *capped, float *line) const;

private:
  std::array<bool, 4> wide;           ///< whether segments and places have 64 bits, in the order of the operands
  RowRange near(int64_t query) const; ///< by distance
  RowRange seen(int64_t query) const; ///< hull of what position allows
  RowRange inChunk(int64_t query) const;
  void hide(const Launch &launch, const ScoreBlock &block, float *scores) const;
  void hideGaps(const ScoreBlock &block, int64_t row, float *scores) const;
  void addBias(const Launch &launch, const ScoreBlock &block, float *scores, float *line) const;
  int64_t whole(const Launch &launch, size_t operand, int64_t place) const {
    return wide[operand - at.querySegment] ? launch.at<const int64_t>(operand)[place]
                                           : launch.at<const int32_t>(operand)[place];
  }
};

Result<Run> prepareAttentionGrad(const Signature &call);

} // namespace mt::kernels::cpu
#endif
