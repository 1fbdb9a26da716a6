// gather, gather_nd, gather_elements, embedding and the gradients that add back into place, prepared.
#include "kernels/cuda/Indexing.h"

#include "kernels/cuda/SortIndices.h"
#include "kernels/cuda/StartMoving.h"

namespace mt::kernels::cuda {
namespace {

Indices indicesOf(const Launch &launch, const Bound &bound, bool wraps = true) {
  return {launch.operands[bound.operand], bound.type == DType::i64, wraps, launch.fault};
}

/// A run that moves what `source` names of operand 0, given operand 1's indices.
template <typename Source> Result<Run> moving(const Signature &call, const Source &source) {
  Bound data(call, 0), indices(call, 1), result(call, 2);
  return Run([=, total = call.operands[2].elements()](const Launch &launch) {
    Source bound = source;
    bound.indices = indicesOf(launch, indices, source.indices.wraps);
    return startMoving(launch, bound, {}, total, data.in(launch), result.out(launch));
  });
}

/// gather, and embedding, which is its axis 0 without negative ids.
Result<Run> prepareGather(const Signature &call, Library &) {
  const OperandType &data = call.operands[0];
  size_t axis = static_cast<size_t>(call.integer("axis"));
  GatherSource source;
  source.indices.wraps = call.kernel == "gather";
  source.inner = Divider(rowMajor(data.dims)[axis]), source.count = Divider(call.operands[1].elements());
  source.size = data.dims[axis];
  return moving(call, source);
}

Result<Run> prepareGatherNd(const Signature &call, Library &) {
  const Dims &data = call.operands[0].dims, &indices = call.operands[1].dims;
  size_t batch = static_cast<size_t>(call.integer("batchDims")), depth = static_cast<size_t>(indices.back());
  Dims strides = rowMajor(data);
  int64_t batches = 1;
  for (size_t i = 0; i < batch; ++i)
    batches *= data[i];
  GatherNdSource source;
  source.depth = static_cast<int>(depth);
  for (size_t i = 0; i < depth; ++i)
    source.sizes[i] = data[batch + i], source.strides[i] = strides[batch + i];
  source.inner = Divider(strides[batch + depth - 1]);
  source.rows = Divider(call.operands[1].elements() / indices.back() / batches);
  source.batchStride = call.operands[0].elements() / batches;
  return moving(call, source);
}

Result<Run> prepareGatherElements(const Signature &call, Library &) {
  const Dims &data = call.operands[0].dims, &indices = call.operands[1].dims;
  size_t axis = static_cast<size_t>(call.integer("axis"));
  Dims strides = rowMajor(data);
  GatherElementsSource source;
  source.size = data[axis], source.stride = strides[axis];
  for (size_t i = 0; i < indices.size(); ++i)
    if (!source.others.add(indices[i], {i == axis ? 0 : strides[i]}))
      return fail("gather_elements: more than {} dimensions that do not merge", kMaxDims);
  return moving(call, source);
}

struct AddBack {
  Bound indices, gradient, result;
  bool wraps;
  int64_t count, outer, size, inner;

  Status clear(const Launch &launch) const {
    if (launch.accumulates(result.operand))
      return {};
    return startMoving(launch, NoSource(), {}, outer * size * inner, {}, result.out(launch));
  }

