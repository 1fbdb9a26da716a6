// mt-plan-memory: offsets of all slots by the packer, and the check against the budgets.
#include "compiler/planner/Emitter.h"
#include "passes/algorithms/Packer.h"
#include "passes/schedule/ScheduleView.h"
#include "passes/algorithms/VerifyPacking.h"
#include "runtime/base/Sizes.h"

#include "llvm/ADT/MapVector.h"

#include <numeric>

using namespace mlir;

namespace mt {
#define GEN_PASS_DEF_PLANMEMORY
#include "passes/Passes.h.inc"
using namespace schedule;

namespace {
/// Of what packing a device may take, where it only tells about how much of it a plan needs.
constexpr double kBriefEffort = 0.25;

/// When a slot is alive in one program: by commands in issue order, both ends inclusive, and by predicted time. In a program
/// that repeats, what a slot holds may be used by the next iteration, in the order of issue before it is written anew: then
/// it is alive across the program's end.
struct Life {
  uint32_t first = 0, last = 0;
  double begin = 0, end = 0;
  int64_t opener = 0;    ///< stream of the first command
  bool isShared = false; ///< whether commands of other streams use it, too
};
using Lifetimes = llvm::MapVector<Operation *, Life>;

/// Seconds become whole picoseconds: what ends when another begins does so to the last digit.
int64_t ticksOf(double seconds) { return std::llround(seconds * 1e12); }

struct PlanMemory : impl::PlanMemoryBase<PlanMemory> {
  using PlanMemoryBase::PlanMemoryBase;

  func::FuncOp function;
  llvm::DenseSet<Operation *> placed; ///< by a program before
  llvm::DenseSet<Operation *> blocks; ///< slots of files, and what is copied to and from them

  static StringRef spaceOf(SlotOp slot) { return cast<SlotType>(slot.getType()).getSpace(); }
  static uint64_t bytesOf(SlotOp slot) { return cast<SlotType>(slot.getType()).getBytes(); }
  uint64_t alignmentOf(SlotOp slot) const { return blocks.contains(slot) ? uint64_t(planner::kFileBlock) : kSlotAlignment; }
  void place(SlotOp slot, uint64_t offset) { slot.setOffset(static_cast<int64_t>(offset)); }

  /// A program's commands, when each starts and ends, and the time from one iteration to the next (0: it does not repeat).
  struct Timed {
    SmallVector<Operation *> commands;
    std::vector<double> starts, ends;
    double period = 0;
  };

  static double secondsOf(Operation *command) { return cast<FloatAttr>(command->getAttr("seconds")).getValueAsDouble(); }
  /// Commands without predicted starts follow each other.
  Timed timesOf(Program program) {
    Timed timed;
    timed.commands = commandsOf(function, program);
    auto period = getOperation()->getAttrOfType<FloatAttr>(kPeriodAttr);
    for (auto [i, command] : llvm::enumerate(timed.commands)) {
      auto start = command->getAttrOfType<FloatAttr>("start");
      bool known = start && (program != Program::step || period);
      timed.starts.push_back(known ? start.getValueAsDouble() : double(i));
      auto end = command->getAttrOfType<FloatAttr>("end");
      timed.ends.push_back(known && end ? end.getValueAsDouble() : timed.starts.back() + (known ? secondsOf(command) : 1));
      if (program == Program::step)
        timed.period = known ? period.getValueAsDouble() : timed.commands.size();
    }
    return timed;
  }

  static Lifetimes lifetimesOf(const Timed &timed) {
    struct Use {
      uint32_t moment;
      int64_t stream;
      bool writes;
    };
    llvm::MapVector<Operation *, SmallVector<Use>> uses;
    for (auto [moment, command] : llvm::enumerate(timed.commands))
      for (Access access : accessesOf(command))
        if (!access.slot.getPersistent())
          uses[access.slot].push_back({uint32_t(moment), streamOf(command), access.writes()});
    Lifetimes lifetimes;
    for (auto &[slot, list] : uses) {
      // Reads before the first write are of what the iteration before wrote.
      size_t opener = 0;
      while (timed.period > 0 && opener < list.size() && !list[opener].writes)
        ++opener;
      opener = opener == list.size() ? 0 : opener;
      Life life;
      life.first = list[opener].moment, life.last = opener > 0 ? list[opener - 1].moment : list.back().moment;
      life.begin = life.end = timed.starts[life.first];
      life.opener = list[opener].stream;
      for (auto [i, use] : llvm::enumerate(list)) {
        life.begin = i < opener ? life.begin : std::min(life.begin, timed.starts[use.moment]);
        life.end = std::max(life.end, timed.ends[use.moment] + (i < opener ? timed.period : 0));
        life.isShared |= use.stream != life.opener;
      }
      // What reaches beyond an iteration's time is there at its border: no two such slots share bytes, whatever the order in
      // which the commands of different iterations are issued, which is not quite that of time.
      if (timed.period > 0 && (opener > 0 || life.end > timed.period)) {
        life.begin = std::min(life.begin, timed.period);
        life.end = std::max(life.end, timed.period);
      }
      if (life.begin < 0)
        life.end = std::max(life.end, 0.0);
      lifetimes[slot] = life;
    }
    return lifetimes;
  }

