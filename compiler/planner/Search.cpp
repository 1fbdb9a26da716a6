#include "compiler/planner/Search.h"

#include "compiler/planner/Bound.h"
#include "compiler/planner/Builder.h"
#include "compiler/planner/Emitter.h"
#include "runtime/base/Threads.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <ranges>
#include <tuple>
#include <unordered_map>

namespace mt::planner {
namespace {

/// A plan that is faster by less is no gain.
constexpr double kGain = 1e-4;
constexpr int kRounds = 8;
/// Beginnings at most, and how many are gone on from: those that led furthest.
constexpr size_t kEnds = 100, kFurthest = 4;
/// Searches at once, which differ in the numbers that they draw, and in what comes down first.
constexpr uint32_t kLanes = 2;
/// Commands that each simulates at most by climbing: the first time, where something was found before, and after
/// annealing, and by trying pairs.
constexpr int64_t kClimb = 400'000, kClimbOn = 200'000, kClimbAfter = 100'000, kClimbPairs = 200'000;
/// Decisions that differ in two layers are all tried where there are so few: of about seven layers.
constexpr size_t kPairs = 3000;
/// The same of annealing, the first time, for another micro-batch, and where budgets have changed a little.
constexpr int64_t kAnneal = 400'000, kAnnealOn = 200'000, kAnnealNear = 100'000;
/// Decisions that it tries at most: for each layer, and where those are few.
constexpr int64_t kProposals = 300, kProposalsOfFew = 4000;
/// That is for so many layers and more. With fewer annealing may take longer, so many times at most: packing them, and
/// searching again if that fails, takes less.
constexpr double kUsualLayers = 70, kFewLayers = 1.5;
/// Seconds of a step, as it is with least memory, from which on a search may cost all this; for shorter steps a share
/// by the square of their length, but at least such a one: a part of a step that passes in a millisecond is not worth
/// looking for.
constexpr double kLongStep = 0.02, kLeastEffort = 1. / 64;
/// How much slower decisions may be, as a share of what a layer takes of a step, that annealing begins and ends with.
constexpr double kHot = 0.12, kCold = 4e-3;
/// Layers at either end that may be cut in parts, and one in how many proposals changes that.
constexpr size_t kBorders[] = {0, 1, 2, 4}, kBorderChanges = 32;
/// Operands of a command, at most, that its part of these fractions allows for.
constexpr size_t kUsualAccesses = 32;
/// Bytes of gradients that are not cut: copies of so many hide what starting them costs.
constexpr int64_t kLeastPart = 32 << 20;
/// In how many parts state is streamed at most, and where there are many layers: with more parts there are more commands,
/// so that a search looks at fewer decisions, and little less is there at once.
constexpr int64_t kStreamedParts = 4, kStreamedPartsOfMany = 2;
constexpr size_t kManyLayers = 70;
/// A part of the device's memory that packing may need where little else is free.
constexpr int64_t kPackingShare = 32;
/// Limits that are too small once updates have their turns are raised so often at most.
constexpr int kRepairs = 64;
/// Commands of a step from which on the least limits are found less precisely.
constexpr int64_t kLargeStep = 20'000;
/// Simulations of decisions of which some are in vain, each without those of the one before.
constexpr int kVain = 2;
/// How much slower than what is enough something is that changing layers by one and two does not make so fast.
constexpr double kFarFrom = 1.01;
/// The least share of a limit with which a search goes on from what it found before, and does not begin anew.
constexpr double kNear = 0.8;

class Searcher {
public:
  Searcher(const Model &model, const Machine &machine, const Constraints &constraints, uint32_t lane = 0)
      : model(model), machine(machine), constraints(constraints), lane(lane),
        reside(unlessShared(canReside(model, machine))),
        streams(unlessShared(canStreamState(model, machine))), parks(canParkSaved(model, machine)), cut(canCut(model)),
        inFile(canBeInFile(model, machine)),
        speculates(constraints.speculative || constraints.clipped >= 1 ? std::vector<bool>(model.layers.size(), false)
                                                                       : canSpeculate(model, machine)),
        weightsInFile(unlessShared(canHaveWeightsInFile(model, machine))),
        exchanges(machine.devices.front().network && !constraints.batchShared.value_or(false)),
        gradientBytes(model.layers.size(), 0) {
    for (const GradientPack &pack : model.packs)
      gradientBytes[static_cast<size_t>(pack.complete())] += pack.bytes;
  }

  /// `again`: something was found for other budgets, or another micro-batch, so that it may cost less.
  Found run(bool again) {
    startSearch();
    if (!timing.fits())
      return found();
    best.speculativeFirst = lane % 2 == 1;
    makeAllAxes();
    climbFromAll(again ? kClimbOn : kClimb);
    if (isFar())
      return found();
    if (constraints.thorough) {
      tryLimits();
      anneal(again ? kAnnealOn : kAnneal);
      allow(kClimbAfter);
      climb(kRounds);
      tryPairs();
    }
    return finish();
  }

  /// The same from what was found before; none: that is too far away.
  std::optional<Found> goOn(const Found &before) {
    startSearch();
    makeAllAxes();
    if (!resume(before))
      return std::nullopt;
    return isFar() ? found() : finish();
  }

  Found nearer(Found before, int64_t distance) {
    best = before.decisions;
    best.distance = distance;
    openUpdates();
    timing = evaluate(best);
    const Found same = found();
    before.decisions = same.decisions, before.timing = same.timing;
    return before;
  }

  /// Packing needs a little more of the devices.
  Room room() {
    start();
    Decisions changed = best;
    changed.hostLimit = INT64_MAX;
    changed.deviceLimit -= changed.deviceLimit / kPackingShare;
    changed.distance = 0;
    const bool devices = !machine.unified() && evaluate(changed).fits();
    return {devices, timing.missingHost == 0 || devicesCanRelieve()};
  }

  Found least() {
    start();
    const Decisions plain = best;
    std::optional<State> lightest;
    std::vector<Decisions> seen;
    for (const Relief &relief : reliefs()) {
      best = plain;
      timing = evaluate(best);
      relieveHost(relief);
      if (std::ranges::find(seen, best) != seen.end())
        continue;
      seen.push_back(best);
      best.deviceLimit = best.hostLimit = INT64_MAX;
      best.distance = 0; // nothing comes early: layers follow one another alike, and packing loses nothing
      timing = evaluate(best);
      trim(&Decisions::deviceLimit, HUGE_VAL);
      trim(&Decisions::hostLimit, HUGE_VAL);
      if (!lightest || best.hostLimit < lightest->best.hostLimit)
        lightest = state();
    }
    set(*lightest);
    return found();
  }

private:
  /// Of what a search for long steps may cost.
  int64_t effort(int64_t most) const { return static_cast<int64_t>(static_cast<double>(most) * share); }
  /// From now on, in commands.
  void allow(int64_t most) { allowed = simulated + effort(most); }
  bool isFar() const { return timing.expected > kFarFrom * constraints.enough; }

