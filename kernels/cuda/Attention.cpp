// attention and attention_grad: in 16 bits through cuDNN's fused graph where it does what the call asks, else by
// blocks.
#include "kernels/DeviceScratch.h"
#include "kernels/cuda/BlockAttention.h"
#include "kernels/cuda/Family.h"
#include "kernels/cuda/GraphAttention.h"
#include "runtime/base/Log.h"

namespace mt::kernels::cuda {
namespace {

Result<Run> prepareAttention(const Signature &call, Library &library) {
  MT_ASSIGN(Run blocks, prepareBlockAttention(call, library));
  if (!FusedAttention::of(call).refusal.empty()) // the compiler has said so
    return blocks;
  Result<Run> fused = prepareGraphAttention(call, library, blocks);
  if (!fused)
    log().warn("{} goes by blocks of queries, which is slower: {}", call.kernel, fused.status().message());
  return fused ? *fused : blocks;
}

} // namespace

std::span<const Entry> attentionEntries() {
  static constexpr Entry kEntries[] = {{"attention", prepareAttention}, {"attention_grad", prepareAttention}};
  return kEntries;
}

} // namespace mt::kernels::cuda
