// Every kernel reads and writes a block of scores once or twice; blocks are cut to fit the second-level cache of large
// devices, so the passes run at its rate, and at 80 % of the memory's where they do not fit. Sums by fixed trees.
#include "kernels/cuda/Floats.cuh"
#include "kernels/cuda/ScoreRows.h"

#include <cmath>

namespace mt::kernels::cuda {
namespace {

__device__ int64_t wholeAt(const Wholes &wholes, int64_t at) {
  return wholes.wide ? static_cast<const int64_t *>(wholes.data)[at] : static_cast<const int32_t *>(wholes.data)[at];
}

/// One row of a block: a query of a head.
struct Row {
  int64_t head, query, place; ///< place: of its first score
  int64_t segment, line, ownPlace; ///< line: the first entry of the bias

  __device__ Row(const ScoreBlock &block, int64_t index)
      : head(index / block.queries), query(block.query + index % block.queries),
        place(head * block.stride + (query - block.query) * block.line),
        segment(block.querySegment.data ? wholeAt(block.querySegment, query) : 0),
        line(head * block.biasHead + query * block.biasQuery),
        ownPlace(block.queryPlace.data ? wholeAt(block.queryPlace, query) : 0) {}

  __device__ bool sees(const ScoreBlock &block, int64_t key) const {
    if (!block.visibility.sees(query, key) || (block.keyMask && !block.keyMask[key]))
      return false;
    return block.segmentBias != 0 || isOfSegment(block, key);
  }
  __device__ bool isOfSegment(const ScoreBlock &block, int64_t key) const {
    return !block.keySegment.data || wholeAt(block.keySegment, key) == segment;
  }
  /// What is added to the score of a key that it sees.
  __device__ float bias(const ScoreBlock &block, int64_t key) const {
    float added = block.segmentBias != 0 && !isOfSegment(block, key) ? block.segmentBias : 0.0f;
    if (!block.bias)
      return added;
    int64_t entry = key;
    if (block.keyPlace.data) // never beyond the bias, whatever they are
      entry = min(max(wholeAt(block.keyPlace, key) - ownPlace, int64_t{0}), block.places - 1);
    return loadFloat(block.bias, block.biasType, line + entry) + added;
  }
};

__device__ __forceinline__ float capped(const ScoreBlock &block, float score) {
  return block.cap > 0 ? block.cap * tanhf(score / block.cap) : score;
}

__global__ void __launch_bounds__(kThreads) softmax(ScoreBlock block) {
  Row row(block, blockIdx.x);
  const float sink = block.sink ? loadFloat(block.sink, block.sinkType, row.head) : -INFINITY;
  float most = sink, total = 0;
  for (int64_t i = threadIdx.x; i < block.keys; i += kThreads) {
    float &score = block.scores[row.place + i];
    score = row.sees(block, block.key + i) ? capped(block, score) + row.bias(block, block.key + i) : -INFINITY;
    most = fmaxf(most, score);
  }
  most = acrossBlock<kThreads>(most, Larger());
  float shift = isinf(most) && most < 0 ? 0.0f : most; // -infinity - -infinity would be no number
  for (int64_t i = threadIdx.x; i < block.keys; i += kThreads)
    total += expf(block.scores[row.place + i] - shift);
  total = acrossBlock<kThreads>(total, Plus()) + (block.sink ? expf(sink - shift) : 0.0f);
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

/// A thread an element of dbias that the block touches: where that is by distance or place, of a line through the
/// block's queries.
__global__ void __launch_bounds__(kThreads)
    addSlopes(ScoreBlock block, const float *slopes, float *dbias, int64_t ownHeads, int64_t ownQueries) {
  int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  bool byPlace = block.keyOf != nullptr, byDistance = !byPlace && block.biasQuery < 0;
  int64_t width = byPlace      ? block.places
                  : byDistance ? block.keys + block.queries - 1
                               : block.keys,
          early = byDistance ? block.queries - 1 : 0;
  if (index >= ownHeads * ownQueries * width)
    return;
  int64_t key = index % width - early, query = index / width % ownQueries, head = index / width / ownQueries;
  int64_t headEnd = block.biasHead == 0 ? block.heads : head + 1,
          queryEnd = block.biasQuery <= 0 ? block.queries : query + 1;
  float total = 0;
  for (int64_t h = head; h < headEnd; ++h)
    for (int64_t q = query; q < queryEnd; ++q) {
      int64_t k = byDistance ? key + q : key;
      if (byPlace) {
        int64_t place = key + wholeAt(block.queryPlace, block.query + q);
        k = place >= 0 && place < block.places ? block.keyOf[place] - block.key : -1;
      }
      if (k >= 0 && k < block.keys)
        total += slopes[h * block.stride + q * block.line + k];
    }
  int64_t first = byPlace ? 0 : (block.query + query) * block.biasQuery + block.key;
  dbias[head * block.biasHead + first + key] += total;
}

/// One block of threads.
__global__ void __launch_bounds__(kThreads) findKey(Wholes keyPlace, int64_t keys, int32_t *keyOf, int64_t places) {
  for (int64_t i = threadIdx.x; i < places; i += kThreads)
    keyOf[i] = -1;
  __syncthreads();
  for (int64_t k = threadIdx.x; k < keys; k += kThreads)
    if (int64_t place = wholeAt(keyPlace, k); place >= 0 && place < places)
      keyOf[place] = static_cast<int32_t>(k);
}

/// A block of threads a head.
__global__ void __launch_bounds__(kThreads) sinkSlopes(SinkSlopes of) {
  const int64_t head = blockIdx.x;
  const float sink = loadFloat(of.sink, of.sinkType, head);
  float total = 0;
  for (int64_t i = threadIdx.x; i < of.batch * of.queries; i += kThreads) {
    int64_t at = (i / of.queries * of.heads + head) * of.queries + i % of.queries;
    total -= expf(sink - of.logsumexp[at]) * of.deltas[at];
  }
  total = acrossBlock<kThreads>(total, Plus());
  if (threadIdx.x == 0)
    storeFloat(of.dsink, of.dsinkType, head, total + (of.adds ? loadFloat(of.dsink, of.dsinkType, head) : 0.0f));
}

/// A warp a query of a head.
__global__ void __launch_bounds__(kThreads) fold(SinkFold of) {
  int64_t row = static_cast<int64_t>(blockIdx.x) * (kThreads / kWarp) + threadIdx.x / kWarp;
  if (row >= of.batch * of.queries * of.heads)
    return;
  int64_t head = row % of.heads, query = row / of.heads % of.queries, batch = row / of.heads / of.queries;
  int64_t at = (batch * of.heads + head) * of.queries + query;
  const int lane = threadIdx.x % kWarp; // the first alone reads what it writes
  const float sink = loadFloat(of.sink, of.sinkType, head),
              before = __shfl_sync(0xffffffffu, lane == 0 ? of.logsumexp[at] : 0.0f, 0);
  const float most = fmaxf(sink, before), both = most + log1pf(expf(fminf(sink, before) - most)),
              factor = expf(before - both);
  for (int64_t i = lane; i < of.width; i += kWarp)
    storeFloat(of.output, of.type, row * of.width + i, loadFloat(of.output, of.type, row * of.width + i) * factor);
  if (lane == 0)
    of.logsumexp[at] = both;
}

} // namespace

ScoreCode softmaxScoresCode() { return softmax; }
ScoreCode sendScoresBackCode() { return sendBack; }
RowProductsCode rowProductsCode() { return products; }
FindKeysCode findKeysCode() { return findKey; }
SinkSlopesCode sinkSlopesCode() { return sinkSlopes; }
FoldSinkCode foldSinkCode() { return fold; }
AddSlopesCode addSlopesCode() { return addSlopes; }

} // namespace mt::kernels::cuda