  /// Gives back what cost no time.
  Found finish() {
    allowed = INT64_MAX;
    for (auto flag : {&LayerDecision::weightsInFile, &LayerDecision::parkedInFile, &LayerDecision::gradientInFile,
                      &LayerDecision::stateInFile})
      keepInMemory(flag);
    std::vector<size_t> speculative; // for nothing, some of them
    for (size_t l = 0; l < speculates.size(); ++l)
      if (speculates[l] && best.layers[l].speculative)
        speculative.push_back(l);
    drop(&LayerDecision::speculative, std::move(speculative));
    trim(&Decisions::deviceLimit, timing.expected * (1 + kAlike));
    trim(&Decisions::hostLimit, timing.expected * (1 + kAlike));
    return found();
  }

  const Model &model;
  const Machine &machine;
  const Constraints &constraints;
  const uint32_t lane; ///< which of several searches
  /// By layer: whether it can be resident, stream its state, park what it saves, be cut in parts, have its state in a
  /// file, be updated speculatively if the search chooses so, have its weights in a file.
  const std::vector<bool> reside, streams, parks, cut, inFile, speculates, weightsInFile;
  const bool exchanges;               ///< devices exchange gradients with other ranks
  std::vector<int64_t> gradientBytes; ///< by layer: of those that it completes
  std::vector<bool> unlessShared(std::vector<bool> can) const {
    return constraints.batchShared.value_or(false) ? std::vector<bool>(can.size(), false) : can;
  }
  Decisions best;
  Timing timing;
  int64_t simulations = 0;
  int64_t simulated = 0, allowed = INT64_MAX; ///< commands: those that were, and those that may be while it climbs
  double share = 1;                           ///< of its allowances that it may use
  std::unordered_map<std::string, double> tried; ///< seconds of steps by keyOf(decisions); infinity: too large

  /// A decision that any number of objects may take, from the one whose bytes are there for the shortest time on.
  struct Axis {
    size_t most = 0;
    size_t now = 0;
    std::function<void(Decisions &, size_t)> set;
    bool waits = false; ///< until the others have had their turns once; it is the last then
    enum Kind : uint8_t {
      some,
      sums,
      all,
      rungs
    } kind = some; ///< how it may begin: of none, at its most, of none or all, with one rung
  };
  std::vector<Axis> axes;
  std::vector<size_t> turns;         ///< of the axes: which comes first
  bool isNear = false;               ///< what it climbs on from was found for a little more memory
  size_t border = 0;         ///< layers at either end, of those that the host updates, that are cut in parts

  struct State {
    Decisions best;
    Timing timing;
    size_t border;
    std::vector<size_t> turns, reached;
  };
  std::vector<size_t> reached() const {
    std::vector<size_t> counts;
    for (const Axis &axis : axes)
      counts.push_back(axis.now);
    return counts;
  }
  State state() const { return {best, timing, border, turns, reached()}; }
  void set(const State &state) {
    best = state.best, timing = state.timing, border = state.border, turns = state.turns;
    for (size_t i = 0; i < axes.size(); ++i)
      axes[i].now = state.reached[i];
  }

  void start() {
    best = leastMemory(model);
    best.batchShared = constraints.batchShared.value_or(false);
    for (size_t l = 0; l < inFile.size(); ++l)
      best.layers[l].stateInFile = best.layers[l].gradientInFile = inFile[l];
    best.deviceLimit = constraints.deviceMemory;
    best.hostLimit = constraints.hostMemory;
    (void)constrain(model, machine, constraints, best);
    cutBorder(best);
    timing = evaluate(best);
    // What is read and written more than once a step is in a file where memory has no room even for that.
    if (machine.file && timing.missingHost > 0) {
      for (LayerDecision &layer : best.layers)
        layer.parkedInFile = true;
      timing = evaluate(best);
    }
    if (machine.file && timing.missingHost > 0) {
      for (size_t l = 0; l < best.layers.size(); ++l)
        best.layers[l].weightsInFile = weightsInFile[l];
      timing = evaluate(best);
    }
  }

  void startSearch() {
    start();
    if (timing.missingHost > 0 && devicesCanRelieve()) {
      const Decisions plain = best;
      for (const Relief &relief : reliefs()) {
        best = plain;
        timing = evaluate(best);
        relieveHost(relief);
        if (timing.fits())
          break;
      }
    }
    waitUntilNeeded();
    share = std::clamp(timing.expected * timing.expected / (kLongStep * kLongStep), kLeastEffort, 1.0);
  }
  /// What comes early takes room that others wait for.
  void waitUntilNeeded() {
    if (!timing.fits()) {
      best.distance = 0;
      timing = evaluate(best);
    }
  }

  /// Whether there is a way to need no more than the host has, with all that devices can take.
  bool devicesCanRelieve() {
    Decisions changed = best;
    changed.deviceLimit = INT64_MAX;
    if (!constraints.parked)
      changed.parked.assign(changed.parked.size(), false);
    if (addsUp()) {
      const Axis sums = sumAxis();
      sums.set(changed, sums.most);
    }
    return evaluate(changed).missingHost == 0;
  }

