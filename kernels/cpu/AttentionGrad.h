// What attention's gradient in f32 and in bf16 on the processor's units share. Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_ATTENTIONGRAD_H
#define MT_KERNELS_CPU_ATTENTIONGRAD_H

#include "kernels/cpu/Attention.h"

namespace mt::kernels::cpu {

/// A group's part of a tensor in f32, from row `first` on: in place, or in a buffer. Null data: the tensor is absent.
template <typename T> struct Side {
  T *data = nullptr;
  int64_t first = 0, rowStep = 0, headStep = 0;
  T *at(int64_t row, int64_t head) const { return data + (row - first) * rowStep + head * headStep; }
};

/// One group of heads of one batch row, and the dbias of its task, whose first element is `dbiasOrigin`.
struct Group {
  int64_t batch, index, firstHead;
  Side<const float> gradient = {}, query = {}, key = {}, value = {};
  Side<float> dquery = {}, dkey = {}, dvalue = {};
  float *dbias = nullptr;
  int64_t dbiasOrigin = 0;
};

/// gradient . output of the queries of a head, at the begin of the workspace.
float *deltasOf(const AttentionCall &call, const Launch &launch, int64_t batch, int64_t head);

/// Scores of a block, finished, become probabilities, and what is sent back to these, `slopes`, the gradient of the
/// scores, which dbias gains on the way. `capped`: what finishScores() left.
void sendBlockBack(const AttentionCall &call, const Launch &launch, const Group &group, const ScoreBlock &block,
                   float *scores, float scale, const float *capped, float *slopes);

/// What keys [begin, end) of a group and some of its queries are to each other, added to the gradients, in bf16 on the
/// processor's units. `scratch`: narrowGradBytes(), aligned to 64.
void computeNarrow(const AttentionCall &call, const Launch &launch, const Group &group, RowRange keys, RowRange queries,
                   std::byte *scratch);
uint64_t narrowGradBytes(const AttentionCall &call);

} // namespace mt::kernels::cpu
#endif
