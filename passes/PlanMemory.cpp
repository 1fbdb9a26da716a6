// mt-plan-memory: offsets of all slots by the packer, and the check against the budgets.
#include "passes/Packer.h"
#include "passes/ScheduleView.h"
#include "passes/VerifyPacking.h"
#include "runtime/base/Sizes.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace mt {
#define GEN_PASS_DEF_PLANMEMORY
#include "passes/Passes.h.inc"
using namespace schedule;

namespace {
/// First and last command of each slot in one program.
using Lifetimes = llvm::MapVector<Operation *, std::pair<uint32_t, uint32_t>>;

struct PlanMemory : impl::PlanMemoryBase<PlanMemory> {
  using PlanMemoryBase::PlanMemoryBase;

  func::FuncOp function;

  static StringRef spaceOf(SlotOp slot) { return cast<SlotType>(slot.getType()).getSpace(); }
  static uint64_t bytesOf(SlotOp slot) { return cast<SlotType>(slot.getType()).getBytes(); }
  void place(SlotOp slot, uint64_t offset) { slot.setOffset(static_cast<int64_t>(offset)); }

  static Lifetimes lifetimesOf(ArrayRef<Operation *> commands) {
    Lifetimes lifetimes;
    for (auto [moment, command] : llvm::enumerate(commands))
      for (Access access : accessesOf(command)) {
        if (access.slot.getPersistent())
          continue;
        auto &life = lifetimes.try_emplace(access.slot, std::pair<uint32_t, uint32_t>(moment, moment)).first->second;
        life.second = moment;
      }
    return lifetimes;
  }

  /// Offsets of the persistent slots of a space, in order; returns their end.
  uint64_t placePersistent(StringRef space) {
    uint64_t end = 0;
    for (auto slot : function.front().getOps<SlotOp>())
      if (slot.getPersistent() && spaceOf(slot) == space) {
        place(slot, end);
        end += llvm::alignTo(bytesOf(slot), kSlotAlignment);
      }
    return end;
  }

  static StringRef nameOf(DictionaryAttr space) { return space.getAs<StringAttr>("name").getValue(); }
  static bool isOnDevice(DictionaryAttr space) { return space.getAs<StringAttr>("kind").getValue() == "device"; }

  struct Packed {
    std::vector<passes::SlotRequest> requests;
    SmallVector<SlotOp> slots;
    ArrayRef<Operation *> commands;
    uint64_t bytes = 0;
    Status checked; ///< by an algorithm other than the packer's
  };

  Packed packProgram(StringRef space, ArrayRef<Operation *> commands, const Lifetimes &lifetimes, uint64_t base, uint64_t budget) {
    Packed packed;
    packed.commands = commands;
    for (auto &[op, life] : lifetimes) {
      auto slot = cast<SlotOp>(op);
      if (spaceOf(slot) != space)
        continue;
      packed.requests.push_back({bytesOf(slot), life.first, life.second, kSlotAlignment});
      packed.slots.push_back(slot);
    }
    passes::PackOptions options;
    options.moments = commands.size();
    options.slack = slack;
    options.budget = budget > base ? budget - base : 0;
    passes::Packing packing = passes::pack(packed.requests, options);
    for (auto [slot, offset] : llvm::zip(packed.slots, packing.offsets))
      place(slot, base + offset);
    packed.bytes = base + packing.bytes;
    packed.checked = passes::verifyPacking(packed.requests, packing.offsets, packing.bytes, commands.size());
    return packed;
  }

  static void list(InFlightDiagnostic &error, SlotOp slot) {
    error << " '" << slot.getName() << "' " << formatSize(bytesOf(slot)) << ",";
  }

