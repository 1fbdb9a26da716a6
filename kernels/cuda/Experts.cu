// expert_matmul and the gradient of its matrices: rows sorted by expert, in tiles of one expert each, through shared
// memory. bf16 goes through the matrix units; fp32, which is never TF32, and shapes that are no whole packs do not.
#include "kernels/cuda/Experts.h"

#include "kernels/cuda/Elements.cuh"
#include "kernels/cuda/Floats.cuh"

#include <mma.h>

namespace mt::kernels::cuda {
namespace {

__global__ void __launch_bounds__(kThreads) expertBegins(const __grid_constant__ ExpertBegins a) {
  int64_t expert = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x, low = 0, high = a.count;
  if (expert > a.experts)
    return;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (static_cast<int64_t>(a.keys[middle] >> 32) < expert)
      low = middle + 1;
    else
      high = middle;
  }
  a.begins[expert] = low;
}

__device__ __forceinline__ int64_t rowOf(uint64_t key) { return static_cast<int64_t>(key & 0xffffffff); }
__device__ __forceinline__ float floatOf(In in, int64_t at) { return loadFloat(in.data, in.type, at); }

/// The products that a thread has in a tile: one row, columns kThreads / kExpertRows apart.
constexpr int kBeside = kThreads / kExpertRows, kOwn = kExpertColumns / kBeside;

/// sums[j] += sum over d of a[d][row] * b[d][column + j * kBeside].
__device__ __forceinline__ void multiply(const float (&a)[kExpertDepth][kExpertRows],
                                         const float (&b)[kExpertDepth][kExpertColumns], int row, int column,
                                         float (&sums)[kOwn]) {
  for (int d = 0; d < kExpertDepth; ++d)
#pragma unroll
    for (int j = 0; j < kOwn; ++j)
      sums[j] += a[d][row] * b[d][column + j * kBeside];
}

/// The rows of the sorted keys that a tile has, all of one expert.
struct TileRows {
  int64_t expert, begin, end;
};
/// False: more tiles were started than these experts have.
__device__ __forceinline__ bool rowsOf(const ExpertArguments &a, int64_t tile, int height, TileRows &rows) {
  for (rows.expert = 0; rows.expert < a.experts; ++rows.expert) {
    rows.begin = a.begins[rows.expert], rows.end = a.begins[rows.expert + 1];
    int64_t tiles = (rows.end - rows.begin + height - 1) / height;
    if (tile < tiles) {
      rows.begin += tile * height;
      return true;
    }
    tile -= tiles;
  }
  return false;
}

__global__ void __launch_bounds__(kThreads) expertMatmul(const __grid_constant__ ExpertArguments a) {
  __shared__ float left[kExpertDepth][kExpertRows], right[kExpertDepth][kExpertColumns];
  int64_t first = blockIdx.x % a.across * kExpertColumns;
  TileRows rows;
  if (!rowsOf(a, blockIdx.x / a.across, kExpertRows, rows))
    return;
  const int64_t expert = rows.expert, begin = rows.begin, end = rows.end;
  int row = static_cast<int>(threadIdx.x) / kBeside, column = static_cast<int>(threadIdx.x) % kBeside;
  float sums[kOwn] = {};
  for (int64_t k = 0; k < a.depth; k += kExpertDepth) {
    for (int i = static_cast<int>(threadIdx.x); i < kExpertDepth * kExpertRows; i += kThreads) {
      int64_t at = begin + i / kExpertDepth, d = k + i % kExpertDepth;
      left[i % kExpertDepth][i / kExpertDepth] =
          at < end && d < a.depth ? floatOf(a.left, rowOf(a.keys[at]) * a.depth + d) : 0;
    }
    for (int i = static_cast<int>(threadIdx.x); i < kExpertDepth * kExpertColumns; i += kThreads) {
      int inner = a.transposed ? i % kExpertDepth : i / kExpertColumns,
          outer = a.transposed ? i / kExpertDepth : i % kExpertColumns;
      int64_t d = k + inner, n = first + outer;
      int64_t at = expert * a.depth * a.columns + (a.transposed ? n * a.depth + d : d * a.columns + n);
      right[inner][outer] = d < a.depth && n < a.columns ? floatOf(a.right, at) : 0;
    }
    __syncthreads();
    multiply(left, right, row, column, sums);
    __syncthreads();
  }
  if (begin + row >= end)
    return;
  int64_t line = rowOf(a.keys[begin + row]) * a.columns;
#pragma unroll
  for (int j = 0; j < kOwn; ++j)
    if (int64_t n = first + column + j * kBeside; n < a.columns)
      storeOne(a.result.type, a.result.data, line + n, sums[j], a.result.adds);
}

__global__ void __launch_bounds__(kThreads) expertMatmulGrad(const __grid_constant__ ExpertArguments a) {
  __shared__ float left[kExpertDepth][kExpertRows], right[kExpertDepth][kExpertColumns];
  int64_t first = blockIdx.x % a.across * kExpertColumns, down = (a.depth + kExpertRows - 1) / kExpertRows;
  int64_t top = blockIdx.x / a.across % down * kExpertRows, expert = blockIdx.x / a.across / down;
  int row = static_cast<int>(threadIdx.x) / kBeside, column = static_cast<int>(threadIdx.x) % kBeside;
  float sums[kOwn] = {};
  for (int64_t at = a.begins[expert], end = a.begins[expert + 1]; at < end; at += kExpertDepth) {
    for (int i = static_cast<int>(threadIdx.x); i < kExpertDepth * kExpertRows; i += kThreads) {
      int64_t key = at + i / kExpertRows, m = top + i % kExpertRows;
      left[i / kExpertRows][i % kExpertRows] =
          key < end && m < a.depth ? floatOf(a.left, rowOf(a.keys[key]) * a.depth + m) : 0;
    }
    for (int i = static_cast<int>(threadIdx.x); i < kExpertDepth * kExpertColumns; i += kThreads) {
      int64_t key = at + i / kExpertColumns, n = first + i % kExpertColumns;
      right[i / kExpertColumns][i % kExpertColumns] =
          key < end && n < a.columns ? floatOf(a.right, rowOf(a.keys[key]) * a.columns + n) : 0;
    }
    __syncthreads();
    multiply(left, right, row, column, sums);
    __syncthreads();
  }
  if (top + row >= a.depth)
    return;
  int64_t line = (expert * a.depth + top + row) * a.columns;
#pragma unroll
  for (int j = 0; j < kOwn; ++j)
    if (int64_t n = first + column + j * kBeside; n < a.columns)
      storeOne(a.result.type, a.result.data, line + n, sums[j], a.result.adds);
}

/// A tile of products on matrix units. Operands lie in shared memory in lines of packs: along the depth, which is then
/// the shorter side of the tile, or across it. Two stages: while one is multiplied, the next comes to registers.
template <bool kLeftAlong, bool kRightAlong> struct Units {
  static constexpr int lineOf(bool along, int across) { return (along ? kUnitDepth : across) + kUnitPack; }
  static constexpr int linesOf(bool along, int across) { return along ? across : kUnitDepth; }
  static constexpr int kLeftLine = lineOf(kLeftAlong, kUnitRows), kRightLine = lineOf(kRightAlong, kUnitColumns);
  static constexpr int kLeft = kLeftLine * linesOf(kLeftAlong, kUnitRows);
  static constexpr int kRight = kRightLine * linesOf(kRightAlong, kUnitColumns);
  static constexpr int kEach =
      kUnitRows * kUnitDepth / kUnitPack / kThreads;        ///< packs of an operand that a thread brings
  static constexpr int kUnit = 16, kDown = 64, kAside = 32; ///< of a matrix unit; of a warp
  static constexpr int kStageLine = kUnit + 4;
  static_assert(kUnitRows == kUnitColumns && kThreads == kWarp * (kUnitRows / kDown) * (kUnitColumns / kAside));
  static_assert(kThreads / kWarp * kUnit * kStageLine * sizeof(float) <= (kLeft + kRight) * sizeof(__nv_bfloat16));

  /// Packs of the calling thread: `load(line, pack)` gives each.
  template <bool kAlong, typename Load> __device__ static void bring(Load load, uint4 (&packs)[kEach]) {
    constexpr int kPacks = (kAlong ? kUnitDepth : kUnitRows) / kUnitPack; // of a line
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      int at = static_cast<int>(threadIdx.x) + i * kThreads;
      packs[i] = load(at / kPacks, at % kPacks * kUnitPack);
    }
  }
  template <bool kAlong> __device__ static void put(__nv_bfloat16 *into, int line, const uint4 (&packs)[kEach]) {
    constexpr int kPacks = (kAlong ? kUnitDepth : kUnitRows) / kUnitPack;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      int at = static_cast<int>(threadIdx.x) + i * kThreads;
      *reinterpret_cast<uint4 *>(into + at / kPacks * line + at % kPacks * kUnitPack) = packs[i];
    }
  }

  /// `left(step, line, place)` and `right` give packs of the step's part of the depth, `store(row, column, value)`
  /// takes products.
  template <typename Left, typename Right, typename Store>
  __device__ static void multiply(int64_t steps, Left left, Right right, Store store) {
    using namespace nvcuda;
    __shared__ __align__(32) uint4 stages[2][(kLeft + kRight) / kUnitPack];
    using A = wmma::fragment<wmma::matrix_a, kUnit, kUnit, kUnit, __nv_bfloat16,
                             std::conditional_t<kLeftAlong, wmma::row_major, wmma::col_major>>;
    using B = wmma::fragment<wmma::matrix_b, kUnit, kUnit, kUnit, __nv_bfloat16,
                             std::conditional_t<kRightAlong, wmma::col_major, wmma::row_major>>;
    wmma::fragment<wmma::accumulator, kUnit, kUnit, kUnit, float> sums[kDown / kUnit][kAside / kUnit];
    for (auto &line : sums)
      for (auto &sum : line)
        wmma::fill_fragment(sum, 0);
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int down = warp / (kUnitColumns / kAside) * kDown, aside = warp % (kUnitColumns / kAside) * kAside;
    uint4 lefts[kEach], rights[kEach];
    auto bringStep = [&](int64_t step) {
      bring<kLeftAlong>([&](int line, int place) { return left(step, line, place); }, lefts);
      bring<kRightAlong>([&](int line, int place) { return right(step, line, place); }, rights);
    };
    if (steps > 0)
      bringStep(0);
    for (int64_t step = 0; step < steps; ++step) {
      auto *stage = reinterpret_cast<__nv_bfloat16 *>(stages[step % 2]), *beside = stage + kLeft;
      put<kLeftAlong>(stage, kLeftLine, lefts);
      put<kRightAlong>(beside, kRightLine, rights);
      __syncthreads(); // nobody still reads this stage: that was before the barrier of the step between
      if (step + 1 < steps)
        bringStep(step + 1);
#pragma unroll
      for (int k = 0; k < kUnitDepth; k += kUnit) {
        B b[kAside / kUnit];
#pragma unroll
        for (int j = 0; j < kAside / kUnit; ++j) {
          int n = aside + j * kUnit;
          wmma::load_matrix_sync(b[j], beside + (kRightAlong ? n * kRightLine + k : k * kRightLine + n), kRightLine);
        }
#pragma unroll
        for (int i = 0; i < kDown / kUnit; ++i) {
          A a;
          int m = down + i * kUnit;
          wmma::load_matrix_sync(a, stage + (kLeftAlong ? m * kLeftLine + k : k * kLeftLine + m), kLeftLine);
#pragma unroll
          for (int j = 0; j < kAside / kUnit; ++j)
            wmma::mma_sync(sums[i][j], a, b[j], sums[i][j]);
        }
      }
    }
    // Products go out by way of shared memory, a matrix unit's worth of each warp at a time.
    float *own = reinterpret_cast<float *>(stages[0]) + warp * kUnit * kStageLine;
#pragma unroll
    for (int i = 0; i < kDown / kUnit; ++i)
#pragma unroll
      for (int j = 0; j < kAside / kUnit; ++j) {
        __syncthreads();
        wmma::store_matrix_sync(own, sums[i][j], kStageLine, wmma::mem_row_major);
        __syncthreads();
        for (int e = static_cast<int>(threadIdx.x) % kWarp; e < kUnit * kUnit; e += kWarp)
          store(down + i * kUnit + e / kUnit, aside + j * kUnit + e % kUnit, own[e / kUnit * kStageLine + e % kUnit]);
      }
  }
};