  /// Intervals of time as intervals of moments, which are the stretches of time between one's begin or end and the next.
  static uint32_t placeInTime(ArrayRef<Life> lives, double period, std::vector<passes::SlotRequest> &requests) {
    const int64_t cycle = ticksOf(period);
    auto onCircle = [&](double seconds) {
      int64_t ticks = ticksOf(seconds);
      return cycle > 0 ? (ticks % cycle + cycle) % cycle : ticks;
    };
    std::vector<int64_t> times;
    for (const Life &life : lives) {
      times.push_back(onCircle(life.begin));
      times.push_back(onCircle(life.end));
    }
    llvm::sort(times);
    times.erase(llvm::unique(times), times.end());
    const uint32_t moments = std::max<size_t>(1, times.size());
    auto momentOf = [&](double seconds) { return uint32_t(llvm::lower_bound(times, onCircle(seconds)) - times.begin()); };
    for (auto [life, request] : llvm::zip(lives, requests)) {
      const bool always = cycle > 0 && ticksOf(life.end - life.begin) >= cycle;
      const uint32_t first = momentOf(life.begin), end = momentOf(life.end);
      request.first = always ? 0 : first;
      request.last = always ? moments - 1 : first == end ? first : (end + moments - 1) % moments;
    }
    return moments;
  }

  void findBlocks(StringRef file) {
    for (Program program : passes::kPrograms)
      for (Operation *command : commandsOf(function, program))
        if (isa<PrefetchOp, OffloadOp>(command)) {
          auto accesses = accessesOf(command);
          if (llvm::any_of(accesses, [&](const Access &access) { return spaceOf(access.slot) == file; }))
            for (const Access &access : accesses)
              blocks.insert(access.slot);
        }
  }

  /// Offsets of the persistent slots of a space, in order; returns their end.
  uint64_t placePersistent(StringRef space) {
    uint64_t end = 0;
    for (auto slot : function.front().getOps<SlotOp>())
      if (slot.getPersistent() && spaceOf(slot) == space) {
        end = llvm::alignTo(end, alignmentOf(slot));
        place(slot, end);
        end += llvm::alignTo(bytesOf(slot), alignmentOf(slot));
      }
    return end;
  }

  static StringRef nameOf(DictionaryAttr space) { return space.getAs<StringAttr>("name").getValue(); }
  static bool isFile(DictionaryAttr space) { return space.getAs<StringAttr>("kind").getValue() == "file"; }
  static bool isOnDevice(DictionaryAttr space) { return space.getAs<StringAttr>("kind").getValue() == "device"; }

  struct Packed {
    std::vector<passes::SlotRequest> requests; ///< by issue order
    SmallVector<SlotOp> slots;
    ArrayRef<Operation *> commands;
    uint64_t bytes = 0;
    Status checked; ///< by an algorithm other than the packer's, and by issue order
  };

  /// Bytes of a space that a program before has placed something in which this one uses, too, sorted.
  std::vector<std::pair<uint64_t, uint64_t>> leftBy(StringRef space, const Lifetimes &lifetimes) const {
    std::vector<std::pair<uint64_t, uint64_t>> left;
    for (auto &[op, life] : lifetimes)
      if (auto slot = cast<SlotOp>(op); spaceOf(slot) == space && placed.contains(slot))
        left.push_back({*slot.getOffset(), *slot.getOffset() + llvm::alignTo(bytesOf(slot), kSlotAlignment)});
    llvm::sort(left);
    return left;
  }

