// gather, gather_nd, gather_elements, embedding and the gradients that add back into place. Indices are checked before
// anything is read; sums are in the order of the indices, columns in parallel.
#include "kernels/cpu/Indices.h"
#include "kernels/cpu/Producer.h"
#include "kernels/cpu/View.h"

namespace mt::kernels::cpu {
namespace {

/// result[a, i, b] = data[a, indices[i], b]; embedding is the case without a.
template <typename C> struct GatherSource {
  Indices indices;
  int64_t size, inner;
  LoadRow<C> load;

  Status verify(const Launch &launch) const { return indices.verify(launch, size); }
  void produce(const Launch &launch, int64_t begin, int64_t count, C *out) const {
    for (int64_t done = 0; done < count;) {
      int64_t row = (begin + done) / inner, column = (begin + done) % inner;
      int64_t run = std::min(inner - column, count - done);
      int64_t from = row / indices.count * size + indices.at(launch, row % indices.count, size);
      load(launch.operands[0], from * inner + column, 1, run, out + done);
      done += run;
    }
  }
};

Result<Run> prepareGather(const Signature &call) {
  const OperandType &data = call.operands[0];
  size_t axis = static_cast<size_t>(call.integer("axis"));
  Indices indices(call, 1, call.kernel == "gather");
  return withArithmetic(data.type, [&](auto arithmetic) {
    using C = decltype(arithmetic);
    return produceWith<C>(call,
                          GatherSource<C>{indices, data.dims[axis], rowMajor(data.dims)[axis], loader<C>(data.type)});
  });
}

template <typename C> struct GatherNdSource {
  Indices indices;
  Dims sizes, strides; ///< of the indexed dims
  int64_t inner, rowsPerBatch, batchStride;
  LoadRow<C> load;

  Status verify(const Launch &launch) const {
    int64_t depth = static_cast<int64_t>(sizes.size());
    for (int64_t i = 0; i < indices.count; ++i)
      if (int64_t size = sizes[static_cast<size_t>(i % depth)]; !indices.holds(launch, i, size))
        return indices.bad(launch, i, size);
    return {};
  }
  void produce(const Launch &launch, int64_t begin, int64_t count, C *out) const {
    int64_t depth = static_cast<int64_t>(sizes.size());
    for (int64_t done = 0; done < count;) {
      int64_t row = (begin + done) / inner, column = (begin + done) % inner;
      int64_t run = std::min(inner - column, count - done), from = row / rowsPerBatch * batchStride + column;
      for (int64_t k = 0; k < depth; ++k)
        from += indices.at(launch, row * depth + k, sizes[static_cast<size_t>(k)]) * strides[static_cast<size_t>(k)];
      load(launch.operands[0], from, 1, run, out + done);
      done += run;
    }
  }
};

Result<Run> prepareGatherNd(const Signature &call) {
  const OperandType &data = call.operands[0];
  size_t batch = static_cast<size_t>(call.integer("batchDims")),
         depth = static_cast<size_t>(call.operands[1].dims.back());
  Dims own = rowMajor(data.dims);
  Dims sizes(data.dims.begin() + static_cast<int64_t>(batch), data.dims.begin() + static_cast<int64_t>(batch + depth));
  Dims strides(own.begin() + static_cast<int64_t>(batch), own.begin() + static_cast<int64_t>(batch + depth));
  int64_t batches = 1;
  for (size_t i = 0; i < batch; ++i)
    batches *= data.dims[i];
  Indices indices(call, 1);
  int64_t rows = indices.count / static_cast<int64_t>(depth);
  return withArithmetic(data.type, [&](auto arithmetic) {
    using C = decltype(arithmetic);
    return produceWith<C>(call, GatherNdSource<C>{indices, sizes, strides, strides.back(), rows / batches,
                                                  data.elements() / batches, loader<C>(data.type)});
  });
}

template <typename C> struct GatherElementsSource {
  Indices indices;
  size_t axis;
  Dims dims, strides; ///< dims of the result, strides of the data
  int64_t size;
  LoadRow<C> load;

  Status verify(const Launch &launch) const { return indices.verify(launch, size); }
  void produce(const Launch &launch, int64_t begin, int64_t count, C *out) const {
    for (int64_t done = 0; done < count; ++done) {
      int64_t from = indices.at(launch, begin + done, size) * strides[axis], rest = begin + done;
      for (size_t i = dims.size(); i-- > 0; rest /= dims[i])
        from += i == axis ? 0 : rest % dims[i] * strides[i];
      load(launch.operands[0], from, 1, 1, out + done);
    }
  }
};

Result<Run> prepareGatherElements(const Signature &call) {
  const OperandType &data = call.operands[0];
  size_t axis = static_cast<size_t>(call.integer("axis"));
  Indices indices(call, 1);
  return withArithmetic(data.type, [&](auto arithmetic) {
    using C = decltype(arithmetic);
    return produceWith<C>(
        call,
        GatherElementsSource<C>{indices, axis, call.operands[2].present ? call.operands[2].dims : call.operands[1].dims,
                                rowMajor(data.dims), data.dims[axis], loader<C>(data.type)});
  });
}

/// result[a, indices[i], b] += gradient[a, i, b]. A chunk owns some columns b of one a, and takes the indices in order.
/// Where the result is narrower than C, the chunk's sums are kept in C and stored once.
template <typename C> struct ScatterAdd {
  static constexpr int64_t kColumns = 64;
  Indices indices;
  int64_t outer, size, inner;
  LoadRow<C> load;
  StoreRow<C> store;
  bool native;

  void clear(const Launch &launch) const {
    constexpr int64_t kChunk = 65536;
    int64_t total = outer * size * inner;
    launch.pool.parallelFor(ceilDivide(total, kChunk), [&](int64_t chunk) {
      C zeros[256] = {};
      for (int64_t at = chunk * kChunk, end = std::min(total, at + kChunk); at < end; at += 256)
        store(zeros, launch.operands[2], at, std::min<int64_t>(256, end - at), false);
    });
  }

  void add(const Launch &launch, int64_t a, int64_t column) const {
    C row[kColumns];
    int64_t width = std::min(kColumns, inner - column);
    for (int64_t i = 0; i < indices.count; ++i) {
      load(launch.operands[1], (a * indices.count + i) * inner + column, 1, width, row);
      int64_t to = a * size + indices.at(launch, i, size);
      store(row, launch.operands[2], to * inner + column, width, true);
    }
  }

  void addWide(const Launch &launch, int64_t a, int64_t column) const {
    C row[kColumns];
    int64_t width = std::min(kColumns, inner - column);
    C *sums = ThreadPool::scratchOf<C>(size * width);
    std::fill(sums, sums + size * width, C(0));
    for (int64_t i = 0; i < indices.count; ++i) {
      load(launch.operands[1], (a * indices.count + i) * inner + column, 1, width, row);
      C *to = sums + indices.at(launch, i, size) * width;
      for (int64_t j = 0; j < width; ++j)
        to[j] += row[j];
    }
    for (int64_t i = 0; i < size; ++i)
      store(sums + i * width, launch.operands[2], (a * size + i) * inner + column, width, launch.accumulates(2));
  }

  Scratch scratch() const {
    return {.own = native ? 0 : sizeof(C) * static_cast<uint64_t>(size * std::min(kColumns, inner))};
  }

  Status operator()(const Launch &launch) const {
    MT_TRY(indices.verify(launch, size));
    if (native && !launch.accumulates(2))
      clear(launch);
    int64_t blocks = ceilDivide(inner, kColumns);
    launch.pool.parallelFor(outer * blocks, [&](int64_t part) {
      int64_t a = part / blocks, column = part % blocks * kColumns;
      native ? add(launch, a, column) : addWide(launch, a, column);
    });
    return {};
  }
};

Result<Run> prepareScatterAdd(const Signature &call) {
  const OperandType &result = call.operands[2];
  size_t axis = static_cast<size_t>(call.integer("axis"));
  int64_t size = result.dims[axis], inner = rowMajor(result.dims)[axis];
  Indices indices(call, 0, call.kernel == "gather_grad");
  return withArithmetic(result.type, [&](auto arithmetic) -> Result<Run> {
    using C = decltype(arithmetic);
    return Run(ScatterAdd<C>{indices, result.elements() / size / inner, size, inner, loader<C>(call.operands[1].type),
                             storer<C>(result.type), isNative<C>(result.type)});
  });
}

constexpr Entry kEntries[] = {{"gather", prepareGather},      {"gather_grad", prepareScatterAdd},
                              {"gather_nd", prepareGatherNd}, {"gather_elements", prepareGatherElements},
                              {"embedding", prepareGather},   {"embedding_grad", prepareScatterAdd}};

} // namespace

std::span<const Entry> indexingEntries() { return kEntries; }

} // namespace mt::kernels::cpu
