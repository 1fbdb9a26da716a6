// Which instructions of an expression there is machine code for (ChainCode.h): runs of them, each as one. Private to
// kernels/cpu.
#ifndef MT_KERNELS_CPU_CODEDRUNS_H
#define MT_KERNELS_CPU_CODEDRUNS_H

#include "kernels/Expression.h"
#include "kernels/cpu/ChainCode.h"

namespace mt::kernels::cpu {

/// Instructions [begin, end), but for constants: those are read.
struct CodedRun {
  struct Out {
    size_t value;
    bool isResult; ///< stored as its type is; else f32, for instructions behind the run
  };
  size_t begin, end;
  std::shared_ptr<const ChainCode> code;
  std::vector<size_t> reads; ///< values, in the code's order
  std::vector<Out> outputs;
};

struct CodedRuns {
  std::vector<CodedRun> runs;      ///< in order; none: no code, or not for all
  std::vector<bool> readsAsStored; ///< by operand: bf16 that only code reads, from where it lies
};

/// `types` of all values, of which `reads` operands come first; `isResult` by value; `liesTogether` by operand: whether
/// what a block reads of it lies one behind the other.
CodedRuns codedRuns(const Expression &expression, const std::vector<DType> &types, size_t reads,
                    const std::vector<bool> &isResult, const std::vector<bool> &liesTogether);

} // namespace mt::kernels::cpu
#endif
