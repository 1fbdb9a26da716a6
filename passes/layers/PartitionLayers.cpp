// mt-partition-layers: @main described in the terms of Partition.h, and the layers that come back outlined.
#include "passes/layers/Partition.h"
#include "passes/Passes.h"
#include "passes/nn/StepSums.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace mt {
#define GEN_PASS_DEF_PARTITIONLAYERS
#include "passes/Passes.h.inc"
using namespace nn;

namespace {
/// What a value depends on: data (a graph input or the labels), weights (parameters but for buffers), trained ones.
/// Layers are cut by the first two alone, so that a frozen layer is one like a trained one.
enum Dependence : unsigned { kNothing = 0, kData = 1, kWeight = 2, kTrained = 4 };
constexpr unsigned kMainPath = kData | kWeight;

struct PartitionLayers : impl::PartitionLayersBase<PartitionLayers> {
  using PartitionLayersBase::PartitionLayersBase;

  func::FuncOp main;
  llvm::DenseMap<Value, unsigned> dependence;
  SmallVector<Operation *> path;                  ///< operations on the main path, in order
  llvm::DenseMap<Operation *, int32_t> pathIndex; ///< their indices
  llvm::DenseMap<Operation *, int32_t> layerOf;   ///< of every operation but cheap ones

  bool dependsOnWeight(Value value) const { return dependence.lookup(value) & kWeight; }

  /// Constants and index sequences: each layer gets its own.
  static bool isCheap(Operation *op) {
    return isa<ConstantOp, IotaOp>(op) ||
           (isa<BroadcastOp, ReshapeOp>(op) && op->getOperand(0).getDefiningOp() && isCheap(op->getOperand(0).getDefiningOp()));
  }

  unsigned dependenceOf(unsigned argument) {
    if (!main.getArgAttr(argument, kParameterAttr))
      return main.getArgAttr(argument, kScalarsAttr) ? kNothing : kData;
    if (main.getArgAttr(argument, kTrainableAttr))
      return kWeight | kTrained;
    return main.getArgAttr(argument, kBufferAttr) ? kNothing : kWeight;
  }

  /// False where data and what is trained never meet.
  bool findMainPath() {
    bool trains = false;
    for (BlockArgument argument : main.getArguments())
      dependence[argument] = dependenceOf(argument.getArgNumber());
    for (Operation &op : main.front().without_terminator()) {
      unsigned all = kNothing;
      for (Value operand : op.getOperands())
        all |= dependence.lookup(operand);
      if (isa<func::CallOp>(op))
        all = kNothing; // sums over a step, the same for all its micro-batches
      for (Value result : op.getResults())
        dependence[result] = all;
      trains |= (all & kData) && (all & kTrained);
      if ((all & kMainPath) != kMainPath)
        continue;
      pathIndex[&op] = path.size();
      path.push_back(&op);
    }
    return trains;
  }

  static std::string typesOf(TypeRange types) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    llvm::interleave(types, stream, ",");
    return text;
  }

  passes::PartitionGraph describe() {
    passes::PartitionGraph graph;
    llvm::DenseMap<Value, int32_t> numbers;
    for (auto [index, op] : llvm::enumerate(path)) {
      passes::PartitionOp entry;
      entry.name = op->getName().getStringRef();
      entry.types = typesOf(op->getResultTypes());
      entry.isView = isa<ReshapeOp>(op);
      for (Value operand : op->getOperands()) {
        if (auto found = numbers.find(operand); found != numbers.end()) {
          entry.operands.push_back(found->second);
          continue;
        }
        if (dependsOnWeight(operand)) {
          auto stored = operand.getDefiningOp<DequantizeOp>();
          bool computed = !isa<BlockArgument>(stored ? stored.getValues() : operand);
          entry.parameterBytes += schedule::bytesOf(operand.getType());
          entry.weights.push_back(computed ? "" : typesOf(operand.getType()));
          entry.readsMatrix |= !computed && cast<RankedTensorType>(operand.getType()).getRank() > 1;
        }
        entry.others.push_back(std::to_string(dependence.lookup(operand) & kMainPath) + typesOf(operand.getType()));
      }
      for (Value result : op->getResults()) {
        if (result.use_empty())
          continue;
        numbers[result] = graph.values.size();
        graph.values.push_back({static_cast<int32_t>(index), schedule::bytesOf(result.getType())});
      }
      graph.ops.push_back(std::move(entry));
    }
    return graph;
  }

  /// Operations beside the main path go to the only layer that uses them, else to the first one. Users come later in
  /// the block, so walking backwards sees them placed.
  void placeOthers() {
    for (Operation &op : llvm::reverse(main.front().without_terminator())) {
      if (pathIndex.count(&op) || isCheap(&op) || isa<func::CallOp>(op))
        continue;
      int32_t only = -1;
      for (Operation *user : op.getUsers()) {
        if (isCheap(user))
          continue;
        int32_t layer = user->hasTrait<OpTrait::IsTerminator>() ? 0 : layerOf.lookup(user);
        only = only == -1 || only == layer ? layer : 0;
      }
      layerOf[&op] = std::max(only, 0);
    }
  }

