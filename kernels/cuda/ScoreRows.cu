// Every kernel reads and writes a block of scores once or twice; blocks are cut to fit the second-level cache of large
// devices, so the passes run at its rate, and at 80 % of the memory's where they do not fit. Sums by fixed trees.
#include "kernels/cuda/Floats.cuh"
#include "kernels/cuda/ScoreRows.h"

#include <cmath>

namespace mt::kernels::cuda {
namespace {

__device__ int64_t segmentAt(const void *segments, bool wide, int64_t at) {
  return wide ? static_cast<const int64_t *>(segments)[at] : static_cast<const int32_t *>(segments)[at];
}

/// One row of a block: a query of a head.
struct Row {
  int64_t head, query, place; ///< place: of its first score
  int64_t segment;

  __device__ Row(const ScoreBlock &block, int64_t index)
      : head(index / block.queries), query(block.query + index % block.queries),
        place(head * block.stride + (query - block.query) * block.line),
        segment(block.querySegment ? segmentAt(block.querySegment, block.wideQuerySegment, query) : 0) {}

  __device__ bool sees(const ScoreBlock &block, int64_t key) const {
    if (!block.visibility.sees(query, key) || (block.keyMask && !block.keyMask[key]))
      return false;
    return !block.keySegment || segmentAt(block.keySegment, block.wideKeySegment, key) == segment;
  }
  __device__ float bias(const ScoreBlock &block, int64_t key) const {
    return block.bias ? loadFloat(block.bias, block.biasType, head * block.biasHead + query * block.biasQuery + key)
                      : 0.0f;
  }
};

__device__ __forceinline__ float capped(const ScoreBlock &block, float score) {
  return block.cap > 0 ? block.cap * tanhf(score / block.cap) : score;
}

__global__ void __launch_bounds__(kThreads) softmax(ScoreBlock block) {
  Row row(block, blockIdx.x);
  float most = -INFINITY, total = 0;
  for (int64_t i = threadIdx.x; i < block.keys; i += kThreads) {
    float &score = block.scores[row.place + i];
    score = row.sees(block, block.key + i) ? capped(block, score) + row.bias(block, block.key + i) : -INFINITY;
    most = fmaxf(most, score);
  }
  most = acrossBlock<kThreads>(most, Larger());
  float shift = isinf(most) && most < 0 ? 0.0f : most; // -infinity - -infinity would be no number
  for (int64_t i = threadIdx.x; i < block.keys; i += kThreads)
    total += expf(block.scores[row.place + i] - shift);
  total = acrossBlock<kThreads>(total, Plus());
  float factor = total == 0 ? 0.0f : 1 / total;
  for (int64_t i = threadIdx.x; i < block.keys; i += kThreads)
    storeFloat(block.probabilities, block.type, row.place + i, expf(block.scores[row.place + i] - shift) * factor);
  if (threadIdx.x == 0 && block.logsumexp)
    block.logsumexp[row.head * block.allQueries + row.query] = shift + logf(total);
}

__global__ void __launch_bounds__(kThreads) sendBack(ScoreBlock block) {
  Row row(block, blockIdx.x);
  int64_t statistic = row.head * block.allQueries + row.query;
  float logsumexp = block.logsumexp[statistic], delta = block.deltas[statistic];
  bool blind = isinf(logsumexp) && logsumexp < 0;
  for (int64_t i = threadIdx.x; i < block.keys; i += kThreads) {
    int64_t key = block.key + i, at = row.place + i;
    bool seen = !blind && row.sees(block, key);
    float score = capped(block, block.scores[at]), share = block.cap > 0 ? score / block.cap : 0.0f;
    float probability = seen ? expf(score + row.bias(block, key) - logsumexp) : 0.0f;
    float slope = seen ? probability * (block.slopes[at] - delta) : 0.0f;
    storeFloat(block.probabilities, block.type, at, probability);
    storeFloat(block.slopesOut, block.type, at, slope * (1 - share * share));
    if (block.wideSlopes)
      block.wideSlopes[at] = slope;
  }
}

/// A warp a row.
__global__ void __launch_bounds__(kThreads)
    products(const void *a, const void *b, DType type, int64_t queries, int64_t heads, int64_t width, float *deltas) {
  int64_t row = static_cast<int64_t>(blockIdx.x) * (kThreads / kWarp) + threadIdx.x / kWarp;
  if (row >= queries * heads)
    return;
  float total = 0;
  for (int64_t i = threadIdx.x % kWarp; i < width; i += kWarp)
    total += loadFloat(a, type, row * width + i) * loadFloat(b, type, row * width + i);
  for (int lane = kWarp / 2; lane > 0; lane /= 2)
    total += __shfl_xor_sync(0xffffffffu, total, lane);
  if (threadIdx.x % kWarp == 0)
    deltas[row % heads * queries + row / heads] = total;
}

/// A thread an element of dbias that the block touches: where that is by distance, of a line through the block's
/// queries.
__global__ void __launch_bounds__(kThreads)
    addSlopes(ScoreBlock block, const float *slopes, float *dbias, int64_t ownHeads, int64_t ownQueries) {
  int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  bool byDistance = block.biasQuery < 0;
  int64_t width = byDistance ? block.keys + block.queries - 1 : block.keys, early = byDistance ? block.queries - 1 : 0;
  if (index >= ownHeads * ownQueries * width)
    return;
  int64_t key = index % width - early, query = index / width % ownQueries, head = index / width / ownQueries;
  int64_t headEnd = block.biasHead == 0 ? block.heads : head + 1,
          queryEnd = block.biasQuery <= 0 ? block.queries : query + 1;
  float total = 0;
  for (int64_t h = head; h < headEnd; ++h)
    for (int64_t q = query; q < queryEnd; ++q)
      if (int64_t k = byDistance ? key + q : key; k >= 0 && k < block.keys)
        total += slopes[h * block.stride + q * block.line + k];
  dbias[head * block.biasHead + (block.query + query) * block.biasQuery + block.key + key] += total;
}

} // namespace

ScoreCode softmaxScoresCode() { return softmax; }
ScoreCode sendScoresBackCode() { return sendBack; }
RowProductsCode rowProductsCode() { return products; }
AddSlopesCode addSlopesCode() { return addSlopes; }

} // namespace mt::kernels::cuda
