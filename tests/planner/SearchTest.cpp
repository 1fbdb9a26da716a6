// The search against every vector of decisions of small models, long random walks through those of larger ones, and
// what it promises.
#include "compiler/planner/Search.h"
#include "SmallModel.h"
#include "compiler/planner/Bound.h"
#include "compiler/planner/Builder.h"
#include "compiler/planner/Emitter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <optional>

namespace mt::planner {
namespace {

Timing timeOf(const Model &model, const Machine &machine, const Decisions &decisions) {
  Schedule schedule = build(model, machine, decisions, Extent::step);
  return time(schedule, schedule.step, machine, decisions, true);
}

/// The shortest step of all rungs, places of weights and parked values, by branch and bound: layer after layer is given each of
/// its choices, as long as
///   - what they load on each stream, with the least that the others can,
///   - the way round a step from a layer's forward to its next one, over its gradient, its update and its weights, these cut in
///     as many parts as there may be,
/// are below the best step so far, and what lies on the device while the loss is computed fits: all that backward reads and
/// forward left there, the loss's weights and gradients.
class Exhaustive {
public:
  Exhaustive(const Model &model, const Machine &machine, const Constraints &constraints, double known)
      : model(model), machine(machine), budget(constraints.deviceMemory), best(known) {
    decisions = leastMemory(model);
    decisions.deviceLimit = budget;
    for (size_t l = 0; l < model.layers.size(); ++l)
      weigh(l);
    for (size_t l = model.layers.size(); l-- > 0;) {
      std::vector<double> least = leasts.back();
      std::vector<double> cheapest(least.size(), HUGE_VAL);
      double forward = HUGE_VAL, backward = HUGE_VAL;
      int64_t lightest = INT64_MAX;
      for (const Choice &choice : choices[l]) {
        for (size_t stream = 0; stream < least.size(); ++stream)
          cheapest[stream] = std::min(cheapest[stream], choice.load[stream]);
        forward = std::min(forward, choice.forward), backward = std::min(backward, choice.backward);
        lightest = std::min(lightest, choice.bytes);
      }
      for (size_t stream = 0; stream < least.size(); ++stream)
        least[stream] += cheapest[stream];
      leasts.push_back(least);
      leastForward.push_back(leastForward.back() + forward), leastBackward.push_back(leastBackward.back() + backward);
      leastBytes.push_back(leastBytes.back() + lightest);
    }
  }

  double run() {
    for (bool first : {false, true}) {
      decisions.speculativeFirst = first;
      if (model.clip || !first)
        descend(0, {leasts.front(), 0, 0, 0, 0});
    }
    return best;
  }
  /// The shortest step that a walk over the choices comes by, of one layer or two at a time (simulated annealing:
  /// Kirkpatrick, Gelatt, Vecchi, 1983): half of the steps from what was found, half from what needs least memory.
  double walk(const Decisions &start, int steps) {
    std::mt19937 random(1);
    const Decisions least = decisions;
    for (const Decisions &from : {start, least}) {
      decisions = from;
      decisions.deviceLimit = budget;
      const Timing first = timeOf(model, machine, decisions);
      double seconds = first.fits() ? first.seconds : HUGE_VAL;
      for (int step = 0; step < steps / 2; ++step) {
        const double warmth = 0.05 * (1 - 2.0 * step / steps);
        const Decisions before = decisions;
        for (size_t changes = 1 + random() % 2; changes > 0; --changes) {
          const size_t l = random() % choices.size();
          set(l, choices[l][random() % choices[l].size()]);
        }
        if (model.clip && random() % 8 == 0)
          decisions.speculativeFirst = !decisions.speculativeFirst;
        if (!canBe(decisions))
          decisions = before;
        else if (const Timing timing = timeOf(model, machine, decisions);
                 timing.fits() && timing.seconds <= seconds * (1 - warmth * std::log((1 + random() % 1000) / 1000.0))) {
          seconds = timing.seconds;
          if (seconds < best)
            best = seconds, found = decisions;
        } else {
          decisions = before;
        }
        ++tried;
      }
    }
    return best;
  }
  size_t tried = 0;
  std::optional<Decisions> found; ///< what is better than the known

private:
  struct Choice {
    int64_t rung = 0;
    int place =
        0; ///< streamed, kept or resident; streamed or kept, with its state streamed, or with a speculative update
    bool parked = false, parkedSaved = false;
    std::vector<double> load; ///< by stream
    double forward = 0, backward = 0; ///< seconds of all micro-batches
    double home = 0;                  ///< from its gradient to its next forward, cut in parts; with clipping from the norm on
    int64_t bytes = 0;                ///< on the device while the loss is computed
  };
  /// What the layers that were given a choice add up to.
  struct Sum {
    std::vector<double> load;
    double forward = 0, backward = 0;
    double way = 0; ///< of all ways round a step: the longest, less what all layers compute
    int64_t bytes = 0;
  };
  const Model &model;
  const Machine &machine;
  const int64_t budget;
  double best;
  Decisions decisions;
  const std::vector<bool> parkable = canParkSaved(model, machine);
  std::vector<std::vector<Choice>> choices = std::vector<std::vector<Choice>>(model.layers.size());
  std::vector<std::vector<double>> leasts{std::vector<double>(machine.streams.size(), 0)}; ///< by number of last layers
  std::vector<double> leastForward{0}, leastBackward{0};
  std::vector<int64_t> leastBytes{0};

