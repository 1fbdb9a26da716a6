// The translation of EmitPlan.h: spaces, streams, parameters and inputs from declarations and slots; templates from
// functions and from kernel commands; commands one to one.
#include "compiler/plan/EmitPlan.h"

#include "compiler/nn/KernelCall.h"
#include "compiler/plan/PlanAttributes.h"
#include "compiler/schedule/Schedule.h"
#include "kernels/Coverage.h"
#include "kernels/Optimizers.h"
#include "passes/nn/Adapters.h"
#include "runtime/plan/Dump.h"
#include "runtime/plan/Ranks.h"
#include "runtime/plan/Timeline.h"
#include "runtime/plan/Validate.h"

using namespace mlir;

namespace mt {
namespace {
using namespace schedule;

class PlanEmitter {
public:
  PlanEmitter(ModuleOp module, const std::string &producer) : module(module) { plan.producer = producer; }

  FailureOr<plan::Plan> run() {
    if (failed(readPlanAttributes(module, plan)) || failed(emitDeclarations()))
      return failure();
    main = module.lookupSymbol<func::FuncOp>(nn::kMainName);
    function = module.lookupSymbol<func::FuncOp>(kScheduleName);
    if (!main || !function)
      return module.emitError() << "has no @main or no @schedule";
    findTrained();
    if (failed(emitParameters()) || failed(emitAdapters()) || failed(emitInputs()))
      return failure();
    for (plan::ProgramKind kind : plan::kProgramKinds)
      if (failed(emitProgram(kind)))
        return failure();
    plan.model.layers = llvm::count_if(main.front().getOps<func::CallOp>(), [](func::CallOp call) { return !call->hasAttr(nn::kStepSumsAttr); });
    plan.settings.everyRowCounts = main->getParentOfType<ModuleOp>()->hasAttr(nn::kEveryRowAttr);
    plan.settings.lossOfRows = main->getParentOfType<ModuleOp>()->hasAttr(nn::kLossOfRowsAttr);
    predictStep();
    return std::move(plan);
  }

private:
  ModuleOp module;
  func::FuncOp main, function;
  plan::Plan plan;
  llvm::StringMap<uint32_t> spaces;
  llvm::DenseMap<Operation *, uint32_t> calleeTemplates;
  std::map<std::string, uint32_t> kernelTemplates;
  llvm::DenseMap<Operation *, double> calleeFlops;
  double executedFlops = 0;
  llvm::DenseSet<Operation *> written; ///< slots written so far in the program

  /// The member of an enumeration that has a name, up to its last.
  template <typename Kind> static std::optional<Kind> kindNamed(StringRef name, Kind last) {
    for (int kind = 0; kind <= int(last); ++kind)
      if (name == StringRef(plan::name(Kind(kind))))
        return Kind(kind);
    return std::nullopt;
  }

  LogicalResult emitDeclarations() {
    auto spaceList = module->getAttrOfType<ArrayAttr>(kSpacesAttr), streamList = module->getAttrOfType<ArrayAttr>(kStreamsAttr);
    if (!spaceList || !streamList)
      return module.emitError() << "declares no spaces or streams";
    for (auto entry : spaceList.getAsRange<DictionaryAttr>()) {
      auto name = entry.getAs<StringAttr>("name"), kind = entry.getAs<StringAttr>("kind");
      auto bytes = entry.getAs<IntegerAttr>("bytes"), device = entry.getAs<IntegerAttr>("device");
      if (!name || !kind || !bytes || !device)
        return module.emitError() << "a space lacks its name, kind, device or bytes; run mt-plan-memory";
      spaces[name.getValue()] = plan.spaces.size();
      auto which = kindNamed(kind.getValue(), plan::SpaceKind::file);
      if (!which)
        return module.emitError() << "there is no kind of space '" << kind.getValue() << "'";
      plan.spaces.push_back({*which, uint32_t(device.getInt()), uint64_t(bytes.getInt()), name.str()});
    }
    for (auto entry : streamList.getAsRange<DictionaryAttr>()) {
      StringRef kind = entry.getAs<StringAttr>("kind").getValue();
      auto which = kindNamed(kind, plan::StreamKind(plan::kStreamKinds - 1));
      if (!which)
        return module.emitError() << "there is no kind of stream '" << kind << "'";
      plan.streams.push_back({*which, uint32_t(entry.getAs<IntegerAttr>("device").getInt()), entry.getAs<StringAttr>("name").str()});
    }
    return success();
  }

