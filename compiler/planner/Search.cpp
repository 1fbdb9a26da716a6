#include "compiler/planner/Search.h"

#include "compiler/planner/Builder.h"
#include "compiler/planner/Emitter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

namespace mt::planner {
namespace {

/// A plan that is slower by so much counts as fast as another, and one that is faster by less as no gain.
constexpr double kAlike = 5e-4, kGain = 1e-4;
constexpr int kRounds = 8;

class Searcher {
public:
  Searcher(const Model &model, const Machine &machine, const Constraints &constraints)
      : model(model), machine(machine), constraints(constraints) {}

  Found run() {
    start();
    if (timing.fits()) {
      makeAxes();
      climb();
      trim(&Decisions::deviceLimit, timing.seconds * (1 + kAlike));
      trim(&Decisions::hostLimit, timing.seconds * (1 + kAlike));
    }
    return found();
  }

  Found least() {
    start();
    best.deviceLimit = best.hostLimit = INT64_MAX;
    best.distance = 0; // nothing comes early: layers follow one another alike, and packing loses nothing
    timing = evaluate(best);
    trim(&Decisions::deviceLimit, HUGE_VAL);
    trim(&Decisions::hostLimit, HUGE_VAL);
    return found();
  }

private:
  const Model &model;
  const Machine &machine;
  const Constraints &constraints;
  Decisions best;
  Timing timing;
  int64_t simulations = 0;

  /// A decision that any number of objects may take, from the one whose bytes are there for the shortest time on.
  struct Axis {
    size_t most = 0;
    size_t now = 0;
    std::function<void(Decisions &, size_t)> set;
  };
  std::vector<Axis> axes;

  void start() {
    best = leastMemory(model);
    best.deviceLimit = constraints.deviceMemory;
    best.hostLimit = constraints.hostMemory;
    (void)constrain(model, constraints, best);
    timing = evaluate(best);
  }

  /// Which turn updates take changes a little what is there when: limits that were trimmed to the last byte may be too small.
  Found found() {
    settle(model, machine, best);
    if (!timing.fits())
      return {best, timing, simulations};
    for (timing = evaluate(best); !timing.fits(); timing = evaluate(best)) {
      best.deviceLimit += timing.missingDevice;
      best.hostLimit += timing.missingHost;
      settle(model, machine, best);
    }
    return {best, timing, simulations};
  }

  Timing evaluate(const Decisions &decisions) {
    ++simulations;
    Schedule schedule = build(model, machine, decisions, false);
    return time(schedule, schedule.step, machine, decisions, true);
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
      axes.push_back({parkable.size(), 0, [parkable](Decisions &decisions, size_t count) {
                        for (size_t i = 0; i < parkable.size(); ++i)
                          decisions.parked[static_cast<size_t>(parkable[i])] = i >= count;
                      }});
    if (!constraints.kept && !machine.unified())
      axes.push_back({weighted.size(), 0, [weighted](Decisions &decisions, size_t count) {
                        for (size_t i = 0; i < weighted.size(); ++i)
                          decisions.layers[static_cast<size_t>(weighted[i])].kept = i < count;
                      }});
    if (!constraints.saved)
      for (size_t rung = 1; rung < rungs; ++rung)
        axes.push_back({differentiated.size(), 0, {}});
    if (constraints.saved)
      return;
    // Rungs exclude each other: the last layers have the highest.
    const size_t firstRung = axes.size() - (rungs - 1);
    for (size_t rung = 1; rung < rungs; ++rung)
      axes[firstRung + rung - 1].set = [this, firstRung, rung, differentiated](Decisions &decisions, size_t count) {
        for (size_t i = 0; i < differentiated.size(); ++i) {
          const auto l = static_cast<size_t>(differentiated[i]);
          int64_t highest = 0;
          for (size_t other = 1; other < model.layers[l].rungs.size(); ++other)
            if (i < (other == rung ? count : axes[firstRung + other - 1].now))
              highest = static_cast<int64_t>(other);
          decisions.layers[l].rung = highest;
        }
      };
  }

  /// Along the axis that gains most, as far as it gains, until none does.
  void climb() {
    for (int round = 0; round < kRounds; ++round) {
      double gained = 0;
      for (Axis &axis : axes) {
        const double before = timing.seconds;
        tryAxis(axis);
        gained += before - timing.seconds;
      }
      if (gained <= kGain * timing.seconds)
        return;
    }
  }

  bool attempt(Axis &axis, size_t count) {
    Decisions changed = best;
    axis.set(changed, count);
    if (changed == best)
      return true;
    Timing result = evaluate(changed);
    if (!result.fits())
      return false;
    if (result.seconds < timing.seconds * (1 - kGain / 10)) {
      best = std::move(changed);
      timing = std::move(result);
      axis.now = count;
    }
    return true;
  }

