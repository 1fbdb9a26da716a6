// expert_matmul and the gradient of its matrices, prepared.
#include "kernels/cuda/Experts.h"

#include "kernels/cuda/Launching.h"
#include "kernels/cuda/SortIndices.h"

namespace mt::kernels::cuda {
namespace {

/// How a product is computed: tiles side by side, and all of them.
struct Way {
  ExpertCode code = nullptr;
  int64_t across = 0, blocks = 0;
};

struct Experts {
  ExpertArguments arguments = {};
  int64_t rows = 0;
  Bound experts, left, right, result;
  Way units, plain; ///< on matrix units, where they take it and operands are whole packs; else

  /// Rows sorted by expert, and where each expert's begin.
  Status group(const Launch &launch, ExpertArguments &bound) const {
    auto *begins = static_cast<int64_t *>(launch.operands.back());
    uint64_t *keys = nullptr;
    Indices indices = {launch.operands[experts.operand], experts.type == DType::i64, false, launch.fault};
    MT_TRY(sortIndices(launch, indices, rows, bound.experts, reinterpret_cast<uint64_t *>(begins + bound.experts + 1),
                       keys));
    bound.keys = keys, bound.begins = begins;
    return start(launch.stream, ceilDivide(bound.experts + 1, kThreads), kThreads, expertBeginsCode(),
                 ExpertBegins{keys, rows, bound.experts, begins});
  }

  Status operator()(const Launch &launch) const {
    if (!launch.operands[result.operand])
      return {};
    ExpertArguments bound = arguments;
    MT_TRY(group(launch, bound));
    bound.left = left.in(launch), bound.right = right.in(launch), bound.result = result.out(launch);
    auto isPacked = [](In in) { return reinterpret_cast<uintptr_t>(in.data) % (kUnitPack * sizeof(uint16_t)) == 0; };
    const Way &way = units.code && isPacked(bound.left) && isPacked(bound.right) ? units : plain;
    bound.across = way.across;
    return start(launch.stream, way.blocks, kThreads, way.code, bound);
  }
};

Status checkCounts(const Signature &call, int64_t rows, int64_t experts) {
  if (rows >= UINT32_MAX || experts >= UINT32_MAX)
    return fail("{}: {} rows of {} experts; the GPU sorts fewer than 2^32", call.kernel, rows, experts);
  return {};
}

/// Whether matrix units take them: bf16 in whole packs.
bool unitsTake(const OperandType &left, const OperandType &right, int64_t one, int64_t other) {
  return left.type == DType::bf16 && right.type == DType::bf16 && one % kUnitPack == 0 && other % kUnitPack == 0;
}

Result<Run> prepareExpertMatmul(const Signature &call, Library &) {
  const Dims &matrices = call.operands[1].dims;
  bool transposed = call.integer("transposed") != 0;
  int64_t rows = call.operands[2].elements(), columns = matrices[transposed ? 1 : 2];
  MT_TRY(checkCounts(call, rows, matrices[0]));
  ExpertArguments arguments = {};
  arguments.experts = matrices[0], arguments.depth = matrices[transposed ? 2 : 1];
  arguments.columns = columns, arguments.transposed = transposed;
  auto way = [&](ExpertCode code, int64_t height, int64_t width) {
    const int64_t across = ceilDivide(columns, width), tiles = ceilDivide(rows, height) + std::min(rows, matrices[0]);
    return Way{code, across, tiles * across};
  };
  return Run(Experts{arguments, rows, Bound(call, 2), Bound(call, 0), Bound(call, 1), Bound(call, 3),
                     unitsTake(call.operands[0], call.operands[1], matrices[1], matrices[2])
                         ? way(expertUnitsCode(transposed), kUnitRows, kUnitColumns)
                         : Way(),
                     way(expertMatmulCode(), kExpertRows, kExpertColumns)});
}

Result<Run> prepareExpertMatmulGrad(const Signature &call, Library &) {
  const Dims &matrices = call.operands[3].dims;
  bool transposed = call.integer("transposed") != 0;
  int64_t rows = call.operands[2].elements();
  MT_TRY(checkCounts(call, rows, matrices[0]));
  ExpertArguments arguments = {};
  arguments.experts = matrices[0], arguments.depth = matrices[1], arguments.columns = matrices[2];
  auto way = [&](ExpertCode code, int64_t height, int64_t width) {
    const int64_t across = ceilDivide(matrices[2], width);
    return Way{code, across, matrices[0] * ceilDivide(matrices[1], height) * across};
  };
  return Run(Experts{arguments, rows, Bound(call, 2), Bound(call, transposed ? 0 : 1), Bound(call, transposed ? 1 : 0),
                     Bound(call, 3),
                     unitsTake(call.operands[0], call.operands[1], matrices[1], matrices[2])
                         ? way(expertUnitsGradCode(), kUnitRows, kUnitColumns)
                         : Way(),
                     way(expertMatmulGradCode(), kExpertRows, kExpertColumns)});
}

} // namespace

std::span<const Entry> expertEntries() {
  static constexpr Entry kEntries[] = {{"expert_matmul", prepareExpertMatmul},
                                       {"expert_matmul_grad", prepareExpertMatmulGrad}};
  return kEntries;
}

} // namespace mt::kernels::cuda
