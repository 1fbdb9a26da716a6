// mt-build-schedule: the decisions that the module states, executed (planner/Builder.h), in the order of time
// (planner/Order.h), and written down.
#include "compiler/nn/KernelCall.h"
#include "compiler/planner/Builder.h"
#include "compiler/planner/Constraints.h"
#include "compiler/planner/Order.h"
#include "passes/Settings.h"
#include "passes/schedule/DecisionAttributes.h"
#include "runtime/plan/Dump.h"

using namespace mlir;

namespace mt {
#define GEN_PASS_DEF_BUILDSCHEDULE
#include "passes/Passes.h.inc"
using namespace schedule;

namespace {

/// Writes a planner's schedule as @schedule at the end of a module.
class ScheduleWriter {
public:
  ScheduleWriter(ModuleOp module, const passes::ReadModel &read, const planner::Machine &machine)
      : module(module), read(read), machine(machine), builder(module.getContext()) {}

  void declare() {
    SmallVector<Attribute> spaces, streams;
    for (const planner::Space &space : machine.spaces)
      spaces.push_back(describe(space.name, plan::name(space.kind), space.device));
    for (const plan::Stream &stream : machine.streams)
      streams.push_back(describe(stream.name, plan::name(stream.kind), stream.device));
    module->setAttr(kSpacesAttr, builder.getArrayAttr(spaces));
    module->setAttr(kStreamsAttr, builder.getArrayAttr(streams));
    auto function = func::FuncOp::create(builder.getUnknownLoc(), kScheduleName, builder.getFunctionType({}, {}));
    module.push_back(function);
    builder.setInsertionPointToStart(function.addEntryBlock());
  }

  void writeSlots(const planner::Schedule &schedule) {
    for (const planner::Slot &slot : schedule.slots) {
      auto type = SlotType::get(builder.getContext(), machine.spaces[slot.space].name, slot.bytes);
      auto op = SlotOp::create(builder, builder.getUnknownLoc(), type, builder.getStringAttr(slot.name),
                               slot.persistent ? builder.getUnitAttr() : UnitAttr(), IntegerAttr());
      SmallVector<int64_t> holds;
      for (const planner::Held &held : slot.holds)
        holds.append({held.parameter, held.part, held.offset});
      if (!holds.empty())
        op->setAttr(kHoldsAttr, builder.getDenseI64ArrayAttr(holds));
      if (slot.input)
        op->setAttr(kInputAttr, builder.getI64IntegerAttr(*slot.input));
      op->setAttr(kKindAttr, builder.getStringAttr(plan::name(slot.kind)));
      slots.push_back(op.getSlot());
    }
  }

  void writeCommands(ArrayRef<planner::Command> commands, const planner::Timing &timing, Program program) {
    for (auto [i, command] : llvm::enumerate(commands)) {
      Predicted when;
      if (!timing.start.empty())
        when = {builder.getF64FloatAttr(timing.start[i]), builder.getF64FloatAttr(timing.end[i])};
      if (command.isCopy && command.role == plan::Role::prefetch)
        writeCopy<PrefetchOp>(command, when, program);
      else if (command.isCopy)
        writeCopy<OffloadOp>(command, when, program);
      else if (command.role == plan::Role::update)
        writeRun<UpdateOp>(command, when, program);
      else
        writeRun<ComputeOp>(command, when, program);
    }
  }

  void finish() { func::ReturnOp::create(builder, builder.getUnknownLoc()); }

private:
  ModuleOp module;
  const passes::ReadModel &read;
  const planner::Machine &machine;
  OpBuilder builder;
  SmallVector<Value> slots;
  struct Predicted {
    FloatAttr start, end; ///< null: of a program without
  };

  DictionaryAttr describe(StringRef name, StringRef kind, uint32_t device) {
    return builder.getDictionaryAttr({builder.getNamedAttr("name", builder.getStringAttr(name)),
                                      builder.getNamedAttr("kind", builder.getStringAttr(kind)),
                                      builder.getNamedAttr("device", builder.getI64IntegerAttr(device))});
  }

  template <typename Op> void writeCopy(const planner::Command &command, const Predicted &when, Program program) {
    const planner::Access &from = command.accesses[0], &to = command.accesses[1];
    Op::create(builder, builder.getUnknownLoc(), slots[from.slot], slots[to.slot], from.offset, to.offset, from.bytes, program,
               command.stream, command.label, command.layer, command.microBatch, APFloat(command.seconds), when.start, when.end,
               DenseI64ArrayAttr());
  }

