#include "compiler/pipeline/Planner.h"

#include "compiler/pipeline/Phases.h"
#include "compiler/plan/EmitPlan.h"
#include "compiler/planner/Bound.h"
#include "compiler/planner/Search.h"
#include "passes/Settings.h"
#include "passes/schedule/DecisionAttributes.h"
#include "runtime/base/Sizes.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace mt::pipeline {
namespace {
/// Searches, each with what packing lost taken away, until the packed schedule fits.
constexpr int kAttempts = 12;
/// Phases that weights are brought ahead where more of them make memory too full to be packed, and how much longer a
/// step may take for that.
constexpr int64_t kNear[] = {1, 2, 4};
constexpr double kSlower = 0.01;
/// Searches after one whose schedule fits, but is so much slower than what was too large: there may be something
/// between.
constexpr int kAfter = 3;
/// Searches one after another that find nothing, each with more memory than the one before.
constexpr int kBack = 3;
/// What a step loses where its memory must be less, as a share of the share that is lost.
constexpr double kLossOfMemory = 0.5;
constexpr char kTooLarge[] = "does not fit";

/// Bytes of a placed module's spaces.
Needed neededBy(ModuleOp module) {
  Needed needed;
  for (auto entry : module->getAttrOfType<ArrayAttr>(schedule::kSpacesAttr).getAsRange<DictionaryAttr>()) {
    auto bytes = entry.getAs<IntegerAttr>("bytes");
    if (bytes && entry.getAs<StringAttr>("kind").getValue() == "device")
      needed.device = std::max(needed.device, bytes.getInt());
    else if (bytes && entry.getAs<StringAttr>("kind").getValue() != "file")
      needed.host += bytes.getInt();
  }
  return needed;
}

/// A schedule with places.
struct Packed {
  OwningOpRef<ModuleOp> module; ///< null: a pass failed, and not for want of memory
  bool fits = false;            ///< into the budgets, each for itself
  Needed needed;
  planner::Found found;
  double expected = 0; ///< seconds of a step on average, with the waits that packing adds
  Messages said;       ///< by passes
  Status failure;      ///< where it does not fit: why

