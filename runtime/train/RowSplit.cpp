#include "runtime/train/RowSplit.h"

#include "runtime/train/Sampler.h"

#include <algorithm>
#include <cmath>

namespace mt::train {
namespace {

/// a * b / c, rounded down.
int64_t scaled(int64_t a, int64_t b, int64_t c) { return static_cast<int64_t>(static_cast<__int128>(a) * b / c); }

} // namespace

RowSplit::RowSplit(int64_t rows, double share, uint64_t seed)
    : rows(rows), held(std::llround(share * static_cast<double>(rows))), seed(seed), fewAreHeld(held <= rows - held),
      runs(std::min(held, rows - held)) {}

int64_t RowSplit::begin(int64_t run) const { return scaled(run, rows, runs); }

/// The last run that begins at the row or before it.
int64_t RowSplit::runOf(int64_t row) const {
  return static_cast<int64_t>((static_cast<__int128>(row + 1) * runs - 1) / rows);
}

/// Runs have two rows at least.
int64_t RowSplit::chosen(int64_t run) const {
  const int64_t first = begin(run);
  const auto length = static_cast<uint64_t>(begin(run + 1) - first);
  return first + static_cast<int64_t>(mixBits(seed ^ mixBits(static_cast<uint64_t>(run))) % length);
}

/// Those that are not chosen: run r begins with number r * (rows - runs) / runs of them.
int64_t RowSplit::other(int64_t index) const {
  const int64_t others = rows - runs;
  const auto run = static_cast<int64_t>((static_cast<__int128>(index + 1) * runs - 1) / others);
  const int64_t row = begin(run) + index - scaled(run, others, runs);
  return row < chosen(run) ? row : row + 1;
}

int64_t RowSplit::indexOf(int64_t row) const {
  const int64_t run = runOf(row), one = chosen(run);
  return row == one ? run : row - run - (row > one ? 1 : 0);
}

} // namespace mt::train