  FailureOr<plan::Span> spanOf(SlotOp slot, int64_t offset, int64_t bytes) {
    if (!slot || !slot.getOffset())
      return module.emitError() << "a slot has no offset; run mt-plan-memory";
    return plan::Span{spaces.lookup(cast<SlotType>(slot.getType()).getSpace()), uint64_t(*slot.getOffset()) + offset, uint64_t(bytes)};
  }

  LogicalResult emitParameters() {
    SmallVector<RankedTensorType> types;
    for (BlockArgument argument : main.getArguments())
      if (main.getArgAttr(argument.getArgNumber(), nn::kParameterAttr)) {
        types.push_back(cast<RankedTensorType>(argument.getType()));
        if (types.size() > plan.parameters.size())
          return module.emitError() << "mt.parameters has fewer entries than @main has parameters";
        plan.parameters[types.size() - 1].dims = types.back().getShape().vec();
      }
    for (auto slot : function.front().getOps<SlotOp>()) {
      auto holds = slot->getAttrOfType<DenseI64ArrayAttr>(kHoldsAttr);
      for (int64_t i = 0; holds && i + 2 < holds.size(); i += 3) {
        size_t index = holds[i];
        if (index >= types.size())
          return slot.emitOpError() << "holds parameter " << index << " of " << types.size();
        auto part = partOf(plan.parameters[index], holds[i + 1], nn::operandType(types[index], kernels::Effect::read).type);
        if (!part)
          return slot.emitOpError() << "holds part " << holds[i + 1] << " of parameter " << index << ", which optimizer '"
                                    << plan.parameters[index].optimizer << "' does not keep";
        kernels::Dims dims = plan.parameters[index].dims;
        if (part->name != plan::kWeight)
          dims = {plan::sharesOf(plan, plan.parameters[index]).elements()};
        const kernels::OperandType entries{part->type, kernels::partDims(part->elements, dims)};
        auto span = spanOf(slot, holds[i + 2], entries.bytes());
        if (failed(span))
          return failure();
        part->span = *span;
        plan.parameters[index].parts.push_back(*part);
      }
    }
    return success();
  }

  LogicalResult emitAdapters() {
    llvm::StringMap<uint32_t> numbers;
    for (const plan::Parameter &parameter : plan.parameters)
      numbers.try_emplace(parameter.name, numbers.size());
    for (const passes::AdapterEntry &entry : passes::adaptersOf(module)) {
      auto weight = numbers.find(entry.parameter), down = numbers.find(entry.downName()),
           up = numbers.find(entry.upName());
      if (weight == numbers.end() || down == numbers.end() || up == numbers.end())
        return module.emitError() << "has an adapter of '" << entry.parameter
                                  << "' without parameters; run mt-add-adapters";
      plan.adapters.push_back({weight->second, down->second, up->second, entry.scale, entry.dropout, entry.transposed});
    }
    return success();
  }

  /// A parameter that is updated is trained, with its own optimizer or the one of all.
  void findTrained() {
    for (auto update : function.front().getOps<UpdateOp>())
      if (DenseI64ArrayAttr of = update.getParametersAttr(); of && update.getKernel() && isUpdate(*update.getKernel()))
        for (int64_t index : of.asArrayRef())
          if (index >= 0 && index < int64_t(plan.parameters.size()))
            plan.parameters[index].trainable = true;
    for (plan::Parameter &parameter : plan.parameters)
      if (!parameter.trainable)
        parameter.optimizer.clear();
      else if (parameter.optimizer.empty())
        parameter.optimizer = plan.settings.optimizer;
  }

  static bool isUpdate(StringRef name) {
    const kernels::Kernel *kernel = kernels::find(name.str());
    return kernel && kernel->updates;
  }

