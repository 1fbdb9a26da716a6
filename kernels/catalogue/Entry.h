// How the catalogue's files write an entry: operands as one line of names, from which counts and masks follow.
// Private to kernels/catalogue and Catalogue.cpp.
#ifndef MT_KERNELS_CATALOGUE_ENTRY_H
#define MT_KERNELS_CATALOGUE_ENTRY_H

#include "kernels/Catalogue.h"

namespace mt::kernels {

/// Parts of an entry that most kernels leave out.
struct Extra {
  std::span<const AttributeSpec> attributes = {};
  uint64_t (*workspace)(const Signature &) = nullptr;
  uint64_t (*cudaWorkspace)(const Signature &) = nullptr; ///< null: as `workspace`
  double (*traffic)(const Signature &) = nullptr;
  std::vector<double> (*extents)(const Signature &) = nullptr;
  std::vector<Piece> (*pieces)(const Signature &) = nullptr;
};

/// `operands` names reads, an arrow, and writes: "x gain? -> result+ rstd". `?` may be absent, `*` any number (of each
/// side the last ones), `+` may accumulate; the arrow `=>` instead of `->` says that the written ones are updated in
/// place - where there are any number on both sides, those that a call does not say it only writes.
Kernel entry(std::string_view name, std::string_view operands, std::string_view summary, std::string_view formula,
             double (*flops)(const Signature &), std::string (*check)(const Signature &), Extra extra = {});

/// Flops of pure movement, and of one operation per element of the last written operand.
double noFlops(const Signature &call);
double flopsPerResult(const Signature &call);
/// So many for each element of the first operand.
template <int Count> double flopsPerElement(const Signature &call) {
  return Count * static_cast<double>(call.operands[0].elements());
}

std::span<const Kernel> elementwiseKernels();
std::span<const Kernel> expressionKernels();
std::span<const Kernel> structureKernels();
std::span<const Kernel> indexingKernels();
std::span<const Kernel> productKernels();
std::span<const Kernel> windowKernels();
std::span<const Kernel> normalizationKernels();
std::span<const Kernel> recurrenceKernels();
std::span<const Kernel> attentionKernels();
std::span<const Kernel> lossKernels();
std::span<const Kernel> randomKernels();
std::span<const Kernel> stepKernels();

} // namespace mt::kernels
#endif