  bool fitsWithin(const PlanMemoryOptions &budgets, bool shared) const {
    return fits && (!shared || needed.both() <= budgets.hostMemory);
  }
  /// About the seconds of a step once it has no more than the budgets.
  double withinBudgets(const PlanMemoryOptions &budgets) const {
    auto missing = [](int64_t bytes, int64_t budget) { return std::max(0.0, double(bytes) / double(budget) - 1); };
    return expected * (1 + kLossOfMemory * std::max(missing(needed.device, budgets.deviceMemory),
                                                    missing(needed.host, budgets.hostMemory)));
  }
};

Packed pack(ModuleOp layers, const passes::ReadModel &read, const planner::Found &found,
            const PlanMemoryOptions &budgets, const Options &options) {
  passes::stateDecisions(layers, read, found.decisions);
  Packed packed;
  Collector collector(*layers.getContext(), packed.said);
  packed.module = layers.clone();
  packed.found = found;
  PassManager manager(layers.getContext());
  addSchedulePasses(manager, budgets);
  packed.fits = succeeded(manager.run(*packed.module));
  if (!packed.fits)
    packed.failure = collector.failure(options.model);
  if (!packed.fits && !(*packed.module)->hasAttr(schedule::kSpacesAttr)) {
    packed.module = nullptr;
    return packed;
  }
  packed.needed = neededBy(*packed.module);
  packed.expected = found.timing.expected;
  if (packed.fits)
    if (auto plan = emitPlan(*packed.module, ""); succeeded(plan))
      packed.expected += std::max(0.0, plan->prediction.stepSeconds - found.timing.seconds);
  return packed;
}

std::string describe(const planner::Description &description, const Needed &needed, const planner::Found &found) {
  return fmt::format("saved activations {}; weights {}; parked {}; updates {}: device {}, host {}, {:.3g} s ({} simulations)",
                     description.saved, description.weights, description.parked, description.updates,
                     formatSize(uint64_t(needed.device)), formatSize(uint64_t(needed.host)), found.timing.seconds, found.simulations);
}

/// What takes least memory, and what it needs once it is packed.
struct Least {
  planner::Found found;
  Needed needed;
};

/// Whether devices have what the host might.
bool isOnDevices(const planner::Model &model, const planner::Decisions &decisions) {
  return decisions.parked != planner::leastMemory(model).parked ||
         std::ranges::any_of(decisions.layers, [](const planner::LayerDecision &layer) { return layer.summed > 1; });
}

/// Values that the host has no room for stay on the device only as far as it packs them within its budget: where both
/// are short, the device's shortage is named only if the device is too small without them.
Result<Least> leastOf(ModuleOp layers, const passes::ReadModel &read, const Options &options,
                      const planner::Machine &machine, planner::Constraints constraints) {
  const int64_t budget = constraints.deviceMemory;
  std::optional<Least> least;
  for (;;) {
    planner::Found found = planner::leastOf(read.model, machine, constraints);
    // Budgets of nothing, by which packing leaves no room between slots.
    const Packed packed = pack(layers, read, found, {.deviceMemory = 1, .hostMemory = 1}, options);
    if (!packed.module)
      return packed.failure;
    const Needed &needed = packed.needed;
    if (least && needed.device >= least->needed.device)
      return std::move(*least);
    const int64_t excess = needed.device - budget;
    constraints.deviceMemory =
        std::max<int64_t>(0, std::min(constraints.deviceMemory, found.decisions.deviceLimit) - excess - excess / 4);
    least = Least{std::move(found), needed};
    if (excess <= 0 || !isOnDevices(read.model, least->found.decisions))
      return std::move(*least);
  }
}

/// The same, with less on a host that loses too much of its memory when it is packed.
Result<Least> leastOf(ModuleOp layers, const passes::ReadModel &read, const Options &options,
                      const target::Target &target) {
  constexpr int kTries = 4;
  const planner::Machine machine(target);
  const planner::Constraints given = constraintsOf(options, target);
  MT_ASSIGN(Least least, leastOf(layers, read, options, machine, given));
  planner::Constraints constraints = given;
  int64_t lost = least.needed.host - given.hostMemory;
  for (int i = 0; i < kTries && lost > 0 && lost < given.hostMemory / 4 && !machine.unified(); ++i) {
    constraints.hostMemory -= lost;
    MT_ASSIGN(Least less, leastOf(layers, read, options, machine, constraints));
    lost = less.needed.host - given.hostMemory;
    if (lost <= 0 && less.needed.device <= given.deviceMemory)
      return less;
  }
  return least;
}

/// What larger budgets bring, of devices and of the host, each search going on from what the one before found: those of
/// a few that save a hundredth of a step more than a smaller one.
std::string whatMoreBrings(const planner::Model &model, const planner::Machine &machine,
                           const planner::Constraints &given, const planner::Found &from) {
  std::string text;
  auto tryMore = [&](int64_t planner::Constraints::*budget, std::initializer_list<int64_t> eighths, const char *what) {
    planner::Constraints constraints = given;
    constraints.thorough = false;
    planner::Found found = from;
    const double seconds = found.timing.seconds;
    double best = seconds;
    for (int64_t each : eighths) {
      constraints.*budget = given.*budget / 8 * each;
      found = planner::search(model, machine, constraints, &found);
      if (!found.timing.fits() || found.timing.seconds >= 0.99 * best)
        continue;
      best = found.timing.seconds;
      text += fmt::format("{}{} more of {} memory: {:.3g} s a step ({:+.3g} s)", text.empty() ? "" : "; ",
                          formatSize(uint64_t(constraints.*budget - given.*budget)), what, best, best - seconds);
    }
  };
  tryMore(&planner::Constraints::deviceMemory, {9, 10, 12, 16, 24, 32}, "device");
  if (!machine.unified() && from.decisions.hostLimit > given.hostMemory / 8 * 7)
    tryMore(&planner::Constraints::hostMemory, {9, 10, 12, 16}, "host");
  return text;
}

/// Makes a packed schedule what was planned.
void take(Planned &planned, Packed packed, const passes::ReadModel &read, const planner::Machine &machine,
          const planner::Constraints &given) {
  planned.text = describe(planner::describe(read.model, machine, packed.found.decisions), packed.needed, packed.found);
  planned.more = [model = read.model, machine, given, found = packed.found] {
    return whatMoreBrings(model, machine, given, found);
  };
  planned.module = std::move(packed.module);
  planned.expected = packed.expected;
  planned.found = std::move(packed.found);
}

/// Bytes of host and devices.
int64_t memoryOf(const planner::Machine &machine, const planner::Constraints &given) {
  const auto devices = static_cast<int64_t>(machine.devices.size());
  return given.deviceMemory > (INT64_MAX - given.hostMemory) / devices
             ? INT64_MAX
             : given.hostMemory + devices * given.deviceMemory;
}

/// Whether one budget is for what devices and the host have.
bool sharesMemory(const Options &options, const target::Target &target) {
  return target.unified && !options.deviceMemory;
}
} // namespace

