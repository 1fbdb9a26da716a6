// mt-add-adapters: low-rank adapters beside products with weights that stay as they are (Hu et al., LoRA, arXiv
// 2106.09685): x W' + scale * (x down') up'.
#include "passes/Passes.h"
#include "passes/nn/Adapters.h"

#include "kernels/Catalogue.h"

#include <cmath>

using namespace mlir;

namespace mt {
#define GEN_PASS_DEF_ADDADAPTERS
#include "passes/Passes.h.inc"
using namespace nn;
using passes::AdapterEntry;

namespace {
struct AddAdapters : impl::AddAdaptersBase<AddAdapters> {
  using AddAdaptersBase::AddAdaptersBase;

  func::FuncOp main;
  Value scalars;
  llvm::StringMap<Value> parameters; ///< by name
  int64_t draws = 0;                 ///< nodes that draw random numbers

  /// A parameter that is no tensor of the model; its initial values are `initial`.
  Value addParameter(RankedTensorType type, StringRef name, DictionaryAttr initial, StringRef role) {
    Builder builder(&getContext());
    SmallVector<NamedAttribute> attributes = {builder.getNamedAttr(kParameterAttr, builder.getStringAttr(name)),
                                              builder.getNamedAttr(role, builder.getUnitAttr()),
                                              builder.getNamedAttr(passes::kInitialAttr, initial)};
    unsigned index = main.getNumArguments();
    (void)main.insertArgument(index, type, builder.getDictionaryAttr(attributes),
                              NameLoc::get(builder.getStringAttr(name)));
    return main.getArgument(index);
  }

  DictionaryAttr initial(StringRef generator, int64_t seed, double deviation, double value) {
    Builder builder(&getContext());
    return builder.getDictionaryAttr({builder.getNamedAttr("generator", builder.getStringAttr(generator)),
                                      builder.getNamedAttr("seed", builder.getI64IntegerAttr(seed)),
                                      builder.getNamedAttr("deviation", builder.getF64FloatAttr(deviation)),
                                      builder.getNamedAttr("value", builder.getF64FloatAttr(value))});
  }

  /// Products whose right side is the parameter, as it is.
  static SmallVector<MatmulOp> productsOf(Value weight) {
    SmallVector<MatmulOp> products;
    for (Operation *user : weight.getUsers())
      if (auto product = dyn_cast<MatmulOp>(user); product && product.getRhs() == weight && product.getLhs() != weight)
        products.push_back(product);
    llvm::sort(products, [](MatmulOp a, MatmulOp b) { return a->isBeforeInBlock(b); });
    return products;
  }

  Value dropped(OpBuilder &builder, Location location, Value x, double ratio) {
    if (ratio == 0)
      return x;
    Value node = addParameter(tensorOf({}, builder.getI64Type()), ("mt.draw." + Twine(draws)).str(),
                              initial("constant", 0, 0, static_cast<double>(draws)), kBufferAttr);
    ++draws;
    return DropoutOp::create(builder, location, x, Value(), scalars, node, APFloat(ratio), 1);
  }

  void addTo(MatmulOp product, Value down, Value up, const AdapterEntry &entry) {
    OpBuilder builder(product->getContext());
    builder.setInsertionPointAfter(product);
    Location location = product.getLoc();
    Value x = dropped(builder, location, product.getLhs(), entry.dropout);
    Value inner = MatmulOp::create(builder, location, x, down, product.getTransposeLhs(), true);
    if (entry.scale != 1)
      inner = MulOp::create(builder, location, inner, scalarLike(builder, inner, entry.scale));
    Value outer = MatmulOp::create(builder, location, inner, up, false, true);
    auto sum = AddOp::create(builder, location, product.getResult(), outer);
    product.getResult().replaceAllUsesExcept(sum, sum);
  }

  /// Whether the parameter of `entry` got one; then the entry is complete.
  FailureOr<bool> adapt(AdapterEntry &entry) {
    Value weight = parameters.lookup(entry.parameter);
    if (!weight)
      return main.emitError() << "an adapter is for parameter '" << entry.parameter << "', which @main does not have";
    SmallVector<MatmulOp> products = productsOf(weight);
    if (products.empty() || shapeOf(weight).size() != 2)
      return false;
    entry.transposed = !products.front().getTransposeRhs();
    if (llvm::any_of(products, [&](MatmulOp each) { return each.getTransposeRhs() == entry.transposed; }))
      return main.emitError() << "parameter '" << entry.parameter
                              << "' is multiplied both as it is and transposed: it cannot have one adapter for both";
    const int64_t in = shapeOf(weight)[entry.transposed ? 0 : 1], out = shapeOf(weight)[entry.transposed ? 1 : 0];
    Type element = cast<ShapedType>(weight.getType()).getElementType();
    // As PEFT: kaiming_uniform_(a = sqrt(5)), which is uniform in 1 / sqrt(in), and zeros.
    Value down =
        addParameter(tensorOf({entry.rank, in}, element), entry.downName(),
                     initial("uniform", entry.seed, 1 / std::sqrt(3.0 * static_cast<double>(in)), 0), kTrainableAttr);
    Value up =
        addParameter(tensorOf({out, entry.rank}, element), entry.upName(), initial("zeros", 0, 0, 0), kTrainableAttr);
    for (MatmulOp product : products)
      addTo(product, down, up, entry);
    return true;
  }

  void readArguments() {
    for (BlockArgument argument : main.getArguments()) {
      unsigned i = argument.getArgNumber();
      if (main.getArgAttr(i, kScalarsAttr))
        scalars = argument;
      if (auto name = main.getArgAttrOfType<StringAttr>(i, kParameterAttr)) {
        parameters[name.getValue()] = argument;
        draws += name.getValue().starts_with("mt.draw.") ? 1 : 0;
      }
    }
  }

  void runOnOperation() override {
    std::vector<AdapterEntry> entries = passes::adaptersOf(getOperation());
    main = getOperation().lookupSymbol<func::FuncOp>(kMainName);
    if (entries.empty() || !main)
      return;
    parameters.clear(), draws = 0;
    readArguments();
    std::vector<AdapterEntry> added;
    for (AdapterEntry &entry : entries) {
      if (entry.dropout > 0 && !scalars)
        return (void)(main.emitError() << "dropout needs the step's scalars: run mt-append-loss first",
                      signalPassFailure());
      FailureOr<bool> has = adapt(entry);
      if (failed(has))
        return signalPassFailure();
      if (*has)
        added.push_back(entry);
    }
    passes::stateAdapters(getOperation(), added);
  }
};
} // namespace
} // namespace mt
