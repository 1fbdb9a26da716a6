#include "passes/nn/Adapters.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace mt::passes {
namespace {
constexpr llvm::StringLiteral kAdaptersAttr = "mt.adapters";

AdapterEntry entryOf(DictionaryAttr from) {
  auto text = [&](StringRef key) {
    auto value = from.getAs<StringAttr>(key);
    return value ? value.str() : std::string();
  };
  auto integer = [&](StringRef key) {
    auto value = from.getAs<IntegerAttr>(key);
    return value ? value.getInt() : 0;
  };
  auto real = [&](StringRef key, double usual) {
    auto value = from.getAs<FloatAttr>(key);
    return value ? value.getValueAsDouble() : usual;
  };
  auto transposed = from.getAs<BoolAttr>("transposed");
  return {text("parameter"),
          text("module"),
          integer("rank"),
          integer("seed"),
          real("scale", 1),
          real("dropout", 0),
          transposed && transposed.getValue()};
}
} // namespace

std::vector<AdapterEntry> adaptersOf(ModuleOp module) {
  std::vector<AdapterEntry> entries;
  if (auto list = module->getAttrOfType<ArrayAttr>(kAdaptersAttr))
    for (auto entry : list.getAsRange<DictionaryAttr>())
      entries.push_back(entryOf(entry));
  return entries;
}

void stateAdapters(ModuleOp module, const std::vector<AdapterEntry> &entries) {
  Builder b(module.getContext());
  SmallVector<Attribute> list;
  for (const AdapterEntry &entry : entries)
    list.push_back(b.getDictionaryAttr({b.getNamedAttr("parameter", b.getStringAttr(entry.parameter)),
                                        b.getNamedAttr("module", b.getStringAttr(entry.module)),
                                        b.getNamedAttr("rank", b.getI64IntegerAttr(entry.rank)),
                                        b.getNamedAttr("seed", b.getI64IntegerAttr(entry.seed)),
                                        b.getNamedAttr("scale", b.getF64FloatAttr(entry.scale)),
                                        b.getNamedAttr("dropout", b.getF64FloatAttr(entry.dropout)),
                                        b.getNamedAttr("transposed", b.getBoolAttr(entry.transposed))}));
  if (!list.empty())
    module->setAttr(kAdaptersAttr, b.getArrayAttr(list));
  else
    module->removeAttr(kAdaptersAttr);
}

} // namespace mt::passes