  /// What the host has no room for stays on the devices as far as they have it: values, or gradients of micro-batches,
  /// which are added up there. Each takes room from the other.
  using Relief = std::vector<void (Searcher::*)()>;
  std::vector<Relief> reliefs() const {
    if (machine.unified() || timing.missingHost == 0)
      return {{}};
    if (!addsUp())
      return {{&Searcher::keepValues}};
    return {{&Searcher::keepValues},
            {&Searcher::addUpOnDevices, &Searcher::keepValues},
            {&Searcher::keepValues, &Searcher::addUpOnDevices}};
  }
  void relieveHost(const Relief &relief) {
    for (auto part : relief)
      (this->*part)();
    waitUntilNeeded();
  }
  /// The first of so many counts that is right, where all after it are.
  static size_t firstOf(size_t counts, auto isRight) {
    const auto all = std::views::iota(size_t{0}, counts);
    const auto found = std::ranges::partition_point(all, [&](size_t count) { return !isRight(count); });
    return static_cast<size_t>(found - all.begin());
  }
  /// If the host has all that they take.
  bool isWithinDevices(Decisions decisions) {
    decisions.deviceLimit -= decisions.deviceLimit / kPackingShare;
    decisions.hostLimit = INT64_MAX;
    decisions.distance = 0;
    return evaluate(decisions).fits();
  }
  void addUpOnDevices() {
    if (!addsUp() || timing.missingHost == 0)
      return;
    const Axis sums = sumAxis();
    auto adding = [&](size_t count) {
      Decisions changed = best;
      sums.set(changed, count);
      return changed;
    };
    const size_t tooMany = firstOf(sums.most + 1, [&](size_t count) { return !isWithinDevices(adding(count)); });
    best = adding(tooMany - std::min<size_t>(tooMany, 1));
    timing = evaluate(best);
  }
  /// The last ones first.
  void keepValues() {
    if (constraints.parked || timing.missingHost == 0)
      return;
    const Decisions allParked = best;
    auto keeping = [&](size_t count) {
      Decisions changed = allParked;
      for (size_t v = changed.parked.size(); v-- > 0 && count > 0;)
        if (changed.parked[v]) {
          changed.parked[v] = false;
          --count;
        }
      return changed;
    };
    const size_t tooMany = firstOf(static_cast<size_t>(std::ranges::count(best.parked, true)) + 1,
                                   [&](size_t count) { return !isWithinDevices(keeping(count)); });
    const size_t enough = firstOf(tooMany, [&](size_t count) { return evaluate(keeping(count)).fits(); });
    best = keeping(enough < tooMany ? enough : tooMany - std::min<size_t>(tooMany, 1));
    timing = evaluate(best);
  }

  /// Each when it is its turn, whatever was settled for other decisions.
  void openUpdates() {
    for (LayerDecision &layer : best.layers)
      layer.late = layer.lateDown = LayerDecision::kOpen;
  }

  /// Limits that were trimmed to the last byte may be too small: which turn updates take changes a little what is there
  /// when, and evaluations need their room too.
  Found found() {
    settle(model, machine, best);
    best.speculativeFirst = best.speculativeFirst && std::ranges::any_of(best.layers, &LayerDecision::speculative);
    if (timing.fits()) {
      timing = evaluate(best);
      for (int repairs = 0; repairs <= kRepairs; ++repairs) {
        const Timing lacking = timing.fits() ? ofPlan(best) : timing;
        if (lacking.fits())
          break;
        if (repairs == kRepairs) {
          timing = lacking;
          break;
        }
        best.deviceLimit += lacking.missingDevice;
        best.hostLimit += lacking.missingHost;
        settle(model, machine, best);
        timing = evaluate(best);
      }
    }
    return {best, timing, border, reached(), simulations, constraints.deviceMemory, constraints.hostMemory};
  }

  /// What of decisions is tried, as bytes.
  static std::string keyOf(const Decisions &decisions) {
    std::string key(reinterpret_cast<const char *>(&decisions.deviceLimit), sizeof(decisions.deviceLimit));
    key += static_cast<char>(decisions.batchShared << 1 | decisions.speculativeFirst);
    for (const LayerDecision &layer : decisions.layers) {
      key += static_cast<char>(layer.rung << 4 | layer.exchangedOnDevice << 3 | layer.parkedSaved << 2 |
                               layer.kept << 1 | layer.resident);
      key += static_cast<char>(layer.parts << 3 | layer.gradientInFile << 2 | layer.stateInFile << 1 |
                               layer.stateStreamed);
      key += static_cast<char>(std::bit_width(static_cast<uint64_t>(layer.summed)));
      key += static_cast<char>(layer.speculative << 6 | layer.together << 2 | layer.weightsInFile << 1 |
                               layer.parkedInFile);
    }
    for (bool parked : decisions.parked)
      key += parked ? '1' : '0';
    return key;
  }

  /// What a simulation takes, in commands of usual layers: one with hundreds of operands counts as several.
  static int64_t sizeOf(const Schedule &schedule) {
    size_t accesses = 0;
    for (const Command &command : schedule.step)
      accesses += command.accesses.size();
    return static_cast<int64_t>(std::max({size_t(1), schedule.step.size(), accesses / kUsualAccesses}));
  }

  /// What would be speculative in vain is not.
  Timing evaluate(Decisions &decisions) {
    Timing result = simulate(decisions);
    for (int repairs = 0; repairs < kVain && std::ranges::count(result.vain, true) > 0; ++repairs) {
      for (size_t l = 0; l < decisions.layers.size(); ++l)
        decisions.layers[l].speculative = decisions.layers[l].speculative && !result.vain[l];
      result = simulate(decisions);
    }
    return result;
  }
  Timing evaluate(Decisions &&decisions) { return evaluate(decisions); }

  Timing simulate(const Decisions &decisions) {
    ++simulations;
    Schedule schedule = build(model, machine, decisions, Extent::step);
    simulated += sizeOf(schedule);
    Timing result = time(schedule, schedule.step, machine, decisions, true);
    for (const Command &command : schedule.step) // at most; some of it passes under other work
      result.expected += constraints.clipped * command.clippedSeconds.value_or(0);
    return result;
  }

  /// Of a whole plan's step, or of its evaluation where that is what does not fit.
  Timing ofPlan(const Decisions &decisions) {
    Schedule schedule = build(model, machine, decisions, Extent::plan);
    Timing step = time(schedule, schedule.step, machine, decisions, true);
    return step.fits() ? time(schedule, schedule.evaluate, machine, decisions, false) : step;
  }

