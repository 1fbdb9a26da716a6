// How ranks share the elements of a parameter: what an owner of some adds up, updates, keeps the state of and sends the
// others. Compiler and runtime both count with it.
#ifndef MT_KERNELS_SHARES_H
#define MT_KERNELS_SHARES_H

#include <algorithm>
#include <cstdint>

namespace mt::kernels {

/// Whole chunks of the parameter's squared norm (kernels/Blocks.h), the same number for each rank. Where that does not
/// go up, the last ranks' shares begin earlier, and what two of them have is the same in both. What is left of a last
/// chunk, and all where there is none, is every rank's: the tail.
struct Shares {
  int64_t chunk = 1; ///< elements of one of the norm's
  int64_t body = 0;  ///< elements that are shared
  int64_t share = 0; ///< of those, of one rank
  int64_t tail = 0;  ///< elements behind them, which every rank has

  Shares() = default;
  /// `granule`: a share is a multiple of so many elements; 0: nothing can be shared.
  Shares(int64_t elements, int64_t ranks, int64_t granule = 1);
  /// The first element of a rank's share.
  int64_t begin(int64_t rank) const { return std::min(rank * share, body - share); }
  /// Elements that a rank has: its share, and then the tail.
  int64_t elements() const { return share + tail; }
};

} // namespace mt::kernels
#endif
