#include "passes/nn/Packing.h"

#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;

namespace mt::passes {

DictionaryAttr attributeOf(Builder &builder, const plan::Packing &packing) {
  return builder.getDictionaryAttr({builder.getNamedAttr("dims", builder.getDenseI64ArrayAttr(packing.dims)),
                                    builder.getNamedAttr("block", builder.getI64IntegerAttr(packing.block)),
                                    builder.getNamedAttr("codes", builder.getStringAttr(packing.codes))});
}

std::optional<plan::Packing> packingOf(DictionaryAttr attribute) {
  if (!attribute)
    return std::nullopt;
  auto dims = attribute.getAs<DenseI64ArrayAttr>("dims");
  auto block = attribute.getAs<IntegerAttr>("block");
  auto codes = attribute.getAs<StringAttr>("codes");
  return plan::Packing{dims ? dims.asArrayRef().vec() : kernels::Dims(), block ? block.getInt() : 0,
                       codes ? codes.str() : std::string()};
}

} // namespace mt::passes
