// What attention and its gradient share: the call decoded, who sees whom, and scores of a block of queries by a block
// of keys. Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_ATTENTION_H
#define MT_KERNELS_CPU_ATTENTION_H

#include "kernels/cpu/Family.h"

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

struct AttentionCall {
  static constexpr int64_t kQueries = 64, kKeys = 256; ///< of a block

  int64_t batch, queries, keys, heads, groups, width, valueWidth;
  float scale, cap;
  int64_t low, high, offset, prefix, chunk;
  size_t first; ///< place of the query among the operands
  bool hasBias, hasKeyMask, hasSegments, wideQuerySegment, wideKeySegment;
  Dims biasDims, biasStrides; ///< strides are 0 where the bias is shared

  AttentionCall(const Signature &call, size_t first);

  int64_t headsOfGroup() const { return heads / groups; }
  int64_t queryBlocks() const { return (queries + kQueries - 1) / kQueries; }

  /// Keys that may be seen by any query of [query, query + count), by position alone.
  KeyRange hull(int64_t query, int64_t count) const;
  /// Whether any query of the block sees any of its keys, by position alone.
  bool anySeen(const ScoreBlock &block) const;

  /// Columns of a block between the first and the last key that a row may see by position; empty: none.
  KeyRange columns(const ScoreBlock &block, int64_t row) const;

  // First elements of a head's rows; distances of rows.
  const float *queryAt(const Launch &launch, int64_t b, int64_t h, int64_t q) const {
    return launch.at<const float>(first) + ((b * queries + q) * heads + h) * width;
  }
  const float *keyAt(const Launch &launch, int64_t b, int64_t g, int64_t k) const {
    return launch.at<const float>(first + 1) + ((b * keys + k) * groups + g) * width;
  }
  const float *valueAt(const Launch &launch, int64_t b, int64_t g, int64_t k) const {
    return launch.at<const float>(first + 2) + ((b * keys + k) * groups + g) * valueWidth;
  }
  int64_t queryStep() const { return heads * width; }
  int64_t outputStep() const { return heads * valueWidth; }
  int64_t keyStep() const { return groups * width; }
  int64_t valueStep() const { return groups * valueWidth; }
  int64_t biasOffset(const ScoreBlock &block, int64_t row) const {
    return block.batch * biasStrides[0] + block.head * biasStrides[1] + (block.query + row) * biasStrides[2] +
           block.key;
  }

  /// scores [queries, keys] of the block: scaled, capped, biased, -infinity where not seen. With `capped` not null,
  /// that gets the capped scores before the bias.
  void scores(const Launch &launch, const ScoreBlock &block, float *out, float *capped) const;

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