  /// What fills a budget: the moment when most is live, and what is kept all along in the spaces that it covers.
  void explain(InFlightDiagnostic &error, Packed &packed, ArrayRef<StringRef> spaces, uint64_t kept) {
    passes::Peak peak = passes::findPeak(packed.requests, packed.commands.size());
    if (!peak.slots.empty()) {
      error << "; most is live at '" << labelOf(packed.commands[peak.moment]) << "' (" << formatSize(peak.bytes) << "), largest there:";
      for (uint32_t i : ArrayRef<uint32_t>(peak.slots).take_front(4))
        list(error, packed.slots[i]);
    }
    SmallVector<SlotOp> persistent;
    for (auto slot : function.front().getOps<SlotOp>())
      if (slot.getPersistent() && llvm::is_contained(spaces, spaceOf(slot)))
        persistent.push_back(slot);
    if (persistent.empty())
      return;
    llvm::stable_sort(persistent, [](SlotOp a, SlotOp b) { return bytesOf(a) > bytesOf(b); });
    error << (peak.slots.empty() ? ";" : " and") << " kept all along: " << formatSize(kept) << " in " << persistent.size()
          << " slots, largest:";
    for (SlotOp slot : ArrayRef<SlotOp>(persistent).take_front(4))
      list(error, slot);
  }

  LogicalResult run() {
    ModuleOp module = getOperation();
    function = passes::findSchedule(module);
    if (!function)
      return failure();
    if (failed(passes::readDeclarations(module)))
      return failure();

    std::vector<SmallVector<Operation *>> programs;
    std::vector<Lifetimes> lifetimes;
    for (Program program : passes::kPrograms) {
      programs.push_back(commandsOf(function, program));
      lifetimes.push_back(lifetimesOf(programs.back()));
    }
    Builder builder(&getContext());
    SmallVector<Attribute> spaces;
    auto entries = module->getAttrOfType<ArrayAttr>(kSpacesAttr).getAsRange<DictionaryAttr>();
    llvm::StringMap<uint64_t> kept; // by space: what its persistent slots take
    SmallVector<StringRef> hostSpaces;
    uint64_t hostKept = 0; // set aside before any host space is packed with slack
    for (DictionaryAttr entry : entries) {
      uint64_t bytes = kept[nameOf(entry)] = placePersistent(nameOf(entry));
      if (!isOnDevice(entry)) {
        hostKept += bytes;
        hostSpaces.push_back(nameOf(entry));
      }
    }
    uint64_t hostBytes = hostKept; // and what is packed on top of it
    std::optional<Packed> largestHost;
    for (DictionaryAttr entry : entries) {
      StringRef name = nameOf(entry);
      bool onDevice = isOnDevice(entry);
      uint64_t base = kept[name], bytes = base;
      uint64_t budget = onDevice && deviceMemory > 0 ? uint64_t(deviceMemory) : UINT64_MAX;
      if (!onDevice && hostMemory > 0)
        budget = uint64_t(hostMemory) > hostBytes ? hostMemory - hostBytes + base : 0;
      std::optional<Packed> largest;
      for (auto [commands, lives] : llvm::zip(programs, lifetimes)) {
        Packed packed = packProgram(name, commands, lives, base, budget);
        if (!packed.checked.ok())
          return module.emitError() << "space " << name << ": " << packed.checked.message();
        bytes = std::max(bytes, packed.bytes);
        if (!largest || packed.bytes > largest->bytes)
          largest = std::move(packed);
      }
      if (onDevice && deviceMemory > 0 && bytes > budget) {
        InFlightDiagnostic error = module.emitError();
        error << "the plan needs " << formatSize(bytes) << " (" << bytes << " B) of device memory, and --device-memory allows "
              << formatSize(budget);
        explain(error, *largest, {name}, base);
        return error << "; the smallest budget for these choices is --device-memory " << bytes << "B";
      }
      if (!onDevice) {
        hostBytes += bytes - base;
        if (!largestHost || largest->bytes > largestHost->bytes)
          largestHost = std::move(largest);
      }
      NamedAttrList attributes(entry);
      attributes.set("bytes", builder.getI64IntegerAttr(bytes));
      spaces.push_back(attributes.getDictionary(&getContext()));
    }
    if (hostMemory > 0 && hostBytes > uint64_t(hostMemory)) {
      InFlightDiagnostic error = module.emitError();
      error << "the plan needs " << formatSize(hostBytes) << " (" << hostBytes << " B) of host memory, and --host-memory allows "
            << formatSize(uint64_t(hostMemory));
      explain(error, *largestHost, hostSpaces, hostKept);
      return error << "; the smallest budget for these choices is --host-memory " << hostBytes << "B";
    }
    module->setAttr(kSpacesAttr, builder.getArrayAttr(spaces));
    return success();
  }

  void runOnOperation() override {
    if (failed(run()))
      signalPassFailure();
  }
};
} // namespace
} // namespace mt
