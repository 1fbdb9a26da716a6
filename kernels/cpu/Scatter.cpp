// scatter and scatter_elements: data copied, then updates put into it in the order of their indices. Chunks own columns
// of the result, or lines along the axis, so that no two threads meet.
#include "kernels/Blocks.h"
#include "kernels/cpu/Elements.h"
#include "kernels/cpu/Family.h"
#include "kernels/cpu/Indices.h"
#include "kernels/cpu/View.h"

namespace mt::kernels::cpu {
namespace {

enum class Kind { none, add, mul, max, min };

Kind kindOf(const Signature &call) {
  std::string kind = call.text("kind", "none");
  return kind == "add"   ? Kind::add
         : kind == "mul" ? Kind::mul
         : kind == "max" ? Kind::max
         : kind == "min" ? Kind::min
                         : Kind::none;
}

/// Integers wrap around; a NaN stays.
template <typename C> C combine(Kind kind, C there, C update) {
  switch (kind) {
  case Kind::none:
    break;
  case Kind::add:
    if constexpr (std::is_integral_v<C>)
      return static_cast<C>(static_cast<uint64_t>(there) + static_cast<uint64_t>(update));
    else
      return there + update;
  case Kind::mul:
    if constexpr (std::is_integral_v<C>)
      return static_cast<C>(static_cast<uint64_t>(there) * static_cast<uint64_t>(update));
    else
      return there * update;
  case Kind::max:
    return there != there || there > update ? there : update;
  case Kind::min:
    return there != there || there < update ? there : update;
  }
  return update;
}

template <typename C> void combineRow(Kind kind, C *there, const C *updates, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    there[i] = combine(kind, there[i], updates[i]);
}

template <typename C> struct Stored {
  LoadRow<C> load;
  StoreRow<C> store;
  explicit Stored(DType type) : load(loader<C>(type)), store(storer<C>(type)) {}

  /// Copies operand 0 into the result.
  void copy(const Launch &launch, int64_t total) const {
    constexpr int64_t kChunk = 65536, kRow = 256;
    launch.pool.parallelFor(ceilDivide(total, kChunk), [&](int64_t chunk) {
      C row[kRow];
      for (int64_t at = chunk * kChunk, end = std::min(total, at + kChunk); at < end; at += kRow) {
        int64_t count = std::min(kRow, end - at);
        load(launch.operands[0], at, 1, count, row);
        store(row, launch.operands[3], at, count, false);
      }
    });
  }
};

template <typename C> struct Scatter {
  static constexpr int64_t kColumns = 64;
  Kind kind;
  Indices indices;
  int64_t outer, size, inner;
  Stored<C> stored;

  void put(const Launch &launch, int64_t a, int64_t column) const {
    C there[kColumns], row[kColumns];
    int64_t width = std::min(kColumns, inner - column);
    for (int64_t i = 0; i < indices.count; ++i) {
      int64_t to = (a * size + indices.at(launch, i, size)) * inner + column;
      stored.load(launch.operands[2], (a * indices.count + i) * inner + column, 1, width, row);
      if (kind != Kind::none) {
        stored.load(launch.operands[3], to, 1, width, there);
        combineRow(kind, there, row, width);
      }
      stored.store(kind == Kind::none ? row : there, launch.operands[3], to, width, false);
    }
  }

  Status operator()(const Launch &launch) const {
    MT_TRY(indices.verify(launch, size));
    stored.copy(launch, outer * size * inner);
    int64_t blocks = ceilDivide(inner, kColumns);
    launch.pool.parallelFor(outer * blocks,
                            [&](int64_t part) { put(launch, part / blocks, part % blocks * kColumns); });
    return {};
  }
};

Result<Run> prepareScatter(const Signature &call) {
  const OperandType &data = call.operands[0];
  if (!call.operands[3].present)
    return Run([](const Launch &) { return Status(); });
  size_t axis = static_cast<size_t>(call.integer("axis"));
  int64_t size = data.dims[axis], inner = rowMajor(data.dims)[axis];
  return withArithmetic(data.type, [&](auto arithmetic) -> Result<Run> {
    using C = decltype(arithmetic);
    return Run(
        Scatter<C>{kindOf(call), Indices(call, 1), data.elements() / size / inner, size, inner, Stored<C>(data.type)});
  });
}

/// Lines of the indices along the axis: places around it, each with the line of the data that has the same place.
template <typename C> struct ScatterElements {
  Kind kind;
  Indices indices;
  size_t axis;
  Dims around, own;                         ///< dims of the indices with one along the axis; strides of the data
  int64_t lines, length, step, size, total; ///< step: of the indices along the axis
  Stored<C> stored;

  int64_t dataOffset(int64_t line) const {
    int64_t offset = 0;
    for (size_t i = around.size(); i-- > 0; line /= around[i])
      offset += line % around[i] * own[i];
    return offset;
  }

  void put(const Launch &launch, int64_t line) const {
    int64_t base = dataOffset(line), first = line / step * step * length + line % step;
    for (int64_t j = 0; j < length; ++j) {
      int64_t at = first + j * step, to = base + indices.at(launch, at, size) * own[axis];
      C there[1], update[1];
      stored.load(launch.operands[2], at, 1, 1, update);
      stored.load(launch.operands[3], to, 1, 1, there);
      combineRow(kind, there, update, 1);
      stored.store(there, launch.operands[3], to, 1, false);
    }
  }

  Status operator()(const Launch &launch) const {
    MT_TRY(indices.verify(launch, size));
    stored.copy(launch, total);
    int64_t each = std::max<int64_t>(1, 8192 / length);
    launch.pool.parallelFor(ceilDivide(lines, each), [&](int64_t chunk) {
      for (int64_t line = chunk * each; line < std::min(lines, (chunk + 1) * each); ++line)
        put(launch, line);
    });
    return {};
  }
};

Result<Run> prepareScatterElements(const Signature &call) {
  const OperandType &data = call.operands[0], &places = call.operands[1];
  if (!call.operands[3].present)
    return Run([](const Launch &) { return Status(); });
  size_t axis = static_cast<size_t>(call.integer("axis"));
  Dims around = places.dims;
  around[axis] = 1;
  int64_t length = places.dims[axis];
  return withArithmetic(data.type, [&](auto arithmetic) -> Result<Run> {
    using C = decltype(arithmetic);
    return Run(ScatterElements<C>{kindOf(call), Indices(call, 1), axis, around, rowMajor(data.dims),
                                  places.elements() / length, length, rowMajor(places.dims)[axis], data.dims[axis],
                                  data.elements(), Stored<C>(data.type)});
  });
}

constexpr Entry kEntries[] = {{"scatter", prepareScatter}, {"scatter_elements", prepareScatterElements}};

} // namespace

std::span<const Entry> scatterEntries() { return kEntries; }

} // namespace mt::kernels::cpu
