// How kernels cut their work: numbers that depend on shapes alone, never on the number of threads, because results
// depend on them. The catalogue's workspace bounds and the CPU kernels both count with them.
#ifndef MT_KERNELS_BLOCKS_H
#define MT_KERNELS_BLOCKS_H

#include <algorithm>
#include <cstdint>

namespace mt::kernels {

constexpr int64_t ceilDivide(int64_t value, int64_t by) { return value / by + (value % by != 0); }

/// `total` items in at most `most` chunks of equal size but the last, each a multiple of `granule` items.
struct Chunks {
  int64_t total = 0, size = 1, count = 0;
  constexpr Chunks(int64_t total, int64_t most, int64_t granule = 1) : total(total) {
    size = std::max<int64_t>(1, ceilDivide(ceilDivide(total, granule), most)) * granule;
    count = ceilDivide(total, size);
  }
  constexpr int64_t begin(int64_t chunk) const { return chunk * size; }
  constexpr int64_t end(int64_t chunk) const { return std::min(total, (chunk + 1) * size); }
};

/// Rows of a normalization whose parameter gradients are summed apart.
constexpr Chunks normChunks(int64_t rows) { return {rows, 32, 16}; }
/// Elements of a squared error that are summed apart.
constexpr Chunks lossChunks(int64_t elements) { return {elements, 256, 512}; }
/// Elements of a squared norm that are summed apart.
constexpr Chunks squaredNormChunks(int64_t elements) { return {elements, 256, 4096}; }

/// On a GPU: parts of a scratch operand lie this far apart, from its first multiple on.
constexpr uint64_t kScratchAlignment = 256;
constexpr uint64_t alignedScratch(uint64_t bytes) {
  return (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
}
/// What the vendor's library may take for a product with so many results: sums of 16 parts of it, at most what its
/// makers advise for the largest devices.
constexpr uint64_t productScratch(int64_t results) {
  constexpr uint64_t kMost = 32u << 20;
  uint64_t count = static_cast<uint64_t>(results);
  return count >= kMost / 64 ? kMost : alignedScratch(64 * count);
}

} // namespace mt::kernels
#endif
