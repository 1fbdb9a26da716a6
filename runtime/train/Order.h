// The order in which a run visits the rows of its data, which may be a mixture: of which part the row at a position is,
// by the weights of the parts, and which of the part's rows (Sampler.h). A pure function of seed and position, so that
// a run can resume anywhere. Knows no files.
#ifndef MT_RUNTIME_TRAIN_ORDER_H
#define MT_RUNTIME_TRAIN_ORDER_H

#include "runtime/train/RowPlace.h"
#include "runtime/train/Sampler.h"

#include <span>
#include <vector>

namespace mt::train {

class Order {
public:
  /// Of rows that are all alike; rows >= 1.
  Order(int64_t rows, bool shuffle, uint64_t seed);
  /// Of parts that lie one after the other and have so many rows each, at least 1; `weights` are as many, positive and
  /// finite. Of the positions before any one a part has its share, but for half a row with two parts, less than a row
  /// with up to four, and less than half a row more each time that their number doubles. A part that is used up begins
  /// anew, in another order where rows are shuffled.
  Order(std::span<const int64_t> rows, std::span<const double> weights, bool shuffle, uint64_t seed);

  /// The row at `position` >= 0, shifted as the epoch of its part has it.
  RowPlace at(int64_t position) const;
  /// Rows of an epoch: as many as all parts together have, whatever their weights.
  int64_t rows() const { return total; }
  int64_t epoch(int64_t position) const { return position / total; }

private:
  struct Part {
    int64_t begin; ///< its first row
    double weight; ///< the largest is 1
    Sampler sampler;
  };
  uint64_t shareOfFirst(size_t begin, size_t middle, size_t end) const;

  std::vector<Part> parts;
  int64_t total = 0;
};

} // namespace mt::train
#endif
