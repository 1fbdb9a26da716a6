// The mechanics of CommandWriter.h.
#include "passes/CommandWriter.h"

#include "compiler/nn/KernelCall.h"
#include "compiler/target/CostModel.h"

using namespace mlir;
using namespace mt::schedule;

namespace mt::passes {
namespace {
DictionaryAttr describe(Builder &builder, StringRef name, StringRef kind) {
  return builder.getDictionaryAttr({builder.getNamedAttr("name", builder.getStringAttr(name)),
                                    builder.getNamedAttr("kind", builder.getStringAttr(kind)),
                                    builder.getNamedAttr("device", builder.getI64IntegerAttr(0))});
}
} // namespace

CommandWriter::CommandWriter(ModuleOp module, const target::Target &target)
    : module(module), target(target), slots(module.getContext()), commands(module.getContext()) {
  MLIRContext *context = module.getContext();
  Builder builder(context);
  module->setAttr(kSpacesAttr, builder.getArrayAttr({describe(builder, "device", "device"), describe(builder, "staging", "staging"),
                                                     describe(builder, "state", "state")}));
  SmallVector<Attribute> streams;
  auto add = [&](StringRef name, StringRef kind) { streams.push_back(describe(builder, name, kind)); return int64_t(streams.size() - 1); };
  if (target.unified) {
    map.compute = map.update = map.upload = map.download = add("compute", "compute");
  } else {
    map.upload = add("upload", "upload");
    map.compute = add("compute", "compute");
    map.download = add("download", "download");
  }
  map.host = add("host", "host");
  map.feed = add("feed", "host");
  if (!target.unified)
    map.update = map.host;
  module->setAttr(kStreamsAttr, builder.getArrayAttr(streams));

  function = func::FuncOp::create(UnknownLoc::get(context), kScheduleName, builder.getFunctionType({}, {}));
  module.push_back(function);
  Block *block = function.addEntryBlock();
  slots.setInsertionPointToEnd(block);
  auto exit = func::ReturnOp::create(slots, function.getLoc());
  commands.setInsertionPoint(exit);
  slots.setInsertionPointToStart(block);
}

Value CommandWriter::slot(const Twine &name, StringRef space, int64_t bytes, bool persistent) {
  auto op = SlotOp::create(slots, slots.getUnknownLoc(), SlotType::get(module.getContext(), space, std::max<int64_t>(bytes, 1)),
                           slots.getStringAttr(name), persistent ? slots.getUnitAttr() : UnitAttr(), IntegerAttr());
  slots.setInsertionPointAfter(op);
  return op.getSlot();
}

void CommandWriter::holds(Value slot, ArrayRef<int64_t> triples) {
  slot.getDefiningOp()->setAttr(kHoldsAttr, slots.getDenseI64ArrayAttr(triples));
}
void CommandWriter::isInput(Value slot, int64_t input) {
  slot.getDefiningOp()->setAttr(kInputAttr, slots.getI64IntegerAttr(input));
}

void CommandWriter::prefetch(const Twine &label, Place from, Place to, int64_t bytes) {
  double seconds = target::copySeconds(target, bytes, target::CopyDirection::upload);
  PrefetchOp::create(commands, commands.getUnknownLoc(), from.slot, to.slot, from.offset, to.offset, bytes, program,
                     map.upload, label.str(), layer, microBatch, APFloat(seconds), DenseI64ArrayAttr());
}

void CommandWriter::offload(const Twine &label, Place from, Place to, int64_t bytes) {
  double seconds = target::copySeconds(target, bytes, target::CopyDirection::download);
  OffloadOp::create(commands, commands.getUnknownLoc(), from.slot, to.slot, from.offset, to.offset, bytes, program,
                    map.download, label.str(), layer, microBatch, APFloat(seconds), DenseI64ArrayAttr());
}

double CommandWriter::secondsOf(func::FuncOp callee) {
  auto [found, isNew] = templateSeconds.try_emplace(callee, 0.0);
  if (isNew)
    for (Operation &op : callee.front().without_terminator())
      if (nn::hasKernel(&op))
        found->second += target::kernelSeconds(target, nn::kernelCallOf(&op).signature);
  return found->second;
}

double CommandWriter::secondsOf(StringRef kernel, ArrayRef<Bound> operands, int64_t groups, bool onHost) {
  double bytes = 0;
  for (const Bound &bound : operands)
    bytes += (bound.type ? bytesOf(bound.type) : 0) * (bound.effect == Effect::update || bound.effect == Effect::accumulate ? 2 : 1);
  if (onHost)
    return target::hostSeconds(target, bytes);
  return target::kernelSeconds(target, 0, bytes, kernels::DType::f32) + (groups - 1) * target.kernelOverheadSeconds;
}

template <typename Op>
void CommandWriter::run(const Twine &label, int64_t stream, ArrayRef<Bound> operands, func::FuncOp callee, StringRef kernel,
                        int64_t groups, ArrayRef<int64_t> parameters, DictionaryAttr settings) {
  SmallVector<Value> values;
  SmallVector<int64_t> offsets, effects;
  SmallVector<Type> types;
  for (const Bound &bound : operands) {
    values.push_back(bound.place.slot);
    offsets.push_back(bound.place.offset);
    effects.push_back(static_cast<int64_t>(bound.effect));
    if (bound.type)
      types.push_back(bound.type);
  }
  double seconds = callee ? secondsOf(callee) : secondsOf(kernel, operands, groups, stream == map.host || stream == map.feed);
  Op::create(commands, commands.getUnknownLoc(), values, commands.getDenseI64ArrayAttr(offsets),
             commands.getDenseI64ArrayAttr(effects), callee ? FlatSymbolRefAttr::get(callee) : FlatSymbolRefAttr(),
             callee ? StringAttr() : commands.getStringAttr(kernel),
             callee ? ArrayAttr() : commands.getTypeArrayAttr(types), commands.getI64IntegerAttr(groups),
             parameters.empty() ? DenseI64ArrayAttr() : commands.getDenseI64ArrayAttr(parameters), settings,
             ProgramAttr::get(commands.getContext(), program), commands.getI64IntegerAttr(stream),
             commands.getStringAttr(label), commands.getI64IntegerAttr(layer), commands.getI64IntegerAttr(microBatch),
             commands.getF64FloatAttr(seconds), DenseI64ArrayAttr());
}

void CommandWriter::compute(const Twine &label, func::FuncOp callee, ArrayRef<Bound> operands) {
  SmallVector<Bound> bound(operands);
  auto workspace = callee->getAttrOfType<IntegerAttr>("nn.workspace");
  if (workspace && workspace.getInt() > 0)
    bound.push_back({{slot("workspace of " + label, "device", workspace.getInt()), 0}, Effect::write, Type()});
  run<ComputeOp>(label, map.compute, bound, callee, "", 1, {}, {});
}

/// The largest workspace that one of equal groups of operands needs: the first's would do only if all had one shape.
static uint64_t workspaceOf(StringRef kernel, ArrayRef<Bound> operands, int64_t groups, kernels::Backend backend) {
  uint64_t most = 0;
  size_t each = operands.size() / groups;
  for (int64_t group = 0; group < groups; ++group) {
    kernels::Signature signature;
    signature.kernel = kernel.str();
    for (const Bound &bound : operands.slice(group * each, each))
      signature.operands.push_back(nn::operandType(bound.type, bound.effect == Effect::read     ? kernels::Effect::read
                                                               : bound.effect == Effect::update ? kernels::Effect::update
                                                                                                : kernels::Effect::write));
    most = std::max(most, kernels::workspaceBytes(signature, backend));
  }
  return most;
}

void CommandWriter::kernel(const Twine &label, int64_t stream, StringRef name, ArrayRef<Bound> operands, int64_t groups,
                           ArrayRef<int64_t> parameters, DictionaryAttr settings) {
  SmallVector<Bound> bound(operands);
  bool onDevice = stream == map.compute;
  kernels::Backend backend = onDevice ? nn::backendOf(module) : kernels::Backend::cpu;
  if (uint64_t bytes = workspaceOf(name, operands, groups, backend))
    bound.push_back({{slot("workspace of " + label, onDevice ? "device" : "staging", bytes)}, Effect::write, Type()});
  run<ComputeOp>(label, stream, bound, nullptr, name, groups, parameters, settings);
}

void CommandWriter::update(const Twine &label, StringRef kernel, ArrayRef<Bound> operands, int64_t groups,
                           ArrayRef<int64_t> parameters) {
  run<UpdateOp>(label, map.update, operands, nullptr, kernel, groups, parameters, {});
}

} // namespace mt::passes