  /// A part by its number (plan::kWeightPart), of a parameter whose weight is `weight`; its place is not known yet.
  static std::optional<plan::Part> partOf(const plan::Parameter &parameter, int64_t number, kernels::DType weight) {
    if (number == plan::kWeightPart)
      return plan::Part{std::string(plan::kWeight), weight, {}};
    if (number == plan::kRemainderPart)
      return plan::Part{std::string(plan::kRemainder), kernels::DType::i16, {}};
    const kernels::OptimizerSpec *optimizer = kernels::findOptimizer(parameter.optimizer);
    const int64_t state = number - plan::kStateParts;
    if (!optimizer || state < 0 || state >= int64_t(optimizer->state.size()))
      return std::nullopt;
    const kernels::StatePart &kept = optimizer->state[state];
    return plan::Part{std::string(kept.name), kept.type, {}, kept.elements};
  }

  LogicalResult emitInputs() {
    SmallVector<BlockArgument> arguments;
    for (BlockArgument argument : main.getArguments()) {
      unsigned i = argument.getArgNumber();
      if (!main.getArgAttr(i, nn::kParameterAttr) && !main.getArgAttr(i, nn::kScalarsAttr))
        arguments.push_back(argument);
    }
    for (auto slot : function.front().getOps<SlotOp>()) {
      auto which = slot->getAttrOfType<IntegerAttr>(kInputAttr);
      if (!which)
        continue;
      plan::Input input;
      int64_t total = cast<SlotType>(slot.getType()).getBytes();
      if (which.getInt() < 0) {
        input = {plan::InputKind::scalars, "scalars", plan::DType::f64, {kernels::scalarRow(plan.parameters.size()), kernels::Scalars::kCount}, {}, 0};
        if (failed(addParts(slot, total, total, input)))
          return failure();
        continue;
      }
      if (which.getInt() >= int64_t(arguments.size()))
        return slot.emitOpError() << "is input " << which.getInt() << " of " << arguments.size();
      BlockArgument argument = arguments[which.getInt()];
      auto type = cast<RankedTensorType>(argument.getType());
      unsigned i = argument.getArgNumber();
      bool labels = bool(main.getArgAttr(i, nn::kLabelsAttr)), rows = bool(main.getArgAttr(i, nn::kRowsAttr));
      auto name = main.getArgAttrOfType<StringAttr>(i, nn::kInputAttr);
      auto vocabulary = main.getArgAttrOfType<IntegerAttr>(i, nn::kVocabularyAttr);
      input.kind = labels ? plan::InputKind::labels : rows ? plan::InputKind::rows : plan::InputKind::data;
      input.name = name ? name.str() : labels ? "labels" : rows ? "rows" : "input";
      input.type = nn::operandType(type, kernels::Effect::read).type;
      input.dims = type.getShape().vec();
      input.vocabulary = vocabulary ? vocabulary.getInt() : 0;
      if (labels)
        describeLabels(i, !name, input);
      int64_t part = bytesOf(type);
      if (!input.dims.empty())
        input.dims[0] *= total / part;
      if (failed(addParts(slot, total, part, input)))
        return failure();
    }
    return success();
  }
  /// What of the labels counts: of those that are not mt's own, what the model's loss says.
  void describeLabels(unsigned argument, bool own, plan::Input &input) {
    if (plan.model.vocabulary == 0)
      plan.model.vocabulary = input.vocabulary;
    if (auto ignored = main.getArgAttrOfType<IntegerAttr>(argument, nn::kIgnoredAttr))
      input.ignored = ignored.getInt();
    else if (!own)
      input.ignored.reset();
    if (input.ignored && !plan::holds(input.type, *input.ignored)) // then no label is that
      input.ignored.reset();
    if (auto targets = main.getArgAttrOfType<DenseI64ArrayAttr>(argument, nn::kTargetsAttr))
      input.targets = targets.asArrayRef().vec();
  }
  LogicalResult addParts(SlotOp slot, int64_t total, int64_t part, plan::Input &input) {
    for (int64_t offset = 0; offset < total; offset += part) {
      auto span = spanOf(slot, offset, part);
      if (failed(span))
        return failure();
      input.parts.push_back(*span);
    }
    plan.inputs.push_back(input);
    return success();
  }

