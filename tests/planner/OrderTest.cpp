// Dependencies of commands, and when they run: hand-made cases whose times are worked out beside them.
#include "SmallModel.h"
#include "compiler/planner/Builder.h"
#include "compiler/planner/Dependencies.h"
#include "compiler/planner/Search.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace mt::planner {
namespace {
using plan::BindingEffect;

Command touching(std::vector<Access> accesses) {
  Command command;
  command.accesses = std::move(accesses);
  return command;
}

TEST(Dependencies, AreOfRangesAndAcrossStepsOnlyOfWhatLasts) {
  Schedule schedule;
  schedule.slots = {{"lasting", 0, Kind::weight, 100, true, {}, {}}, {"passing", 0, Kind::activation, 100, false, {}, {}}};
  const std::vector<Command> program{
      touching({{0, 0, 50, BindingEffect::write}}),                                   // 0
      touching({{0, 50, 50, BindingEffect::write}, {1, 0, 100, BindingEffect::write}}), // 1
      touching({{0, 40, 20, BindingEffect::read}, {1, 0, 10, BindingEffect::read}}),  // 2: of both
      touching({{0, 0, 10, BindingEffect::accumulate}}),                              // 3: after 0, not after 2
  };
  using List = std::vector<std::pair<uint32_t, uint32_t>>; // commands, and how many iterations back
  auto listsOf = [&](bool cyclic) {
    const Grouped<Dependency> found = dependencies(schedule, program, cyclic);
    std::vector<List> lists(found.size());
    for (size_t i = 0; i < found.size(); ++i) {
      for (const Dependency &dependency : found[i])
        lists[i].emplace_back(dependency.command, dependency.back);
      std::ranges::sort(lists[i]);
    }
    return lists;
  };
  EXPECT_EQ(listsOf(false), (std::vector<List>{{}, {}, {{0, 0}, {1, 0}}, {{0, 0}}}));
  const std::vector<List> again = listsOf(true);
  EXPECT_EQ(again[0], (List{{0, 1}, {2, 1}, {3, 1}})) << "what it writes was written and read a step before";
  EXPECT_EQ(again[1], (List{{1, 1}, {2, 1}})) << "the passing slot is another one in every step";
  EXPECT_EQ(again[3], (List{{0, 0}}));
}

/// Weights of 1 ms to upload and 1 ms of gradients to download; computing that takes longer.
std::vector<SmallLayer> slowLayers(size_t count) {
  return std::vector<SmallLayer>(count, {250000, 1000, {1000, 2000}, 2e-3, {6e-3, 5e-3, 4e-3}});
}

Timing timeOf(const Model &model, const Machine &machine, const Decisions &decisions) {
  Schedule schedule = build(model, machine, decisions, Extent::step);
  return time(schedule, schedule.step, machine, decisions, true);
}

TEST(Order, CopiesHideUnderComputation) {
  // Forward of four layers, loss and backward of the four: 4 x 2 + 6 + 4 x 6 ms; between steps the chain of the first layer's
  // gradient down (1 ms), update (24 bytes an element at 10 GB/s: 0.7 ms with the norm) and weights up (1 ms).
  const Model model = smallModel(slowLayers(5));
  const Machine machine(smallTarget());
  const Timing timing = timeOf(model, machine, leastMemory(model));
  ASSERT_TRUE(timing.fits());
  EXPECT_NEAR(timing.busy[machine.devices.front().engine.stream], 38e-3, 1e-5);
  EXPECT_GT(timing.seconds, 38e-3 + 2e-3);
  EXPECT_LT(timing.seconds, 38e-3 + 3e-3);
}

TEST(Order, TheLeastMemoryIsExact) {
  const Model model = smallModel(slowLayers(6));
  const Machine machine(smallTarget());
  Decisions decisions = leastOf(model, machine, {}).decisions;
  ASSERT_TRUE(timeOf(model, machine, decisions).fits());
  // A layer's weights and gradient, 1,000,000 bytes each, lie there together.
  EXPECT_GE(decisions.deviceLimit, 2000000);
  EXPECT_LT(decisions.deviceLimit, 2100000);
  decisions.deviceLimit -= 256;
  const Timing less = timeOf(model, machine, decisions);
  EXPECT_GT(less.missingDevice, 0);
  decisions.deviceLimit += less.missingDevice;
  EXPECT_TRUE(timeOf(model, machine, decisions).fits()) << "it says how much is missing";
}

TEST(Order, WhatTheNextStepNeedsFirstIsUpdatedFirst) {
  // A host so slow that updates of a step go on under the next one's forward.
  const Model model = smallModel(slowLayers(6));
  const Machine machine(smallTarget(0.4e9));
  Decisions decisions = leastMemory(model);
  Timing timing = timeOf(model, machine, decisions);
  ASSERT_TRUE(timing.fits());
  EXPECT_LT(timing.seconds, 1.15 * timing.busy[machine.update.stream]) << "it is busy all the time but for the last layer's computing";
  settle(model, machine, decisions);
  EXPECT_GT(std::ranges::count(decisions.layers, 0, &LayerDecision::late), 0);
  EXPECT_GE(decisions.layers[0].late, 1) << "nothing can begin before it";
  Schedule schedule = build(model, machine, decisions, Extent::plan);
  timing = time(schedule, schedule.step, machine, decisions, true);
  ASSERT_TRUE(timing.fits());
  putInOrder(schedule.step, timing, listingOf(schedule, schedule.step, timing, true));
  std::vector<int64_t> late;
  for (const Command &command : schedule.step)
    if (command.late)
      late.push_back(command.updates);
  EXPECT_TRUE(std::ranges::is_sorted(late)) << "under forward, in its order";
  EXPECT_EQ(static_cast<size_t>(std::ranges::count(schedule.finish, plan::Role::update, &Command::role)), late.size()) << "finish runs what is pending";
}

TEST(Order, GradientsThatComeDownUnderTheNextForwardAreListedThere) {
  // A link so slow that what is wanted last still waits to come down when the next step has begun.
  target::Target target = smallTarget(4e9);
  target.downloadBandwidth = 1e8;
  const Model model = smallModel(slowLayers(12));
  const Machine machine(target);
  Decisions decisions = leastMemory(model);
  settle(model, machine, decisions);
  int64_t down = 0;
  for (const LayerDecision &layer : decisions.layers) {
    EXPECT_GE(layer.lateDown, layer.late) << "an update follows its gradient";
    down += layer.lateDown < layer.parts;
  }
  EXPECT_GT(down, 0);
  Schedule schedule = build(model, machine, decisions, Extent::plan);
  Timing timing = time(schedule, schedule.step, machine, decisions, true);
  ASSERT_TRUE(timing.fits());
  auto landing = [](const std::vector<Command> &program) {
    return std::ranges::count_if(program, [](const Command &command) { return command.isCopy && command.late; });
  };
  EXPECT_EQ(landing(schedule.step), down);
  EXPECT_EQ(landing(schedule.finish), down) << "finish runs what is pending";
  for (size_t i = 0; i < schedule.step.size(); ++i) {
    const Command &command = schedule.step[i];
    if (command.lands >= 0) {
      EXPECT_EQ(command.late, timing.start[i] + (command.late ? timing.seconds : 0) >= timing.seconds) << "the lists are in the order of time";
    }
  }
}

TEST(Order, NoStreamIsBusyLongerThanAStepTakes) {
  // Where a stream falls behind a little in every step, computing goes on alike for a while.
  std::mt19937 random(17);
  for (int i = 0; i < 600; ++i) {
    Model model = randomModel(random, 6);
    model.clip = random() % 2;
    target::Target target = randomTarget(random);
    target.uploadBandwidth = std::uniform_int_distribution<int>(3, 20)(random) * 1e8;
    target.downloadBandwidth = std::uniform_int_distribution<int>(3, 20)(random) * 1e8;
    for (auto [a, b] : {std::pair(0, 2), std::pair(0, 3), std::pair(2, 3)}) // upload, download and host
      target.shares[static_cast<size_t>(a)][static_cast<size_t>(b)] = target.shares[static_cast<size_t>(b)][static_cast<size_t>(a)] = 0.3;
    const Machine machine(target);
    Decisions decisions = leastMemory(model);
    for (LayerDecision &layer : decisions.layers) {
      layer.stateStreamed = random() % 2;
      layer.rung = static_cast<int64_t>(random() % 3);
      layer.parkedSaved = random() % 2;
      layer.speculative = random() % 2;
    }
    settle(model, machine, decisions);
    const Timing timing = timeOf(model, machine, decisions);
    ASSERT_TRUE(timing.fits());
    for (size_t stream = 0; stream < timing.busy.size(); ++stream)
      EXPECT_LE(timing.busy[stream], timing.seconds * 1.002) << "model " << i << ", stream " << machine.streams[stream].name;
  }
}

TEST(Order, WhatIsSpeculativeComesDownFirst) {
  // A link that takes twice as long for a gradient as backward does: they wait for it.
  target::Target target = smallTarget(4e9);
  target.downloadBandwidth = 1e8;
  Model model = smallModel(slowLayers(10));
  model.clip = true;
  const Machine machine(target);
  /// When the last of those starts to come down, and the last of the others.
  auto lastOf = [&](const Decisions &decisions) {
    Schedule schedule = build(model, machine, decisions, Extent::step);
    const Timing timing = time(schedule, schedule.step, machine, decisions, true);
    EXPECT_TRUE(timing.fits());
    double speculative = 0, others = 0;
    for (size_t i = 0; i < schedule.step.size(); ++i)
      if (const int64_t l = schedule.step[i].lands; l >= 0) {
        double &last = decisions.layers[static_cast<size_t>(l)].speculative ? speculative : others;
        last = std::max(last, timing.start[i]);
      }
    return std::pair(speculative, others);
  };
  Decisions decisions = leastMemory(model);
  for (size_t l : {6, 7, 8})
    decisions.layers[l].speculative = true;
  const auto [inTurn, othersInTurn] = lastOf(decisions);
  decisions.speculativeFirst = true;
  const auto [first, others] = lastOf(decisions);
  EXPECT_LT(first, inTurn - 50e-3) << "else the next step needs first what lower layers give meanwhile";
  EXPECT_GE(others, othersInTurn - 1e-9) << "which wait instead";
}

TEST(Order, SaysOfEveryLayerWhenItIsUpdated) {
  // The last layers are resident: no command on the host is about them, whatever is decided of what it would do.
  Model model = smallModel(slowLayers(4));
  model.clip = true;
  const Machine machine(smallTarget());
  Decisions decisions = leastMemory(model);
  for (LayerDecision &layer : decisions.layers)
    layer.speculative = true;
  for (size_t resident = 0; resident <= decisions.layers.size(); ++resident) {
    Schedule schedule = build(model, machine, decisions, Extent::step);
    const Timing timing = time(schedule, schedule.step, machine, decisions, true);
    ASSERT_TRUE(timing.fits());
    EXPECT_EQ(timing.vain.size(), model.layers.size());
    EXPECT_EQ(timing.pending.size(), model.layers.size());
    EXPECT_EQ(timing.pendingDown.size(), model.layers.size());
    if (resident < decisions.layers.size())
      decisions.layers[decisions.layers.size() - 1 - resident].resident = true;
  }
}

TEST(Order, StateThatComesInPartsTakesTheRoomOfAFew) {
  const Model model = smallModel(slowLayers(6));
  const Machine machine(smallTarget());
  /// The least room with which a step goes, where the state of all layers is streamed.
  auto least = [&](int64_t parts) {
    Decisions decisions = leastMemory(model);
    for (LayerDecision &layer : decisions.layers)
      layer.stateStreamed = true, layer.parts = parts;
    int64_t tooLittle = 0, enough = 100000000;
    while (enough - tooLittle > 1000) {
      decisions.deviceLimit = (tooLittle + enough) / 2;
      (timeOf(model, machine, decisions).fits() ? enough : tooLittle) = decisions.deviceLimit;
    }
    return enough;
  };
  // Beside a layer's weights and gradient, of 1,000,000 bytes each, 2,000,000 of state.
  EXPECT_NEAR(static_cast<double>(least(1)), 4e6, 1e5);
  EXPECT_NEAR(static_cast<double>(least(4)), 2.5e6, 1e5);
  EXPECT_NEAR(static_cast<double>(least(8)), 2.25e6, 1e5);
}

TEST(Order, KeptWeightsOfStreamedStateStay) {
  for (bool clip : {false, true}) {
    Model model = smallModel(slowLayers(6));
    model.clip = clip;
    const Machine machine(smallTarget());
    Decisions decisions = leastMemory(model);
    for (LayerDecision &layer : decisions.layers)
      layer.stateStreamed = layer.kept = true, layer.parts = 4;
    decisions.layers[0].kept = decisions.layers[1].stateStreamed = false;
    const Schedule schedule = build(model, machine, decisions, Extent::plan);
    /// Bytes that the copies of weights of each layer bring up, and down.
    auto moved = [&](const std::vector<Command> &program) {
      std::vector<std::pair<int64_t, int64_t>> bytes(model.layers.size());
      for (const Command &command : program)
        if (command.isCopy && schedule.slots[command.accesses[0].slot].kind == Kind::weight) {
          auto &[up, down] = bytes[static_cast<size_t>(command.layer)];
          (machine.isDevice(schedule.slots[command.accesses[1].slot].space) ? up : down) += command.accesses[0].bytes;
        }
      return bytes;
    };
    const auto step = moved(schedule.step), load = moved(schedule.load), store = moved(schedule.store);
    for (size_t l = 0; l < model.layers.size(); ++l) {
      const int64_t all = model.parameters[l].type.bytes();
      const std::pair<int64_t, int64_t> none{0, 0};
      if (l == 0) // up for forward and backward, with clipping for the update, too, and down
        EXPECT_EQ(step[l], std::pair((clip ? 3 : 2) * all, all));
      else if (l == 1) // up once, and the host updates it
        EXPECT_EQ(step[l], std::pair(all, int64_t(0)));
      else
        EXPECT_EQ(step[l], none) << "layer " << l;
      EXPECT_EQ(load[l], l < 2 ? none : std::pair(all, int64_t(0))) << "layer " << l;
      EXPECT_EQ(store[l], l < 2 ? none : std::pair(int64_t(0), all)) << "layer " << l;
    }
    EXPECT_TRUE(timeOf(model, machine, decisions).fits());
  }
}

/// Decisions of every kind, at random.
Decisions randomDecisions(const Model &model, const Machine &machine, std::mt19937 &random) {
  Decisions decisions = leastMemory(model);
  const std::vector<bool> reside = canReside(model, machine), streams = canStreamState(model, machine),
                          parks = canParkSaved(model, machine), files = canBeInFile(model, machine),
                          speculates = canSpeculate(model, machine);
  for (size_t l = 0; l < model.layers.size(); ++l) {
    LayerDecision &layer = decisions.layers[l];
    layer.rung = model.layers[l].isLoss ? 0 : static_cast<int64_t>(random() % model.layers[l].rungs.size());
    layer.kept = random() % 2;
    layer.resident = random() % 2 && reside[l];
    layer.stateStreamed = random() % 2 && streams[l] && !layer.resident;
    layer.parkedSaved = random() % 2 && parks[l];
    layer.speculative = random() % 2 && speculates[l];
    layer.stateInFile = files[l] && random() % 2;
    layer.gradientInFile = random() % 2;
    layer.together = int64_t(2) << random() % 3;
    layer.summed = random() % 2 ? LayerDecision::kAll : int64_t(1) << random() % 3;
    layer.parts = layer.stateStreamed ? 1 + static_cast<int64_t>(random() % kMostParts) : 1;
  }
  for (size_t v = 0; v < model.values.size(); ++v)
    decisions.parked[v] = decisions.parked[v] && random() % 2;
  decisions.batchShared = random() % 2; // of one device without effect
  decisions.speculativeFirst = random() % 2;
  return decisions;
}

/// With memory enough they never wait for each other, whatever was decided, with a disk and without, with other ranks
/// and without; nor do they with as little as some decisions need.
TEST(Order, SeveralDevicesDoNotLockUp) {
  std::mt19937 random(23);
  for (int i = 0; i < 400; ++i) {
    Model model = randomModel(random, 1 + random() % 8);
    model.microBatches = 1 + static_cast<int64_t>(random() % 9);
    target::Target target = randomTarget(random);
    if (random() % 2)
      target.peers = {random() % 2 ? "all 5e9" : "0 1 5e9"};
    if (random() % 2)
      target.diskMemory = 1 << 30, target.diskReadBandwidth = 2e9, target.diskWriteBandwidth = 1e9;
    target.ranks = random() % 2 ? 1 : 2 + random() % 4;
    target.networkBandwidth = 1e9;
    ASSERT_EQ(target::setDevices(target, 1 + random() % 5).message(), "");
    ASSERT_EQ(model.setOptimizer("adamw", target.ranks).message(), "");
    model.ranks = target.ranks;
    const Machine machine(target);
    const Decisions decisions = randomDecisions(model, machine, random);
    const Timing timing = timeOf(model, machine, decisions);
    ASSERT_TRUE(timing.fits()) << "model " << i;
    for (double busy : timing.busy)
      EXPECT_LE(busy, timing.seconds * 1.001) << "model " << i;
    const Decisions least = leastOf(model, machine, {}).decisions;
    EXPECT_TRUE(timeOf(model, machine, least).fits()) << "model " << i;
    const Schedule whole = build(model, machine, decisions, Extent::plan);
    EXPECT_TRUE(time(whole, whole.evaluate, machine, decisions, false).fits()) << "model " << i;
  }
}

/// What is in a file is there but for three states at a time, each of them from when its gradient has landed; what the
/// disk takes is hidden as far as a step is longer than that.
TEST(Order, StateInAFileTakesTheRoomOfAFew) {
  const std::vector<SmallLayer> layers(33, {2500, 1000, {}, 1e-3, {2e-3}});
  const Model model = smallModel(layers, 1);
  target::Target target = smallTarget(1e12);
  target.diskMemory = 1 << 30, target.diskReadBandwidth = target.diskWriteBandwidth = 1e12;
  const Machine machine(target);
  Decisions inMemory = leastMemory(model), inFile = inMemory;
  for (LayerDecision &layer : inFile.layers)
    layer.stateInFile = true;
  settle(model, machine, inMemory), settle(model, machine, inFile);
  const Timing before = timeOf(model, machine, inMemory), after = timeOf(model, machine, inFile);
  int64_t state = 0;
  for (const Parameter &parameter : model.parameters)
    for (const Parameter::Rest &rest : parameter.rest)
      state += rest.type.bytes();
  EXPECT_GT(state, 0);
  EXPECT_LT(after.hostUsed, before.hostUsed - state / 2);
  EXPECT_LT(after.seconds, 1.02 * before.seconds);
}

/// Layers in turn: as many times as fast as there are devices, but for the ends of a step.
TEST(Order, DevicesWorkAtOnce) {
  std::vector<SmallLayer> layers(33, {2500, 1000, {}, 1e-3, {2e-3}});
  const Model model = smallModel(layers, 16);
  target::Target target = smallTarget(1e12);
  const double alone = timeOf(model, Machine(target), leastMemory(model)).seconds;
  for (uint32_t devices : {2U, 4U}) {
    for (const char *peers : {"", "all 1e12"}) {
      target.peers.clear();
      if (*peers)
        target.peers = {peers};
      ASSERT_EQ(target::setDevices(target, devices).message(), "");
      EXPECT_GT(alone, 0.9 * devices * timeOf(model, Machine(target), leastMemory(model)).seconds)
          << devices << " devices " << peers;
    }
  }
}

TEST(Order, ListsCommandsAfterWhatTheyNeed) {
  std::mt19937 random(7);
  for (int i = 0; i < 60; ++i) {
    const Model model = randomModel(random, 4);
    const Machine machine(smallTarget(std::uniform_int_distribution<int>(1, 20)(random) * 1e9));
    Decisions decisions = leastMemory(model);
    settle(model, machine, decisions);
    Schedule schedule = build(model, machine, decisions, Extent::step);
    Timing timing = time(schedule, schedule.step, machine, decisions, true);
    ASSERT_TRUE(timing.fits());
    const auto found = dependencies(schedule, schedule.step, true);
    for (uint32_t c = 0; c < schedule.step.size(); ++c)
      for (const Dependency &dependency : found[c]) {
        if (schedule.step[c].late || schedule.step[dependency.command].late)
          continue; // they are listed a step later
        const double ready = timing.start[dependency.command] + schedule.step[dependency.command].seconds - dependency.back * timing.seconds;
        EXPECT_GE(timing.start[c], ready - 1e-9) << "model " << i << ", command " << c << " after " << dependency.command;
      }
  }
}

/// Also where nothing takes any time between the end of a step and the next, and starts differ by what is rounded.
TEST(Order, ListsWhatIsLateBeforeWhatNeedsIt) {
  std::mt19937 random(11);
  int late = 0;
  for (int i = 0; i < 200; ++i) {
    Model model = randomModel(random, 5);
    model.clip = i % 4 != 0;
    target::Target target = randomTarget(random);
    target.kernelOverheadSeconds = target.copyOverheadSeconds = 0;
    const Machine machine(target);
    Decisions decisions = leastMemory(model);
    for (LayerDecision &layer : decisions.layers) {
      layer.speculative = model.clip && random() % 2 == 0;
      layer.late = layer.lateDown = 0;
    }
    if (!constrain(model, machine, {}, decisions).ok())
      continue;
    const Schedule schedule = build(model, machine, decisions, Extent::step);
    const Timing timing = time(schedule, schedule.step, machine, decisions, true);
    if (!timing.fits())
      continue;
    const std::vector<uint32_t> order = listingOf(schedule, schedule.step, timing, true);
    std::vector<size_t> place(order.size());
    for (size_t at = 0; at < order.size(); ++at)
      place[order[at]] = at;
    const auto needs = dependencies(schedule, schedule.step, true);
    for (uint32_t c = 0; c < order.size(); ++c) {
      late += schedule.step[c].late ? 1 : 0;
      for (const Dependency &need : needs[c]) {
        const bool sameListing =
            schedule.step[need.command].late - static_cast<int64_t>(need.back) == schedule.step[c].late;
        EXPECT_TRUE(!sameListing || place[need.command] < place[c])
            << "model " << i << ", command " << c << " after " << need.command;
      }
    }
  }
  EXPECT_GT(late, 500);
}

/// What the next step lists comes after all that this one does on its stream: downloads that are moved there must not
/// wait behind state that comes down later.
TEST(Order, WhatIsListedInTheNextStepTakesNoLonger) {
  std::mt19937 random(29);
  int late = 0;
  for (int i = 0; i < 2000; ++i) {
    Model model = randomModel(random, 6);
    model.clip = i % 2 == 0;
    target::Target target = randomTarget(random);
    target.uploadBandwidth = target.downloadBandwidth = std::uniform_int_distribution<int>(1, 10)(random) * 1e8;
    const Machine machine(target);
    Decisions decisions = leastMemory(model);
    for (LayerDecision &layer : decisions.layers) {
      layer.resident = random() % 3 == 0;
      layer.stateStreamed = random() % 3 == 0;
    }
    settle(model, machine, decisions);
    Decisions open = decisions;
    for (LayerDecision &layer : open.layers)
      layer.late = layer.lateDown = LayerDecision::kOpen;
    const Timing timing = timeOf(model, machine, decisions);
    ASSERT_TRUE(timing.fits());
    EXPECT_LE(timing.seconds, 1.01 * timeOf(model, machine, open).seconds) << "model " << i;
    for (const LayerDecision &layer : decisions.layers)
      late += layer.lateDown < layer.parts;
  }
  EXPECT_GT(late, 10);
}

} // namespace
} // namespace mt::planner
