// softmax, its gradient, and log_softmax over the last dimension; rows in parallel.
#include "kernels/Blocks.h"
#include "kernels/cpu/FloatRows.h"
#include "kernels/cpu/Vector.h"

#include <cmath>

namespace mt::kernels::cpu {
namespace {

enum class Form { softmax, logSoftmax, gradient };

struct Softmax {
  Form form;
  int64_t rows, width;
  RowIn first, second; ///< the operand; or gradient and result
  RowOut result;

  void row(const Launch &launch, int64_t row, float *buffers) const {
    int64_t begin = row * width;
    const float *x = first.at(launch, begin, width, buffers), *y = second.at(launch, begin, width, buffers + width);
    float *out = result.place(launch, begin, buffers + 2 * width);
    if (form == Form::gradient) {
      vec::softmaxGrad(x, y, static_cast<float>(vec::dot(x, y, width)), out, width, result.adds(launch));
    } else {
      float most = vec::largest(x, width);
      double total = vec::sumExp(x, most, width);
      if (form == Form::logSoftmax)
        vec::affine(x, static_cast<float>(most + std::log(total)), 1, nullptr, nullptr, out, width,
                    result.adds(launch));
      else
        probabilities(launch, x, most, static_cast<float>(1 / total), out, buffers + 3 * width);
    }
    result.finish(launch, begin, width, out);
  }

  void probabilities(const Launch &launch, const float *x, float most, float factor, float *out, float *buffer) const {
    bool adds = result.adds(launch);
    vec::exponentials(x, most, factor, 0, adds ? buffer : out, width);
    if (adds)
      vec::add(buffer, out, width);
  }

  Scratch scratch() const { return {.own = 4 * sizeof(float) * static_cast<uint64_t>(width)}; }

  Status operator()(const Launch &launch) const {
    int64_t each = std::max<int64_t>(1, 16384 / width);
    launch.pool.parallelFor(ceilDivide(rows, each), [&](int64_t chunk) {
      float *buffers = ThreadPool::scratchOf<float>(4 * width);
      for (int64_t i = chunk * each; i < std::min(rows, (chunk + 1) * each); ++i)
        row(launch, i, buffers);
    });
    return {};
  }
};

template <Form form> Result<Run> prepareSoftmax(const Signature &call) {
  size_t result = form == Form::gradient ? 2 : 1;
  if (!call.operands[result].present)
    return Run([](const Launch &) { return Status(); });
  int64_t width = call.operands[0].dims.back();
  return Run(Softmax{form, call.operands[0].elements() / width, width, RowIn(call, 0),
                     form == Form::gradient ? RowIn(call, 1) : RowIn(), RowOut(call, result)});
}

constexpr Entry kEntries[] = {{"softmax", prepareSoftmax<Form::softmax>},
                              {"softmax_grad", prepareSoftmax<Form::gradient>},
                              {"log_softmax", prepareSoftmax<Form::logSoftmax>}};

} // namespace

std::span<const Entry> softmaxEntries() { return kEntries; }

} // namespace mt::kernels::cpu
