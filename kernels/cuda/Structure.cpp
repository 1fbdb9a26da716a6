// Kernels that move elements by position, prepared: as views, as tiles of a transpose, or as conversions.
#include "kernels/cuda/Structure.h"

#include "kernels/cuda/Numbers.h"
#include "kernels/cuda/StartMoving.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>

namespace mt::kernels::cuda {
namespace {

/// cast and copy.
Result<Run> prepareCopy(const Signature &call, Library &) {
  Bound in(call, 0), out(call, 1);
  int64_t total = call.operands[0].elements();
  ViewSource side;
  side.view.add(total, {1});
  return Run([in, out, total, side](const Launch &launch) {
    if (in.type == out.type && !launch.accumulates(1))
      return startMoving(launch, side, {}, total, in.in(launch), out.out(launch));
    return start(launch.stream, ceilDivide(total, kThreads * kOctet), kThreads, convertCode(in.type), in.in(launch),
                 out.out(launch), total, in.aligned(launch) && out.aligned(launch));
  });
}

// Transposes of the last dimension.

/// Where a view is a transpose of the last dimension that is worth tiles: both dimensions fill half of one.
std::optional<Tiles> tilesOf(const ViewSource &source) {
  const Views<1> &view = source.view;
  int last = view.rank - 1, rows = 0;
  while (rows < last && view.strides[0][rows] != 1)
    ++rows;
  if (last < 1 || rows == last || source.begin != 0 || view.innerStride(0) < 1 || view.inner() < kTile / 2 ||
      view.sizes[rows].size < kTile / 2)
    return std::nullopt;
  Tiles tiles = {view.sizes[rows].size, view.inner(), view.innerStride(0), 0, {}, {}, {}};
  int64_t stride = view.elements();
  for (int i = 0; i < last; ++i) {
    stride /= view.sizes[i].size;
    if (i == rows)
      tiles.resultStride = stride;
    else
      tiles.others.add(view.sizes[i].size, {view.strides[0][i], stride});
  }
  tiles.acrossRows = Divider(ceilDivide(tiles.rows, kTile));
  tiles.acrossColumns = Divider(ceilDivide(tiles.columns, kTile));
  return tiles;
}

Status startTiles(const Launch &launch, const Tiles &tiles, In in, Out out) {
  int64_t blocks = tiles.acrossRows.size * tiles.acrossColumns.size * tiles.others.elements();
  return start(launch.stream, blocks, dim3(kTile, kTileRows), transposeCode(static_cast<int64_t>(byteSize(in.type))),
               tiles, in.data, out.data);
}

// Views: transpose, broadcast, slice.

Result<Run> prepareView(const Signature &call, const Dims &dims, const Dims &strides, int64_t begin = 0) {
  ViewSource source;
  source.begin = begin;
  for (size_t i = 0; i < dims.size(); ++i)
    if (!source.view.add(dims[i], {strides[i]}))
      return fail("{}: more than {} dimensions that do not merge", call.kernel, kMaxDims);
  Bound in(call, 0), out(call, 1);
  return Run([source, in, out, total = source.view.elements(), tiles = tilesOf(source)](const Launch &launch) {
    if (tiles && !launch.accumulates(1))
      return startTiles(launch, *tiles, in.in(launch), out.out(launch));
    return startMoving(launch, source, {}, total, in.in(launch), out.out(launch));
  });
}

Result<Run> prepareTranspose(const Signature &call, Library &) {
  Dims strides = rowMajor(call.operands[0].dims), dims, steps;
  for (int64_t from : call.integers("permutation")) {
    dims.push_back(call.operands[0].dims[static_cast<size_t>(from)]);
    steps.push_back(strides[static_cast<size_t>(from)]);
  }
  return prepareView(call, dims, steps);
}

Result<Run> prepareBroadcast(const Signature &call, Library &) {
  const Dims &dims = call.operands[1].dims;
  return prepareView(call, dims, broadcastStrides(call.operands[0].dims, dims));
}

Result<Run> prepareSlice(const Signature &call, Library &) {
  Dims own = rowMajor(call.operands[0].dims), starts = call.integers("starts"), strides = call.integers("strides");
  int64_t begin = 0;
  for (size_t i = 0; i < own.size(); ++i) {
    begin += starts[i] * own[i];
    own[i] *= strides[i];
  }
  return prepareView(call, call.integers("sizes"), own, begin);
}

/// Input after input, each into its columns of the result's rows: a column is the axis and everything inside it.
Result<Run> prepareConcat(const Signature &call, Library &) {
  size_t axis = static_cast<size_t>(call.integer("axis")), result = call.operands.size() - 1;
  std::vector<Target> targets;
  int64_t pitch = 0;
  for (size_t i = 0; i < result; ++i) {
    const Dims &dims = call.operands[i].dims;
    Target target;
    target.row = Divider(dims[axis] * rowMajor(dims)[axis]);
    target.begin = pitch;
    pitch += target.row.size;
    targets.push_back(target);
  }
  for (Target &target : targets)
    target.pitch = pitch;
  DType type = call.operands[0].type;
  int64_t rows = call.operands[result].elements() / pitch;
  return Run([=, out = Bound(call, result)](const Launch &launch) {
    for (size_t i = 0; i < targets.size(); ++i) {
      int64_t total = rows * targets[i].row.size;
      ViewSource side;
      side.view.add(total, {1});
      MT_TRY(startMoving(launch, side, targets[i], total, {launch.operands[i], type}, out.out(launch)));
    }
    return Status();
  });
}

Result<Run> preparePad(const Signature &call, Library &) {
  const Dims &dims = call.operands[0].dims;
  Dims low = call.integers("low"), high = call.integers("high"), interior = call.integers("interior");
  PadSource source;
  for (size_t i = 0; i < dims.size(); ++i)
    if (!source.add(dims[i], low[i], high[i], interior[i] + 1))
      return fail("pad: more than {} dimensions that do not merge", kMaxDims);
  for (int64_t i = source.rank - 1, stride = 1; i >= 0; stride *= source.from[i--])
    source.strides[i] = stride;
  Bound in(call, 0), out(call, 1);
  uint64_t fixed = encoded(in.type, call.real("value"));
  return Run([source, in, out, fixed, total = call.operands[1].elements()](const Launch &launch) {
    return startMoving(launch, source, {}, total, in.in(launch), out.out(launch), fixed);
  });
}

// Constants.

Status startList(const Launch &launch, const Bound &result, const std::vector<std::byte> &bytes) {
  size_t each = byteSize(result.type);
  for (size_t done = 0; done < bytes.size(); done += sizeof(List)) {
    List list;
    size_t count = std::min(sizeof(List), bytes.size() - done);
    std::memcpy(&list, bytes.data() + done, count);
    MT_TRY(start(launch.stream, 1, kThreads, listCode(result.type), list, static_cast<int64_t>(done / each),
                 static_cast<int64_t>(count / each), result.out(launch)));
  }
  return {};
}

std::vector<uint64_t> numbersOf(DType type, const Attribute &value) {
  std::vector<uint64_t> list;
  if (auto one = std::get_if<int64_t>(&value))
    list.push_back(encoded(type, *one));
  if (auto one = std::get_if<double>(&value))
    list.push_back(encoded(type, *one));
  if (auto many = std::get_if<std::vector<int64_t>>(&value))
    for (int64_t one : *many)
      list.push_back(encoded(type, one));
  if (auto many = std::get_if<std::vector<double>>(&value))
    for (double one : *many)
      list.push_back(encoded(type, one));
  return list;
}

Result<Run> prepareConstant(const Signature &call, Library &) {
  Bound out(call, 0);
  std::vector<uint64_t> numbers = numbersOf(out.type, call.attributes.find("value")->second);
  if (std::ranges::adjacent_find(numbers, std::not_equal_to<>()) == numbers.end())
    return Run([out, fixed = numbers[0], total = call.operands[0].elements()](const Launch &launch) {
      return startMoving(launch, NoSource(), {}, total, {nullptr, out.type}, out.out(launch), fixed);
    });
  size_t each = byteSize(out.type);
  std::vector<std::byte> bytes(numbers.size() * each);
  for (size_t i = 0; i < numbers.size(); ++i)
    std::memcpy(bytes.data() + i * each, &numbers[i], each);
  return Run([out, bytes](const Launch &launch) { return startList(launch, out, bytes); });
}

Result<Run> prepareIota(const Signature &call, Library &) {
  const Dims &dims = call.operands[0].dims;
  size_t at = static_cast<size_t>(call.integer("dimension"));
  Divider inner(rowMajor(dims)[at]), size(dims[at]);
  double first = call.real("start"), step = call.real("step", 1);
  Bound out(call, 0);
  return Run([=, total = call.operands[0].elements()](const Launch &launch) {
    return start(launch.stream, ceilDivide(total, kThreads), kThreads, iotaCode(out.type), total, inner, size, first,
                 step, out.out(launch));
  });
}

} // namespace

std::span<const Entry> structureEntries() {
  static constexpr Entry kEntries[] = {
      {"constant", prepareConstant},   {"iota", prepareIota},           {"cast", prepareCopy},   {"copy", prepareCopy},
      {"transpose", prepareTranspose}, {"broadcast", prepareBroadcast}, {"slice", prepareSlice}, {"pad", preparePad},
      {"concat", prepareConcat}};
  return kEntries;
}

} // namespace mt::kernels::cuda