/// Elements [at, at + 8) of a tensor, zeros unless `there`.
__device__ __forceinline__ uint4 packOf(In in, int64_t at, bool there) {
  return there ? *reinterpret_cast<const uint4 *>(static_cast<const __nv_bfloat16 *>(in.data) + at) : uint4{0, 0, 0, 0};
}

template <bool kTransposed>
__global__ void __launch_bounds__(kThreads) expertUnits(const __grid_constant__ ExpertArguments a) {
  int64_t first = blockIdx.x % a.across * kUnitColumns;
  TileRows rows;
  if (!rowsOf(a, blockIdx.x / a.across, kUnitRows, rows))
    return;
  int64_t matrix = rows.expert * a.depth * a.columns;
  Units<true, kTransposed>::multiply(
      (a.depth + kUnitDepth - 1) / kUnitDepth,
      [&](int64_t step, int line, int place) {
        int64_t at = rows.begin + line, d = step * kUnitDepth + place;
        bool there = at < rows.end && d < a.depth;
        return packOf(a.left, there ? rowOf(a.keys[at]) * a.depth + d : 0, there);
      },
      [&](int64_t step, int line, int place) {
        int64_t d = step * kUnitDepth + (kTransposed ? place : line), n = first + (kTransposed ? line : place);
        return packOf(a.right, matrix + (kTransposed ? n * a.depth + d : d * a.columns + n),
                      d < a.depth && n < a.columns);
      },
      [&](int row, int column, float value) {
        if (rows.begin + row < rows.end && first + column < a.columns)
          storeOne(a.result.type, a.result.data, rowOf(a.keys[rows.begin + row]) * a.columns + first + column, value,
                   a.result.adds);
      });
}