  //===-- templates -------------------------------------------------------------------------------------------===//

  uint32_t templateOf(func::FuncOp callee) {
    auto [found, isNew] = calleeTemplates.try_emplace(callee, plan.templates.size());
    if (isNew)
      plan.templates.push_back(translate(callee));
    return found->second;
  }

  plan::Template translate(func::FuncOp callee) {
    plan::Template result;
    result.name = callee.getName().str();
    if (auto workspace = callee->getAttrOfType<IntegerAttr>("nn.workspace"))
      result.workspaceBytes = workspace.getInt();
    llvm::DenseMap<Value, int32_t> arguments;
    for (BlockArgument argument : callee.getArguments()) {
      arguments[argument] = result.arguments.size();
      result.arguments.push_back({uint64_t(bytesOf(argument.getType())), kernels::Effect::read});
    }
    for (Value value : callee.front().getTerminator()->getOperands()) {
      arguments[nn::viewedBy(value)] = result.arguments.size();
      result.arguments.push_back({uint64_t(bytesOf(value.getType())), kernels::Effect::write});
    }
    llvm::DenseMap<Value, uint64_t> offsets;
    double flops = 0;
    for (Operation &op : callee.front().without_terminator()) {
      if (!nn::hasKernel(&op))
        continue;
      plan::Call call = translate(&op, arguments, offsets);
      flops += kernels::flops(call.signature);
      result.calls.push_back(std::move(call));
    }
    calleeFlops[callee] = flops;
    return result;
  }

  plan::Call translate(Operation *op, const llvm::DenseMap<Value, int32_t> &arguments, llvm::DenseMap<Value, uint64_t> &offsets) {
    nn::KernelCall source = nn::kernelCallOf(op);
    auto node = op->getAttrOfType<StringAttr>(nn::kNodeAttr);
    plan::Call call{source.signature, {}, node ? node.str() : std::string()};
    auto planned = op->getAttrOfType<DenseI64ArrayAttr>("nn.offsets");
    for (OpResult result : op->getResults())
      if (planned && planned[result.getResultNumber()] >= 0)
        offsets[result] = planned[result.getResultNumber()];
    for (Value value : source.values) {
      if (!value) {
        call.operands.push_back({-1, 0});
        continue;
      }
      Value place = nn::viewedBy(value);
      auto argument = arguments.find(place);
      call.operands.push_back(argument != arguments.end() ? plan::Operand{argument->second, 0}
                                                          : plan::Operand{-1, offsets.lookup(place)});
    }
    if (planned && planned[op->getNumResults()] >= 0) {
      uint64_t bytes = kernels::workspaceBytes(source.signature, nn::backendOf(module));
      call.signature.operands.push_back({kernels::DType::u8, {int64_t(bytes)}, kernels::Effect::scratch, true});
      call.operands.push_back({-1, uint64_t(planned[op->getNumResults()])});
    }
    return call;
  }

  /// Whose kernels run a command's stream.
  kernels::Backend backendOf(Operation *op) {
    return plan::isOfHost(plan.streams[streamOf(op)].kind) ? kernels::Backend::cpu : nn::backendOf(module);
  }

  /// Whether those who run a command have code for its kernels.
  LogicalResult checkCode(Operation *op, const plan::Template &code) {
    kernels::Backend backend = backendOf(op);
    for (const plan::Call &call : code.calls)
      if (plan::isExchange(call.signature))
        continue; // a network's, whatever memory it is of
      else if (std::string missing = kernels::missingCode(call.signature, backend); !missing.empty())
        return op->emitOpError() << "'" << labelOf(op) << "' cannot run"
                                 << (call.location.empty() ? "" : " node '" + call.location + "'") << ": " << missing;
    return success();
  }