  void makeAllAxes() {
    makeAxes();
    makeSpeculativeAxis();
    makeStreamAxis();
  }
  void makeAxes() {
    const auto layers = static_cast<int64_t>(model.layers.size());
    size_t rungs = 0;
    for (const Layer &layer : model.layers)
      rungs = std::max(rungs, layer.rungs.size());
    std::vector<int64_t> differentiated, weighted, parkable;
    for (int64_t l = layers - 1; l >= 0; --l) {
      const Layer &layer = model.layers[static_cast<size_t>(l)];
      if (layer.isDifferentiated() && !layer.isLoss)
        differentiated.push_back(l);
      if (!layer.owned.empty())
        weighted.push_back(l);
    }
    for (auto v = static_cast<int64_t>(model.values.size()) - 1; v >= 0; --v)
      if (best.parked[static_cast<size_t>(v)])
        parkable.push_back(v);
    if (!constraints.parked && !machine.unified())
      axes.push_back({parkable.size(), 0,
                      [parkable](Decisions &decisions, size_t count) {
                        for (size_t i = 0; i < parkable.size(); ++i)
                          decisions.parked[static_cast<size_t>(parkable[i])] = i >= count;
                      },
                      false, Axis::all});
    if (!constraints.kept && !machine.unified())
      addAxis(&LayerDecision::kept, weighted, true);
    if (addsUp())
      axes.push_back(sumAxis());
    auto layersThat = [&](auto holds) { // the first ones first
      std::vector<int64_t> some;
      for (int64_t l = 0; l < layers; ++l)
        if (holds(static_cast<size_t>(l)))
          some.push_back(l);
      return some;
    };
    auto lastFirst = [](std::vector<int64_t> some) {
      std::ranges::reverse(some);
      return some;
    };
    // The first layers first: what comes last of a step is their gradient, and what the next one needs first their
    // weights.
    addAxis(&LayerDecision::exchangedOnDevice,
            layersThat([&](size_t l) { return exchanges && !model.layers[l].packs.empty(); }), true);
    // Resident ones, which need it in memory least, are the first.
    const std::vector<int64_t> canBeInMemory = lastFirst(layersThat([&](size_t l) { return inFile[l]; }));
    if (model.clip)
      addAxis(&LayerDecision::gradientInFile, canBeInMemory, false);
    addAxis(&LayerDecision::stateInFile, canBeInMemory, false);
    for (auto flag : {&LayerDecision::parkedInFile, &LayerDecision::weightsInFile})
      addAxis(flag, lastFirst(layersThat([&](size_t l) { return best.layers[l].*flag; })), false);
    if (!constraints.resident)
      addAxis(&LayerDecision::resident, layersThat([&](size_t l) { return reside[l]; }), true);
    if (constraints.saved) {
      if (!constraints.parked && !machine.unified())
        axes.push_back({differentiated.size(), 0, [this, differentiated](Decisions &decisions, size_t count) {
                          for (size_t i = 0; i < differentiated.size(); ++i)
                            decisions.layers[static_cast<size_t>(differentiated[i])].parkedSaved = i >= count && parks[static_cast<size_t>(differentiated[i])];
                        }});
      return;
    }
    // Rungs exclude each other: the last layers have the highest whose bytes stay, for the shortest time. What waits on the host
    // is of the first layers, for the longest time, or of the last of those where it does not stay: where the host still
    // updates under forward, the first disturb it.
    const size_t firstRung = axes.size(), ofEach = rungs - 1, lists = machine.unified() || !constraints.parked.value_or(true) ? 1 : 3;
    for (size_t axis = firstRung; axis < firstRung + lists * ofEach; ++axis)
      axes.push_back({differentiated.size(), 0,
                      [this, firstRung, ofEach, lists, axis, differentiated](Decisions &decisions, size_t count) {
                        auto highest = [&](size_t list, size_t place, size_t l) {
                          int64_t rung = 0;
                          for (size_t other = 1; other < model.layers[l].rungs.size(); ++other)
                            if (const size_t which = firstRung + list * ofEach + other - 1; place < (which == axis ? count : axes[which].now))
                              rung = static_cast<int64_t>(other);
                          return rung;
                        };
                        for (size_t i = 0; i < differentiated.size(); ++i) {
                          const auto l = static_cast<size_t>(differentiated[i]);
                          const int64_t stays = highest(0, i, l);
                          const int64_t waits = lists > 1 && parks[l] ? std::max(highest(1, differentiated.size() - 1 - i, l), highest(2, i, l)) : 0;
                          decisions.layers[l].rung = std::max(stays, waits);
                          decisions.layers[l].parkedSaved = constraints.parked.value_or(waits > stays) && parks[l];
                        }
                      },
                      false, axis < firstRung + std::min<size_t>(lists, 2) * ofEach ? Axis::rungs : Axis::some});
  }

  /// That as many of some layers as there are have a flag, or have it no more.
  void addAxis(bool LayerDecision::*flag, const std::vector<int64_t> &some, bool chosen, Axis::Kind kind = Axis::all) {
    if (!some.empty())
      axes.push_back({some.size(), 0,
                      [some, flag, chosen](Decisions &decisions, size_t count) {
                        for (size_t i = 0; i < some.size(); ++i)
                          decisions.layers[static_cast<size_t>(some[i])].*flag = (i < count) == chosen;
                      },
                      false, kind});
  }

  /// How gradients of micro-batches are added up on the device, from what needs least bytes there, as sums that are
  /// there at once, to what reads and writes them least.
  struct Summing {
    int64_t summed, together, sums;
  };
  std::vector<Summing> summings() const {
    std::vector<Summing> all{{1, 2, 1}};
    for (int64_t summed = 2; summed < model.microBatches; summed *= 2)
      all.push_back({summed, 2, static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(summed)))});
    for (int64_t together = 2; together <= LayerDecision::kMostTogether; together *= 2) {
      int64_t sums = 1;
      for (int64_t left = model.microBatches; left > 1; left = (left + together - 1) / together)
        sums += std::min(left, together) - 1;
      all.push_back({LayerDecision::kAll, together, sums});
    }
    return all;
  }
  bool addsUp() const { return !constraints.summed && model.microBatches > 1 && !machine.unified(); }
  /// As far as so many bytes hold them: those of one layer at a time are there.
  Axis sumAxis() const {
    const std::vector<Summing> ways = summings();
    std::vector<int64_t> limits;
    for (size_t l = 0; l < model.layers.size(); ++l)
      for (const Summing &way : ways)
        limits.push_back(gradientBytesGiven(l) * way.sums);
    std::ranges::sort(limits);
    limits.erase(std::ranges::unique(limits).begin(), limits.end());
    return {limits.size(), 0,
            [this, ways, limits](Decisions &decisions, size_t count) {
              for (size_t l = 0; l < model.layers.size(); ++l)
                for (const Summing &way : ways)
                  if (way.sums == 1 || (count > 0 && gradientBytesGiven(l) * way.sums <= limits[count - 1])) {
                    decisions.layers[l].summed = way.summed;
                    decisions.layers[l].together = way.together;
                  }
            },
            false, Axis::sums};
  }
  /// By a layer's backward.
  int64_t gradientBytesGiven(size_t l) const {
    int64_t bytes = 0;
    for (int64_t k : model.layers[l].packs)
      bytes += model.packs[static_cast<size_t>(k)].bytes;
    return bytes;
  }

