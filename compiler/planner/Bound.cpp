#include "compiler/planner/Bound.h"

#include "compiler/planner/Builder.h"
#include "compiler/target/CostModel.h"
#include "runtime/plan/Contention.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <ranges>
#include <set>

namespace mt::planner {
namespace {
/// By stream: which other slows it down most, and how much.
using Sharers = std::vector<std::pair<size_t, double>>;

Sharers mostContended(const Machine &machine, const std::vector<std::vector<double>> &loads) {
  Sharers sharers(loads.size(), {0, 0});
  for (size_t a = 0; a < loads.size(); ++a) {
    double most = 0;
    for (size_t b = 0; b < loads.size(); ++b) {
      const double share =
          a == b
              ? 0
              : std::min(1.0, plan::contentionBetween(machine.streams[a], machine.streams[b], machine.target.shares));
      if (const double lost = share * std::accumulate(loads[b].begin(), loads[b].end(), 0.0); lost > most) {
        most = lost;
        sharers[a] = {b, share};
      }
    }
  }
  return sharers;
}

/// Work of another stream costs a stream time, whether both wait for each other or work at once: as much of it as the
/// share by which it slows this one down, where that is at most 1. Two others may do so at the same time: only one
/// counts.
void addContention(std::vector<std::vector<double>> &loads, const Sharers &sharers) {
  const std::vector<std::vector<double>> alone = loads;
  for (size_t a = 0; a < loads.size(); ++a)
    for (size_t l = 0; l < loads[a].size(); ++l)
      loads[a][l] += sharers[a].second * alone[sharers[a].first][l];
}

/// Seconds that a stream is spared, and what that takes: bytes, or seconds of another.
struct Saving {
  double seconds = 0, price = 0;
};

double sum(const std::vector<double> &values) { return std::accumulate(values.begin(), values.end(), 0.0); }

/// What updates alone read and write of a parameter.
int64_t stateBytes(const Parameter &parameter) {
  int64_t bytes = 0;
  for (const Parameter::Rest &rest : parameter.rest)
    bytes += parameter.isTrained() ? rest.type.bytes() : 0;
  return bytes;
}

/// What streamed state can take from the host at most: as much as the links have time to bring the state up for.
struct Relief {
  size_t links = 1;
  double uploads = 0; ///< seconds of all links at least: where all that can be is resident
  double all = 0;     ///< seconds of the host, of all that can be streamed
  double rate = 0;    ///< seconds of the host for one of the link, at best
  Relief(const Model &model, const Machine &machine, const std::vector<std::vector<double>> &away,
         const std::vector<std::vector<double>> &resident) {
    if (machine.unified())
      return;
    const std::vector<bool> streams = canStreamState(model, machine);
    links = machine.devices.size();
    for (const Device &device : machine.devices)
      uploads += sum(resident[machine.link(machine.staging, device.memory)->stream]);
    const Link &up = *machine.link(machine.staging, machine.devices.front().memory);
    for (size_t l = 0; l < model.layers.size(); ++l) {
      if (!streams[l])
        continue;
      int64_t bytes = 0;
      for (int64_t p : model.layers[l].owned)
        bytes += stateBytes(model.parameters[static_cast<size_t>(p)]);
      const double host = away[machine.update.stream][l + 1];
      all += host;
      rate = std::max(rate, bytes > 0 ? host / up.seconds(bytes) : HUGE_VAL);
    }
  }
  double within(double seconds) const {
    const double spare = static_cast<double>(links) * seconds - uploads;
    return spare > 0 && all > 0 ? std::min(all, rate * spare) : 0;
  }
};

/// Seconds of updates that one second of speculative ones does, at best; 0: there are none.
double speculated(const Model &model, const Machine &machine) {
  if (std::ranges::none_of(canSpeculate(model, machine), std::identity()))
    return 0;
  double best = 0;
  for (const Parameter &parameter : model.parameters)
    if (parameter.isTrained()) {
      auto seconds = [&](kernels::Speculation speculation) {
        return target::hostKernelSeconds(machine.target, kernels::updateCall(*parameter.spec, parameter.isSplit(),
                                                                             parameter.full.dims, speculation));
      };
      best = std::max(best, seconds(kernels::Speculation::none) / seconds(kernels::Speculation::begins));
    }
  return std::min(best, 1.0);
}

/// Operands of a kind that a layer's backward reads at every rung.
std::set<int64_t> alwaysRead(const Model &model, Operand::Kind kind) {
  std::set<int64_t> read;
  for (size_t l = 0; l < model.layers.size(); ++l) {
    const Layer &layer = model.layers[l];
    for (size_t i = 0; i < layer.operands.size(); ++i) {
      auto reads = [&](size_t rung) {
        return model.backwardReads(static_cast<int64_t>(l), static_cast<int64_t>(rung), static_cast<int64_t>(i));
      };
      if (layer.operands[i].kind == kind && layer.isDifferentiated() &&
          std::ranges::all_of(std::views::iota(size_t{0}, layer.rungs.size()), reads))
        read.insert(layer.operands[i].index);
    }
  }
  return read;
}

/// Seconds of bringing the weights that backward reads at any rung, of which the devices have no more than their memory
/// when that begins.
double broughtForBackward(const Model &model, const Machine &machine, double deviceMemory) {
  if (machine.unified())
    return 0;
  double bytes = -deviceMemory;
  for (int64_t p : alwaysRead(model, Operand::parameter))
    bytes += static_cast<double>(model.parameters[static_cast<size_t>(p)].type.bytes());
  const Link &up = *machine.link(machine.staging, machine.devices.front().memory);
  return std::max(0.0, bytes) / up.bytesPerSecond / static_cast<double>(machine.devices.size());
}

/// Of weights and state that the memory of host and devices has no room for; other things take some of that, too.
double diskSeconds(const Model &model, const Machine &machine, const Constraints &constraints) {
  if (!machine.file)
    return 0;
  const double bytes = static_cast<double>(leastBytes(model).kept) - static_cast<double>(constraints.hostMemory) -
                       static_cast<double>(machine.devices.size()) * static_cast<double>(constraints.deviceMemory);
  return std::max(0.0, bytes) / std::min(machine.target.diskReadBandwidth, machine.target.diskWriteBandwidth);
}

/// Seconds of networks, where the host's and those of devices divide the gradients between them as suits best.
double networkSeconds(const Model &model, const Machine &machine, Decisions decisions) {
  if (!machine.network || !machine.devices.front().network ||
      decisions.batchShared) // one network is a stream like others
    return 0;
  auto busiest = [&](bool onDevice) {
    for (LayerDecision &layer : decisions.layers)
      layer.exchangedOnDevice = onDevice;
    std::vector<double> busy(machine.streams.size(), 0);
    for (const Command &command : build(model, machine, decisions, Extent::step).step)
      if (command.kernel == "all_to_all" || command.kernel == "all_gather")
        busy[command.stream] += command.seconds;
    double devices = 0;
    for (const Device &device : machine.devices)
      devices += busy[device.network->stream] / static_cast<double>(machine.devices.size());
    return std::pair(busy[machine.network->stream], devices);
  };
  const auto [byHost, none] = busiest(false);
  const auto [other, byDevices] = busiest(true);
  const double gradients = byHost - other; // of the host, if it carries all of them
  if (gradients <= 0 || byDevices <= 0)
    return byHost;
  const double part = std::clamp((byDevices - other) / (gradients + byDevices), 0.0, 1.0);
  return std::max(other + part * gradients, (1 - part) * byDevices);
}
} // namespace

LeastBytes leastBytes(const Model &model) {
  LeastBytes least;
  for (const Parameter &parameter : model.parameters)
    least.kept += parameter.type.bytes() + stateBytes(parameter);
  const Decisions decisions = leastMemory(model);
  for (int64_t v : alwaysRead(model, Operand::value))
    if (canPark(model, decisions, v)) // it is not read at once
      least.values += model.values[static_cast<size_t>(v)].type.bytes() * model.microBatches;
  return least;
}

double lowerBound(const Model &model, const Machine &machine, const Constraints &constraints) {
  const int64_t deviceMemory = constraints.deviceMemory;
  if (!constraints.batchShared && machine.devices.size() > 1) {
    Constraints turns = constraints, shared = constraints;
    turns.batchShared = false, shared.batchShared = true;
    return std::min(lowerBound(model, machine, turns), lowerBound(model, machine, shared));
  }
  Decisions most = leastMemory(model);
  most.batchShared = constraints.batchShared.value_or(false) && machine.devices.size() > 1;
  for (size_t l = 0; l < model.layers.size(); ++l) {
    most.layers[l].kept = true;
    most.layers[l].exchangedOnDevice = true;
    most.layers[l].summed = LayerDecision::kAll;
    most.layers[l].together = LayerDecision::kMostTogether;
    most.layers[l].rung = std::max<int64_t>(0, static_cast<int64_t>(model.layers[l].rungs.size()) - 1);
  }
  most.parked.assign(model.values.size(), false);
  /// Sums of micro-batches, and their norms: the host may add them up.
  auto mayBeOnHost = [&](const Command &command) {
    return model.microBatches > 1 && machine.computes(command.stream) &&
           (command.kernel == "pairwise_sum" || command.kernel == "squared_norm" ||
            command.kernel == "squared_norm_parts");
  };
  /// Seconds by stream and layer (0: of none).
  double backward = 0;
  auto loads = [&](const Decisions &decisions) {
    std::vector<std::vector<double>> busy(machine.streams.size(), std::vector<double>(model.layers.size() + 1, 0));
    backward = 0;
    const Schedule schedule = build(model, machine, decisions, Extent::step);
    for (const Command &command : schedule.step) {
      const bool isPart = command.arrives && schedule.slots[command.accesses[1].slot].kind == Kind::gradient;
      if (machine.streams[command.stream].kind == plan::StreamKind::deviceNetwork) // hosts may exchange it, too
        continue;
      if (mayBeOnHost(command) || (isPart && model.microBatches > 1))
        continue;
      busy[command.stream][static_cast<size_t>(command.layer + 1)] += command.seconds;
      if (command.code >= 0 && command.layer >= 0)
        for (const Rung &rung : model.layers[static_cast<size_t>(command.layer)].rungs)
          if (rung.backward == command.code) {
            backward += command.seconds;
            break;
          }
    }
    return busy;
  };
  const double networks = networkSeconds(model, machine, most);
  std::vector<std::vector<double>> away = loads(most);
  const auto devices = static_cast<double>(machine.devices.size());
  const double memory = devices * static_cast<double>(deviceMemory),
               brought = broughtForBackward(model, machine, memory);
  // Of what a resident layer has on the device, and one with streamed state whose weights are there; with clipping all
  // gradients are there when the norm is known.
  std::vector<int64_t> bytes(model.layers.size(), 0), bytesOfWeights = bytes;
  for (size_t p = 0; p < model.parameters.size(); ++p)
    if (const int64_t home = model.homeOf(static_cast<int64_t>(p)); home >= 0) {
      const Parameter &parameter = model.parameters[p];
      bytesOfWeights[static_cast<size_t>(home)] += parameter.type.bytes();
      if (parameter.isTrained() && model.clip)
        bytesOfWeights[static_cast<size_t>(home)] += parameter.full.bytes();
      bytes[static_cast<size_t>(home)] += stateBytes(parameter);
    }
  for (size_t l = 0; l < bytes.size(); ++l)
    bytes[l] += bytesOfWeights[l];
  std::vector<size_t> can;
  const std::vector<bool> reside = canReside(model, machine), streams = canStreamState(model, machine);
  for (size_t l = 0; l < model.layers.size(); ++l)
    most.layers[l].stateStreamed = streams[l];
  std::vector<std::vector<double>> streamed = loads(most);
  for (size_t l = 0; l < model.layers.size(); ++l)
    if (reside[l] && !most.batchShared) {
      most.layers[l].resident = true;
      can.push_back(l);
    }
  std::vector<std::vector<double>> resident = loads(most);
  const Relief relief(model, machine, away, resident);
  const auto sharers = mostContended(machine, away);
  addContention(away, sharers), addContention(resident, sharers), addContention(streamed, sharers);
  // Of all engines: their layers, and the busiest one.
  std::vector<double> none(model.layers.size() + 1, 0), all = none;
  double least = 0;
  for (const Device &device : machine.devices) {
    least = std::max(least, sum(away[device.engine.stream]));
    for (size_t l = 0; l < none.size(); ++l) {
      none[l] += away[device.engine.stream][l];
      all[l] += resident[device.engine.stream][l];
    }
  }
  const double computing = sum(none), speculativeRate = constraints.speculative.value_or(constraints.clipped < 1)
                                                            ? speculated(model, machine)
                                                            : 0;
  /// What resident layers spare each stream, and for how many of a device's bytes or of the seconds of their updates on
  /// the computing stream: what costs least for a second first.
  struct Savings {
    std::vector<Saving> forBytes, forTime;
  };
  std::vector<Savings> savings(away.size());
  for (size_t stream = 0; stream < away.size(); ++stream) {
    auto &[forBytes, forTime] = savings[stream];
    for (size_t l : can) {
      const double saved = away[stream][l + 1] - resident[stream][l + 1];
      const Saving whole{saved, static_cast<double>(bytes[l])};
      const Saving some{stream == machine.update.stream ? 0 : away[stream][l + 1] - streamed[stream][l + 1],
                        static_cast<double>(bytesOfWeights[l])};
      if (streams[l] && some.seconds * whole.price > whole.seconds * some.price) { // then the rest of the whole
        forBytes.push_back(some);
        forBytes.push_back({whole.seconds - some.seconds, whole.price - some.price});
      } else {
        forBytes.push_back(whole);
      }
      forTime.push_back({saved, all[l + 1] - none[l + 1]});
    }
    for (auto *each : {&forBytes, &forTime}) {
      std::erase_if(*each, [](const Saving &one) { return one.seconds <= 0; });
      std::ranges::sort(*each,
                        [](const Saving &a, const Saving &b) { return a.seconds * b.price > b.seconds * a.price; });
    }
  }
  /// Whether they can bring the other streams down to so many seconds, within the device's bytes and within what their
  /// updates then take of the computing stream: each stream, and each of the two, for itself, and with parts of layers
  /// (the continuous knapsack problem: Dantzig, 1957).
  auto possible = [&](double seconds) {
    auto spares = [&](const std::vector<Saving> &cheapestFirst, double load, double budget) {
      for (auto [saved, price] : cheapestFirst)
        if (load > seconds) {
          const double part = std::min({1.0, (load - seconds) / saved, price > 0 ? budget / price : 1.0});
          load -= part * saved;
          budget -= part * price;
        }
      return load <= seconds * (1 + 1e-9);
    };
    auto each = [&](size_t stream, double before) {
      const double load = before + sum(away[stream]) - (stream == machine.update.stream ? relief.within(seconds) : 0);
      return spares(savings[stream].forBytes, load, memory) &&
             spares(savings[stream].forTime, load, devices * seconds - computing);
    };
    bool enough = seconds >= least;
    for (size_t stream = 0; stream < away.size() && enough; ++stream)
      enough = machine.computes(static_cast<uint32_t>(stream)) || each(stream, 0);
    // With clipping the host waits for the norm, which the whole of backward gives, and that for weights that are not
    // there; but for what it updates speculatively meanwhile.
    return enough && (machine.unified() || !model.clip ||
                      each(machine.update.stream, std::max(backward / devices, brought) * (1 - speculativeRate)));
  };
  double low = std::max(diskSeconds(model, machine, constraints), networks), high = low;
  for (const std::vector<double> &stream : away)
    high += std::accumulate(stream.begin(), stream.end(), 0.0);
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    (possible(middle) ? high : low) = middle;
  }
  return high;
}

} // namespace mt::planner
