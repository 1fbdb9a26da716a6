// Which rows of a corpus are held back from training: a share of them, spread evenly. The rows are cut into as many
// runs of almost the same length as there are rows to hold back, and of each run the seed chooses one. Both kinds are
// found by number in constant time, without a table, and in the order that they have in the corpus.
#ifndef MT_RUNTIME_TRAIN_ROWSPLIT_H
#define MT_RUNTIME_TRAIN_ROWSPLIT_H

#include <cstdint>

namespace mt::train {

class RowSplit {
public:
  /// 0 < share < 1. Which rows are held back is a pure function of these three; how many, share * rows, rounded.
  RowSplit(int64_t rows, double share, uint64_t seed);

  int64_t heldBack() const { return held; }
  int64_t kept() const { return rows - held; }
  /// The row of the corpus that is the `index`-th held back, or kept.
  int64_t heldBackRow(int64_t index) const { return fewAreHeld ? chosen(index) : other(index); }
  int64_t keptRow(int64_t index) const { return fewAreHeld ? other(index) : chosen(index); }
  /// Whether a row is held back, and the `index` of a row among those of its kind.
  bool isHeldBack(int64_t row) const { return (chosen(runOf(row)) == row) == fewAreHeld; }
  int64_t indexOf(int64_t row) const;

private:
  int64_t rows, held;
  uint64_t seed;
  bool fewAreHeld;  ///< at most half; else it is those that are kept of which each run has one
  int64_t runs = 0; ///< the smaller number of both

  int64_t begin(int64_t run) const;
  int64_t runOf(int64_t row) const;
  int64_t chosen(int64_t run) const;
  int64_t other(int64_t index) const;
};

} // namespace mt::train
#endif
