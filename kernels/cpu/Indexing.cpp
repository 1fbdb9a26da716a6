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

/// result[a, indices[i], b] = the sum of gradient[a, i, b], in the order of i, zero where there is none. A chunk owns
/// some columns b of one a. What is added to is added to once, all of it, so that bits are those of a result added
/// afterwards.
template <typename C> struct ScatterAdd {
  static constexpr int64_t kColumns = 64;
  Indices indices;
  int64_t outer, size, inner;
  LoadRow<C> load;
  StoreRow<C> store;

  void clear(const Launch &launch) const {
    constexpr int64_t kChunk = 65536;
    const int64_t total = outer * size * inner;
    const bool adds = launch.accumulates(2);
    launch.pool.parallelFor(ceilDivide(total, kChunk), [&](int64_t chunk) {
      C zeros[256] = {};
      for (int64_t at = chunk * kChunk, end = std::min(total, at + kChunk); at < end; at += 256)
        store(zeros, launch.operands[2], at, std::min<int64_t>(256, end - at), adds);
    });
  }

  /// Places of the indices, those of one row behind each other.
  std::span<const int64_t> sorted(const Launch &launch) const {
    auto *places = static_cast<int64_t *>(launch.operands[3]);
    for (int64_t i = 0; i < indices.count; ++i)
      places[i] = i;
    std::sort(places, places + indices.count, [&](int64_t i, int64_t j) { // no two are equal, and it takes no memory
      return std::pair(indices.at(launch, i, size), i) < std::pair(indices.at(launch, j, size), j);
    });
    return {places, static_cast<size_t>(indices.count)};
  }

  void add(const Launch &launch, std::span<const int64_t> places, int64_t a, int64_t column) const {
    C row[kColumns], sums[kColumns];
    const int64_t width = std::min(kColumns, inner - column);
    for (size_t at = 0; at < places.size();) {
      const int64_t to = indices.at(launch, places[at], size);
      std::fill_n(sums, width, C(0));
      for (; at < places.size() && indices.at(launch, places[at], size) == to; ++at) {
        load(launch.operands[1], (a * indices.count + places[at]) * inner + column, 1, width, row);
        for (int64_t j = 0; j < width; ++j)
          sums[j] += row[j];
      }
      store(sums, launch.operands[2], (a * size + to) * inner + column, width, launch.accumulates(2));
    }
  }

  Status operator()(const Launch &launch) const {
    MT_TRY(indices.verify(launch, size));
    const std::span<const int64_t> places = sorted(launch);
    clear(launch);
    const int64_t blocks = ceilDivide(inner, kColumns);
    launch.pool.parallelFor(outer * blocks,
                            [&](int64_t part) { add(launch, places, part / blocks, part % blocks * kColumns); });
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
                             storer<C>(result.type)});
  });
}

constexpr Entry kEntries[] = {{"gather", prepareGather},      {"gather_grad", prepareScatterAdd},
                              {"gather_nd", prepareGatherNd}, {"gather_elements", prepareGatherElements},
                              {"embedding", prepareGather},   {"embedding_grad", prepareScatterAdd}};

} // namespace

std::span<const Entry> indexingEntries() { return kEntries; }

} // namespace mt::kernels::cpu