  /// The largest first, each in the lowest place beside what is left, and those that are there at the same time.
  static passes::Packing packBeside(ArrayRef<std::pair<uint64_t, uint64_t>> left,
                                    ArrayRef<passes::SlotRequest> requests, uint64_t base) {
    passes::Packing packing;
    packing.offsets.assign(requests.size(), 0);
    std::vector<uint32_t> order(requests.size());
    std::iota(order.begin(), order.end(), 0);
    llvm::stable_sort(order, [&](uint32_t a, uint32_t b) { return requests[a].bytes > requests[b].bytes; });
    for (size_t i = 0; i < order.size(); ++i) {
      const passes::SlotRequest &request = requests[order[i]];
      std::vector<std::pair<uint64_t, uint64_t>> busy(left.begin(), left.end());
      for (uint32_t other : ArrayRef<uint32_t>(order).take_front(i))
        if (requests[other].first <= request.last && request.first <= requests[other].last)
          busy.push_back({base + packing.offsets[other], base + packing.offsets[other] + requests[other].bytes});
      llvm::sort(busy);
      uint64_t at = llvm::alignTo(base, request.alignment);
      for (auto [begin, end] : busy)
        if (begin < at + request.bytes && at < end)
          at = llvm::alignTo(end, request.alignment);
      packing.offsets[order[i]] = at - base;
      packing.bytes = std::max(packing.bytes, at - base + request.bytes);
    }
    return packing;
  }

  /// Places what another program has not placed: what step leaves to finish stays where it is.
  Packed packProgram(StringRef space, const Timed &timed, const Lifetimes &lifetimes, uint64_t base, uint64_t budget,
                     double effort) {
    Packed packed;
    packed.commands = timed.commands;
    SmallVector<Life> lives;
    for (auto &[op, life] : lifetimes) {
      auto slot = cast<SlotOp>(op);
      if (spaceOf(slot) != space || placed.contains(slot))
        continue;
      const uint64_t alignment = alignmentOf(slot);
      packed.requests.push_back({llvm::alignTo(bytesOf(slot), alignment), life.first, life.last, alignment});
      packed.slots.push_back(slot);
      lives.push_back(life);
    }
    // What one stream uses, and another never follows, has nobody who waits.
    const bool isOfOne = llvm::all_of(lives, [&](const Life &life) { return life.opener == lives.front().opener; });
    for (auto [life, request] : llvm::zip(lives, packed.requests))
      request.stretches = life.isShared || !isOfOne;
    std::vector<passes::SlotRequest> inTime = packed.requests;
    passes::PackOptions options;
    options.moments = placeInTime(lives, timed.period, inTime);
    options.slack = slack;
    options.cyclic = timed.period > 0;
    options.budget = budget > base ? budget - base : 0;
    options.effort = effort;
    const auto left = leftBy(space, lifetimes);
    passes::Packing packing = left.empty() ? passes::pack(inTime, options) : packBeside(left, packed.requests, base);
    for (auto [slot, offset] : llvm::zip(packed.slots, packing.offsets)) {
      place(slot, base + offset);
      placed.insert(slot);
    }
    packed.bytes = base + packing.bytes;
    packed.checked = passes::verifyPacking(packed.requests, packing.offsets, packing.bytes, timed.commands.size());
    return packed;
  }

  /// The first few of some slots, the largest first.
  static void listLargest(InFlightDiagnostic &error, ArrayRef<SlotOp> slots) {
    const char *separator = "";
    for (SlotOp slot : slots.take_front(4)) {
      error << separator << " '" << slot.getName() << "' " << formatSize(bytesOf(slot));
      separator = ",";
    }
  }

  /// What fills a budget: the moment when most is live, and what is kept all along in the spaces that it covers.
  void explain(InFlightDiagnostic &error, Packed &packed, ArrayRef<StringRef> spaces, uint64_t kept) {
    passes::Peak peak = passes::findPeak(packed.requests, packed.commands.size());
    if (!peak.slots.empty()) {
      error << "; most is live at '" << labelOf(packed.commands[peak.moment]) << "' (" << formatSize(peak.bytes) << "), largest there:";
      SmallVector<SlotOp> slots;
      for (uint32_t i : peak.slots)
        slots.push_back(packed.slots[i]);
      listLargest(error, slots);
    }
    SmallVector<SlotOp> persistent;
    for (auto slot : function.front().getOps<SlotOp>())
      if (slot.getPersistent() && llvm::is_contained(spaces, spaceOf(slot)))
        persistent.push_back(slot);
    if (persistent.empty())
      return;
    llvm::stable_sort(persistent, [](SlotOp a, SlotOp b) { return bytesOf(a) > bytesOf(b); });
    error << "; kept all along: " << formatSize(kept) << " in " << persistent.size() << " slots, largest:";
    listLargest(error, persistent);
  }

