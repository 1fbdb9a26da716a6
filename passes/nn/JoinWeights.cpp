// mt-join-weights: frozen parameters that a model puts one after another, as experts' matrices, are one parameter of
// pieces: nothing is copied to have them together, and a layer has one operand in place of hundreds.
#include "passes/Passes.h"
#include "passes/nn/Packing.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace mt {
#define GEN_PASS_DEF_JOINWEIGHTS
#include "passes/Passes.h.inc"
using namespace nn;

namespace {
struct JoinWeights : impl::JoinWeightsBase<JoinWeights> {
  using JoinWeightsBase::JoinWeightsBase;

  func::FuncOp main;

  /// The parameter that an operand is, under another shape perhaps, if nothing else uses it and it is frozen.
  BlockArgument pieceOf(Value operand) {
    Value value = operand;
    for (auto view = value.getDefiningOp<ReshapeOp>(); view; view = value.getDefiningOp<ReshapeOp>()) {
      if (!value.hasOneUse())
        return nullptr;
      value = view.getOperand();
    }
    auto argument = dyn_cast<BlockArgument>(value);
    if (!argument || !argument.hasOneUse())
      return nullptr;
    const unsigned i = argument.getArgNumber();
    const bool isOfFile = main.getArgAttr(i, kParameterAttr) && !main.getArgAttr(i, kTrainableAttr) &&
                          !main.getArgAttr(i, passes::kPiecesAttr) && !main.getArgAttr(i, passes::kPackingAttr);
    return isOfFile ? argument : nullptr;
  }

  SmallVector<BlockArgument> piecesOf(ConcatOp op) {
    SmallVector<BlockArgument> pieces;
    const Type type = op.getInputs().front().getType();
    if (op.getAxis() != 0 || op.getInputs().size() < 2 || shapeOf(op.getResult()).size() < 2)
      return {};
    for (Value input : op.getInputs()) {
      BlockArgument piece = input.getType() == type ? pieceOf(input) : nullptr;
      if (!piece || llvm::is_contained(pieces, piece))
        return {};
      pieces.push_back(piece);
    }
    return pieces;
  }

  StringAttr nameOf(BlockArgument argument) {
    return main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kParameterAttr);
  }

  /// What the first and the last piece's names have in common, with a star between: "mlp.experts.*.up_proj.weight".
  std::string nameOf(ArrayRef<BlockArgument> pieces, llvm::StringSet<> &names) {
    StringRef first = nameOf(pieces.front()).getValue(), last = nameOf(pieces.back()).getValue();
    size_t begin = 0, end = 0;
    const size_t least = std::min(first.size(), last.size());
    while (begin < least && first[begin] == last[begin])
      ++begin;
    while (end < least - begin && first[first.size() - 1 - end] == last[last.size() - 1 - end])
      ++end;
    std::string name = (first.take_front(begin) + "*" + first.take_back(end)).str();
    if (name == "*") // nothing in common
      name = first.str() + " and others";
    while (!names.insert(name).second)
      name += "*";
    return name;
  }

  void runOnOperation() override {
    main = getOperation().lookupSymbol<func::FuncOp>(kMainName);
    if (!main)
      return;
    Builder builder(&getContext());
    llvm::StringSet<> names;
    for (BlockArgument argument : main.getArguments())
      if (StringAttr name = nameOf(argument))
        names.insert(name);
    llvm::BitVector joined(main.getNumArguments());
    for (ConcatOp op : llvm::make_early_inc_range(main.front().getOps<ConcatOp>())) {
      const SmallVector<BlockArgument> pieces = piecesOf(op);
      if (pieces.empty())
        continue;
      SmallVector<Attribute> pieceNames;
      for (BlockArgument piece : pieces)
        pieceNames.push_back(nameOf(piece));
      const DictionaryAttr attributes = builder.getDictionaryAttr(
          {builder.getNamedAttr(kParameterAttr, builder.getStringAttr(nameOf(pieces, names))),
           builder.getNamedAttr(passes::kPiecesAttr, builder.getArrayAttr(pieceNames))});
      const unsigned last = main.getNumArguments();
      (void)main.insertArgument(last, op.getType(), attributes, op.getLoc());
      op.replaceAllUsesWith(Value(main.getArgument(last)));
      SmallVector<Value> inputs(op.getInputs());
      op.erase();
      for (Value input : inputs)
        while (auto view = input.getDefiningOp<ReshapeOp>()) {
          input = view.getOperand();
          view.erase();
        }
      for (BlockArgument piece : pieces)
        joined.set(piece.getArgNumber());
    }
    joined.resize(main.getNumArguments());
    (void)main.eraseArguments(joined);
  }
};
} // namespace
} // namespace mt