  /// A template for kernels on places of their own; equal ones are one template.
  template <typename Op> uint32_t kernelTemplate(Op op) {
    std::string key;
    llvm::raw_string_ostream stream(key);
    stream << *op.getKernel() << op.getGroups() << op.getTypesAttr() << int(backendOf(op));
    if (op.getParameters())
      stream << op.getParametersAttr();
    if (op.getFirsts())
      stream << op.getFirstsAttr();
    if (op.getSettings())
      stream << op.getSettingsAttr();
    for (int64_t effect : op.getEffects())
      stream << effect;
    auto [found, isNew] = kernelTemplates.try_emplace(stream.str(), plan.templates.size());
    if (isNew)
      plan.templates.push_back(translateKernels(op));
    return found->second;
  }

  template <typename Op> plan::Template translateKernels(Op op) {
    plan::Template result;
    result.name = op.getKernel()->str();
    size_t typed = op.getTypes()->size(), each = typed / op.getGroups();
    SmallVector<Type> types = llvm::to_vector(op.getTypes()->template getAsValueRange<TypeAttr>());
    for (size_t i = 0; i < typed; ++i)
      result.arguments.push_back({uint64_t(bytesOf(types[i])), effectOf(op.getEffects()[i])});
    if (op.getOperands().size() > typed)
      result.workspaceBytes = cast<SlotType>(op.getOperands().back().getType()).getBytes();
    for (size_t group = 0; group < size_t(op.getGroups()); ++group) {
      plan::Call call;
      call.signature.kernel = op.getKernel()->str();
      if (op.getSettings())
        call.signature.attributes = nn::kernelAttributes(*op.getSettings());
      if (op.getParameters() && isa<UpdateOp>(op))
        call.signature.attributes["parameter"] = int64_t((*op.getParameters())[group]);
      if (op.getFirsts() && (*op.getFirsts())[group] > 0)
        call.signature.attributes["first"] = int64_t((*op.getFirsts())[group]);
      for (size_t i = group * each; i < (group + 1) * each; ++i) {
        call.signature.operands.push_back(nn::operandType(types[i], effectOf(op.getEffects()[i])));
        call.operands.push_back({int32_t(i), 0});
      }
      if (uint64_t bytes = kernels::workspaceBytes(call.signature, backendOf(op))) {
        call.signature.operands.push_back({kernels::DType::u8, {int64_t(bytes)}, kernels::Effect::scratch, true});
        call.operands.push_back({-1, 0});
      }
      result.calls.push_back(std::move(call));
    }
    return result;
  }
  static kernels::Effect effectOf(int64_t effect) {
    switch (static_cast<Effect>(effect)) {
    case Effect::read:
      return kernels::Effect::read;
    case Effect::update:
      return kernels::Effect::update;
    default:
      return kernels::Effect::write;
    }
  }

  //===-- commands --------------------------------------------------------------------------------------------===//

  LogicalResult emitProgram(plan::ProgramKind kind) {
    const Program program = static_cast<Program>(kind); // one enumeration, told twice
    plan::Program result{kind, {}};
    written.clear();
    executedFlops = 0;
    for (Operation *op : commandsOf(function, program)) {
      FailureOr<plan::Command> command = llvm::TypeSwitch<Operation *, FailureOr<plan::Command>>(op)
                                             .Case<PrefetchOp, OffloadOp>([&](auto copy) { return emitCopy(copy); })
                                             .Case<ComputeOp, UpdateOp>([&](auto run) { return emitRun(run); })
                                             .Default([](Operation *) { return failure(); });
      if (failed(command))
        return failure();
      describe(op, *command);
      result.commands.push_back(std::move(*command));
    }
    if (kind == plan::ProgramKind::step)
      plan.prediction.executedFlops = executedFlops;
    plan.programs.push_back(std::move(result));
    return success();
  }

  void describe(Operation *op, plan::Command &command) {
    command.role = llvm::TypeSwitch<Operation *, plan::Role>(op)
                       .Case<PrefetchOp>([](auto) { return plan::Role::prefetch; })
                       .Case<OffloadOp>([](auto) { return plan::Role::offload; })
                       .Case<UpdateOp>([](auto) { return plan::Role::update; })
                       .Default([](Operation *) { return plan::Role::compute; });
    command.stream = streamOf(op);
    command.label = labelOf(op).str();
    command.layer = cast<IntegerAttr>(op->getAttr("layer")).getInt();
    command.microBatch = cast<IntegerAttr>(op->getAttr("microBatch")).getInt();
    command.predictedSeconds = cast<FloatAttr>(op->getAttr("seconds")).getValueAsDouble();
    if (auto awaits = op->getAttrOfType<DenseI64ArrayAttr>("awaits"))
      for (int64_t i = 0; i + 1 < awaits.size(); i += 2)
        command.awaits.push_back({uint32_t(awaits[i]), uint32_t(awaits[i + 1])});
  }

