// mt-pack-weights: frozen weights of products in four bits (Dettmers et al., QLoRA, arXiv 2305.14314, section 3): a code
// for each number and a scale for each block of a row, from which a product's weight is made where it is needed.
#include "passes/Passes.h"
#include "passes/nn/Packing.h"

#include "kernels/Blocks.h"
#include "kernels/Quantized.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace mt {
#define GEN_PASS_DEF_PACKWEIGHTS
#include "passes/Passes.h.inc"
using namespace nn;

namespace {
struct PackWeights : impl::PackWeightsBase<PackWeights> {
  using PackWeightsBase::PackWeightsBase;

  /// Whether an operation multiplies with the value as its weight.
  static bool isWeight(OpOperand &use) {
    if (auto product = dyn_cast<MatmulOp>(use.getOwner()))
      return use.getOperandNumber() == 1 && product.getLhs() != use.get();
    auto experts = dyn_cast<ExpertMatmulOp>(use.getOwner());
    return experts && experts.getWeight() == use.get() && experts.getLhs() != use.get();
  }

  /// Whether a product decides what others compute, as a router does which experts: such numbers stay as they are.
  static bool chooses(Operation *product) {
    SmallVector<Operation *> ways(product->getUsers());
    llvm::SmallPtrSet<Operation *, 16> seen;
    while (!ways.empty()) {
      Operation *op = ways.pop_back_val();
      if (isa<TopKOp>(op))
        return true;
      if ((isa<SoftmaxOp, ReshapeOp, CastOp, DetachOp>(op) || op->hasTrait<Elementwise>() || op->hasTrait<Movement>()) && seen.insert(op).second)
        ways.append(op->user_begin(), op->user_end());
    }
    return false;
  }

  static bool isPackable(func::FuncOp main, BlockArgument argument) {
    const unsigned i = argument.getArgNumber();
    return main.getArgAttr(i, kParameterAttr) && !main.getArgAttr(i, kTrainableAttr) && nn::isReal(argument) &&
           shapeOf(argument).size() >= 2 && !llvm::is_contained(shapeOf(argument), 0) && !argument.use_empty() &&
           llvm::all_of(argument.getUses(), isWeight) && llvm::none_of(argument.getUsers(), chooses) &&
           hasWholeBytes(main, argument);
  }

  /// Of each of the model's parameters that it is of.
  static bool hasWholeBytes(func::FuncOp main, BlockArgument argument) {
    auto pieces = main.getArgAttrOfType<ArrayAttr>(argument.getArgNumber(), passes::kPiecesAttr);
    return !pieces || cast<ShapedType>(argument.getType()).getNumElements() / static_cast<int64_t>(pieces.size()) % 2 == 0;
  }

  llvm::StringSet<> names; ///< of parameters

  std::string nameOfScales(StringRef weight) {
    std::string name = (weight + ".scales").str();
    while (!names.insert(name).second)
      name += "_";
    return name;
  }

  /// Each product has the weight made for itself, so that it need not stay.
  void pack(func::FuncOp main, BlockArgument argument) {
    Builder builder(&getContext());
    const unsigned number = argument.getArgNumber();
    const auto type = cast<RankedTensorType>(argument.getType());
    const auto name = main.getArgAttrOfType<StringAttr>(number, kParameterAttr);
    plan::Packing packing{type.getShape().vec(), kernels::kNormalFloatBlock, {}};
    main.setArgAttr(number, passes::kPackingAttr, passes::attributeOf(builder, packing));

    SmallVector<int64_t> bytes(type.getShape());
    if (bytes.back() % 2 == 0)
      bytes.back() /= 2;
    else
      bytes = {1, kernels::ceilDivide(type.getNumElements(), 2)};
    packing.codes = name.str();
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : argument.getUses())
      uses.push_back(&use);
    argument.setType(tensorOf(bytes, builder.getIntegerType(8, false)));

    const unsigned last = main.getNumArguments();
    const DictionaryAttr attributes = builder.getDictionaryAttr(
        {builder.getNamedAttr(kParameterAttr, builder.getStringAttr(nameOfScales(name))),
         builder.getNamedAttr(passes::kPackingAttr, passes::attributeOf(builder, packing))});
    (void)main.insertArgument(last, tensorOf(packing.scaleDims(), builder.getBF16Type()), attributes,
                              argument.getLoc());
    for (OpOperand *use : uses) {
      OpBuilder here(use->getOwner());
      use->set(DequantizeOp::create(here, use->getOwner()->getLoc(), type, argument, main.getArgument(last), Value(), 4,
                                    false, 0, type.getRank() - 1, packing.block,
                                    here.getDenseF64ArrayAttr(kernels::kNormalFloat4)));
    }
  }

  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>(kMainName);
    if (!main)
      return;
    SmallVector<BlockArgument> arguments(main.getArguments());
    names.clear();
    for (BlockArgument argument : arguments)
      if (auto name = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kParameterAttr))
        names.insert(name);
    for (BlockArgument argument : arguments)
      if (isPackable(main, argument))
        pack(main, argument);
    main.setType(FunctionType::get(&getContext(), main.front().getArgumentTypes(), main.getResultTypes()));
  }
};
} // namespace
} // namespace mt
