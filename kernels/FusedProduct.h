// Matrix products fused with what stands beside them, as the calls that they replace: what defines them, what a device
// runs that has nothing better, and what says how much scratch they need. Free of CUDA.
#ifndef MT_KERNELS_FUSEDPRODUCT_H
#define MT_KERNELS_FUSEDPRODUCT_H

#include "kernels/Blocks.h"
#include "kernels/Catalogue.h"

#include <array>
#include <optional>

namespace mt::kernels {

/// One call, and which operand of the fused call each of its operands is (kNone: absent). A part's scratch is the fused
/// call's: parts run one after another.
struct Part {
  static constexpr size_t kNone = SIZE_MAX;
  Signature call;
  std::vector<size_t> operands;
};

/// The product first, without scratch. Of a call of matmul_add, matmul_gelu, matmul_gelu_grad or matmul_sums, without
/// parts whose results nobody uses; where both follow the product, the second may work in place.
std::vector<Part> partsOf(const Signature &call);

/// Where operands lie in a call of matmul or matmul_add, which differ in what is added.
struct ProductOperands {
  size_t bias = 2, result = 3;
  std::optional<size_t> addend = {};
  static ProductOperands of(const Signature &call);
};

/// Parts of the summed dimension that the CPU sums apart in such a call: one, but where rows of a batch are summed, as
/// for a gradient of weights.
Chunks depthOf(const Signature &call);

/// A part as `backend` prepares it: with the scratch that it asks for. The call must be valid.
Part withScratch(Part part, Backend backend);

/// What a part is launched with: addresses, scratch last if it has any, and which of them add.
struct PartOperands {
  std::array<void *, 5> addresses = {};
  size_t count = 0;
  uint64_t accumulate = 0;
  std::span<void *const> all() const { return std::span(addresses).first(count); }
};
/// Of the fused call's addresses and the operands of it that add.
PartOperands operandsOf(const Part &part, std::span<void *const> addresses, uint64_t accumulate);

} // namespace mt::kernels
#endif