__global__ void __launch_bounds__(kThreads) expertUnitsGrad(const __grid_constant__ ExpertArguments a) {
  int64_t first = blockIdx.x % a.across * kUnitColumns, down = (a.depth + kUnitRows - 1) / kUnitRows;
  int64_t top = blockIdx.x / a.across % down * kUnitRows, expert = blockIdx.x / a.across / down;
  int64_t begin = a.begins[expert], end = a.begins[expert + 1];
  auto ofRows = [&](In in, int64_t width, int64_t place, int64_t at) {
    bool there = at < end && place < width;
    return packOf(in, there ? rowOf(a.keys[at]) * width + place : 0, there);
  };
  Units<false, false>::multiply((end - begin + kUnitDepth - 1) / kUnitDepth,
                                [&](int64_t step, int line, int place) {
                                  return ofRows(a.left, a.depth, top + place, begin + step * kUnitDepth + line);
                                },
                                [&](int64_t step, int line, int place) {
                                  return ofRows(a.right, a.columns, first + place, begin + step * kUnitDepth + line);
                                },
                                [&](int row, int column, float value) {
                                  if (top + row < a.depth && first + column < a.columns)
                                    storeOne(a.result.type, a.result.data,
                                             (expert * a.depth + top + row) * a.columns + first + column, value,
                                             a.result.adds);
                                });
}

} // namespace

ExpertBeginsCode expertBeginsCode() { return expertBegins; }
ExpertCode expertMatmulCode() { return expertMatmul; }
ExpertCode expertMatmulGradCode() { return expertMatmulGrad; }
ExpertCode expertUnitsCode(bool transposed) { return transposed ? expertUnits<true> : expertUnits<false>; }
ExpertCode expertUnitsGradCode() { return expertUnitsGrad; }

} // namespace mt::kernels::cuda
