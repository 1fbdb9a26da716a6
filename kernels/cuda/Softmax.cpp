// softmax, log_softmax and softmax_grad, prepared.
#include "kernels/cuda/Softmax.h"

#include "kernels/cuda/Launching.h"

namespace mt::kernels::cuda {
namespace {

struct Softmax {
  bool isGradient = false, logarithm = false;
  int64_t rows = 0, width = 0;
  Bound first, second, result;

  Status operator()(const Launch &launch) const {
    bool packed = width % kOctet == 0 && first.aligned(launch) && second.aligned(launch) && result.aligned(launch);
    SoftmaxArguments arguments = {
        rows, {width, packed}, logarithm, first.in(launch), second.in(launch), result.out(launch)};
    dim3 threads = rowThreads(width, kHeld);
    return start(launch.stream, rowBlocks(rows, threads), threads,
                 isGradient ? softmaxGradCode() : softmaxCode(rowCode(arguments.shape, {first, result})), arguments);
  }
};

Result<Run> prepareSoftmax(const Signature &call, Library &) {
  int64_t width = call.operands[0].dims.back();
  bool isGradient = call.kernel == "softmax_grad";
  return Run(Softmax{isGradient, call.kernel == "log_softmax", call.operands[0].elements() / width, width,
                     Bound(call, 0), isGradient ? Bound(call, 1) : Bound(), Bound(call, isGradient ? 2 : 1)});
}

} // namespace

std::span<const Entry> softmaxEntries() {
  static constexpr Entry kEntries[] = {
      {"softmax", prepareSoftmax}, {"softmax_grad", prepareSoftmax}, {"log_softmax", prepareSoftmax}};
  return kEntries;
}

} // namespace mt::kernels::cuda