  LogicalResult run() {
    ModuleOp module = getOperation();
    function = passes::findSchedule(module);
    if (!function)
      return failure();
    if (failed(passes::readDeclarations(module)))
      return failure();

    placed.clear(), blocks.clear();
    std::vector<Timed> programs;
    std::vector<Lifetimes> lifetimes;
    for (Program program : passes::kPrograms) {
      programs.push_back(timesOf(program));
      lifetimes.push_back(lifetimesOf(programs.back()));
    }
    Builder builder(&getContext());
    SmallVector<Attribute> spaces;
    auto entries = module->getAttrOfType<ArrayAttr>(kSpacesAttr).getAsRange<DictionaryAttr>();
    llvm::StringMap<uint64_t> kept; // by space: what its persistent slots take
    SmallVector<StringRef> hostSpaces;
    uint64_t hostKept = 0; // set aside before any host space is packed with slack
    for (DictionaryAttr entry : entries) {
      if (isFile(entry))
        findBlocks(nameOf(entry));
    }
    for (DictionaryAttr entry : entries) {
      uint64_t bytes = kept[nameOf(entry)] =
          llvm::alignTo(placePersistent(nameOf(entry)),
                        blocks.empty() || isOnDevice(entry) ? kSlotAlignment : uint64_t(planner::kFileBlock));
      if (!isOnDevice(entry) && !isFile(entry)) {
        hostKept += bytes;
        hostSpaces.push_back(nameOf(entry));
      }
    }
    uint64_t hostBytes = hostKept; // and what is packed on top of it
    std::optional<Packed> largestHost;
    struct TooLarge {
      StringRef space;
      Packed packed;
      uint64_t kept, bytes;
    };
    std::optional<TooLarge> tooLarge;
    auto exceedsHost = [&] { return hostMemory > 0 && hostBytes > uint64_t(hostMemory); };
    llvm::StringMap<uint64_t> bytesIn;
    SmallVector<DictionaryAttr> hostFirst(entries);
    llvm::stable_sort(hostFirst, [](DictionaryAttr a, DictionaryAttr b) { return !isOnDevice(a) && isOnDevice(b); });
    for (DictionaryAttr entry : hostFirst) {
      StringRef name = nameOf(entry);
      bool onDevice = isOnDevice(entry);
      uint64_t base = kept[name], bytes = base;
      uint64_t budget = onDevice && deviceMemory > 0 ? uint64_t(deviceMemory) : UINT64_MAX;
      if (!onDevice && !isFile(entry) && hostMemory > 0)
        budget = uint64_t(hostMemory) > hostBytes ? hostMemory - hostBytes + base : 0;
      std::optional<Packed> largest;
      for (auto [timed, lives] : llvm::zip(programs, lifetimes)) {
        Packed packed = packProgram(name, timed, lives, base, budget, brief && exceedsHost() ? kBriefEffort : 1);
        if (!packed.checked.ok())
          return module.emitError() << "space " << name << ": " << packed.checked.message();
        bytes = std::max(bytes, packed.bytes);
        if (!largest || packed.bytes > largest->bytes)
          largest = std::move(packed);
      }
      if (onDevice && deviceMemory > 0 && bytes > budget &&
          (!tooLarge || bytes > tooLarge->bytes)) // of all, what is asked for
        tooLarge = TooLarge{name, std::move(*largest), base, bytes};
      if (!onDevice && !isFile(entry)) {
        hostBytes += bytes - base;
        if (!largestHost || largest->bytes > largestHost->bytes)
          largestHost = std::move(largest);
      }
      bytesIn[name] = bytes;
    }
    for (DictionaryAttr entry : entries) {
      NamedAttrList attributes(entry);
      attributes.set("bytes", builder.getI64IntegerAttr(bytesIn[nameOf(entry)]));
      spaces.push_back(attributes.getDictionary(&getContext()));
    }
    module->setAttr(kSpacesAttr, builder.getArrayAttr(spaces)); // also where they are too large: a search reads by how much
    if (tooLarge) {
      InFlightDiagnostic error = module.emitError();
      error << "the plan needs " << formatSize(tooLarge->bytes) << " (" << tooLarge->bytes << " B) of device memory, and --device-memory allows "
            << formatSize(uint64_t(deviceMemory));
      explain(error, tooLarge->packed, {tooLarge->space}, tooLarge->kept);
      return error << "; the smallest budget for these choices is --device-memory " << tooLarge->bytes << "B";
    }
    if (exceedsHost()) {
      InFlightDiagnostic error = module.emitError();
      error << "the plan needs " << formatSize(hostBytes) << " (" << hostBytes << " B) of host memory, and --host-memory allows "
            << formatSize(uint64_t(hostMemory));
      explain(error, *largestHost, hostSpaces, hostKept);
      error << "; the smallest budget for these choices is --host-memory " << hostBytes << "B";
      const bool hasFile = llvm::any_of(entries, [](DictionaryAttr entry) { return isFile(entry); });
      return hasFile ? error : error << ", or less with --disk, which keeps state of updates on a fast disk";
    }
    return success();
  }

  void runOnOperation() override {
    if (failed(run()))
      signalPassFailure();
  }
};
} // namespace
} // namespace mt