  static plan::ByteKind kindOf(Operation *slot) {
    auto kind = slot->getAttrOfType<StringAttr>(kKindAttr);
    return kind ? kindNamed(kind.getValue(), plan::ByteKind::workspace).value_or(plan::ByteKind::unknown) : plan::ByteKind::unknown;
  }

  template <typename Op> FailureOr<plan::Command> emitCopy(Op op) {
    plan::Command command;
    command.isCopy = true;
    auto from = spanOf(op.getSource().template getDefiningOp<SlotOp>(), op.getSourceOffset(), op.getBytes());
    auto to = spanOf(op.getTarget().template getDefiningOp<SlotOp>(), op.getTargetOffset(), op.getBytes());
    if (failed(from) || failed(to))
      return failure();
    command.bytes = kindOf(op.getSource().getDefiningOp());
    command.from = *from;
    command.to = *to;
    return command;
  }

  template <typename Op> FailureOr<plan::Command> emitRun(Op op) {
    plan::Command command;
    if (op.getCallee()) {
      auto callee = module.lookupSymbol<func::FuncOp>(*op.getCallee());
      command.templateIndex = templateOf(callee);
      executedFlops += calleeFlops.lookup(callee);
    } else {
      command.templateIndex = kernelTemplate(op);
    }
    if (failed(checkCode(op, plan.templates[command.templateIndex])))
      return failure();
    size_t bound = plan.templates[command.templateIndex].arguments.size();
    SmallVector<Access> accesses = accessesOf(op);
    if (accesses.size() < bound)
      return op.emitOpError() << "binds " << accesses.size() << " of " << bound << " arguments";
    for (auto [i, access] : llvm::enumerate(accesses)) {
      auto span = spanOf(access.slot, access.offset, access.bytes);
      if (failed(span))
        return failure();
      if (i >= bound) {
        command.workspace = *span;
        continue;
      }
      plan::Binding binding{*span, static_cast<plan::BindingEffect>(access.effect), false, kindOf(access.slot)};
      binding.rankStride = access.rankStride, binding.rankReach = access.rankReach;
      binding.fresh = access.effect == Effect::write && !access.slot.getPersistent();
      command.arguments.push_back(binding);
    }
    return command;
  }

  static double elementsOf(Value value) { return static_cast<double>(cast<RankedTensorType>(value.getType()).getNumElements()); }
  static double sizeOf(Value value, int64_t dim) {
    ArrayRef<int64_t> shape = nn::shapeOf(value);
    return static_cast<double>(shape[static_cast<size_t>(dim < 0 ? static_cast<int64_t>(shape.size()) + dim : dim)]);
  }

