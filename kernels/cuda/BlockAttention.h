// attention and its gradient for everything that the vendor's fused graph does not do: 32-bit arithmetic, any
// predicate, bias and caps. Private to kernels/cuda.
#ifndef MT_KERNELS_CUDA_BLOCKATTENTION_H
#define MT_KERNELS_CUDA_BLOCKATTENTION_H

#include "kernels/DeviceScratch.h"
#include "kernels/Visibility.h"
#include "kernels/cuda/Library.h"
#include "kernels/cuda/Product.h"

namespace mt::kernels::cuda {

/// A block of queries and all keys that any of them may see.
struct QueryBlock {
  int64_t query, queries, key, keys;
};
/// Blocks in order; every query is in one of them. Keys begin and end at multiples of 256, so that few shapes occur.
std::vector<QueryBlock> queryBlocks(const AttentionBlocks &shape, const Visibility &visibility);

/// The products of a block, each over all groups of heads at once, for one head of every group.
struct AttentionProducts {
  static ProductShape scores(const AttentionBlocks &, const QueryBlock &); ///< query . key
  static ProductShape slopes(const AttentionBlocks &, const QueryBlock &); ///< gradient . value
  static ProductShape result(const AttentionBlocks &, const QueryBlock &); ///< probabilities . value
  static ProductShape dvalue(const AttentionBlocks &, const QueryBlock &); ///< probabilities^T . gradient, in f32
  static ProductShape dquery(const AttentionBlocks &, const QueryBlock &); ///< slopes . key
  static ProductShape dkey(const AttentionBlocks &, const QueryBlock &);   ///< slopes^T . query, in f32
};

Result<Run> prepareBlockAttention(const Signature &call, Library &library);

} // namespace mt::kernels::cuda
#endif