  RankedTensorType typeOf(const planner::TensorType &type) { return nn::tensorTypeOf(builder.getContext(), type.type, type.dims); }

  /// Attributes of a command's kernel, but for those of updates.
  DictionaryAttr settingsOf(const planner::Command &command) {
    SmallVector<NamedAttribute> settings;
    auto add = [&](StringRef name, Attribute value) { settings.push_back(builder.getNamedAttr(name, value)); };
    if (command.zeros) {
      RankedTensorType type = typeOf(*command.zeros);
      add("value", DenseElementsAttr::get(type, builder.getFloatAttr(type.getElementType(), 0.0)));
    }
    if (command.chunk > 0)
      add("chunk", builder.getI64IntegerAttr(command.chunk));
    if (!command.shares.empty()) {
      add("ranks", builder.getI64IntegerAttr(machine.target.ranks));
      add("shares", builder.getDenseI64ArrayAttr(command.shares));
    }
    return settings.empty() ? DictionaryAttr() : builder.getDictionaryAttr(settings);
  }

  template <typename Op> void writeRun(const planner::Command &command, const Predicted &when, Program program) {
    SmallVector<Value> values;
    SmallVector<int64_t> offsets, effects, places;
    SmallVector<Type> types;
    for (const planner::Access &access : command.accesses) {
      values.push_back(slots[access.slot]);
      offsets.push_back(access.offset);
      effects.push_back(static_cast<int64_t>(access.effect));
      places.append({access.stride, access.reach});
      if (access.type)
        types.push_back(typeOf(*access.type));
    }
    bool isTemplate = command.code >= 0;
    DictionaryAttr settings = settingsOf(command);
    auto callee = isTemplate ? FlatSymbolRefAttr::get(builder.getContext(), read.model.templates[command.code].name) : FlatSymbolRefAttr();
    Op::create(builder, builder.getUnknownLoc(), values, builder.getDenseI64ArrayAttr(offsets),
               builder.getDenseI64ArrayAttr(effects), callee,
               isTemplate ? StringAttr() : builder.getStringAttr(command.kernel),
               isTemplate ? ArrayAttr() : builder.getTypeArrayAttr(types), builder.getI64IntegerAttr(command.groups),
               command.parameters.empty() ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(command.parameters),
               llvm::any_of(command.firsts, [](int64_t first) { return first > 0; })
                   ? builder.getDenseI64ArrayAttr(command.firsts)
                   : DenseI64ArrayAttr(),
               settings,
               llvm::any_of(places, [](int64_t place) { return place > 0; }) ? builder.getDenseI64ArrayAttr(places)
                                                                             : DenseI64ArrayAttr(),
               ProgramAttr::get(builder.getContext(), program), builder.getI64IntegerAttr(command.stream),
               builder.getStringAttr(command.label), builder.getI64IntegerAttr(command.layer),
               builder.getI64IntegerAttr(command.microBatch), builder.getF64FloatAttr(command.seconds), when.start,
               when.end, DenseI64ArrayAttr());
  }
};

struct BuildSchedule : impl::BuildScheduleBase<BuildSchedule> {
  using BuildScheduleBase::BuildScheduleBase;

  LogicalResult build() {
    ModuleOp module = getOperation();
    auto where = chooseTarget();
    if (failed(where))
      return failure();
    plan::Settings settings = choose();
    auto read = passes::readModel(module, *where);
    if (failed(read))
      return failure();
    settings.microBatch = read->model.microBatch;
    if (settings.batch == 0)
      settings.batch = settings.microBatch;
    if (failed(check(settings)))
      return failure();
    if (Status status = passes::applySettings(settings, *where, read->model); !status.ok())
      return module.emitError() << status.message();
    planner::Machine machine(*where);
    auto decisions = decide(*read, machine);
    if (failed(decisions))
      return failure();
    if (failed(write(*read, machine, *decisions)))
      return failure();
    passes::stateDecisions(module, *read, *decisions);
    planner::Description description = planner::describe(read->model, machine, *decisions);
    settings.savedActivations = description.saved, settings.weights = description.weights;
    settings.parked = description.parked, settings.updates = description.updates;
    passes::stateSettings(module, settings);
    passes::stateTarget(module, *where);
    return success();
  }

