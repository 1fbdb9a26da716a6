// expert_matmul and the gradient of its matrices: rows are grouped by expert, in their order; an expert's rows are then
// products of blocks, each column block of an expert's matrix read once.
#include "kernels/Blocks.h"
#include "kernels/cpu/FloatRows.h"
#include "kernels/cpu/Gemm.h"
#include "kernels/cpu/Indices.h"

#include <algorithm>

namespace mt::kernels::cpu {
namespace {

constexpr int64_t kRows = 64, kColumns = 256; // of a block

/// Rows by expert: those of expert e are rows[begins[e]] to rows[begins[e + 1]].
struct Grouped {
  const int64_t *begins, *rows;
};

/// A stable counting sort.
Grouped group(const Launch &launch, const Indices &experts, int64_t count) {
  auto *begins = static_cast<int64_t *>(launch.operands.back());
  int64_t *rows = begins + count + 1;
  std::fill(begins, begins + count + 1, int64_t{0});
  for (int64_t i = 0; i < experts.count; ++i)
    ++begins[experts.raw(launch, i)];
  int64_t total = 0;
  for (int64_t e = 0; e <= count; ++e)
    total += std::exchange(begins[e], total);
  for (int64_t i = 0; i < experts.count; ++i)
    rows[begins[experts.raw(launch, i)]++] = i;
  for (int64_t e = count; e > 0; --e)
    begins[e] = begins[e - 1];
  begins[0] = 0;
  return {begins, rows};
}

/// Columns [first, first + width) of rows that lie apart, one after another in `out`.
void collect(const Launch &launch, const RowIn &from, const int64_t *rows, int64_t count, int64_t line, int64_t first,
             int64_t width, float *out) {
  for (int64_t i = 0; i < count; ++i)
    if (const float *row = from.at(launch, rows[i] * line + first, width, out + i * width); row != out + i * width)
      std::copy_n(row, width, out + i * width);
}

struct ExpertMatmul {
  Indices experts;
  int64_t count, depth, columns;
  bool transposed; ///< matrices are [columns, depth]
  RowIn lhs, weight;
  RowOut result;

  /// The block's columns of an expert's matrix as floats, and the distance of their stored rows.
  const float *matrix(const Launch &launch, int64_t expert, int64_t column, int64_t width, float *buffer,
                      int64_t &line) const {
    int64_t base = expert * depth * columns;
    line = transposed ? depth : weight.native ? columns : width;
    if (transposed || weight.native)
      return weight.at(launch, base + column * (transposed ? depth : 1), transposed ? width * depth : 1, buffer);
    for (int64_t k = 0; k < depth; ++k)
      weight.load(launch.operands[weight.operand], base + k * columns + column, 1, width, buffer + k * width);
    return buffer;
  }

  void put(const Launch &launch, int64_t row, int64_t column, int64_t width, const float *from) const {
    result.store(from, launch.operands[result.operand], row * columns + column, width,
                 launch.accumulates(result.operand));
  }

  void block(const Launch &launch, const Grouped &grouped, int64_t expert, int64_t column) const {
    int64_t begin = grouped.begins[expert], end = grouped.begins[expert + 1],
            width = std::min(kColumns, columns - column);
    if (begin == end)
      return;
    auto *rows = ThreadPool::scratchOf<float>(kRows * (depth + kColumns) + depth * kColumns);
    float *products = rows + kRows * depth, *buffer = products + kRows * kColumns;
    int64_t line = 0;
    const float *b = matrix(launch, expert, column, width, buffer, line);
    for (int64_t at = begin; at < end; at += kRows) {
      int64_t height = std::min(kRows, end - at);
      collect(launch, lhs, grouped.rows + at, height, depth, 0, depth, rows);
      multiply({false, transposed, height, width, depth, depth, line, width}, 1, rows, b, 0, products);
      for (int64_t i = 0; i < height; ++i)
        put(launch, grouped.rows[at + i], column, width, products + i * width);
    }
  }

  Scratch scratch() const {
    return {.own = sizeof(float) * static_cast<uint64_t>(kRows * (depth + kColumns) + depth * kColumns),
            .library = libraryScratch(kRows, kColumns, depth)};
  }

  Status operator()(const Launch &launch) const {
    MT_TRY(experts.verify(launch, count));
    Grouped grouped = group(launch, experts, count);
    int64_t across = ceilDivide(columns, kColumns);
    launch.pool.parallelFor(count * across,
                            [&](int64_t part) { block(launch, grouped, part / across, part % across * kColumns); });
    return {};
  }
};

/// The first dimension of an expert's matrix is cut: rows of it from `left`, all columns from `right`.
struct ExpertMatmulGrad {
  static constexpr int64_t kDepth = 128; ///< rows that are multiplied at once
  Indices experts;
  int64_t count, height, width; ///< of a matrix
  RowIn left, right;
  RowOut result;

  void block(const Launch &launch, const Grouped &grouped, int64_t expert, int64_t first) const {
    int64_t tall = std::min(kRows, height - first), begin = grouped.begins[expert], end = grouped.begins[expert + 1];
    auto *sums = ThreadPool::scratchOf<float>(kRows * width + kDepth * (kRows + width));
    float *a = sums + kRows * width, *b = a + kDepth * kRows;
    std::fill(sums, sums + tall * width, 0.0F);
    for (int64_t at = begin; at < end; at += kDepth) {
      int64_t depth = std::min(kDepth, end - at);
      collect(launch, left, grouped.rows + at, depth, height, first, tall, a);
      collect(launch, right, grouped.rows + at, depth, width, 0, width, b);
      multiply({true, false, tall, width, depth, tall, width, width}, 1, a, b, 1, sums);
    }
    result.store(sums, launch.operands[result.operand], (expert * height + first) * width, tall * width,
                 launch.accumulates(result.operand));
  }

  Scratch scratch() const {
    return {.own = sizeof(float) * static_cast<uint64_t>(kRows * width + kDepth * (kRows + width)),
            .library = libraryScratch(kRows, width, kDepth)};
  }

  Status operator()(const Launch &launch) const {
    MT_TRY(experts.verify(launch, count));
    Grouped grouped = group(launch, experts, count);
    int64_t down = ceilDivide(height, kRows);
    launch.pool.parallelFor(count * down,
                            [&](int64_t part) { block(launch, grouped, part / down, part % down * kRows); });
    return {};
  }
};

Result<Run> prepareExpertMatmul(const Signature &call) {
  if (!call.operands[3].present)
    return Run([](const Launch &) { return Status(); });
  const Dims &matrices = call.operands[1].dims;
  bool transposed = call.integer("transposed") != 0;
  return Run(ExpertMatmul{Indices(call, 2, false), matrices[0], matrices[transposed ? 2 : 1],
                          matrices[transposed ? 1 : 2], transposed, RowIn(call, 0), RowIn(call, 1), RowOut(call, 3)});
}

Result<Run> prepareExpertMatmulGrad(const Signature &call) {
  const Dims &matrices = call.operands[3].dims;
  bool transposed = call.integer("transposed") != 0;
  return Run(ExpertMatmulGrad{Indices(call, 2, false), matrices[0], matrices[1], matrices[2],
                              RowIn(call, transposed ? 0 : 1), RowIn(call, transposed ? 1 : 0), RowOut(call, 3)});
}

constexpr Entry kEntries[] = {{"expert_matmul", prepareExpertMatmul}, {"expert_matmul_grad", prepareExpertMatmulGrad}};

} // namespace

std::span<const Entry> expertEntries() { return kEntries; }

} // namespace mt::kernels::cpu
