// Rotary position embedding: the heads of one token at a time.
#include "kernels/Blocks.h"
#include "kernels/cpu/FloatRows.h"
#include "kernels/cpu/Vector.h"

namespace mt::kernels::cpu {
namespace {

struct Rotary {
  int64_t tokens, sequence, heads, head, pairs; ///< tokens: of the whole batch
  bool interleaved, shared;                     ///< shared: one table for all of the batch
  float direction;                              ///< of the sine: 1, or -1 to turn back
  RowIn x, cosine, sine;
  RowOut result;

  void turn(const float *in, const float *c, const float *s, float *out, bool adds) const {
    int64_t step = interleaved ? 2 : 1, other = interleaved ? 1 : pairs;
    if (!adds)
      vec::rotate(in, in + other, c, s, direction < 0, step, pairs, out, out + other);
    for (int64_t i = 0; i < pairs && adds; ++i) {
      float a = in[i * step], b = in[i * step + other], turned = direction * s[i];
      float first = a * c[i] - b * turned, second = b * c[i] + a * turned;
      out[i * step] += first;
      out[i * step + other] += second;
    }
    for (int64_t i = 2 * pairs; i < head; ++i)
      out[i] = adds ? out[i] + in[i] : in[i];
  }

  void token(const Launch &launch, int64_t token, float *buffers) const {
    int64_t width = heads * head, table = (shared ? token % sequence : token) * pairs;
    const float *c = cosine.at(launch, table, pairs, buffers), *s = sine.at(launch, table, pairs, buffers + pairs);
    const float *in = x.at(launch, token * width, width, buffers + 2 * pairs);
    float *out = result.place(launch, token * width, buffers + 2 * pairs + width);
    for (int64_t i = 0; i < heads; ++i)
      turn(in + i * head, c, s, out + i * head, result.adds(launch));
    result.finish(launch, token * width, width, out);
  }

  Scratch scratch() const { return {.own = sizeof(float) * static_cast<uint64_t>(2 * pairs + 2 * heads * head)}; }

  Status operator()(const Launch &launch) const {
    int64_t each = std::max<int64_t>(1, 16384 / (heads * head));
    launch.pool.parallelFor(ceilDivide(tokens, each), [&](int64_t chunk) {
      float *buffers = ThreadPool::scratchOf<float>(2 * pairs + 2 * heads * head);
      for (int64_t i = chunk * each; i < std::min(tokens, (chunk + 1) * each); ++i)
        token(launch, i, buffers);
    });
    return {};
  }
};

Result<Run> prepareRotary(const Signature &call) {
  if (!call.operands[3].present)
    return Run([](const Launch &) { return Status(); });
  const Dims &x = call.operands[0].dims, &table = call.operands[1].dims;
  return Run(Rotary{x[0] * x[1], x[1], x[2], x[3], table[2], call.integer("interleaved") != 0, table[0] == 1,
                    call.integer("inverse") ? -1.0f : 1.0f, RowIn(call, 0), RowIn(call, 1), RowIn(call, 2),
                    RowOut(call, 3)});
}

constexpr Entry kEntries[] = {{"rotary", prepareRotary}};

} // namespace

std::span<const Entry> rotaryEntries() { return kEntries; }

} // namespace mt::kernels::cpu