  /// The last layers first: their gradients are there first, and their weights are needed last.
  void makeSpeculativeAxis() {
    std::vector<int64_t> can;
    for (auto l = static_cast<int64_t>(model.layers.size()); l-- > 0;)
      if (speculates[static_cast<size_t>(l)])
        can.push_back(l);
    addAxis(&LayerDecision::speculative, can, true, Axis::some);
  }

  /// Evenly among all layers, for the links have little time at once to spare. The last kind of all: bytes that are resident save
  /// more, and where state is streamed before, little is left that they could save.
  void makeStreamAxis() {
    std::vector<int64_t> canStream;
    for (int64_t l = 0; l < static_cast<int64_t>(model.layers.size()); ++l)
      if (streams[static_cast<size_t>(l)])
        canStream.push_back(l);
    if (!constraints.resident && !canStream.empty())
      axes.push_back({canStream.size(), 0, [canStream](Decisions &decisions, size_t count) {
                        for (size_t i = 0; i < canStream.size(); ++i)
                          decisions.layers[static_cast<size_t>(canStream[i])].stateStreamed = (i + 1) * count / canStream.size() > i * count / canStream.size();
                      }, true});
  }

  /// One axis first, then the others in order.
  void takeTurns(size_t first) {
    turns.resize(axes.size());
    std::iota(turns.begin(), turns.end(), 0);
    if (first > 0)
      std::rotate(turns.begin(), turns.begin() + static_cast<ptrdiff_t>(first),
                  turns.begin() + static_cast<ptrdiff_t>(first) + 1);
  }

  static double secondsOf(const State &state) { return state.timing.expected; }

  /// Bytes that one kind of decision has taken are not there for the others: each comes first once, and all come in
  /// orders that are drawn, for half of what it may cost; it goes on where that led furthest. A search that would do as
  /// another does only draws.
  void climbFromAll(int64_t allowance) {
    const State least = state();
    allowance = effort(allowance) * (best.batchShared ? 3 : 1); // a step has more commands
    allowed = simulated + allowance;
    std::vector<State> ends = machine.devices.size() > 1 ? alike() : std::vector<State>();
    const bool isAlike = !ends.empty();
    const bool isOther = lane > 0 && std::ranges::count(speculates, true) == 0;
    for (size_t first = 0; first < axes.size() && !isAlike && !isOther; ++first) {
      set(least);
      if (tryAxis(axes[first]); first > 0 && best == least.best)
        continue; // the same as without its turn
      takeTurns(first);
      if (first + 1 < axes.size() && axes.back().waits)
        turns.pop_back();
      climb(1);
      takeTurns(first);
      ends.push_back(state());
    }
    std::mt19937 random(lane + 1);
    while (!isAlike && simulated < allowed - allowance / 2 && ends.size() < kEnds) {
      set(least);
      takeTurns(0);
      for (size_t i = turns.size(); i > 1; --i)
        std::swap(turns[i - 1], turns[random() % i]);
      climb(1);
      ends.push_back(state());
    }
    std::ranges::stable_sort(ends, {}, secondsOf);
    ends.erase(std::ranges::unique(ends, {}, &State::best).begin(), ends.end());
    ends.resize(std::min(ends.size(), kFurthest));
    for (State &each : ends) {
      set(each);
      climb(kRounds);
      each = state();
    }
    if (!ends.empty())
      set(*std::ranges::min_element(ends, {}, secondsOf));
  }

  /// What decides alike for all layers, as far as that fits. What relieves one of several devices gains nothing as long
  /// as it waits for others.
  std::vector<State> alike() {
    const State least = state();
    std::vector<std::vector<size_t>> counts(1, std::vector<size_t>(axes.size(), 0));
    auto choose = [&](auto add) {
      for (size_t i = 0, count = counts.size(); i < count; ++i)
        add(std::vector<size_t>(counts[i]));
    };
    for (size_t axis = 0; axis < axes.size(); ++axis)
      if (axes[axis].kind == Axis::all)
        choose([&](std::vector<size_t> changed) {
          changed[axis] = axes[axis].most;
          counts.push_back(std::move(changed));
        });
      else if (axes[axis].kind == Axis::sums)
        for (std::vector<size_t> &each : counts)
          each[axis] = axes[axis].most;
    const auto plain = counts;
    for (size_t axis = 0; axis < axes.size(); ++axis)
      if (axes[axis].kind == Axis::rungs)
        for (std::vector<size_t> changed : plain) {
          changed[axis] = axes[axis].most;
          counts.push_back(std::move(changed));
        }
    std::vector<State> found;
    for (const std::vector<size_t> &each : counts) {
      set(least);
      for (size_t i = 0; i < axes.size(); ++i)
        axes[i].now = each[i];
      for (size_t i = 0; i < axes.size(); ++i)
        axes[i].set(best, each[i]);
      timing = evaluate(best);
      takeTurns(0);
      if (timing.fits())
        found.push_back(state());
    }
    set(least);
    return found;
  }

  /// Goes on from what was found before: where that no longer fits, with as much less of its decisions as it takes.
  /// False: it is too far away, or nothing less of it fits, and all is as it was.
  bool resume(const Found &before) {
    auto near = [](int64_t limit, int64_t other) {
      return static_cast<double>(limit) >= kNear * static_cast<double>(other);
    };
    if (!near(constraints.deviceMemory, before.decisions.deviceLimit) ||
        !near(constraints.hostMemory, before.decisions.hostLimit) || before.reached.size() != axes.size() ||
        before.decisions.layers.size() != model.layers.size() || before.decisions.parked.size() != model.values.size())
      return false;
    for (size_t l = 0; l < model.layers.size(); ++l)
      if (before.decisions.layers[l].rung >= std::max<int64_t>(1, static_cast<int64_t>(model.layers[l].rungs.size())))
        return false;
    const State least = state();
    best = before.decisions;
    best.deviceLimit = constraints.deviceMemory, best.hostLimit = constraints.hostMemory;
    best.distance = least.best.distance;
    openUpdates();
    border = before.border;
    allow(kClimbOn);
    for (size_t i = 0; i < axes.size(); ++i) // another micro-batch may allow for fewer
      axes[i].now = std::min(before.reached[i], axes[i].most);
    timing = evaluate(best);
    if (!timing.fits() && !shrink()) {
      set(least);
      return false;
    }
    takeTurns(0);
    isNear = constraints.deviceMemory < before.deviceMemory || constraints.hostMemory < before.hostMemory;
    climb(kRounds);
    isNear = false;
    if (constraints.thorough && !isFar()) {
      anneal(kAnnealNear);
      tryPairs();
    }
    return true;
  }