  /// Multiplications with elements of a matrix where it is used, in one micro-batch: none of a table that rows are only taken
  /// from, of experts' those with what is routed to them.
  double multiplications(OpOperand &use) {
    auto ofProduct = [&](auto op) {
      return use.getOperandNumber() < 2 ? elementsOf(op->getResult(0)) * sizeOf(op.getLhs(), op.getTransposeLhs() ? -2 : -1) : 0.0;
    };
    auto ofWeight = [&](Value weight, double times) { return weight == use.get() ? times * elementsOf(weight) : 0.0; };
    return llvm::TypeSwitch<Operation *, double>(use.getOwner())
        .Case<nn::MatmulOp, nn::MatmulAddOp, nn::MatmulGeluOp>(ofProduct)
        .Case([&](nn::ExpertMatmulOp op) {
          return ofWeight(op.getWeight(), elementsOf(op.getLhs()) / sizeOf(op.getLhs(), -1) / sizeOf(op.getWeight(), 0));
        })
        .Case([&](nn::LinearCrossEntropyOp op) { return ofWeight(op.getWeight(), elementsOf(op.getHidden()) / sizeOf(op.getHidden(), -1)); })
        .Case([&](nn::ConvOp op) { return ofWeight(op.getKernel(), elementsOf(op.getResult()) / sizeOf(op.getResult(), 1)); })
        .Case([&](nn::ConvDataGradOp op) { return ofWeight(op.getKernel(), elementsOf(op.getGradient()) / sizeOf(op.getGradient(), 1)); })
        .Case([&](nn::RecurrenceOp op) { return ofWeight(op.getWeight(), elementsOf(op.getGates()) / sizeOf(op.getGates(), -1)); })
        .Default([&](Operation *op) {
          if (isa<nn::ConcatOp>(op))
            return multiplicationsOf(op->getResult(0)) * elementsOf(use.get()) /
                   std::max(elementsOf(op->getResult(0)), 1.0);
          const bool isSame =
              op->hasTrait<nn::Movement>() || isa<nn::CastOp>(op) ||
              (isa<nn::DequantizeOp>(op) && use.getOperandNumber() == 0) ||
              (op->hasTrait<nn::Elementwise>() && elementsOf(use.get()) == elementsOf(op->getResult(0)));
          return isSame ? multiplicationsOf(op->getResult(0)) : 0.0;
        });
  }
  double multiplicationsOf(Value value) {
    if (auto known = counted.find(value); known != counted.end())
      return known->second;
    double sum = 0;
    for (OpOperand &use : value.getUses())
      sum += multiplications(use);
    return counted[value] = sum;
  }
  llvm::DenseMap<Value, double> counted;

  /// On one rank: 6 for each multiplication with a trained element of a matrix (Kaplan et al., arXiv 2001.08361, section
  /// 2.1), 4 where it is frozen and gradients pass, 2 where none do.
  double usefulFlops() {
    double useful = 0;
    for (BlockArgument argument : main.getArguments()) {
      const unsigned index = argument.getArgNumber();
      if (!main.getArgAttr(index, nn::kParameterAttr) || nn::shapeOf(argument).size() < 2)
        continue;
      for (OpOperand &use : argument.getUses()) {
        auto call = dyn_cast<func::CallOp>(use.getOwner());
        auto layer = call ? module.lookupSymbol<func::FuncOp>(call.getCallee()) : func::FuncOp();
        if (!layer || layer.isExternal())
          continue;
        const double each = main.getArgAttr(index, nn::kTrainableAttr) ? 6 : call->hasAttr("nn.backward") ? 4 : 2;
        useful += each * multiplicationsOf(layer.getArgument(use.getOperandNumber()));
      }
    }
    const int64_t microBatches = plan.settings.batch / std::max<int64_t>(plan.settings.microBatch, 1) / plan.ranks;
    return useful * static_cast<double>(microBatches);
  }

  void predictStep() {
    const plan::Program &step = *plan.program(plan::ProgramKind::step);
    plan::predict(plan::simulate(plan, step), plan.streams, plan.prediction);
    plan.prediction.usefulFlops = usefulFlops();
    for (const plan::Command &command : step.commands) {
      if (!command.isCopy && plan::isNetwork(plan.streams[command.stream].kind))
        for (const plan::Call &call : plan.templates[command.templateIndex].calls)
          plan.prediction.networkBytes += plan::isExchange(call.signature) ? plan::sentBytes(call.signature) : 0;
      const plan::StreamKind stream = plan.streams[command.stream].kind;
      if (!command.isCopy || plan::isOfHost(stream) || stream == plan::StreamKind::peer)
        continue;
      uint64_t &sum = command.bytes == plan::ByteKind::weight     ? plan.prediction.weightLinkBytes
                      : command.bytes == plan::ByteKind::gradient ? plan.prediction.gradientLinkBytes
                      : command.bytes == plan::ByteKind::state    ? plan.prediction.stateLinkBytes
                                                                  : plan.prediction.activationLinkBytes;
      sum += command.from.bytes;
    }
  }
};
} // namespace

FailureOr<plan::Plan> emitPlan(ModuleOp module, const std::string &producer) { return PlanEmitter(module, producer).run(); }

} // namespace mt
