// plan::Packing as an attribute: of the arguments that mt-pack-weights makes, and of parameters in `mt.parameters`.
#ifndef MT_PASSES_NN_PACKING_H
#define MT_PASSES_NN_PACKING_H
#include "runtime/plan/Program.h"

#include "mlir/IR/Builders.h"

#include <optional>

namespace mt::passes {

/// A dictionary of `dims`, `block` and `codes`.
inline constexpr llvm::StringLiteral kPackingAttr = "nn.packing";

mlir::DictionaryAttr attributeOf(mlir::Builder &builder, const plan::Packing &packing);
/// None of a null attribute.
std::optional<plan::Packing> packingOf(mlir::DictionaryAttr attribute);

} // namespace mt::passes
#endif
