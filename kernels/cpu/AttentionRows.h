// Arithmetic on the rows of a block of scores, vectorized with run-time dispatch. Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_ATTENTIONROWS_H
#define MT_KERNELS_CPU_ATTENTIONROWS_H

#include <cstdint>

namespace mt::kernels::cpu {

/// Keys, or queries, [begin, end).
struct RowRange {
  int64_t begin, end;
  bool empty() const { return begin >= end; }
};

/// Scores of some queries: rows `step` floats apart, each of which sees a range of its columns. All of a step may be
/// read and written; it is a multiple of kPanel (Bf16Panels.h), and rows begin with a line of the cache.
struct ScoreRows {
  float *data;
  int64_t rows, step;
  const RowRange *seen;
};

/// Scores, times `scale`, become e^(score - most), zero where they are not seen or below 2^-100.5, with the largest
/// that a row has met as `most`; `totals`, of sums before, go on to the new most, by `factors`, which are one where it
/// stays. A row that sees nothing keeps all.
void foldScores(const ScoreRows &scores, float scale, float *most, double *totals, float *factors);

/// Scores, times `scale`, become probabilities e^(score - logsumexp), and what is sent back to them, rows as theirs,
/// what goes on to the scores: probability * (slope - delta). Both are zero where they are not seen, and below
/// 2^-100.5.
void sendBackScores(const ScoreRows &scores, float scale, const float *logsumexp, const float *deltas, float *slopes);

} // namespace mt::kernels::cpu
#endif
