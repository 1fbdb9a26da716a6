// expert_matmul and the gradient of its matrices, prepared.
#include "kernels/cuda/Experts.h"

#include "kernels/cuda/Launching.h"
#include "kernels/cuda/SortIndices.h"

namespace mt::kernels::cuda {
namespace {

struct Experts {
  ExpertArguments arguments = {};
  int64_t rows = 0, blocks = 0;
  Bound experts, left, right, result;
  ExpertCode code = nullptr;

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
    return start(launch.stream, blocks, kThreads, code, bound);
  }
};

Status checkCounts(const Signature &call, int64_t rows, int64_t experts) {
  if (rows >= UINT32_MAX || experts >= UINT32_MAX)
    return fail("{}: {} rows of {} experts; the GPU sorts fewer than 2^32", call.kernel, rows, experts);
  return {};
}

/// Whether matrix units take them: bf16 in whole packs. Slots and what lies in them are aligned to more.
bool unitsTake(const OperandType &left, const OperandType &right, int64_t one, int64_t other) {
  return left.type == DType::bf16 && right.type == DType::bf16 && one % kUnitPack == 0 && other % kUnitPack == 0;
}

Result<Run> prepareExpertMatmul(const Signature &call, Library &) {
  const Dims &matrices = call.operands[1].dims;
  bool transposed = call.integer("transposed") != 0;
  bool units = unitsTake(call.operands[0], call.operands[1], matrices[1], matrices[2]);
  int64_t rows = call.operands[2].elements();
  int64_t across = ceilDivide(matrices[transposed ? 1 : 2], units ? kUnitColumns : kExpertColumns);
  MT_TRY(checkCounts(call, rows, matrices[0]));
  ExpertArguments arguments = {};
  arguments.experts = matrices[0], arguments.depth = matrices[transposed ? 2 : 1];
  arguments.columns = matrices[transposed ? 1 : 2], arguments.across = across, arguments.transposed = transposed;
  int64_t tiles = ceilDivide(rows, units ? kUnitRows : kExpertRows) + std::min(rows, matrices[0]);
  return Run(Experts{arguments, rows, tiles * across, Bound(call, 2), Bound(call, 0), Bound(call, 1), Bound(call, 3),
                     units ? expertUnitsCode(transposed) : expertMatmulCode()});
}

Result<Run> prepareExpertMatmulGrad(const Signature &call, Library &) {
  const Dims &matrices = call.operands[3].dims;
  bool transposed = call.integer("transposed") != 0;
  bool units = unitsTake(call.operands[0], call.operands[1], matrices[1], matrices[2]);
  int64_t rows = call.operands[2].elements(), across = ceilDivide(matrices[2], units ? kUnitColumns : kExpertColumns);
  MT_TRY(checkCounts(call, rows, matrices[0]));
  ExpertArguments arguments = {};
  arguments.experts = matrices[0], arguments.depth = matrices[1], arguments.columns = matrices[2],
  arguments.across = across;
  return Run(Experts{arguments, rows, matrices[0] * ceilDivide(matrices[1], units ? kUnitRows : kExpertRows) * across,
                     Bound(call, 2), Bound(call, transposed ? 0 : 1), Bound(call, transposed ? 1 : 0), Bound(call, 3),
                     units ? expertUnitsGradCode() : expertMatmulGradCode()});
}

constexpr Entry kEntries[] = {{"expert_matmul", prepareExpertMatmul}, {"expert_matmul_grad", prepareExpertMatmulGrad}};

} // namespace

std::span<const Entry> expertEntries() { return kEntries; }

} // namespace mt::kernels::cuda
