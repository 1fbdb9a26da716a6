#include "kernels/Shares.h"

#include "kernels/Blocks.h"

#include <numeric>

namespace mt::kernels {

Shares::Shares(int64_t elements, int64_t ranks, int64_t granule) : chunk(squaredNormChunks(elements).size) {
  const int64_t unit = granule > 0 ? std::lcm(chunk, granule) : elements + 1;
  body = elements / unit * unit;
  share = ceilDivide(body / unit, ranks) * unit;
  tail = elements - body;
}

} // namespace mt::kernels