  /// What a disk hides under other work needs none where memory has room for it.
  void keepInMemory(bool LayerDecision::*flag) {
    std::vector<size_t> layers;
    for (size_t l = inFile.size(); l-- > 0;)
      if (best.layers[l].*flag && (model.clip || flag != &LayerDecision::gradientInFile))
        layers.push_back(l);
    drop(flag, std::move(layers));
  }

  /// Takes a flag from as many of some layers as can do without for nothing, from the first on.
  void drop(bool LayerDecision::*flag, std::vector<size_t> layers) {
    for (size_t low = 0, high = layers.size(); low < high;) {
      const size_t middle = (low + high + 1) / 2;
      Decisions changed = best;
      for (size_t i = 0; i < middle; ++i)
        changed.layers[layers[i]].*flag = false;
      cutBorder(changed);
      Timing result = evaluate(changed);
      if (!result.fits() || result.expected > timing.expected * (1 + kGain)) {
        high = middle - 1;
        continue;
      }
      layers.erase(layers.begin(), layers.begin() + static_cast<ptrdiff_t>(middle));
      high -= middle;
      best = std::move(changed), timing = std::move(result);
    }
  }

  /// The fastest that fits of what has less of one kind of decision, and nothing of others where it takes that: first
  /// of the one that leaves least missing.
  bool shrink() {
    while (!shrinkOne()) {
      const Decisions tooLarge = best;
      auto missing = [](const Timing &of) { return of.missingDevice + of.missingHost; };
      std::optional<size_t> most;
      for (size_t i = 0; i < axes.size(); ++i) {
        Decisions less = tooLarge;
        axes[i].set(less, 0);
        cutBorder(less);
        if (less == tooLarge || axes[i].now == 0)
          continue;
        if (Timing result = evaluate(less); missing(result) < missing(timing)) {
          most = i, best = std::move(less);
          timing = std::move(result);
        }
      }
      if (!most)
        return false;
      axes[*most].now = 0;
    }
    return true;
  }
  bool shrinkOne() {
    const Decisions tooLarge = best;
    std::optional<std::pair<size_t, size_t>> taken; ///< axis and count
    timing.expected = HUGE_VAL;
    for (size_t i = 0; i < axes.size(); ++i)
      for (size_t fits = 0, tooMany = axes[i].now; fits < tooMany;) {
        const size_t middle = fits + (tooMany - fits) / 2;
        Decisions less = tooLarge;
        axes[i].set(less, middle);
        const Tried tried = attempt(less);
        if (tried == Tried::better)
          taken = {i, middle};
        if (tried == Tried::tooLarge)
          tooMany = middle;
        else
          fits = middle + 1;
      }
    if (taken)
      axes[taken->first].now = taken->second;
    return taken.has_value();
  }

