// What attention and its gradient share: the call decoded, who sees whom, and scores of a block of queries by a block
// of keys. Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_ATTENTION_H
#define MT_KERNELS_CPU_ATTENTION_H

#include "kernels/cpu/FloatRows.h"

namespace mt::kernels::cpu {

/// Keys [begin, end).
struct KeyRange {
  int64_t begin, end;
  bool empty() const { return begin >= end; }
};

/// A block of queries by keys of one head of one batch row.
struct ScoreBlock {
  int64_t batch, head, query, queries, key, keys;
};

/// Rows of f32, `step` elements apart.
struct FloatPanel {
  const float *data;
  int64_t step;
};

struct AttentionCall {
  static constexpr int64_t kQueries = 64, kKeys = 256; ///< of a block

  int64_t batch, queries, keys, heads, groups, width, valueWidth;
  float scale, cap;
  int64_t low, high, offset, prefix, chunk;
  size_t first; ///< place of the query among the operands
  bool hasBias, hasKeyMask, hasSegments, wideQuerySegment, wideKeySegment;
  Dims biasDims, biasStrides; ///< strides are 0 where the bias is shared
  int64_t firstBias = 0;      ///< of the first query and key
  RowIn query, key, value, bias;

  AttentionCall(const Signature &call, size_t first);

  int64_t headsOfGroup() const { return heads / groups; }
  int64_t queryBlocks() const { return (queries + kQueries - 1) / kQueries; }

  /// Keys that may be seen by any query of [query, query + count), by position alone.
  KeyRange hull(int64_t query, int64_t count) const;
  /// Whether any query of the block sees any of its keys, by position alone.
  bool anySeen(const ScoreBlock &block) const;

  /// Columns of a block between the first and the last key that a row may see by position; empty: none.
  KeyRange columns(const ScoreBlock &block, int64_t row) const;

  int64_t biasOffset(const ScoreBlock &block, int64_t row) const {
    return firstBias + block.batch * biasStrides[0] + block.head * biasStrides[1] +
           (block.query + row) * biasStrides[2] + block.key;
  }

  /// scores [queries, keys] of the block's rows: scaled, capped, biased, -infinity where not seen. With `capped` not
  /// null, that gets the capped scores before the bias.
  void scores(const Launch &launch, const ScoreBlock &block, FloatPanel query, FloatPanel key, float *out,
              float *capped) const;

private:
  KeyRange near(int64_t query) const; ///< by distance
  KeyRange seen(int64_t query) const; ///< hull of what position allows
  KeyRange inChunk(int64_t query) const;
  void hide(const Launch &launch, const ScoreBlock &block, float *scores) const;
  void hideRow(const ScoreBlock &block, int64_t row, float *scores) const;
  int64_t segment(const Launch &launch, size_t operand, bool wide, int64_t place) const {
    return wide ? launch.at<const int64_t>(operand)[place] : launch.at<const int32_t>(operand)[place];
  }
};

Result<Run> prepareAttentionGrad(const Signature &call);

} // namespace mt::kernels::cpu
#endif