  Status operator()(const Launch &launch) const {
    MT_TRY(clear(launch));
    uint64_t *keys = nullptr;
    MT_TRY(sortIndices(launch, indicesOf(launch, indices, wraps), count, size,
                       static_cast<uint64_t *>(launch.operands.back()), keys));
    bool packed = inner % kOctet == 0 && gradient.aligned(launch) && result.aligned(launch);
    SegmentsArguments arguments = {keys,
                                   count,
                                   size,
                                   inner,
                                   Divider(ceilDivide(inner, kOctet * kWarp)),
                                   Divider(ceilDivide(count, kThreads / kWarp)),
                                   packed,
                                   gradient.in(launch),
                                   result.out(launch)};
    return start(launch.stream, arguments.tiles.size * arguments.groups.size * outer, dim3(kWarp, kThreads / kWarp),
                 addSegmentsCode(), arguments);
  }
};

Result<Run> prepareAddBack(const Signature &call, Library &) {
  const OperandType &result = call.operands[2];
  size_t axis = static_cast<size_t>(call.integer("axis"));
  int64_t size = result.dims[axis], inner = rowMajor(result.dims)[axis], count = call.operands[0].elements();
  if (size >= UINT32_MAX || count >= UINT32_MAX)
    return fail("{}: {} indices into {} places; the GPU sorts fewer than 2^32", call.kernel, count, size);
  return Run(AddBack{Bound(call, 0), Bound(call, 1), Bound(call, 2), call.kernel == "gather_grad", count,
                     result.elements() / size / inner, size, inner});
}

/// Operand 0 into the result.
Status copyData(const Launch &launch, const Bound &data, const Bound &result, int64_t total) {
  ViewSource all;
  all.view.add(total, {1});
  return startMoving(launch, all, {}, total, data.in(launch), result.out(launch));
}

Result<Run> prepareScatter(const Signature &call, Library &) {
  const OperandType &data = call.operands[0];
  size_t axis = static_cast<size_t>(call.integer("axis"));
  int64_t size = data.dims[axis], inner = rowMajor(data.dims)[axis], count = call.operands[1].elements();
  if (size >= UINT32_MAX || count >= UINT32_MAX)
    return fail("scatter: {} indices into {} places; the GPU sorts fewer than 2^32", count, size);
  Bound in(call, 0), indices(call, 1), updates(call, 2), result(call, 3);
  return Run([=, total = data.elements(), kind = scatterKindOf(call)](const Launch &launch) -> Status {
    MT_TRY(copyData(launch, in, result, total));
    uint64_t *keys = nullptr;
    MT_TRY(sortIndices(launch, indicesOf(launch, indices), count, size, static_cast<uint64_t *>(launch.operands.back()),
                       keys));
    ScatterArguments arguments = {keys,
                                  count,
                                  size,
                                  inner,
                                  Divider(ceilDivide(inner, kWarp)),
                                  Divider(ceilDivide(count, kThreads / kWarp)),
                                  kind,
                                  updates.in(launch),
                                  result.out(launch)};
    return start(launch.stream, arguments.tiles.size * arguments.groups.size * (total / size / inner),
                 dim3(kWarp, kThreads / kWarp), scatterCode(result.type), arguments);
  });
}

Result<Run> prepareScatterElements(const Signature &call, Library &) {
  const OperandType &data = call.operands[0];
  const Dims &places = call.operands[1].dims;
  size_t axis = static_cast<size_t>(call.integer("axis"));
  Dims strides = rowMajor(data.dims);
  ScatterLines lines{};
  for (size_t i = 0; i < places.size(); ++i)
    if (!lines.others.add(i == axis ? 1 : places[i], {strides[i]}))
      return fail("scatter_elements: more than {} dimensions that do not merge", kMaxDims);
  lines.length = places[axis], lines.lines = call.operands[1].elements() / lines.length;
  lines.step = Divider(rowMajor(places)[axis]);
  lines.size = data.dims[axis], lines.stride = strides[axis], lines.kind = scatterKindOf(call);
  Bound in(call, 0), indices(call, 1), updates(call, 2), result(call, 3);
  return Run([=, total = data.elements()](const Launch &launch) -> Status {
    MT_TRY(copyData(launch, in, result, total));
    ScatterLines bound = lines;
    bound.indices = indicesOf(launch, indices), bound.updates = updates.in(launch), bound.result = result.out(launch);
    return start(launch.stream, ceilDivide(bound.lines, kThreads), kThreads, scatterLinesCode(result.type), bound);
  });
}

} // namespace

ScatterKind scatterKindOf(const Signature &call) {
  std::string kind = call.text("kind", "none");
  return kind == "add"   ? ScatterKind::add
         : kind == "mul" ? ScatterKind::mul
         : kind == "max" ? ScatterKind::max
         : kind == "min" ? ScatterKind::min
                         : ScatterKind::none;
}

Status sortIndices(const Launch &launch, const Indices &indices, int64_t count, int64_t size, uint64_t *keys,
                   uint64_t *&sorted) {
  sorted = keys;
  uint64_t *other = keys + count;
  MT_TRY(start(launch.stream, ceilDivide(count, kSorted), kSorted, sortRunsCode(), indices, count, size, sorted));
  for (int64_t length = kSorted; length < count; length *= 2, std::swap(sorted, other))
    MT_TRY(start(launch.stream, ceilDivide(count, kThreads), kThreads, mergeRunsCode(), sorted, count, length, other));
  return {};
}

std::span<const Entry> indexingEntries() {
  static constexpr Entry kEntries[] = {{"scatter", prepareScatter},    {"scatter_elements", prepareScatterElements},
                                       {"gather", prepareGather},      {"gather_grad", prepareAddBack},
                                       {"gather_nd", prepareGatherNd}, {"gather_elements", prepareGatherElements},
                                       {"embedding", prepareGather},   {"embedding_grad", prepareAddBack}};
  return kEntries;
}

} // namespace mt::kernels::cuda