  /// Along one axis after the other, as far as each gains, until none does.
  void climb(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      double gained = 0;
      for (size_t turn : turns) {
        Axis &axis = axes[turn];
        const double before = timing.expected;
        tryAxis(axis);
        gained += before - timing.expected;
      }
      const double before = timing.expected;
      tryBorders();
      gained += before - timing.expected;
      if (gained <= kGain * timing.expected)
        return;
    }
  }

  /// Cuts layers at either end of those that the host updates in parts. At the step's border gradients that come down,
  /// updates and weights that go up follow each other: by the last layers of backward, which the next forward begins
  /// with, and by the last of forward, where the host waits for backward to begin. Parts of speculative updates wait
  /// behind what is needed before them, unless those come down first.
  void tryBorders() {
    if (machine.unified())
      return;
    const bool speculative = std::ranges::any_of(best.layers, &LayerDecision::speculative);
    for (size_t count : kBorders)
      for (bool first : {false, true}) {
        const size_t before = std::exchange(border, count);
        Decisions changed = best;
        changed.speculativeFirst = first && speculative;
        if (attempt(std::move(changed)) != Tried::better)
          border = before;
      }
  }

  void cutBorder(Decisions &decisions) const {
    std::vector<size_t> updated;
    for (size_t l = 0; l < model.layers.size(); ++l) {
      decisions.layers[l].parts = 1;
      if (decisions.layers[l].stateStreamed && !decisions.layers[l].resident)
        decisions.layers[l].parts =
            std::clamp<int64_t>(gradientBytes[l] / kLeastPart, 1,
                                model.layers.size() > kManyLayers ? kStreamedPartsOfMany : kStreamedParts);
      if (gradientBytes[l] > 0 && !decisions.layers[l].resident && !decisions.layers[l].stateStreamed)
        updated.push_back(l);
    }
    for (size_t i = 0; i < updated.size(); ++i)
      if (const size_t l = updated[i];
          cut[l] && (std::min(i, updated.size() - 1 - i) < border || (inFile[l] && decisions.layers[l].stateInFile)))
        decisions.layers[updated[i]].parts = std::clamp<int64_t>(gradientBytes[updated[i]] / kLeastPart, 1, kMostParts);
  }

  enum class Tried : uint8_t { tooLarge, noBetter, better };
  bool isBetter(double seconds) const { return seconds < timing.expected * (1 - kGain / 10); }
  /// Takes what it is given if that is faster.
  Tried attempt(Decisions changed) {
    cutBorder(changed);
    auto [known, isNew] = tried.try_emplace(keyOf(changed), HUGE_VAL);
    if (!isNew && !isBetter(known->second))
      return known->second == HUGE_VAL ? Tried::tooLarge : Tried::noBetter;
    if (simulated > allowed) {
      if (isNew)
        tried.erase(known);
      return Tried::tooLarge;
    }
    Timing result = evaluate(changed);
    if (!result.fits())
      return Tried::tooLarge;
    known->second = result.expected;
    if (!isBetter(result.expected))
      return Tried::noBetter;
    best = std::move(changed);
    timing = std::move(result);
    return Tried::better;
  }

  /// Whether it fits.
  bool attempt(Axis &axis, size_t count) {
    Decisions changed = best;
    axis.set(changed, count);
    if (changed == best)
      return true;
    const Tried tried = attempt(std::move(changed));
    if (tried == Tried::better)
      axis.now = count;
    return tried != Tried::tooLarge;
  }

  /// Goes from decisions to others that differ in a layer or two, to slower ones, too, but ever less so ("Optimization
  /// by simulated annealing", Kirkpatrick, Gelatt and Vecchi, 1983), and keeps the best that it comes by.
  void anneal(int64_t allowance) {
    allowed = INT64_MAX;
    const auto layers = static_cast<double>(model.layers.size());
    const double times = std::clamp(kUsualLayers / layers, 1.0, kFewLayers);
    const int64_t proposals =
        std::min(effort(std::max(kProposalsOfFew, kProposals * static_cast<int64_t>(model.layers.size()))),
                 static_cast<int64_t>(times * static_cast<double>(effort(allowance))) /
                     sizeOf(build(model, machine, best, Extent::step)));
    std::mt19937 random(lane + 1);
    Decisions now = best;
    double seconds = timing.expected; // of those
    size_t bestBorder = border;
    for (int64_t i = 0; i < proposals; ++i) {
      Decisions changed = now;
      const size_t before = border;
      if (random() % kBorderChanges == 0 && !machine.unified()) {
        border = kBorders[random() % std::size(kBorders)];
        changed.speculativeFirst = model.clip && random() % 2 == 0;
      }
      for (uint32_t changes = 1 + random() % 2; changes > 0; --changes)
        if (const std::vector<Decisions> others = alternatives(changed, random() % model.layers.size());
            !others.empty())
          changed = others[random() % others.size()];
      cutBorder(changed);
      const auto [known, isNew] = tried.try_emplace(keyOf(changed), HUGE_VAL);
      if (isNew)
        if (Timing result = evaluate(changed); result.fits()) {
          known->second = result.expected;
          if (isBetter(result.expected))
            best = changed, timing = std::move(result), bestBorder = border;
        }
      const double cooled = static_cast<double>(i) / static_cast<double>(proposals);
      const double temperature = timing.expected / layers * kHot * std::pow(kCold / kHot, cooled);
      const double drawn = static_cast<double>(random()) / static_cast<double>(std::mt19937::max());
      if (drawn < std::exp((seconds - known->second) / temperature))
        now = std::move(changed), seconds = known->second;
      else
        border = before;
    }
    border = bestBorder;
  }

  /// Where layers are few, all decisions that differ from the best in one layer or two, until none of them is faster.
  void tryPairs() {
    allow(kClimbPairs);
    while (simulated <= allowed && tryPairsOnce())
      ;
  }

  /// Whether one was faster.
  bool tryPairsOnce() {
    std::vector<std::vector<Decisions>> ones;
    size_t singles = 0, pairs = 0;
    for (size_t l = 0; l < model.layers.size(); ++l) {
      ones.push_back(alternatives(best, l));
      pairs += singles * ones.back().size(), singles += ones.back().size();
    }
    if (pairs > kPairs)
      return false;
    for (size_t l = 0; l < ones.size(); ++l)
      for (Decisions &one : ones[l]) {
        for (size_t other = l + 1; other < ones.size(); ++other)
          for (Decisions &both : alternatives(one, other))
            if (attempt(std::move(both)) == Tried::better)
              return true;
        if (attempt(std::move(one)) == Tried::better)
          return true;
      }
    return false;
  }

  /// Smaller limits: what comes too early can be in the way.
  void tryLimits() {
    for (int64_t eighths = 4; eighths < 8 && !machine.unified(); ++eighths) {
      Decisions changed = best;
      changed.deviceLimit = constraints.deviceMemory / 8 * eighths;
      attempt(std::move(changed));
    }
  }

  /// Decisions that differ from `from` in one layer.
  std::vector<Decisions> alternatives(const Decisions &from, size_t l) const {
    std::vector<Decisions> found;
    const Layer &layer = model.layers[l];
    auto add = [&](auto change) {
      found.push_back(from);
      change(found.back());
    };
    if (!constraints.saved && !layer.isLoss)
      for (int64_t rung = 0; rung < static_cast<int64_t>(layer.rungs.size()); ++rung)
        for (bool parked : {false, true})
          if (rung > 0 && parks[l] ? parked == constraints.parked.value_or(parked) : !parked)
            add([&](Decisions &changed) { changed.layers[l].rung = rung, changed.layers[l].parkedSaved = parked; });
    // Where weights and state are is one decision: what lies between two such may be slower than both.
    auto place = [&](bool kept, bool resident, bool stateStreamed) {
      const LayerDecision &now = from.layers[l];
      if ((now.kept != kept && (constraints.kept || layer.owned.empty() || machine.unified())) ||
          (now.resident != resident && (constraints.resident || !reside[l])) ||
          (now.stateStreamed != stateStreamed && (constraints.resident || !streams[l])) ||
          std::tie(now.kept, now.resident, now.stateStreamed) == std::tie(kept, resident, stateStreamed))
        return;
      add([&](Decisions &changed) {
        changed.layers[l].kept = kept, changed.layers[l].resident = resident;
        changed.layers[l].stateStreamed = stateStreamed;
      });
    };
    place(false, false, false), place(true, false, false), place(from.layers[l].kept, true, false);
    place(false, false, true), place(true, false, true);
    if (speculates[l] && !from.layers[l].resident && !from.layers[l].stateStreamed)
      add([&](Decisions &changed) { changed.layers[l].speculative = !changed.layers[l].speculative; });
    if (addsUp())
      add([&](Decisions &changed) {
        changed.layers[l].summed = changed.layers[l].summed == LayerDecision::kAll ? 1 : LayerDecision::kAll;
      });
    if (!constraints.parked && !machine.unified())
      for (int64_t value : layer.results)
        add([&](Decisions &changed) { changed.parked[static_cast<size_t>(value)] = !changed.parked[static_cast<size_t>(value)]; });
    return found;
  }

  /// The most that fits, and what lies evenly below it.
  void tryAxis(Axis &axis) {
    constexpr size_t kParts = 8;
    if (isNear) { // to the next steps
      for (size_t step = std::max<size_t>(1, axis.most / (2 * kParts)); step > 0; step /= 2)
        for (size_t count : {axis.now + step, axis.now - std::min(axis.now, step)})
          if (count <= axis.most)
            attempt(axis, count);
      return;
    }
    size_t fits = 0, tooMany = axis.most + 1;
    if (attempt(axis, axis.most))
      fits = axis.most;
    else
      tooMany = axis.most;
    while (tooMany - fits > 1) {
      size_t middle = fits + (tooMany - fits) / 2;
      (attempt(axis, middle) ? fits : tooMany) = middle;
    }
    for (size_t part = 0; part < kParts; ++part)
      attempt(axis, fits * part / kParts);
    for (size_t step = std::max<size_t>(1, fits / kParts / 2); step > 0; step /= 2)
      for (size_t count : {axis.now + step, axis.now - std::min(axis.now, step)})
        if (count <= fits)
          attempt(axis, count);
  }

  /// The least limit with which a step takes no longer than that.
  void trim(int64_t Decisions::*limit, double seconds) {
    const bool device = limit == &Decisions::deviceLimit;
    auto usedBy = [&](const Timing &of) { return device ? of.deviceUsed : of.hostUsed; };
    std::map<uint32_t, int64_t> kept; // by device, or of the host
    const Schedule schedule = build(model, machine, best, Extent::step);
    const int64_t size = sizeOf(schedule);
    for (const Slot &slot : schedule.slots)
      if (slot.persistent && (device ? machine.isDevice(slot.space) : machine.isHost(slot.space)))
        kept[device ? machine.deviceOfSpace(slot.space) : 0] += aligned(slot.bytes);
    int64_t tooLittle = 0;
    for (auto [index, bytes] : kept)
      tooLittle = std::max(tooLittle, bytes);
    best.*limit = usedBy(timing);
    auto isPrecise = [&] {
      const int64_t some = best.*limit / 256;
      return best.*limit - tooLittle <= (seconds < HUGE_VAL  ? std::max<int64_t>(1 << 20, some)
                                         : size > kLargeStep ? some
                                                             : std::max(kSlotAlignment, best.*limit >> 14));
    };
    auto fitsIn = [&](int64_t bytes) {
      Decisions less = best;
      less.*limit = bytes;
      Timing result = evaluate(less);
      if (!result.fits() || result.expected > seconds) {
        tooLittle = bytes;
        return false;
      }
      best = less;
      best.*limit = usedBy(result);
      timing = std::move(result);
      return true;
    };
    // What is looked for may be far below: from there.
    for (int64_t more = std::max<int64_t>(1 << 20, tooLittle / 64);
         seconds == HUGE_VAL && tooLittle + more < best.*limit && !fitsIn(tooLittle + more); more *= 4)
      ;
    while (!isPrecise())
      fitsIn(tooLittle + (best.*limit - tooLittle) / 2);
  }
};
} // namespace

