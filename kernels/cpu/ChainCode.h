// Machine code for chains of operations on floats: values stay in registers, so that a chain takes as long as its
// operands take to come and go. Written when a plan is loaded, for processors with AVX-512; with Xbyak, which knows
// how instructions are encoded. Bits are those of the row functions (ElementwiseOps.h). Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_CHAINCODE_H
#define MT_KERNELS_CPU_CHAINCODE_H

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mt::kernels::cpu {

/// Values by number: what is read, then each operation's results.
struct Chain {
  struct Operation {
    std::string function; ///< one that ChainCode::knows
    std::vector<size_t> operands;
    bool isRounded = false; ///< to bf16
  };
  struct Write {
    size_t value;
    bool inBf16;
  };
  std::vector<bool> readsBf16; ///< by what is read: bf16 in memory, else f32
  std::vector<Operation> operations;
  std::vector<Write> writes; ///< those in bf16 of values that are such
};

class ChainCode {
public:
  /// Whether there is code for a function of ElementwiseOps.h, or "cast", on this processor.
  static bool knows(const std::string &function);
  /// Null: there are too many values at once, or memory for code is not to be had.
  static std::shared_ptr<const ChainCode> make(const Chain &chain);

  /// Elements [0, count) of all reads, in the order of Chain::readsBf16, and writes. A write may be where a read is
  /// that no later operation has.
  virtual void run(const void *const *reads, void *const *writes, int64_t count) const = 0;
  virtual ~ChainCode() = default;
};

} // namespace mt::kernels::cpu
#endif