planner::Constraints constraintsOf(const Options &options, const target::Target &target) {
  planner::Constraints constraints;
  constraints.saved = options.savedActivations;
  if (options.residency)
    planner::setResidency(*options.residency, constraints);
  constraints.parked = options.park;
  constraints.clipped = options.clipped.value_or(constraints.clipped);
  constraints.batchShared = options.batchShared;
  constraints.distance = options.prefetchDistance;
  auto budget = [](std::optional<uint64_t> asked, uint64_t there) { // the most that there can be is as good as more
    return static_cast<int64_t>(std::min(asked.value_or(there), target::kGreatestMemory));
  };
  constraints.deviceMemory = budget(options.deviceMemory, target.deviceMemory);
  constraints.hostMemory = budget(options.hostMemory, target.hostMemory);
  return constraints;
}

Result<passes::ReadModel> readForPlanner(ModuleOp layers, const Options &options, const target::Target &target, Messages &messages) {
  Collector collector(*layers.getContext(), messages);
  PassManager prepare(layers.getContext());
  addTemplatePasses(prepare);
  if (failed(prepare.run(layers)))
    return collector.failure(options.model);
  auto read = passes::readModel(layers, target);
  if (failed(read))
    return collector.failure(options.model);
  plan::Settings settings;
  passes::readSettings(layers, settings);
  MT_TRY(passes::applySettings(settings, target, read->model));
  return std::move(*read);
}

Result<Needed> leastMemory(ModuleOp layers, const passes::ReadModel &read, const Options &options,
                           const target::Target &target) {
  MT_ASSIGN(const Least least, leastOf(layers, read, options, target));
  return least.needed;
}

Planned planSchedule(ModuleOp layers, const Options &options, const target::Target &target,
                     const std::optional<planner::Found> &before, double enough, Messages &messages) {
  Planned planned;
  Messages said;
  auto fail = [&](std::string problem) {
    messages.add(said);
    planned.problem = std::move(problem);
    return std::move(planned);
  };
  auto read = readForPlanner(layers, options, target, said);
  if (!read.ok())
    return fail(read.status().message());
  const Messages prepared = said;
  planner::Machine machine(target);
  const planner::Constraints given = constraintsOf(options, target);
  planner::Constraints constraints = given;
  constraints.enough = enough;
  const PlanMemoryOptions budgets{.deviceMemory = given.deviceMemory, .hostMemory = given.hostMemory, .brief = true};
  const bool shared = sharesMemory(options, target);
  if (!std::isfinite(enough)) { // nothing fit yet
    const planner::Room room = planner::roomFor(read->model, machine, given);
    planned.fitsDevices = room.devices;
    planned.isHopeless =
        !room.host || (!machine.file && planner::leastBytes(read->model).all() > memoryOf(machine, given));
    if (planned.isHopeless)
      return fail(kTooLarge);
  }
  planned.bound = planner::lowerBound(read->model, machine, given);
  if (planned.bound > (1 - kLittleGain) * enough)
    return fail(fmt::format("a step takes {:.3g} s at least", planned.bound));
  if (before) { // packing loses as much again
    constraints.deviceMemory = std::min(constraints.deviceMemory, before->deviceMemory);
    constraints.hostMemory = std::min(constraints.hostMemory, before->hostMemory);
  }
  std::optional<planner::Found> next;
  std::optional<Packed> best; // of those that fit
  for (int attempt = 0, after = 0, back = 0; attempt < kAttempts; ++attempt) {
    if (best && after++ == kAfter)
      break;
    const planner::Found *from = planned.found ? &*planned.found : before ? &*before : nullptr;
    const std::vector<planner::Found> all =
        next ? std::vector{*std::exchange(next, std::nullopt)}
             : planner::candidates(read->model, machine, constraints, from);
    planner::Found found = all.front();
    if (best && (!found.timing.fits() || found.timing.expected >= best->expected))
      break;
    auto goHalfway = [&](int64_t device, int64_t host) { // to so much memory
      constraints.deviceMemory += (device - constraints.deviceMemory) / 2;
      constraints.hostMemory += (host - constraints.hostMemory) / 2;
    };
    auto goBack = [&] { // to what was too large
      goHalfway(std::min(given.deviceMemory, planned.found->decisions.deviceLimit),
                std::min(given.hostMemory, planned.found->decisions.hostLimit));
    };
    back = found.timing.fits() ? 0 : back + 1;
    if (back > 0 && back <= kBack && planned.found && attempt + 1 < kAttempts) { // too little was left
      goBack();
      continue;
    }
    // Where nothing fits, or packing loses too much of what does, it is what needs least memory.
    const bool last = !best && (!found.timing.fits() || attempt + 1 == kAttempts);
    if (last) {
      if (!planned.found && !before) // it was allowed all that there is
        return fail(kTooLarge);
      found = planner::leastOf(read->model, machine, given);
      planned.fitsDevices = found.decisions.deviceLimit <= given.deviceMemory;
      if (!planned.fitsDevices || found.decisions.hostLimit > given.hostMemory)
        return fail(kTooLarge);
    }
    if (!best && found.timing.fits() && found.timing.expected > (1 - planner::kAlike) * enough)
      return fail(fmt::format("a step takes {:.3g} s", found.timing.seconds));
    Packed packed = pack(layers, *read, found, budgets, options);
    for (size_t i = 1; i < all.size() && !last && packed.module; ++i)
      if (all[i].timing.fits() && all[i].timing.expected < packed.withinBudgets(budgets))
        if (Packed other = pack(layers, *read, all[i], budgets, options);
            !other.module ||
            ((other.fits || !packed.fits) && other.withinBudgets(budgets) < packed.withinBudgets(budgets)))
          packed = std::move(other);
    said = prepared;
    said.add(packed.said);
    if (!packed.module)
      return fail(packed.failure.message());
    found = packed.found;
    if (packed.fitsWithin(budgets, shared)) {
      const double expected = packed.expected;
      if (!best || expected < best->expected)
        best = std::move(packed);
      if (last || !planned.found || expected <= (1 + kSlower) * planned.found->timing.expected)
        break;
      goBack();
      continue;
    }
    if (last) {
      planned.fitsDevices = packed.needed.device <= budgets.deviceMemory;
      return fail(kTooLarge);
    }
    for (int64_t distance : kNear) {
      if (constraints.distance)
        break;
      planner::Found same = planner::nearer(read->model, machine, constraints, found, distance);
      if (!same.timing.fits() || same.timing.expected > (1 + kSlower) * found.timing.expected)
        continue;
      constraints.distance = distance;
      next = std::move(same);
    }
    // A little less often gives the same plan again: each time at least twice as much less as the time before.
    // What packs well enough now may have half of what is left.
    auto adapt = [&](int64_t &budget, int64_t used, int64_t excess, int64_t most) {
      budget = excess > 0 ? std::min(budget, used) - std::max(excess, (budget >> 11) << attempt)
                          : std::max(budget, std::min(most, used - excess / 2));
    };
    if (best) {
      goHalfway(best->found.deviceMemory, best->found.hostMemory);
    } else if (!next) {
      const bool tooMuch = packed.fits; // for what device and host share
      const int64_t both = packed.needed.both();
      if (tooMuch && machine.file)
        adapt(constraints.hostMemory, found.decisions.hostLimit, both - budgets.hostMemory, given.hostMemory);
      else if (tooMuch)
        adapt(constraints.deviceMemory, packed.needed.device, both - budgets.hostMemory, given.deviceMemory);
      else {
        adapt(constraints.deviceMemory, found.decisions.deviceLimit, packed.needed.device - budgets.deviceMemory,
              given.deviceMemory);
        adapt(constraints.hostMemory, found.decisions.hostLimit, packed.needed.host - budgets.hostMemory,
              given.hostMemory);
      }
    }
    // The next micro-batch loses less or more: from here, but with all that it may use.
    found.deviceMemory = given.deviceMemory, found.hostMemory = given.hostMemory;
    planned.found = std::move(found);
  }
  if (!best)
    return planned;
  if (best->expected >= enough)
    return fail(fmt::format("a step takes {:.3g} s", best->expected));
  messages.add(prepared);
  messages.add(best->said);
  take(planned, std::move(*best), *read, machine, given);
  return planned;
}

