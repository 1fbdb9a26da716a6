// How parameters of a plan hold those of the model, as attributes of arguments: several as one, and packed. plan::Packing
// is an attribute of parameters in `mt.parameters`, too.
#ifndef MT_PASSES_NN_PACKING_H
#define MT_PASSES_NN_PACKING_H
#include "runtime/plan/Program.h"

#include "mlir/IR/Builders.h"

#include <optional>

namespace mt::passes {

/// A dictionary of `dims`, `block` and `codes`.
inline constexpr llvm::StringLiteral kPackingAttr = "nn.packing";

/// Of an argument that mt-join-weights made: the names of the model's parameters that it is of, one after another.
inline constexpr llvm::StringLiteral kPiecesAttr = "nn.pieces";

mlir::DictionaryAttr attributeOf(mlir::Builder &builder, const plan::Packing &packing);
/// None of a null attribute.
std::optional<plan::Packing> packingOf(mlir::DictionaryAttr attribute);

} // namespace mt::passes
#endif
