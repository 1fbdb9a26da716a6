// layer_norm and rms_norm with their gradients, prepared.
#include "kernels/cuda/Norm.h"

#include "kernels/cuda/Launching.h"

namespace mt::kernels::cuda {
namespace {

struct Norm {
  int64_t rows, width;
  bool centered;
  float epsilon;
  Bound x, gain, bias, result;
  size_t mean, rstd;

  Status operator()(const Launch &launch) const {
    bool packed = width % kOctet == 0 && x.aligned(launch) && gain.aligned(launch) && bias.aligned(launch) &&
                  result.aligned(launch);
    NormArguments arguments = {rows,
                               {width, packed},
                               centered,
                               epsilon,
                               x.in(launch),
                               gain.in(launch),
                               bias.in(launch),
                               result.out(launch),
                               centered ? launch.at<float>(mean) : nullptr,
                               launch.at<float>(rstd)};
    dim3 threads = rowThreads(width, kHeld);
    return start(launch.stream, rowBlocks(rows, threads), threads,
                 normCode(rowCode(arguments.shape, {x, result}, {gain, bias})), arguments);
  }
};

Result<Run> prepareNorm(const Signature &call, Library &) {
  bool centered = call.kernel == "layer_norm";
  int64_t width = call.operands[0].dims.back();
  float epsilon = static_cast<float>(call.real("epsilon"));
  return Run(Norm{call.operands[0].elements() / width, width, centered, epsilon, Bound(call, 0), Bound(call, 1),
                  centered ? Bound(call, 2) : Bound(), Bound(call, centered ? 3 : 2), 4, centered ? 5u : 3u});
}

struct NormGrad {
  int64_t rows, width;
  bool centered;
  Bound gradient, x, gain, addend, dx, dgain, dbias;
  size_t mean, rstd;

  Status operator()(const Launch &launch) const {
    Chunks chunks = normGradChunks(rows, width);
    float *sums = static_cast<float *>(launch.operands.back());
    float *gains = dgain.present ? sums : nullptr, *biases = dbias.present ? sums + chunks.count * width : nullptr;
    bool packed = width % kOctet == 0 && gradient.aligned(launch) && x.aligned(launch) && gain.aligned(launch) &&
                  addend.aligned(launch) && dx.aligned(launch) && isAligned(sums, DType::f32);
    dim3 threads = rowThreads(width, kNormGradHeld);
    NormGradArguments arguments = {{width, packed},
                                   cut(chunks),
                                   centered,
                                   gradient.in(launch),
                                   x.in(launch),
                                   gain.in(launch),
                                   addend.in(launch),
                                   centered ? launch.at<const float>(mean) : nullptr,
                                   launch.at<const float>(rstd),
                                   dx.out(launch),
                                   gains,
                                   biases};
    RowCode code = rowCode(arguments.shape, {gradient, x, addend, dx}, {gain});
    if (code != RowCode::any && width <= int64_t{threads.x} * kOctet * kNormGradHeld) {
      MT_TRY(start(launch.stream, rowBlocks(chunks.count, threads), threads, normGradPacksCode(code), arguments));
    } else {
      if (dx.present)
        MT_TRY(start(launch.stream, rowBlocks(rows, threads), threads, normGradCode(), arguments));
      if (gains || biases)
        MT_TRY(start(launch.stream, chunks.count * ceilDivide(width, kThreads), kThreads, columnSumsCode(), arguments));
    }
    MT_TRY(add(launch, dgain, gains, chunks.count));
    return add(launch, dbias, biases, chunks.count);
  }

  Status add(const Launch &launch, const Bound &parameter, const float *sums, int64_t chunks) const {
    if (!parameter.present)
      return {};
    return start(launch.stream, ceilDivide(width, kWarp), dim3(kWarp, kNormSlices), addChunksCode(), sums, width,
                 chunks, parameter.out(launch));
  }
};

Result<Run> prepareNormGrad(const Signature &call, Library &) {
  bool centered = call.kernel == "layer_norm_grad";
  size_t gain = centered ? 4 : 3;
  int64_t width = call.operands[1].dims.back();
  return Run(NormGrad{call.operands[1].elements() / width, width, centered, Bound(call, 0), Bound(call, 1),
                      Bound(call, gain), Bound(call, gain + 1), Bound(call, gain + 2), Bound(call, gain + 3),
                      centered ? Bound(call, gain + 4) : Bound(), 2, gain - 1});
}

} // namespace

std::span<const Entry> normEntries() {
  static constexpr Entry kEntries[] = {{"layer_norm", prepareNorm},
                                       {"layer_norm_grad", prepareNormGrad},
                                       {"rms_norm", prepareNorm},
                                       {"rms_norm_grad", prepareNormGrad}};
  return kEntries;
}

} // namespace mt::kernels::cuda