  LogicalResult write(const passes::ReadModel &read, const planner::Machine &machine, const planner::Decisions &decisions) {
    ModuleOp module = getOperation();
    planner::Schedule schedule = planner::build(read.model, machine, decisions, planner::Extent::plan);
    planner::Timing step = planner::time(schedule, schedule.step, machine, decisions, true);
    planner::Timing evaluate = planner::time(schedule, schedule.evaluate, machine, decisions, false);
    for (const planner::Timing &timing : {step, evaluate})
      if (!timing.fits())
        return module.emitError() << "the decisions need " << std::max(timing.missingDevice, timing.missingHost) << " bytes more of "
                                  << (timing.missingDevice > 0 ? "device" : "host") << " memory than mt.limits allows";
    const std::vector<uint32_t> listing = planner::listingOf(schedule, schedule.step, step, true);
    planner::sortAsLate(schedule.finish, schedule.step, listing);
    planner::putInOrder(schedule.step, step, listing);
    planner::putInOrder(schedule.evaluate, evaluate, planner::listingOf(schedule, schedule.evaluate, evaluate, false));
    ScheduleWriter writer(module, read, machine);
    writer.declare();
    writer.writeSlots(schedule);
    writer.writeCommands(schedule.step, step, Program::step);
    writer.writeCommands(schedule.finish, {}, Program::finish);
    writer.writeCommands(schedule.evaluate, evaluate, Program::evaluate);
    writer.writeCommands(schedule.load, {}, Program::load);
    writer.writeCommands(schedule.store, {}, Program::store);
    writer.finish();
    module->setAttr(kPeriodAttr, Builder(module.getContext()).getF64FloatAttr(step.seconds));
    return success();
  }

  /// An option that was given, else what the module states, else the option's default.
  plan::Settings choose() {
    plan::Settings settings;
    auto take = [&](bool onlyGiven) {
      auto set = [&](auto &option, auto &setting) {
        if (!onlyGiven || option.hasValue())
          setting = option.getValue();
      };
      set(batch, settings.batch), set(clip, settings.clip), set(optimizer, settings.optimizer);
    };
    take(false);
    passes::readSettings(getOperation(), settings);
    take(true);
    return settings;
  }

  LogicalResult check(const plan::Settings &settings) {
    if (settings.batch < 1 || settings.batch % settings.microBatch)
      return getOperation().emitError() << "a batch of " << settings.batch << " rows is no multiple of the micro-batch of "
                                        << settings.microBatch;
    if (distance.hasValue() && distance < 0)
      return getOperation().emitError() << "prefetch distance " << distance.getValue() << ": must not be negative";
    if (summed.hasValue() && (summed < 1 || !llvm::isPowerOf2_64(summed)))
      return getOperation().emitError() << "summed " << summed.getValue() << ": must be a power of two";
    return success();
  }

  /// What the module states, but for what options say of all layers alike; where it states nothing, what needs least memory.
  FailureOr<planner::Decisions> decide(const passes::ReadModel &read, const planner::Machine &machine) {
    auto stated = passes::readDecisions(getOperation(), read);
    if (failed(stated))
      return failure();
    planner::Constraints constraints;
    if (rung.hasValue())
      constraints.saved = rung;
    if (residency.hasValue() && !planner::setResidency(residency, constraints))
      return getOperation().emitError() << "residency '" << residency << "': must be none, weights or state";
    if (park.hasValue())
      constraints.parked = park;
    if (speculate.hasValue())
      constraints.speculative = speculate;
    if (summed.hasValue())
      constraints.summed = summed;
    if (distance.hasValue())
      constraints.distance = distance;
    planner::Decisions decisions = *stated;
    if (Status status = planner::constrain(read.model, machine, constraints, decisions); !status.ok())
      return getOperation().emitError() << status.message();
    if (!passes::hasDecisions(getOperation()) || decisions != *stated)
      planner::settle(read.model, machine, decisions);
    return decisions;
  }

  /// Templates' workspaces were planned for the kind of device that the module states: another kind is refused.
  FailureOr<target::Target> chooseTarget() {
    ModuleOp module = getOperation();
    bool stated = bool(module->getAttr(nn::kTargetAttr));
    if (stated && !target.hasValue())
      return passes::readTarget(module);
    auto found = target::findTarget(target);
    if (!found.ok())
      return module.emitError() << found.status().message();
    kernels::Backend planned = nn::backendOf(module);
    passes::stateTarget(module, *found);
    if (nn::backendOf(module) != planned)
      return module.emitError() << "target '" << found->name << "' is for " << found->device << ", and the workspaces of the "
                                << "templates were planned for another device; compile with --target " << found->name;
    return std::move(*found);
  }

  void runOnOperation() override {
    if (failed(build()))
      signalPassFailure();
  }
};
} // namespace
} // namespace mt