  /// The most that fits, and what lies evenly below it.
  void tryAxis(Axis &axis) {
    constexpr size_t kParts = 8;
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
    int64_t persistent = 0, most = 0;
    Schedule schedule = build(model, machine, best, false);
    for (const Slot &slot : schedule.slots)
      if (machine.isDevice(slot.space) == (limit == &Decisions::deviceLimit)) {
        most += aligned(slot.bytes);
        persistent += slot.persistent ? aligned(slot.bytes) : 0;
      }
    int64_t enough = std::min(best.*limit, most), tooLittle = persistent;
    const int64_t step = seconds < HUGE_VAL ? std::max<int64_t>(1 << 20, enough / 256) : 1;
    while (enough - tooLittle > step) {
      Decisions less = best;
      less.*limit = tooLittle + (enough - tooLittle) / 2;
      Timing result = evaluate(less);
      if (result.fits() && result.seconds <= seconds) {
        enough = less.*limit;
        best = less;
        timing = std::move(result);
      } else {
        tooLittle = less.*limit;
      }
    }
    best.*limit = enough;
  }
};
} // namespace

Status constrain(const Model &model, const Constraints &constraints, Decisions &decisions) {
  bool known = !constraints.saved;
  for (size_t l = 0; l < model.layers.size() && constraints.saved; ++l) {
    const std::vector<Rung> &rungs = model.layers[l].rungs;
    auto rung = std::ranges::find(rungs, *constraints.saved, &Rung::name);
    known |= rung != rungs.end();
    if (rung != rungs.end() && !model.layers[l].isLoss)
      decisions.layers[l].rung = rung - rungs.begin();
  }
  if (!known && *constraints.saved != "input" && *constraints.saved != "attention" && *constraints.saved != "all")
    return fail("saved activations '{}': must be input, attention or all", *constraints.saved);
  for (LayerDecision &layer : decisions.layers)
    layer.kept = constraints.kept.value_or(layer.kept);
  if (constraints.parked)
    for (size_t v = 0; v < model.values.size(); ++v)
      decisions.parked[v] = *constraints.parked && canPark(model, decisions, static_cast<int64_t>(v));
  decisions.distance = constraints.distance.value_or(decisions.distance);
  return {};
}

Found search(const Model &model, const Machine &machine, const Constraints &constraints) {
  return Searcher(model, machine, constraints).run();
}

Found leastOf(const Model &model, const Machine &machine, const Constraints &constraints) {
  return Searcher(model, machine, constraints).least();
}

void settle(const Model &model, const Machine &machine, Decisions &decisions) {
  for (LayerDecision &layer : decisions.layers)
    layer.turn = LayerDecision::open;
  for (size_t v = 0; v < model.values.size(); ++v)
    decisions.parked[v] = !machine.unified() && decisions.parked[v] && canPark(model, decisions, static_cast<int64_t>(v));
  std::vector<bool> pending;
  if (!machine.unified()) {
    Schedule schedule = build(model, machine, decisions, false);
    pending = time(schedule, schedule.step, machine, decisions, true).pending;
  }
  pending.resize(model.layers.size());
  for (size_t l = 0; l < decisions.layers.size(); ++l)
    decisions.layers[l].turn = pending[l] ? LayerDecision::late : LayerDecision::early;
}

double lowerBound(const Model &model, const Machine &machine) {
  double compute = 0, host = 0;
  for (const Layer &layer : model.layers) {
    if (!layer.isDifferentiated()) {
      compute += model.templates[static_cast<size_t>(layer.primal)].seconds;
      continue;
    }
    double least = 1e300;
    for (const Rung &rung : layer.rungs)
      least = std::min(least, model.templates[static_cast<size_t>(rung.backward)].seconds +
                                  (layer.isLoss ? 0 : model.templates[static_cast<size_t>(rung.forward)].seconds));
    compute += least;
  }
  (void)machine;
  (void)host;
  return compute * static_cast<double>(model.microBatches);
}

Description describe(const Model &model, const Machine &machine, const Decisions &decisions) {
  std::map<int64_t, int64_t> rungs;
  std::map<int64_t, std::string> names;
  int64_t kept = 0, weighted = 0, late = 0, updated = 0;
  for (size_t l = 0; l < model.layers.size(); ++l) {
    const Layer &layer = model.layers[l];
    const LayerDecision &decision = decisions.layers[l];
    if (layer.isDifferentiated() && !layer.isLoss) {
      ++rungs[decision.rung];
      names[decision.rung] = layer.rungs[static_cast<size_t>(decision.rung)].name;
    }
    weighted += !layer.owned.empty();
    kept += !layer.owned.empty() && decision.kept;
    updated += !layer.packs.empty();
    late += !layer.packs.empty() && decision.turn == LayerDecision::late;
  }
  Description text;
  for (auto [rung, count] : rungs)
    text.saved += (text.saved.empty() ? "" : ", ") + (rungs.size() == 1 ? names[rung] : fmt::format("{} {}", names[rung], count));
  if (text.saved.empty())
    text.saved = "none";
  auto share = [](int64_t count, int64_t of, const char *all, const char *none) {
    return count == 0 ? std::string(none) : count == of ? std::string(all) : fmt::format("{} {}, {} {}", all, count, none, of - count);
  };
  text.weights = machine.unified() ? "in place" : share(kept, weighted, "kept", "streamed");
  const auto parked = std::ranges::count(decisions.parked, true);
  text.parked = machine.unified() || parked == 0 ? "none" : fmt::format("{} values", parked);
  text.updates = machine.unified() ? "early" : share(late, updated, "late", "early");
  return text;
}

} // namespace mt::planner
