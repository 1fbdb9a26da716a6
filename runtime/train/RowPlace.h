// A row of a corpus as an epoch sees it: its number, and what the epoch shifts windows by.
#ifndef MT_RUNTIME_TRAIN_ROWPLACE_H
#define MT_RUNTIME_TRAIN_ROWPLACE_H

#include <cstdint>

namespace mt::train {

struct RowPlace {
  RowPlace(int64_t row, uint64_t shift = 0) : row(row), shift(shift) {}

  int64_t row;
  uint64_t shift; ///< windows of a stream of tokens begin so many tokens later, modulo a window's; samples stay
};

} // namespace mt::train
#endif
