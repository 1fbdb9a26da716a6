// reduce and cumsum, prepared: dimensions merged, few results of many elements cut into chunks.
#include "kernels/cuda/Reduction.h"

#include "kernels/cuda/Launching.h"

#include <algorithm>
#include <type_traits>

namespace mt::kernels::cuda {
namespace {

struct Reduction {
  ReduceArguments whole; ///< without addresses
  bool isColumns;        ///< results lie side by side in the operand
  bool packs;
  Bound operand, result;
  DType wide; ///< what chunks are reduced in

  Status run(const Launch &launch, const ReduceArguments &reduce, bool columns) const {
    dim3 threads = columns ? dim3(kWarp, kReduceSlices) : rowThreads(reduce.chunks.size, 4);
    int64_t blocks = columns ? ceilDivide(reduce.results, kWarp) * reduce.chunks.count
                             : rowBlocks(reduce.results * reduce.chunks.count, threads);
    return start(launch.stream, blocks, threads, reduceCode(reduce.in.type, columns), reduce);
  }

  Status operator()(const Launch &launch) const {
    ReduceArguments first = whole;
    first.in = operand.in(launch), first.out = result.out(launch);
    first.packed = packs && operand.aligned(launch);
    if (whole.chunks.count == 1)
      return run(launch, first, isColumns);
    ReduceArguments second = whole;
    first.divisor = 1;
    first.out = {launch.operands.back(), wide, false};
    MT_TRY(run(launch, first, isColumns));
    second.in = {first.out.data, wide}, second.out = result.out(launch);
    second.count = whole.chunks.count, second.chunks = {second.count, second.count, 1};
    second.kept = second.reduced = {};
    second.kept.add(whole.results, {1});
    second.reduced.add(second.count, {whole.results});
    return run(launch, second, true);
  }
};

ReduceKind kindOf(const std::string &text) {
  return text == "max"    ? ReduceKind::max
         : text == "min"  ? ReduceKind::min
         : text == "prod" ? ReduceKind::prod
                          : ReduceKind::sum;
}

Status split(const Signature &call, ReduceArguments &reduce) {
  const OperandType &operand = call.operands[0];
  Dims strides = rowMajor(operand.dims), axes = call.integers("axes");
  for (size_t i = 0; i < operand.dims.size(); ++i) {
    bool isReduced = std::ranges::binary_search(axes, static_cast<int64_t>(i));
    if (!(isReduced ? reduce.reduced : reduce.kept).add(operand.dims[i], {strides[i]}))
      return fail("reduce: more than {} dimensions that do not merge", kMaxDims);
  }
  return {};
}

Result<Run> prepareReduce(const Signature &call, Library &) {
  Reduction made = {};
  ReduceArguments &whole = made.whole;
  MT_TRY(split(call, whole));
  whole.kind = kindOf(call.text("kind"));
  whole.results = whole.kept.elements(), whole.count = whole.reduced.elements();
  whole.chunks = cut(reduceChunks(whole.results, whole.count));
  whole.divisor = call.text("kind") == "mean" ? static_cast<double>(whole.count) : 1;
  made.operand = Bound(call, 0), made.result = Bound(call, 1);
  made.isColumns = whole.kept.rank > 0 && whole.kept.innerStride(0) == 1;
  made.packs = whole.reduced.rank <= 1 && (whole.reduced.rank == 0 || whole.reduced.innerStride(0) == 1) &&
               whole.kept.isMultiple(0, kOctet) && whole.kept.innerStride(0) % kOctet == 0;
  made.wide = withArithmetic(made.operand.type, [](auto arithmetic) {
    return std::is_integral_v<decltype(arithmetic)> ? DType::i64 : DType::f64;
  });
  return Run(std::move(made));
}

Result<Run> prepareCumsum(const Signature &call, Library &) {
  const OperandType &operand = call.operands[0];
  size_t axis = static_cast<size_t>(call.integer("axis"));
  int64_t size = operand.dims[axis];
  CumsumArguments fixed = {operand.elements() / size,
                           size,
                           Divider(rowMajor(operand.dims)[axis]),
                           call.integer("exclusive") != 0,
                           call.integer("reverse") != 0,
                           {},
                           {}};
  Bound in(call, 0), out(call, 1);
  return Run([fixed, in, out](const Launch &launch) {
    CumsumArguments arguments = fixed;
    arguments.in = in.in(launch), arguments.out = out.out(launch);
    return start(launch.stream, ceilDivide(fixed.lines, kThreads / kWarp), dim3(kWarp, kThreads / kWarp),
                 cumsumCode(in.type), arguments);
  });
}

} // namespace

std::span<const Entry> reductionEntries() {
  static constexpr Entry kEntries[] = {{"reduce", prepareReduce}, {"cumsum", prepareCumsum}};
  return kEntries;
}

} // namespace mt::kernels::cuda