  void set(size_t l, const Choice &choice) {
    decisions.layers[l].rung = choice.rung;
    decisions.layers[l].kept = choice.place == 1 || choice.place == 4 || choice.place == 6;
    decisions.layers[l].stateStreamed = choice.place == 3 || choice.place == 4;
    decisions.layers[l].speculative = choice.place >= 5;
    decisions.layers[l].resident = choice.place == 2;
    decisions.parked[l] = choice.parked;
    decisions.layers[l].parkedSaved = choice.parkedSaved;
  }

  /// A layer's commands in a step where it alone is given a choice; what none has is left out of the bound.
  std::vector<double> loadOf(size_t l) const {
    std::vector<double> load(machine.streams.size(), 0);
    for (const Command &command : build(model, machine, decisions, Extent::step).step)
      if (command.layer == static_cast<int64_t>(l))
        load[command.stream] += command.seconds;
    return load;
  }

  void weigh(size_t l) {
    const Layer &layer = model.layers[l];
    const Parameter &parameter = model.parameters[l];
    for (int64_t rung = 0; rung < (layer.isLoss ? 1 : static_cast<int64_t>(layer.rungs.size())); ++rung)
      for (int place = 0; place < (model.clip ? 7 : 5); ++place)
        for (int parks = 0; parks < 4; ++parks) {
          const bool parked = parks & 1, parkedSaved = parks & 2;
          if (parkedSaved && (rung == 0 || !parkable[l]))
            continue;
          Choice choice{.rung = rung, .place = place, .parked = parked, .parkedSaved = parkedSaved, .load = {}};
          set(l, choice);
          if (parked && (layer.isLoss || !canPark(model, decisions, static_cast<int64_t>(l))))
            continue;
          choice.load = loadOf(l);
          const Rung &code = layer.rungs[static_cast<size_t>(rung)];
          auto secondsOf = [&](int64_t index) { return model.templates[static_cast<size_t>(index)].seconds * static_cast<double>(model.microBatches); };
          choice.forward = layer.isLoss ? 0 : secondsOf(code.forward);
          choice.backward = secondsOf(code.backward);
          choice.home = place >= 2 ? 0 : homeOf(parameter);
          if ((place > 0 && place != 5) || layer.isLoss)
            choice.bytes += parameter.type.bytes();
          if (layer.isLoss) // its gradient
            choice.bytes += parameter.full.bytes();
          else if (!parked) // what the next layer's backward reads again
            choice.bytes += model.values[l].type.bytes() * model.microBatches;
          for (const Parameter::Rest &rest : parameter.rest)
            choice.bytes += place == 2 ? rest.type.bytes() : 0;
          for (const Result &result : model.templates[static_cast<size_t>(layer.rungs[static_cast<size_t>(rung)].forward)].results)
            choice.bytes += result.kind == Result::saved && !parkedSaved ? result.type.bytes() * model.microBatches : 0;
          choices[l].push_back(choice);
        }
    set(l, choices[l].front());
    decisions.layers[l].parkedSaved = false;
    decisions.parked[l] = !layer.isLoss && canPark(model, decisions, static_cast<int64_t>(l));
  }