/// What several searches found that do not know of each other: each by itself, or from what was found before, where
/// that is near enough to go on from it. The fastest comes first.
static std::vector<Found> searchLanes(const Model &model, const Machine &machine, const Constraints &constraints,
                                      const Found *before) {
  auto all = [&](uint32_t lanes, auto of) {
    std::vector<std::optional<Found>> found(lanes);
    std::atomic<uint32_t> next = 0;
    onThreads(std::min<uint64_t>(lanes, coreCount()), [&] {
      for (uint32_t lane = next++; lane < lanes; lane = next++) {
        const Machine own = machine; // it remembers costs
        found[lane] = of(Searcher(model, own, constraints, lane));
      }
    });
    return found;
  };
  std::vector<std::optional<Found>> lanes;
  if (before) // only annealing differs from lane to lane
    lanes = all(constraints.thorough ? kLanes : 1, [&](Searcher searcher) { return searcher.goOn(*before); });
  if (!before || !lanes.front())
    lanes = all(kLanes, [&](Searcher searcher) { return std::optional(searcher.run(before != nullptr)); });
  std::vector<Found> found;
  int64_t simulations = 0;
  for (std::optional<Found> &each : lanes) {
    simulations += each->simulations;
    found.push_back(std::move(*each));
  }
  for (Found &each : found)
    each.simulations = simulations;
  std::ranges::stable_sort(found, {}, [](const Found &each) {
    return each.timing.fits() ? each.timing.expected : HUGE_VAL;
  });
  found.erase(std::ranges::unique(found, {}, &Found::decisions).begin(), found.end());
  return found;
}

std::vector<Found> candidates(const Model &model, const Machine &machine, const Constraints &constraints,
                              const Found *before) {
  Constraints one = constraints;
  if (machine.devices.size() == 1 || (constraints.resident.value_or(false) && !constraints.batchShared))
    one.batchShared = false; // where the batch is shared nothing is resident
  if (one.batchShared)
    return searchLanes(model, machine, one, before);
  // Devices compute layers in turn, unless that is far from what can be: then what they do with the batch shared is
  // found, too.
  constexpr double kFar = 1.03;
  one.batchShared = false;
  std::vector<Found> turns =
      searchLanes(model, machine, one, before && !before->decisions.batchShared ? before : nullptr);
  const Timing &inTurn = turns.front().timing;
  if (inTurn.fits() && inTurn.expected <= kFar * lowerBound(model, machine, constraints))
    return turns;
  one.batchShared = true;
  std::vector<Found> shared =
      searchLanes(model, machine, one, before && before->decisions.batchShared ? before : nullptr);
  const Timing &together = shared.front().timing;
  return together.fits() && (!inTurn.fits() || together.expected < inTurn.expected) ? shared : turns;
}

Found search(const Model &model, const Machine &machine, const Constraints &constraints, const Found *before) {
  return candidates(model, machine, constraints, before).front();
}

Found nearer(const Model &model, const Machine &machine, const Constraints &constraints, const Found &found,
             int64_t distance) {
  return Searcher(model, machine, constraints).nearer(found, distance);
}

/// What needs least memory has devices compute in turn, unless they are to share the batch.
static Constraints constraintsOfLeast(const Machine &machine, Constraints constraints) {
  constraints.batchShared = constraints.batchShared.value_or(false) && machine.devices.size() > 1;
  return constraints;
}

Found leastOf(const Model &model, const Machine &machine, const Constraints &constraints) {
  const Constraints one = constraintsOfLeast(machine, constraints);
  return Searcher(model, machine, one).least();
}

Room roomFor(const Model &model, const Machine &machine, const Constraints &constraints) {
  const Constraints one = constraintsOfLeast(machine, constraints);
  return Searcher(model, machine, one).room();
}

} // namespace mt::planner
