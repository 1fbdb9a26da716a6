// expert_matmul and the gradient of its matrices: rows are grouped by expert, in their order; an expert's rows are then
// products of blocks, each column block of an expert's matrix read once.
#include "kernels/cpu/FactorRows.h"
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
template <typename T>
void collect(const Launch &launch, const RowIn &from, const int64_t *rows, int64_t count, int64_t line, int64_t first,
             int64_t width, T *out) {
  for (int64_t i = 0; i < count; ++i)
    bringFactor(launch, from, rows[i] * line + first, 1, width, out + i * width);
}

struct ExpertShape {
  Indices experts;
  int64_t count, depth, columns;
  bool transposed; ///< matrices are [columns, depth]
  RowIn lhs, weight;
  RowOut result;
};

template <typename T> struct ExpertMatmul : ExpertShape {
  explicit ExpertMatmul(ExpertShape shape) : ExpertShape(std::move(shape)) {}

  /// The block's columns of an expert's matrix, and the distance of their stored rows.
  const T *matrix(const Launch &launch, int64_t expert, int64_t column, int64_t width, T *buffer, int64_t &line) const {
    const int64_t base = expert * depth * columns + column * (transposed ? depth : 1);
    line = transposed ? depth : columns;
    if (isFactor<T>(weight))
      return launch.at<const T>(weight.operand) + base;
    line = transposed ? depth : width;
    for (int64_t k = 0; k < (transposed ? width : depth); ++k)
      bringFactor(launch, weight, base + k * (transposed ? depth : columns), 1, line, buffer + k * line);
    return buffer;
  }

  void block(const Launch &launch, const Grouped &grouped, int64_t expert, int64_t column) const {
    int64_t begin = grouped.begins[expert], end = grouped.begins[expert + 1],
            width = std::min(kColumns, columns - column);
    if (begin == end)
      return;
    float *products = product().behind(scratchFloats());
    auto *rows = reinterpret_cast<T *>(products + kRows * kColumns),
         *buffer = reinterpret_cast<T *>(products + kRows * kColumns + factorFloats<T>(kRows * depth));
    int64_t line = 0;
    const T *b = matrix(launch, expert, column, width, buffer, line);
    for (int64_t at = begin; at < end; at += kRows) {
      int64_t height = std::min(kRows, end - at);
      collect(launch, lhs, grouped.rows + at, height, depth, 0, depth, rows);
      product().multiply({.transposeB = transposed, .m = height, .n = width, .k = depth, .ldc = width}, {rows, depth},
                         {b, line}, false, products, products);
      for (int64_t i = 0; i < height; ++i)
        result.store(products + i * width, launch.operands[result.operand], grouped.rows[at + i] * columns + column, width,
                     launch.accumulates(result.operand));
    }
  }

  int64_t scratchFloats() const {
    return kRows * kColumns + factorFloats<T>(kRows * depth) + factorFloats<T>(depth * kColumns);
  }
  FactorProduct<T> product() const { return {kRows, kColumns, depth}; }
  Scratch scratch() const { return product().scratch(scratchFloats()); }

  Status operator()(const Launch &launch) const {
    MT_TRY(experts.verify(launch, count));
    Grouped grouped = group(launch, experts, count);
    int64_t across = ceilDivide(columns, kColumns);
    launch.pool.parallelFor(count * across,
                            [&](int64_t part) { block(launch, grouped, part / across, part % across * kColumns); });
    return {};
  }
};

struct ExpertGradShape {
  Indices experts;
  int64_t count, height, width; ///< of a matrix
  RowIn left, right;
  RowOut result;
};

/// The first dimension of an expert's matrix is cut: rows of it from `left`, all columns from `right`.
template <typename T> struct ExpertMatmulGrad : ExpertGradShape {
  static constexpr int64_t kDepth = 128; ///< rows that are multiplied at once
  explicit ExpertMatmulGrad(ExpertGradShape shape) : ExpertGradShape(std::move(shape)) {}

  void block(const Launch &launch, const Grouped &grouped, int64_t expert, int64_t first) const {
    int64_t tall = std::min(kRows, height - first), begin = grouped.begins[expert], end = grouped.begins[expert + 1];
    float *sums = product().behind(scratchFloats());
    auto *a = reinterpret_cast<T *>(sums + factorFloats<float>(kRows * width)),
         *b = reinterpret_cast<T *>(sums + factorFloats<float>(kRows * width) + factorFloats<T>(kDepth * kRows));
    std::fill(sums, sums + tall * width, 0.0F);
    for (int64_t at = begin; at < end; at += kDepth) {
      int64_t depth = std::min(kDepth, end - at);
      collect(launch, left, grouped.rows + at, depth, height, first, tall, a);
      collect(launch, right, grouped.rows + at, depth, width, 0, width, b);
      product().multiply({.transposeA = true, .m = tall, .n = width, .k = depth, .ldc = width}, {a, tall}, {b, width},
                         true, sums, sums);
    }
    result.store(sums, launch.operands[result.operand], (expert * height + first) * width, tall * width,
                 launch.accumulates(result.operand));
  }

  int64_t scratchFloats() const {
    return factorFloats<float>(kRows * width) + factorFloats<T>(kDepth * kRows) + factorFloats<T>(kDepth * width);
  }
  FactorProduct<T> product() const { return {kRows, width, kDepth}; }
  Scratch scratch() const { return product().scratch(scratchFloats()); }

  Status operator()(const Launch &launch) const {
    MT_TRY(experts.verify(launch, count));
    Grouped grouped = group(launch, experts, count);
    int64_t down = ceilDivide(height, kRows);
    launch.pool.parallelFor(count * down,
                            [&](int64_t part) { block(launch, grouped, part / down, part % down * kRows); });
    return {};
  }
};

/// Of a call whose first operands are the factors.
template <template <typename> typename Product, typename Shape> Result<Run> productOf(const Signature &call, Shape shape) {
  if (takesUnits(call))
    return Run(Product<Bf16>(std::move(shape)));
  return Run(Product<float>(std::move(shape)));
}

Result<Run> prepareExpertMatmul(const Signature &call) {
  if (!call.operands[3].present)
    return Run([](const Launch &) { return Status(); });
  const Dims &matrices = call.operands[1].dims;
  bool transposed = call.integer("transposed") != 0;
  return productOf<ExpertMatmul>(call, ExpertShape{Indices(call, 2, false), matrices[0], matrices[transposed ? 2 : 1],
                                                   matrices[transposed ? 1 : 2], transposed, RowIn(call, 0), RowIn(call, 1), RowOut(call, 3)});
}

Result<Run> prepareExpertMatmulGrad(const Signature &call) {
  const Dims &matrices = call.operands[3].dims;
  bool transposed = call.integer("transposed") != 0;
  return productOf<ExpertMatmulGrad>(call, ExpertGradShape{Indices(call, 2, false), matrices[0], matrices[1], matrices[2],
                                                           RowIn(call, transposed ? 0 : 1), RowIn(call, transposed ? 1 : 0), RowOut(call, 3)});
}

constexpr Entry kEntries[] = {{"expert_matmul", prepareExpertMatmul}, {"expert_matmul_grad", prepareExpertMatmulGrad}};

} // namespace

std::span<const Entry> expertEntries() { return kEntries; }

} // namespace mt::kernels::cpu