  /// Gradient, update and weights one after another, but that parts of them overlap.
  double homeOf(const Parameter &parameter) const {
    const target::Target &target = machine.target;
    const double down = model.clip ? 0 : static_cast<double>(parameter.full.bytes()) / target.downloadBandwidth;
    const double update = target::hostKernelSeconds(target, kernels::updateCall(*parameter.spec, parameter.isSplit(), parameter.type.dims));
    const double up = static_cast<double>(parameter.type.bytes()) / target.uploadBandwidth, longest = std::max({down, update, up});
    return longest + (down + update + up - longest) / kMostParts;
  }

  bool canBe(const Decisions &all) const {
    for (size_t v = 0; v + 1 < model.layers.size(); ++v)
      if (all.parked[v] && !canPark(model, all, static_cast<int64_t>(v)))
        return false;
    return true;
  }

  void descend(size_t l, const Sum &sum) {
    const size_t left = model.layers.size() - l;
    if (sum.bytes + leastBytes[left] > budget)
      return;
    for (size_t stream = 0; stream < sum.load.size(); ++stream)
      if (sum.load[stream] + leasts[left][stream] >= best)
        return;
    if (sum.forward + leastForward[left] + sum.backward + leastBackward[left] + sum.way >= best)
      return;
    if (left == 0) {
      if (!canBe(decisions))
        return;
      ++tried;
      const Timing timing = timeOf(model, machine, decisions);
      if (timing.fits() && timing.seconds < best)
        best = timing.seconds, found = decisions;
      return;
    }
    for (const Choice &choice : choices[l]) {
      set(l, choice);
      Sum with = sum;
      for (size_t stream = 0; stream < with.load.size(); ++stream)
        with.load[stream] += choice.load[stream];
      // Not on the way: forward of the layers before it, and their backward, which clipping waits for.
      with.way = std::max(sum.way, choice.home - sum.forward - (model.clip ? 0 : sum.backward));
      with.forward += choice.forward, with.backward += choice.backward, with.bytes += choice.bytes;
      descend(l + 1, with);
    }
  }
};

/// "0st- 1kup 2r-": of each layer the rung, the place, how it is updated, and whether its value is parked.
std::string textOf(const Decisions &decisions) {
  std::string text = decisions.speculativeFirst ? "first " : "";
  for (size_t l = 0; l < decisions.layers.size(); ++l) {
    const LayerDecision &layer = decisions.layers[l];
    text += std::to_string(layer.rung) +
            (layer.resident ? "r"
             : layer.kept   ? "k"
                            : "s") +
            (layer.stateStreamed ? "t"
             : layer.speculative ? "u"
                                 : "") +
            (decisions.parked[l] ? "p" : "-") + (layer.parkedSaved ? "P" : "") + std::to_string(layer.parts) + " ";
  }
  return text;
}

/// No decisions make a step more than 3 % shorter. MT_SEARCH_MODELS: of so many models, of up to MT_SEARCH_LAYERS layers (six) and
/// a loss.
TEST(Search, IsNearTheBestOfAllDecisions) {
  const char *wanted = std::getenv("MT_SEARCH_MODELS");
  const int models = wanted ? std::atoi(wanted) : 6;
  const char *most = std::getenv("MT_SEARCH_LAYERS");
  std::mt19937 random(11);
  size_t tried = 0;
  for (int i = 0; i < models; ++i) {
    const Model model = randomModel(random, wanted ? std::uniform_int_distribution<size_t>(1, most ? std::atoi(most) : 6)(random) : 3);
    const Machine machine(randomTarget(random));
    Constraints constraints;
    const int64_t least = leastOf(model, machine, {}).decisions.deviceLimit;
    constraints.deviceMemory = least / 16 * std::uniform_int_distribution<int>(17, 48)(random);
    constraints.clipped = 0; // the others are judged by nothing else
    const Found found = search(model, machine, constraints);
    ASSERT_TRUE(found.timing.fits()) << "model " << i;
    Exhaustive all(model, machine, constraints, found.timing.seconds / 1.03);
    const double best = all.run();
    tried += all.tried;
    if (wanted)
      std::printf("%d: %zu layers%s, %zu tried\n", i, model.layers.size() - 1, model.clip ? ", clipped" : "",
                  all.tried),
          std::fflush(stdout);
    EXPECT_FALSE(all.found) << "model " << i << ": " << textOf(found.decisions) << found.timing.seconds << ", and " << textOf(*all.found) << best;
  }
  std::printf("%d models, %zu steps simulated\n", models, tried);
}

/// Nor do those by which long walks come, of models whose decisions are too many to try all. MT_SEARCH_WALKS: of so
/// many.
TEST(Search, IsNearWhatLongWalksFind) {
  const char *wanted = std::getenv("MT_SEARCH_WALKS");
  const int models = wanted ? std::atoi(wanted) : 2;
  std::mt19937 random(17);
  size_t tried = 0;
  double best = 1;
  for (int i = 0; i < models; ++i) {
    const Model model = randomModel(random, std::uniform_int_distribution<size_t>(4, 6)(random));
    const Machine machine(randomTarget(random));
    Constraints constraints;
    const int64_t least = leastOf(model, machine, {}).decisions.deviceLimit;
    constraints.deviceMemory = least / 16 * std::uniform_int_distribution<int>(17, 48)(random);
    constraints.clipped = 0;
    const Found found = search(model, machine, constraints);
    ASSERT_TRUE(found.timing.fits()) << "model " << i;
    Exhaustive all(model, machine, constraints, found.timing.seconds);
    const double walked = all.walk(found.decisions, wanted ? 60000 : 2000);
    tried += all.tried;
    best = std::min(best, walked / found.timing.seconds);
    if (wanted)
      std::printf("%d: %zu layers%s, %.4f of what was found\n", i, model.layers.size() - 1,
                  model.clip ? ", clipped" : "", walked / found.timing.seconds),
          std::fflush(stdout);
    EXPECT_GE(walked, found.timing.seconds / 1.03)
        << "model " << i << ": " << textOf(found.decisions) << found.timing.seconds << ", and "
        << textOf(all.found.value_or(found.decisions)) << walked;
  }
  std::printf("%d models, %zu steps simulated, %.4f of what was found at best\n", models, tried, best);
}

TEST(Search, MoreMemoryIsNeverSlower) {
  std::mt19937 random(3);
  for (int i = 0; i < 2; ++i) {
    const Model model = randomModel(random, 5);
    const Machine machine(smallTarget());
    const int64_t least = leastOf(model, machine, {}).decisions.deviceLimit;
    double before = 1e9;
    for (int eighths = 9; eighths <= 24; eighths += 5) {
      Constraints constraints;
      constraints.deviceMemory = least / 8 * eighths;
      const double seconds = search(model, machine, constraints).timing.seconds;
      EXPECT_LT(seconds, before * 1.03) << "model " << i << ", " << eighths << " eighths of the least";
      before = std::min(before, seconds);
    }
  }
}

TEST(Search, StreamsStateWhereTheHostIsTheBound) {
  // The host takes 20 ms for a layer's update, and the link 2 ms for its state; the device has room for the state of one at a time.
  const Model model = smallModel(std::vector<SmallLayer>(7, {250000, 1000, {1000, 2000}, 2e-3, {6e-3, 5e-3, 4e-3}}));
  const Machine machine(smallTarget(3e8));
  Constraints constraints;
  constraints.deviceMemory = 8000000;
  constraints.thorough = false;
  const Found found = search(model, machine, constraints);
  ASSERT_TRUE(found.timing.fits());
  EXPECT_GT(std::ranges::count(found.decisions.layers, true, &LayerDecision::stateStreamed), 2);
  Constraints byHost = constraints;
  byHost.resident = false; // nothing of an update is on the device
  const Found without = search(model, machine, byHost);
  EXPECT_EQ(std::ranges::count(without.decisions.layers, true, &LayerDecision::stateStreamed), 0);
  EXPECT_LT(found.timing.seconds, 0.7 * without.timing.seconds);
  EXPECT_GE(found.timing.seconds, lowerBound(model, machine, constraints) * (1 - 1e-9));
}

/// With clipping the host would wait for the norm while backward runs.
TEST(Search, SpeculatesWhereTheHostIsTheBound) {
  // The host takes 40 ms for a layer's update, and backward 20.
  Model model = smallModel(std::vector<SmallLayer>(8, {250000, 1000, {1000, 2000}, 10e-3, {22e-3, 21e-3, 20e-3}}));
  model.clip = true;
  const Machine machine(smallTarget(1.75e8));
  Constraints constraints;
  constraints.resident = false;
  const Found found = search(model, machine, constraints);
  ASSERT_TRUE(found.timing.fits());
  const auto count = std::ranges::count(found.decisions.layers, true, &LayerDecision::speculative);
  EXPECT_GE(count, 2);
  EXPECT_LT(count, 8) << "the last of backward come too late";
  EXPECT_FALSE(found.decisions.layers.front().speculative) << "whose gradient tells the norm";
  EXPECT_GE(found.timing.seconds, lowerBound(model, machine, constraints) * (1 - 1e-9));
  Constraints waiting = constraints;
  waiting.speculative = false;
  const Found without = search(model, machine, waiting);
  EXPECT_EQ(std::ranges::count(without.decisions.layers, true, &LayerDecision::speculative), 0);
  EXPECT_LT(found.timing.seconds, 0.85 * without.timing.seconds);
  EXPECT_GE(without.timing.seconds, lowerBound(model, machine, waiting) * (1 - 1e-9));
  // Undos have their place on the host.
  constraints.hostMemory = without.timing.hostUsed + 2 * 5 * 250000;
  const Found little = search(model, machine, constraints);
  ASSERT_TRUE(little.timing.fits());
  EXPECT_LE(std::ranges::count(little.decisions.layers, true, &LayerDecision::speculative), 2);
  model.clip = false;
  EXPECT_EQ(std::ranges::count(canSpeculate(model, machine), true), 0);
}

/// What two searches find that run at once, each on a thread of its own or one after the other.
TEST(Search, FindsTheSameEveryTime) {
  std::mt19937 random(23);
  for (int i = 0; i < 6; ++i) {
    const Model model = randomModel(random, 4);
    const Machine machine(randomTarget(random));
    Constraints constraints;
    constraints.deviceMemory = leastOf(model, machine, {}).decisions.deviceLimit / 4 * 7;
    const std::vector<Found> once = candidates(model, machine, constraints);
    const std::vector<Found> again = candidates(model, machine, constraints);
    ASSERT_EQ(once.size(), again.size());
    for (size_t c = 0; c < once.size(); ++c) {
      EXPECT_EQ(once[c].decisions, again[c].decisions) << "model " << i;
      EXPECT_EQ(once[c].timing.seconds, again[c].timing.seconds);
      EXPECT_GE(once[c].timing.expected, once.front().timing.expected) << "the best is the first";
    }
    EXPECT_EQ(search(model, machine, constraints).decisions, once.front().decisions);
  }
}

TEST(Search, TakesWhatIsGiven) {
  std::mt19937 random(5);
  const Model model = randomModel(random, 5);
  const Machine machine(smallTarget());
  Constraints constraints;
  constraints.saved = "rung1";
  constraints.kept = true;
  constraints.parked = false;
  const Found found = search(model, machine, constraints);
  for (size_t l = 0; l + 1 < model.layers.size(); ++l) {
    EXPECT_EQ(found.decisions.layers[l].rung, 1);
    EXPECT_TRUE(found.decisions.layers[l].kept);
    EXPECT_FALSE(found.decisions.parked[l]);
  }
  Decisions decisions = leastMemory(model);
  constraints.saved = "rung9";
  EXPECT_FALSE(constrain(model, machine, constraints, decisions).ok());
}

TEST(Search, NeverBeatsItsBound) {
  std::mt19937 random(13);
  for (int i = 0; i < 8; ++i) {
    const Model model = randomModel(random, 5);
    const Machine machine(randomTarget(random));
    Constraints constraints;
    constraints.deviceMemory = std::uniform_int_distribution<int64_t>(1, 400)(random) << 20;
    const Found found = search(model, machine, constraints);
    if (!found.timing.fits())
      continue;
    EXPECT_GE(found.timing.seconds, lowerBound(model, machine, constraints) * (1 - 1e-6)) << "model " << i;
  }
}

TEST(Search, SaysThatNothingFits) {
  std::mt19937 random(17);
  const Model model = randomModel(random, 4);
  const Machine machine(smallTarget());
  Constraints constraints;
  constraints.deviceMemory = 1000;
  EXPECT_GT(search(model, machine, constraints).timing.missingDevice, 0);
  constraints.deviceMemory = INT64_MAX;
  constraints.hostMemory = 1000;
  EXPECT_GT(search(model, machine, constraints).timing.missingHost, 0);
}

/// Evaluations may need more than a step, which computes the loss along with its gradients.
TEST(Search, LeastMemoryHoldsEvaluationsToo) {
  std::mt19937 random(23);
  for (int i = 0; i < 20; ++i) {
    Model model = randomModel(random, 5);
    const Machine machine(randomTarget(random));
    const int64_t ofStep = leastOf(model, machine, {}).decisions.deviceLimit;
    model.templates[static_cast<size_t>(model.layers.back().primal)].workspace = ofStep;
    const Decisions least = leastOf(model, machine, {}).decisions;
    EXPECT_GT(least.deviceLimit, ofStep) << "model " << i;
    const Schedule plan = build(model, machine, least, Extent::plan);
    EXPECT_TRUE(time(plan, plan.step, machine, least, true).fits()) << "model " << i;
    EXPECT_TRUE(time(plan, plan.evaluate, machine, least, false).fits()) << "model " << i;
  }
}

/// What is refused for its bytes alone could never have fit: not with everything where it takes least.
TEST(Search, NeedsNoLessThanItsLeastBytes) {
  std::mt19937 random(29);
  int64_t close = 0;
  for (int i = 0; i < 60; ++i) {
    Model model = randomModel(random, 6);
    const Machine machine(randomTarget(random));
    model.microBatches = int64_t{1} << random() % 4;
    const LeastBytes bytes = leastBytes(model);
    EXPECT_GT(bytes.kept, 0);
    for (bool parked : {false, true}) {
      Constraints constraints;
      constraints.parked = parked;
      const Decisions least = leastOf(model, machine, constraints).decisions;
      const int64_t needed = least.deviceLimit + least.hostLimit;
      EXPECT_GE(needed, bytes.all()) << "model " << i;
      close += bytes.all() > needed / 2;
    }
  }
  EXPECT_GT(close, 30);
}

/// Where the host is short of memory, the devices' own is judged apart from it.
TEST(Search, SaysWhetherDevicesHaveRoom) {
  std::mt19937 random(31);
  for (int i = 0; i < 20; ++i) {
    const Model model = randomModel(random, 5);
    const Machine machine(smallTarget());
    Constraints constraints;
    const Decisions least = leastOf(model, machine, constraints).decisions;
    constraints.hostMemory = 1000;
    constraints.deviceMemory = least.deviceLimit / 8 * 9;
    EXPECT_TRUE(roomFor(model, machine, constraints).devices) << "model " << i;
    EXPECT_FALSE(search(model, machine, constraints).timing.fits()) << "model " << i;
    EXPECT_FALSE(roomFor(model, machine, constraints).host) << "model " << i;
    constraints.hostMemory = least.hostLimit;
    EXPECT_TRUE(roomFor(model, machine, constraints).host) << "model " << i;
    constraints.deviceMemory = least.deviceLimit / 8 * 7;
    EXPECT_FALSE(roomFor(model, machine, constraints).devices) << "model " << i;
  }
}

/// What the host has no room for stays on the device, as far as that has room; more of it, and the host needs less.
TEST(Search, SharesValuesBetweenHostAndDevice) {
  std::mt19937 random(19);
  constexpr int kModels = 20;
  int lighter = 0;
  for (int i = 0; i < kModels; ++i) {
    const Model model = randomModel(random, 5);
    const Machine machine(randomTarget(random));
    Constraints constraints;
    constraints.thorough = false;
    constraints.parked = false;
    const Decisions onDevice = leastOf(model, machine, constraints).decisions;
    const Decisions parked = leastOf(model, machine, {}).decisions;
    constraints.parked.reset();
    int64_t before = parked.hostLimit;
    for (int64_t eighths = 0; eighths <= 8; ++eighths) {
      constraints.hostMemory = onDevice.hostLimit / 2;
      constraints.deviceMemory = parked.deviceLimit + (onDevice.deviceLimit - parked.deviceLimit) / 8 * eighths;
      EXPECT_FALSE(search(model, machine, constraints).timing.fits());
      const Decisions least = leastOf(model, machine, constraints).decisions;
      EXPECT_LE(least.deviceLimit, constraints.deviceMemory);
      // More of the devices leaves the host more, but for what gradients added up there take from values.
      EXPECT_LE(least.hostLimit, before + before / 200) << "model " << i << ", " << eighths << " eighths";
      before = constraints.hostMemory = least.hostLimit;
      const Found found = search(model, machine, constraints);
      EXPECT_TRUE(found.timing.fits()) << "model " << i << ", " << eighths << " eighths";
      EXPECT_LE(found.decisions.hostLimit, constraints.hostMemory);
    }
    lighter += before < parked.hostLimit;
  }
  EXPECT_GT(lighter, kModels / 3);
}

} // namespace
} // namespace mt::planner
