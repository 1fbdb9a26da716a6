// The frame of kernels with one result whose elements can be produced run by run: chunks in parallel, straight into
// the result where its type allows, else through a row that is converted or added. Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_PRODUCER_H
#define MT_KERNELS_CPU_PRODUCER_H

#include "kernels/Blocks.h"
#include "kernels/cpu/Elements.h"
#include "kernels/cpu/Family.h"

namespace mt::kernels::cpu {

/// Source has `void produce(const Launch &, int64_t begin, int64_t count, C *out) const`: elements [begin, begin +
/// count) of the result in row-major order; and `Status verify(const Launch &) const`, called first.
template <typename C, typename Source> struct Producer {
  static constexpr int64_t kBlock = 2048, kChunk = 16 * kBlock;
  Source source;
  size_t result;
  int64_t total;
  StoreRow<C> store;
  bool native;

  Status operator()(const Launch &launch) const {
    MT_TRY(source.verify(launch));
    bool direct = native && !launch.accumulates(result);
    launch.pool.parallelFor(ceilDivide(total, kChunk), [&](int64_t chunk) {
      int64_t begin = chunk * kChunk, end = std::min(total, begin + kChunk);
      direct ? source.produce(launch, begin, end - begin, launch.at<C>(result) + begin) : convert(launch, begin, end);
    });
    return {};
  }

private:
  void convert(const Launch &launch, int64_t begin, int64_t end) const {
    C row[kBlock];
    for (int64_t at = begin; at < end; at += kBlock) {
      int64_t count = std::min(kBlock, end - at);
      source.produce(launch, at, count, row);
      store(row, launch.operands[result], at, count, launch.accumulates(result));
    }
  }
};

/// A run of a producer whose elements are computed as C.
template <typename C, typename Source> Result<Run> produceWith(const Signature &call, Source source) {
  size_t result = call.operands.size() - 1;
  const OperandType &type = call.operands[result];
  if (!type.present)
    return Run([](const Launch &) { return Status(); });
  return Run(
      Producer<C, Source>{std::move(source), result, type.elements(), storer<C>(type.type), isNative<C>(type.type)});
}

} // namespace mt::kernels::cpu
#endif
