// What happens to a block of attention's scores between the products: mask, softmax, and the way back. One batch row,
// all its heads, some queries by some keys. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_SCOREROWS_H
#define MT_KERNELS_CUDA_SCOREROWS_H

#include "kernels/Visibility.h"
#include "kernels/cuda/Elements.h"
#include "kernels/cuda/Stream.h"

namespace mt::kernels::cuda {

/// Whole numbers of 32 or 64 bits.
struct Wholes {
  const void *data = nullptr;
  bool wide = false;
};

/// Scores lie as [heads, stride / line, line]; those of query i and key j of the block at (head * stride + i * line +
/// j).
struct ScoreBlock {
  int64_t heads = 0, query = 0, queries = 0, key = 0, keys = 0; ///< the block
  int64_t line = 0, stride = 0, allQueries = 0;
  Visibility visibility;
  float cap = 0; ///< 0: none

  // Of the batch row; null where the call has none. A step of 0 shares the bias; one of -1 a query has it by distance.
  const void *bias = nullptr;
  DType biasType = DType::f32;
  int64_t biasHead = 0, biasQuery = 0;
  const uint8_t *keyMask = nullptr;
  Wholes querySegment = {}, keySegment = {};
  float segmentBias = 0; ///< 0: other segments are hidden
  Wholes queryPlace = {}, keyPlace = {};
  int64_t places = 0;             ///< entries of a bias by place
  const int32_t *keyOf = nullptr; ///< [places] the key at a place, or -1
  const void *sink = nullptr;     ///< [heads]
  DType sinkType = DType::f32;
  float *logsumexp = nullptr; ///< [heads, allQueries]

  float *scores = nullptr;       ///< the products, scaled
  void *probabilities = nullptr; ///< of the call's type; may be `scores` if that is f32
  DType type = DType::f32;

  // Of the gradient alone.
  const float *deltas = nullptr; ///< [heads, allQueries] sum of gradient * output
  float *slopes = nullptr;       ///< gradient of the probabilities
  void *slopesOut = nullptr;     ///< gradient of the products before scale, of the call's type; may be `slopes`
  float *wideSlopes = nullptr;   ///< gradient of the biased scores, if that is wanted
};

/// Scores become probabilities, zero where nothing is seen; writes logsumexp unless it is null.
Status softmaxScores(Stream stream, const ScoreBlock &block);
/// Scores become probabilities by the logsumexp of the forward pass, and slopes those of the products.
Status sendScoresBack(Stream stream, const ScoreBlock &block);
/// deltas[head * queries + query] = sum over width of a * b, which lie as [queries, heads, width].
Status rowProducts(Stream stream, const void *a, const void *b, DType type, int64_t queries, int64_t heads,
                   int64_t width, float *deltas);
/// dbias += slopes, summed in order over heads and queries that share it; `slopes` as block.scores.
Status addBiasSlopes(Stream stream, const ScoreBlock &block, const float *slopes, float *dbias);

/// keyOf[keyPlace[k]] = k, and -1 where no key is.
Status findKeys(Stream stream, Wholes keyPlace, int64_t keys, int32_t *keyOf, int64_t places);
/// dsink[head] (+)= -sum over batch and queries of e^(sink - logsumexp) * delta, which lie as [batch, heads, queries].
struct SinkSlopes {
  const void *sink = nullptr;
  DType sinkType = DType::f32;
  const float *logsumexp = nullptr, *deltas = nullptr;
  void *dsink = nullptr;
  DType dsinkType = DType::f32;
  bool adds = false;
  int64_t batch = 0, heads = 0, queries = 0;
};
Status addSinkSlopes(Stream stream, const SinkSlopes &slopes);
/// Attention without a sink becomes that with one: logsumexp [batch, heads, queries] takes it up, and output [batch,
/// queries, heads, width] is scaled.
struct SinkFold {
  const void *sink = nullptr;
  DType sinkType = DType::f32;
  float *logsumexp = nullptr;
  void *output = nullptr;
  DType type = DType::f32;
  int64_t batch = 0, queries = 0, heads = 0, width = 0;
};
Status foldSink(Stream stream, const SinkFold &fold);

using ScoreCode = void (*)(ScoreBlock block);
ScoreCode softmaxScoresCode();
ScoreCode sendScoresBackCode();
using RowProductsCode = void (*)(const void *a, const void *b, DType type, int64_t queries, int64_t heads,
                                 int64_t width, float *deltas);
RowProductsCode rowProductsCode();
using FindKeysCode = void (*)(Wholes keyPlace, int64_t keys, int32_t *keyOf, int64_t places);
FindKeysCode findKeysCode();
using SinkSlopesCode = void (*)(SinkSlopes slopes);
SinkSlopesCode sinkSlopesCode();
using FoldSinkCode = void (*)(SinkFold fold);
FoldSinkCode foldSinkCode();
using AddSlopesCode = void (*)(ScoreBlock block, const float *slopes, float *dbias, int64_t ownHeads,
                               int64_t ownQueries);
AddSlopesCode addSlopesCode();

} // namespace mt::kernels::cuda
#endif