Planned planLeast(ModuleOp layers, const Options &options, const target::Target &target, Messages &messages) {
  Planned planned;
  auto read = readForPlanner(layers, options, target, messages);
  if (!read.ok()) {
    planned.problem = read.status().message();
    return planned;
  }
  const planner::Machine machine(target);
  const planner::Constraints given = constraintsOf(options, target);
  const PlanMemoryOptions budgets{.deviceMemory = given.deviceMemory, .hostMemory = given.hostMemory};
  const bool shared = sharesMemory(options, target);
  Result<Least> least = leastOf(layers, *read, options, target);
  if (!least.ok()) {
    planned.problem = least.status().message();
    return planned;
  }
  Packed packed = pack(layers, *read, least->found, budgets, options);
  messages.add(packed.said);
  if (packed.fitsWithin(budgets, shared)) {
    planned.bound = planner::lowerBound(read->model, machine, given);
    take(planned, std::move(packed), *read, machine, given);
    return planned;
  }
  const int64_t both = packed.needed.both();
  planned.problem =
      !packed.module || !shared
          ? packed.failure.message()
          : fmt::format("the plan needs {} ({} B) of memory, which device and host share here, and --host-memory "
                        "allows {}; the smallest budget for these choices is --host-memory {}B",
                        formatSize(uint64_t(both)), both, formatSize(uint64_t(budgets.hostMemory)), both);
  planned.fewerRowsHelp = packed.module && planner::leastBytes(read->model).kept <= memoryOf(machine, given);
  return planned;
}

} // namespace mt::pipeline
