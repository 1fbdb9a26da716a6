#include "kernels/cuda/ScoreRows.h"

#include "kernels/cuda/Launching.h"

namespace mt::kernels::cuda {

Status softmaxScores(Stream stream, const ScoreBlock &block) {
  return start(stream, block.heads * block.queries, kThreads, softmaxScoresCode(), block);
}

Status sendScoresBack(Stream stream, const ScoreBlock &block) {
  return start(stream, block.heads * block.queries, kThreads, sendScoresBackCode(), block);
}

Status rowProducts(Stream stream, const void *a, const void *b, DType type, int64_t queries, int64_t heads,
                   int64_t width, float *deltas) {
  return start(stream, ceilDivide(queries * heads, kThreads / kWarp), kThreads, rowProductsCode(), a, b, type, queries,
               heads, width, deltas);
}

Status addBiasSlopes(Stream stream, const ScoreBlock &block, const float *slopes, float *dbias) {
  const int64_t heads = block.biasHead == 0 ? 1 : block.heads, queries = block.biasQuery <= 0 ? 1 : block.queries;
  const int64_t width = block.keyOf ? block.places : block.biasQuery < 0 ? block.keys + block.queries - 1 : block.keys;
  return start(stream, ceilDivide(heads * queries * width, kThreads), kThreads, addSlopesCode(), block, slopes, dbias,
               heads, queries);
}

Status findKeys(Stream stream, Wholes keyPlace, int64_t keys, int32_t *keyOf, int64_t places) {
  return start(stream, 1, kThreads, findKeysCode(), keyPlace, keys, keyOf, places);
}

Status addSinkSlopes(Stream stream, const SinkSlopes &slopes) {
  return start(stream, slopes.heads, kThreads, sinkSlopesCode(), slopes);
}

Status foldSink(Stream stream, const SinkFold &fold) {
  return start(stream, ceilDivide(fold.batch * fold.queries * fold.heads, kThreads / kWarp), kThreads, foldSinkCode(),
               fold);
}

} // namespace mt::kernels::cuda
