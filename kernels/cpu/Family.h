// What a file of CPU kernels offers: names with the functions that prepare them. Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_FAMILY_H
#define MT_KERNELS_CPU_FAMILY_H

#include "kernels/cpu/CpuKernels.h"

namespace mt::kernels::cpu {

/// Prepares a call that the catalogue has checked.
using Prepare = Result<Run> (*)(const Signature &);
struct Entry {
  std::string_view kernel;
  Prepare prepare;
};

/// A fused product as its parts (kernels/FusedProduct.h), one after another.
Result<Run> prepareParts(const Signature &call);

/// A call of `elementwise`.
Result<Run> prepareExpression(const Signature &call);
/// For every elementwise kernel of the catalogue; null prepare result if there is none of that name.
Result<Run> prepareElementwise(const Signature &call);
bool isElementwise(std::string_view kernel);

/// A transpose by tiles where that is faster, else, and where it is added to, as it is.
Run byTiles(const Signature &call, const Run &otherwise);

std::span<const Entry> expressionEntries();
std::span<const Entry> structureEntries();
std::span<const Entry> reductionEntries();
std::span<const Entry> indexingEntries();
std::span<const Entry> scatterEntries();
std::span<const Entry> topKEntries();
std::span<const Entry> dequantizeEntries();
std::span<const Entry> convolutionEntries();
std::span<const Entry> poolEntries();
std::span<const Entry> expertEntries();
std::span<const Entry> matmulEntries();
std::span<const Entry> fusedProductEntries();
std::span<const Entry> normEntries();
std::span<const Entry> softmaxEntries();
std::span<const Entry> recurrenceEntries();
std::span<const Entry> attentionEntries();
std::span<const Entry> rotaryEntries();
std::span<const Entry> lossEntries();
std::span<const Entry> randomEntries();
std::span<const Entry> headEntries();
std::span<const Entry> optimizerEntries();
std::span<const Entry> stepEntries();

} // namespace mt::kernels::cpu
#endif
