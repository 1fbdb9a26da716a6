// How kernels cut their work: numbers that depend on shapes alone, never on the number of threads, because results
// depend on them. The catalogue's workspace bounds and the CPU kernels both count with them.
#ifndef MT_KERNELS_BLOCKS_H
#define MT_KERNELS_BLOCKS_H

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>

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
constexpr Chunks normChunks(int64_t rows) { return {rows, 128, 16}; }
/// Elements of a squared error that are summed apart.
constexpr Chunks lossChunks(int64_t elements) { return {elements, 256, 512}; }
/// Elements of a squared norm that are summed apart, and how, on every device: it decides how much is clipped, and an
/// update may run on either. Element e of a chunk is added to lane e % kNormLanes, in order; eight lanes side by side
/// are added in order, which leaves kNormSums sums. Those are added as a block of so many threads does: in each warp of
/// 32, for distance 16, 8, 4, 2, 1, s[i] + s[i ^ distance] takes the place of s[i]; then the warps in order. What is
/// left of the chunks is added likewise, that of chunk i to sum i % kNormSums before.
constexpr int64_t kNormLanes = 2048, kNormSums = 256, kNormParts = 4096;
/// Ranks that share the elements have whole chunks each: there are some of small tensors, and of large ones so many
/// that shares differ little.
constexpr Chunks squaredNormChunks(int64_t elements) {
  int64_t granule = 16;
  while (granule < 16'384 && granule * 32 <= elements)
    granule *= 2;
  return {elements, kNormParts, granule};
}

/// A reduction's results, and how many of them lie side by side: those of the dimensions behind all that are reduced.
struct Kept {
  int64_t results = 1, inner = 1;
  int64_t run = 1; ///< elements that follow one another, of results side by side or of one
  /// `axes`: the dimensions that are reduced, ascending.
  static Kept of(std::span<const int64_t> dims, std::span<const int64_t> axes) {
    Kept kept;
    bool isBehind = true, isRun = true;
    int64_t behind = 1; // of one result
    for (size_t i = dims.size(); i-- > 0;) {
      const bool isKept = !std::ranges::binary_search(axes, static_cast<int64_t>(i));
      isBehind = isBehind && (isKept || dims[i] == 1);
      isRun = isRun && (!isKept || dims[i] == 1);
      kept.results *= isKept ? dims[i] : 1;
      kept.inner *= isKept && isBehind ? dims[i] : 1;
      behind *= isRun ? dims[i] : 1;
    }
    kept.run = kept.inner > 1 ? kept.inner : behind;
    return kept;
  }
};

/// Elements of each of `results`, `inner` of which lie side by side, that the CPU reduces apart, in 64 bits: where
/// results are too few for all threads of a large machine.
constexpr Chunks reduceParts(int64_t results, int64_t inner, int64_t count) {
  constexpr int64_t kParts = 128, kSide = 256, kElements = 1 << 16;
  const int64_t there = results / inner * ceilDivide(inner, kSide);
  return {count, std::clamp<int64_t>(std::min(kParts / there, results * count / kElements), 1, kParts)};
}
/// Bytes that those parts of one sum take until they are added.
inline uint64_t reducePartBytes(std::span<const int64_t> dims, std::span<const int64_t> axes) {
  const Kept kept = Kept::of(dims, axes);
  const int64_t elements = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  const int64_t parts = reduceParts(kept.results, kept.inner, elements / std::max<int64_t>(1, kept.results)).count;
  return parts > 1 ? static_cast<uint64_t>(kept.results * parts) * sizeof(double) : 0;
}

/// Parts of a product's summed dimension that the CPU sums apart, where results are too few to be cut for all threads
/// of a large machine: at most 32 MiB of sums wait to be added, each of so many products that adding it costs little.
constexpr Chunks depthChunks(int64_t results, int64_t depth) {
  constexpr int64_t kSums = 8 << 20, kLeast = 1024;
  return {depth, std::clamp<int64_t>(kSums / std::max<int64_t>(1, results), 1, std::max<int64_t>(1, depth / kLeast)),
          64};
}

/// The same of a head's classes, for the gradient of what goes into it: however many rows there are.
constexpr Chunks classChunks(int64_t classes) { return {classes, std::clamp<int64_t>(classes / 4096, 1, 16), 64}; }

/// A head on the CPU: the losses of all rows, in 64 bits, and from a row of logits to the next, in elements: both begin
/// with a line of the cache.
constexpr int64_t headLosses(int64_t rows) { return ceilDivide(rows, 8) * 8; }
constexpr int64_t headLine(int64_t classes) { return ceilDivide(classes, 16) * 16; }

/// attention_grad on the CPU: stripes of keys, and as many of queries, and the batch rows whose gradients are summed at
/// a time: tasks for large machines, as many of a row as of any other number of rows.
struct AttentionStripes {
  static constexpr int64_t of(int64_t keys) { return std::clamp<int64_t>(keys / 256, 1, 16); }
  static constexpr int64_t together(int64_t batch, int64_t groups, int64_t keys) {
    constexpr int64_t kTasks = 512;
    const int64_t most = std::clamp<int64_t>(ceilDivide(kTasks, groups * of(keys)), 1, batch);
    return ceilDivide(batch, ceilDivide(batch, most));
  }
};

/// Tensors that one call adds pairwise at most: a GPU's thread holds an octet of each.
constexpr int64_t kSumTerms = 8;

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
/// On a GPU: rows of a normalization whose parameter gradients are summed apart, in 32 bits. Enough groups of threads
/// for any device, and at most 4 MiB of sums for rows of up to 4,096 elements.
constexpr Chunks normGradChunks(int64_t rows, int64_t width) {
  return {rows, std::max<int64_t>(256, (int64_t{1} << 20) / width)};
}
/// On a GPU: elements of each of `results` that are reduced apart, in 64 bits, where a block a result would leave most
/// of a device idle.
constexpr Chunks reduceChunks(int64_t results, int64_t count) {
  constexpr int64_t kResults = 1 << 16, kElements = 256;
  return {count, std::clamp<int64_t>(std::min(kResults / results, count / kElements), 1, 256), 8};
}
/// On a GPU: keys and their place, twice, to sort indices.
constexpr uint64_t sortScratch(int64_t indices) { return static_cast<uint64_t>(indices) * 16; }

/// Rows of experts, grouped: where each expert's begin (as many and one more), and which rows they are, of 64 bits
/// each; on a GPU the rows are sorted keys.
constexpr uint64_t expertScratch(int64_t rows, int64_t experts) {
  return static_cast<uint64_t>(rows + experts + 1) * 8;
}
constexpr uint64_t deviceExpertScratch(int64_t rows, int64_t experts) {
  return static_cast<uint64_t>(experts + 1) * 8 + sortScratch(rows);
}

} // namespace mt::kernels
#endif