  /// The operations of a layer in block order, cheap ones that they use included.
  SmallVector<SmallVector<Operation *>> membersOf(int32_t layers) {
    SmallVector<llvm::SetVector<Operation *>> members(layers);
    for (Operation &op : main.front().without_terminator()) {
      if (isCheap(&op) || isa<func::CallOp>(op))
        continue;
      int32_t layer = layerOf.lookup(&op);
      for (Value operand : op.getOperands())
        addCheap(operand.getDefiningOp(), members[layer]);
      members[layer].insert(&op);
    }
    auto exit = main.front().getTerminator();
    for (Value operand : exit->getOperands())
      addCheap(operand.getDefiningOp(), members[layers - 1]);
    SmallVector<SmallVector<Operation *>> lists;
    for (auto &set : members)
      lists.push_back(llvm::to_vector(set));
    return lists;
  }
  void addCheap(Operation *op, llvm::SetVector<Operation *> &into) {
    if (!op || !isCheap(op))
      return;
    for (Value operand : op->getOperands())
      addCheap(operand.getDefiningOp(), into);
    into.insert(op);
  }

  void outline(int32_t layer, ArrayRef<Operation *> ops, OpBuilder &calls, IRMapping &outside) {
    llvm::SetVector<Value> inputs, outputs;
    llvm::DenseSet<Operation *> inside(ops.begin(), ops.end());
    for (Operation *op : ops)
      for (Value operand : op->getOperands())
        if (!operand.getDefiningOp() || !inside.contains(operand.getDefiningOp()))
          inputs.insert(operand);
    for (Operation *op : ops) {
      if (isCheap(op) && llvm::none_of(op->getUsers(), [](Operation *u) { return u->hasTrait<OpTrait::IsTerminator>(); }))
        continue;
      for (Value result : op->getResults())
        if (llvm::any_of(result.getUsers(), [&](Operation *user) { return !inside.contains(user) && !(isCheap(user)); }))
          outputs.insert(result);
    }
    OpBuilder builder(&getContext());
    SmallVector<Type> types, results;
    for (Value value : inputs)
      types.push_back(value.getType());
    for (Value value : outputs)
      results.push_back(value.getType());
    auto unknown = UnknownLoc::get(&getContext());
    auto function = func::FuncOp::create(unknown, ("layer_" + Twine(layer)).str(), builder.getFunctionType(types, results));
    function.setPrivate();
    getOperation().push_back(function);
    builder.setInsertionPointToStart(function.addEntryBlock());
    IRMapping mapping;
    mapping.map(inputs.getArrayRef(), function.getArguments());
    for (Operation *op : ops)
      builder.clone(*op, mapping);
    SmallVector<Value> returned, operands;
    for (Value value : outputs)
      returned.push_back(mapping.lookup(value));
    func::ReturnOp::create(builder, unknown, returned);
    for (Value value : inputs)
      operands.push_back(outside.lookupOrDefault(value));
    auto name = NameLoc::get(calls.getStringAttr("layer " + Twine(layer)));
    auto call = func::CallOp::create(calls, name, function, operands);
    for (auto [value, result] : llvm::zip(outputs, call.getResults()))
      outside.map(value, result);
  }

  void runOnOperation() override {
    main = getOperation().lookupSymbol<func::FuncOp>(kMainName);
    if (!main || main.isExternal())
      return signalPassFailure();
    passes::outlineStepSums(main);
    if (!findMainPath()) {
      main.emitError("nothing in the model depends on both an input and a trainable parameter; choose what to train "
                     "with --train PATTERN");
      return signalPassFailure();
    }
    std::vector<passes::LayerRange> layers = passes::partition(describe());
    for (auto [layer, range] : llvm::enumerate(layers))
      for (int32_t i = range.begin; i < range.end; ++i)
        layerOf[path[i]] = layer;
    placeOthers();
    auto members = membersOf(layers.size());
    Operation *exit = main.front().getTerminator();
    OpBuilder calls(exit);
    IRMapping outside;
    for (auto [layer, ops] : llvm::enumerate(members))
      outline(layer, ops, calls, outside);
    for (OpOperand &operand : exit->getOpOperands()) {
      operand.set(outside.lookupOrDefault(operand.get()));
      if (auto call =
              operand.get().getDefiningOp<func::CallOp>()) // shares its template with none: gradients begin there
        getOperation().lookupSymbol<func::FuncOp>(call.getCallee())->setAttr(kLossAttr, UnitAttr::get(&getContext()));
    }
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(main.front())))
      if (!isa<func::CallOp, func::ReturnOp>(op))
        op.erase();
  }
};
} // namespace
} // namespace mt
