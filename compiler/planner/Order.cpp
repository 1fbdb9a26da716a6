#include "compiler/planner/Order.h"

#include "compiler/planner/Dependencies.h"
#include "compiler/planner/Emitter.h"
#include "runtime/plan/Contention.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <deque>
#include <map>
#include <numeric>
#include <queue>
#include <set>
#include <tuple>

namespace mt::planner {
namespace {

/// Steps that are run at most until one follows another as those before it did, and how near is the same.
constexpr uint32_t kSteps = 12;
constexpr double kSame = 1e-7;
/// What is on its way between devices through the host: places that a device has there, which are taken in the order of
/// need.
constexpr uint64_t kWays = 4;
/// States that are in memory at once, of those that are in a file: one is read, one updated and one written. One has
/// room of its own, the others what is left.
constexpr int64_t kRings = 3;
/// The same of pieces that go on from there to a device, and phases for which they are read ahead.
constexpr int64_t kWaysUp = 8, kReadAhead = 2;
/// How much longer than a step no stream takes for its part of one.
constexpr double kSteady = 1e-3;

/// Bytes by position: ranges are added to, and the greatest of a range is asked for. A tree with one leaf more at
/// either end, so that every range lies between two leaves, from which it is climbed.
class Profile {
public:
  explicit Profile(const std::vector<int64_t> &values) : width(std::bit_ceil(values.size() + 2)), nodes(2 * width) {
    for (size_t i = 0; i < values.size(); ++i)
      nodes[width + 1 + i].most = values[i];
    for (size_t i = width - 1; i >= 1; --i)
      takeFromBelow(i);
  }
  /// Both ends inclusive.
  void add(size_t first, size_t last, int64_t bytes) {
    auto addTo = [&](Node &node) { node.most += bytes, node.added += bytes; };
    size_t left = width + first, right = width + last + 2;
    while ((left ^ right) != 1) {
      if (left % 2 == 0)
        addTo(nodes[left + 1]);
      if (right % 2 == 1)
        addTo(nodes[right - 1]);
      left /= 2, right /= 2;
      takeFromBelow(left), takeFromBelow(right);
    }
    while ((left /= 2) > 0)
      takeFromBelow(left);
  }
  int64_t most(size_t first, size_t last) const {
    int64_t atLeft = INT64_MIN, atRight = INT64_MIN; // of what is below those two
    size_t left = width + first, right = width + last + 2;
    while ((left ^ right) != 1) {
      if (left % 2 == 0)
        atLeft = std::max(atLeft, nodes[left + 1].most);
      if (right % 2 == 1)
        atRight = std::max(atRight, nodes[right - 1].most);
      left /= 2, right /= 2;
      atLeft += nodes[left].added, atRight += nodes[right].added;
    }
    int64_t greatest = std::max(atLeft, atRight);
    while ((left /= 2) > 0)
      greatest += nodes[left].added;
    return greatest;
  }

private:
  struct Node {
    int64_t most = 0; ///< below it, what was added to all of it included
    int64_t added = 0;
  };
  size_t width;
  std::vector<Node> nodes;

  void takeFromBelow(size_t node) {
    nodes[node].most = std::max(nodes[2 * node].most, nodes[2 * node + 1].most) + nodes[node].added;
  }
};

/// What of a slot matters to memory. Positions count the commands of its device's engine.
struct Life {
  uint32_t opener = UINT32_MAX; ///< the first command that touches it
  int64_t firstUse = -1, lastUse = -1;
  int64_t room = -1;              ///< of what comes from another device: the position from which it has its room
  int64_t way = -1;               ///< of what is on its way there through the host: its number
  int ring = -1;    ///< of what is read from a file: 0 for an update, 1 and more on its way to a device, by number
  int64_t turn = 0; ///< of those on their way to a device: which goes up before it
  uint32_t to = 0;                ///< the device
  bool isOfNetwork = false;       ///< of a device: what other ranks send opens it, and its engine never sees it
  uint32_t users = 0, leaves = 0; ///< commands that touch it, and those that move it elsewhere
};

/// The memory of a device.
struct Memory {
  std::vector<uint32_t> atPosition; ///< commands of its engine, by position
  int64_t budget = 0;
  std::optional<Profile> profile; ///< bytes that are or will be there, by position through all steps
  int64_t held = 0;               ///< bytes of what is copied away, after their last use
  uint64_t computed = 0;          ///< commands of its engine that have ended
  uint64_t ways = 0, came = 0;    ///< what comes through the host in a step, and what of it has
};

class Simulation {
public:
  Simulation(const Schedule &schedule, std::span<const Command> program, const Machine &machine, const Decisions &decisions, bool cyclic)
      : schedule(schedule), program(program), machine(machine), decisions(decisions), count(static_cast<uint32_t>(program.size())),
        steps(cyclic ? kSteps : 1), underWay(machine.streams, machine.target.shares) {
    result.busy.assign(machine.streams.size(), 0);
    result.start.assign(count, 0), result.end.assign(count, 0);
    const size_t layers = decisions.layers.size();
    result.pending.assign(layers, 0), result.pendingDown.assign(layers, 0), result.vain.assign(layers, false);
    memories.resize(machine.devices.size());
    readDependencies(cyclic);
    readPositions();
    readLives();
  }

  Timing run() {
    if (!program.empty())
      simulate();
    return std::move(result);
  }

private:
  const Schedule &schedule;
  std::span<const Command> program;
  const Machine &machine;
  const Decisions &decisions;
  const uint32_t count, steps;
  Timing result;

  Grouped<Dependency> successors;                  ///< by command: who waits for it, so many iterations on
  std::vector<uint32_t> waits, waitsAtFirst;       ///< by command: for how many others, in any step and in the first
  std::vector<int64_t> position;                   ///< by command of an engine, else -1
  std::vector<Memory> memories;                    ///< by device
  std::vector<uint32_t> computing;                 ///< commands of all engines
  std::vector<int64_t>
      deadline; ///< by command: which of those waits for it, by number; of the next step: beyond the last
  std::vector<Life> lives;                         ///< by slot
  /// Slots by command: opens on its stream, last use, any use on the host, moves from a device elsewhere.
  Grouped<uint32_t> opens, ends, hostUses, moves;
  int64_t phases = 1, hostBudget = 0;
  std::optional<uint32_t> norm; ///< the command that tells it
  int64_t largestDown = 0; ///< bytes of what comes down to the host

  // A command of a step, and a slot of a step, by one number.
  uint64_t instance(uint32_t step, uint32_t command) const { return uint64_t(step) * count + command; }
  uint64_t slotInstance(uint32_t step, uint32_t slot) const { return uint64_t(step) * schedule.slots.size() + slot; }

  void readDependencies(bool cyclic) {
    const Grouped<Dependency> found = dependencies(schedule, program, cyclic);
    std::vector<std::pair<uint32_t, Dependency>> reversed;
    reversed.reserve(found.all());
    waits.assign(count, 0), waitsAtFirst.assign(count, 0);
    for (uint32_t i = 0; i < count; ++i)
      for (const Dependency &dependency : found[i]) {
        reversed.push_back({dependency.command, {i, dependency.back}});
        ++waits[i];
        waitsAtFirst[i] += dependency.back == 0;
      }
    successors = {count, reversed};
  }

  void readPositions() {
    position.assign(count, -1);
    for (uint32_t i = 0; i < count; ++i) {
      phases = std::max(phases, program[i].phase + 1);
      if (program[i].kernel == "step_norm")
        norm = i;
      if (machine.computes(program[i].stream)) {
        std::vector<uint32_t> &atPosition = memories[machine.deviceOfEngine(program[i].stream)].atPosition;
        position[i] = static_cast<int64_t>(atPosition.size());
        atPosition.push_back(i);
        computing.push_back(i);
      }
    }
  }

  void readLives() {
    lives.resize(schedule.slots.size());
    std::vector<std::pair<uint32_t, uint32_t>> opening, ending, usingHost, moving;
    std::vector<uint32_t> last(schedule.slots.size(), UINT32_MAX);
    for (Memory &memory : memories)
      memory.budget = decisions.deviceLimit;
    hostBudget = decisions.hostLimit;
    for (const Slot &slot : schedule.slots)
      if (slot.persistent)
        if (!machine.isFile(slot.space))
          (machine.isDevice(slot.space) ? memories[machine.deviceOfSpace(slot.space)].budget : hostBudget) -=
              aligned(slot.bytes);
    for (uint32_t i = 0; i < count; ++i)
      for (const Access &access : program[i].accesses) {
        Life &life = lives[access.slot];
        if (schedule.slots[access.slot].persistent || last[access.slot] == i)
          continue;
        if (life.opener == UINT32_MAX) {
          life.opener = i;
          life.isOfNetwork = onDevice(access.slot) && isOfNetwork(i);
          opening.push_back({i, access.slot});
        }
        last[access.slot] = i;
        ++life.users;
        if (position[i] >= 0) {
          life.firstUse = life.firstUse < 0 ? position[i] : life.firstUse;
          life.lastUse = position[i];
        }
        if (onDevice(access.slot) && ((leaves(i) && &access == &program[i].accesses[0]) || isOfNetwork(i))) {
          ++life.leaves;
          moving.push_back({i, access.slot});
        }
        if (!onDevice(access.slot))
          usingHost.push_back({i, access.slot});
      }
    opens = {count, opening}, moves = {count, moving}, hostUses = {count, usingHost};
    readWays();
    readRings();
    const int64_t ahead = phaseShare();
    for (uint32_t slot = 0; slot < lives.size(); ++slot) {
      Life &life = lives[slot];
      if (!onDevice(slot) || life.lastUse < 0)
        continue;
      ending.push_back({memoryOf(slot).atPosition[static_cast<size_t>(life.lastUse)], slot});
      if (program[life.opener].arrives) { // behind others on its stream, it may come no later than they
        const std::vector<uint32_t> &atPosition = memoryOf(slot).atPosition;
        const int64_t listed = std::ranges::lower_bound(atPosition, life.opener) - atPosition.begin();
        life.room = std::max<int64_t>(0, std::min(life.firstUse, listed) - ahead);
      }
    }
    ends = {count, ending};
    readDeadlines();
  }
  void readWays() {
    std::vector<int64_t> largest(memories.size(), 0);
    for (uint32_t i = 0; i < count; ++i) {
      if (!program[i].arrives || onDevice(program[i].accesses[0].slot))
        continue;
      const uint32_t slot = program[i].accesses[0].slot;
      lives[slot].to = machine.deviceOfSpace(schedule.slots[program[i].accesses[1].slot].space);
      lives[slot].way = static_cast<int64_t>(memories[lives[slot].to].ways++);
      largest[lives[slot].to] = std::max(largest[lives[slot].to], bytesOf(slot));
    }
    for (size_t d = 0; d < memories.size(); ++d)
      hostBudget -= largest[d] * static_cast<int64_t>(std::min(kWays, memories[d].ways));
  }
  void readRings() {
    rings.assign(1 + memories.size(), {});
    std::vector<int64_t> largest(rings.size(), 0);
    for (uint32_t i = 0; i < count; ++i) {
      if (isRead(i))
        lives[program[i].accesses[1].slot].ring = 0;
      if (isDownload(i))
        largestDown = std::max(largestDown, bytesOf(program[i].accesses[1].slot));
    }
    for (uint32_t i = 0; i < count; ++i)
      if (Life &from = lives[program[i].accesses[0].slot]; isUpload(i) && from.ring == 0) {
        from.ring = 1 + static_cast<int>(machine.deviceOfSpace(schedule.slots[program[i].accesses[1].slot].space));
        Rings &of = rings[static_cast<size_t>(from.ring)];
        of.most = kWaysUp;
        from.turn = of.turns++;
      }
    for (uint32_t slot = 0; slot < lives.size(); ++slot)
      if (lives[slot].ring >= 0) {
        int64_t &most = largest[static_cast<size_t>(lives[slot].ring)];
        most = std::max(most, bytesOf(slot) + kFileBlock);
      }
    for (int64_t bytes : largest)
      hostBudget -= bytes;
  }
  /// A device is ahead of the one that goes on with what it gives by so many runs of a phase, where all are busy.
  int64_t phaseShare() const {
    int64_t runs = 0, most = 0, phase = -1;
    for (uint32_t i : computing) {
      runs = program[i].phase == phase ? runs + 1 : 1;
      phase = program[i].phase;
      most = std::max(most, runs);
    }
    return most / static_cast<int64_t>(memories.size()) + 1;
  }
  Memory &memoryOf(uint32_t slot) { return memories[machine.deviceOfSpace(schedule.slots[slot].space)]; }
  const Memory &memoryOf(uint32_t slot) const { return memories[machine.deviceOfSpace(schedule.slots[slot].space)]; }
  int64_t bytesOf(uint32_t slot) const { return aligned(schedule.slots[slot].bytes); } ///< as packing counts them
  bool onDevice(uint32_t slot) const { return machine.isDevice(schedule.slots[slot].space); }
  bool isDownload(uint32_t command) const { return leaves(command) && !onDevice(program[command].accesses[1].slot); }
  bool isRead(uint32_t command) const {
    return program[command].isCopy && machine.isFile(schedule.slots[program[command].accesses[0].slot].space);
  }
  /// Whether its bytes count among those that what is on the host may take.
  bool isCounted(uint32_t slot) const {
    return machine.isHost(schedule.slots[slot].space) && lives[slot].way < 0 && lives[slot].ring < 0;
  }
  bool isUpload(uint32_t command) const { return program[command].isCopy && onDevice(program[command].accesses[1].slot); }
  /// Whether a device exchanges with other ranks by it, or adds up what they sent.
  bool isOfNetwork(uint32_t command) const {
    return machine.streams[program[command].stream].kind == plan::StreamKind::deviceNetwork;
  }
  bool leaves(uint32_t command) const { return program[command].isCopy && onDevice(program[command].accesses[0].slot); }

  /// A computation is due at its position, what is uploaded where it is first used, and everything else as soon as what
  /// waits for it: an update where the next step first uses the weights. What comes from other devices keeps its order.
  void readDeadlines() {
    const auto positions = static_cast<int64_t>(computing.size());
    deadline.assign(count, 2 * positions);
    std::vector<int64_t> number(count, -1);
    for (int64_t i = 0; i < positions; ++i)
      number[computing[static_cast<size_t>(i)]] = i;
    for (int pass = 0; pass < 2; ++pass) { // the second time with what was found for the next step
      std::vector<int64_t> behind(machine.streams.size(), INT64_MAX);
      for (uint32_t i = count; i-- > 0;) {
        if (number[i] >= 0)
          deadline[i] = std::min(deadline[i], number[i]);
        for (const Dependency &successor : successors[i])
          if (successor.back == 0 || isUpload(successor.command))
            deadline[i] = std::min(deadline[i], deadline[successor.command] + successor.back * positions);
        if (program[i].begins >= 0 && norm && decisions.speculativeFirst)
          deadline[i] = std::min(deadline[i], deadline[*norm]);
        if (program[i].arrives)
          behind[program[i].stream] = deadline[i] = std::min(deadline[i], behind[program[i].stream]);
      }
    }
    for (uint32_t i = 0; i < count; ++i) // reports, which take no time, and which the loop of training waits for
      if (program[i].updates < 0 && deadline[i] >= 2 * positions)
        deadline[i] = 0;
  }

  //-- running -------------------------------------------------------------------------------------------------------

  struct Waiting {
    uint64_t list, due, instance;
    auto operator<=>(const Waiting &) const = default;
  };
  /// A stream. Its order is that of the list, or, if it is sorted, whichever of those that are ready, and near enough,
  /// is due first; but nothing that one iteration lists starts after something of the next.
  struct Lane {
    std::vector<uint32_t> commands;
    uint64_t next = 0;
    bool sorted = false;
    bool sleeps = false;  ///< until a command of it becomes ready, or ends
    uint64_t current = 0; ///< what it does, while it is busy
    std::set<Waiting> ready;
    uint64_t list = 0;           ///< of which not all have started
    uint32_t now = 0, late = 0;  ///< commands of a step that it lists itself, and that the next one does
    std::vector<uint32_t> begun; ///< by list: commands that have started
    uint32_t total(uint64_t which) const { return now + (which > 0 ? late : 0); }
  };
  /// By device, and by phase: what could be read on its way there, but for that.
  std::vector<std::set<std::pair<int64_t, uint64_t>>> far;
  uint64_t listOf(uint64_t which) const { return which / count + program[which % count].late; }

  std::vector<Lane> lanes;
  std::vector<uint32_t> left;        ///< by instance: dependencies that have not ended
  std::vector<double> startOf, endOf; ///< by instance; negative: not yet
  plan::UnderWay underWay;
  int64_t hostLive = 0;
  /// What is read from a file for updates, and for each device: how many there are, and the slot instance that has the
  /// room of its own. What goes to a device is read in the order in which it goes there.
  struct Rings {
    int64_t most = kRings, count = 0;
    std::optional<uint64_t> own = {};
    int64_t turns = 0, next = 0; ///< of a step, and through all of them
  };
  std::vector<Rings> rings;
  int64_t deviceLeft = 0, hostLeft = 0; ///< what was missing to the command that had least left: at most 0
  std::vector<uint32_t> leavesLeft, usesLeft; ///< by slot instance
  std::vector<bool> isHeld;

  void prepare() {
    const uint64_t instances = uint64_t(steps) * count, slots = uint64_t(steps) * schedule.slots.size();
    left.resize(instances);
    startOf.assign(instances, -1), endOf.assign(instances, -1);
    leavesLeft.resize(slots), usesLeft.resize(slots), isHeld.assign(slots, false);
    std::vector<std::vector<int64_t>> base; // as yet what is more at a position than at the one before it
    for (const Memory &memory : memories)
      base.emplace_back(std::max<size_t>(1, memory.atPosition.size()) + 1, 0);
    for (uint32_t slot = 0; slot < lives.size(); ++slot) {
      const Life &life = lives[slot];
      if (!onDevice(slot) || life.opener == UINT32_MAX || life.isOfNetwork)
        continue;
      if (life.lastUse < 0) // nobody computes with it
        memoryOf(slot).budget -= bytesOf(slot);
      else if (position[life.opener] >= 0 || life.room >= 0) {
        std::vector<int64_t> &of = base[machine.deviceOfSpace(schedule.slots[slot].space)];
        of[static_cast<size_t>(life.room >= 0 ? life.room : life.firstUse)] += bytesOf(slot);
        of[static_cast<size_t>(life.lastUse) + 1] -= bytesOf(slot);
      }
    }
    for (std::vector<int64_t> &of : base) {
      std::inclusive_scan(of.begin(), of.end(), of.begin());
      of.pop_back();
    }
    far.resize(memories.size());
    deviceLeft = INT64_MIN, hostLeft = -hostBudget;
    for (size_t d = 0; d < memories.size(); ++d) {
      deviceLeft = std::max(deviceLeft, -memories[d].budget);
      std::vector<int64_t> all;
      for (uint32_t step = 0; step < steps; ++step)
        all.insert(all.end(), base[d].begin(), base[d].end());
      memories[d].profile.emplace(all);
    }
    for (uint32_t step = 0; step < steps; ++step)
      for (uint32_t slot = 0; slot < lives.size(); ++slot) {
        leavesLeft[slotInstance(step, slot)] = lives[slot].leaves;
        usesLeft[slotInstance(step, slot)] = lives[slot].users;
      }
    lanes.resize(machine.streams.size());
    for (uint32_t i = 0; i < count; ++i)
    {
      Lane &lane = lanes[program[i].stream];
      lane.commands.push_back(i);
      ++(program[i].late ? lane.late : lane.now);
    }
    for (Lane &lane : lanes) {
      lane.begun.assign(steps + 1, 0);
      passLists(lane);
    }
    lanes[machine.update.stream].sorted = machine.update.isHost;
    if (machine.network)
      lanes[machine.network->stream].sorted = true;
    for (const Device &device : machine.devices)
      if (device.network)
        lanes[device.network->stream].sorted = true;
    for (const Link &link : machine.links) {
      lanes[link.stream].sorted |= !machine.isDevice(link.to) || machine.isDevice(link.from) || machine.isFile(link.from);
      lanes[link.messages].sorted |= !machine.isDevice(link.to) || memories.size() > 1;
    }
    for (uint32_t step = 0; step < steps; ++step)
      for (uint32_t i = 0; i < count; ++i)
        left[instance(step, i)] = step == 0 ? waitsAtFirst[i] : waits[i];
    for (uint32_t step = 0; step < steps; ++step)
      for (uint32_t i = 0; i < count; ++i)
        if (left[instance(step, i)] == 0)
          becomeReady(instance(step, i));
  }

  /// Those of which all have started, or that have none.
  void passLists(Lane &lane) const {
    while (lane.list < steps && lane.begun[lane.list] == lane.total(lane.list))
      ++lane.list;
  }

  void becomeReady(uint64_t which) {
    auto i = static_cast<uint32_t>(which % count);
    Lane &lane = lanes[program[i].stream];
    if (goesUp(i))
      if (const size_t to = deviceOfRead(i); !isPhaseNear(which, memories[to], ahead())) {
        far[to].insert({phaseOf(which), which});
        return;
      }
    lane.sleeps = false;
    if (!lane.sorted)
      return;
    lane.ready.insert(waitingOf(which));
  }
  /// What is read on its way to a device, and phases for which it is.
  bool goesUp(uint32_t command) const {
    return isRead(command) && !opens[command].empty() && lives[opens[command].front()].ring > 0;
  }
  size_t deviceOfRead(uint32_t command) const { return static_cast<size_t>(lives[opens[command].front()].ring) - 1; }
  int64_t ahead() const { return std::min(kReadAhead, decisions.distance); }
  int64_t phaseOf(uint64_t which) const {
    return static_cast<int64_t>(which / count) * phases + program[which % count].phase;
  }
  Waiting waitingOf(uint64_t which) const {
    const uint64_t due = which / count * computing.size() + static_cast<uint64_t>(deadline[which % count]);
    return {listOf(which), due, which};
  }

  /// The next command of a lane, if it may start now.
  std::optional<uint64_t> nextOf(const Lane &lane) const {
    if (lane.sorted) {
      for (const Waiting &waiting : lane.ready)
        if (waiting.list > lane.list)
          break;
        else if (isNear(waiting.instance))
          return waiting.instance;
      return std::nullopt;
    }
    if (lane.commands.empty() || lane.next >= uint64_t(steps) * lane.commands.size())
      return std::nullopt;
    uint64_t which = instance(static_cast<uint32_t>(lane.next / lane.commands.size()), lane.commands[lane.next % lane.commands.size()]);
    return left[which] == 0 ? std::optional(which) : std::nullopt;
  }

  static constexpr int64_t kNothing = INT64_MIN;
  /// Bytes of the device and of the host that are missing for a command to start, negative if some are left; kNothing: it needs
  /// none of them.
  std::pair<int64_t, int64_t> missing(uint64_t which) const {
    auto i = static_cast<uint32_t>(which % count);
    const uint64_t step = which / count;
    if (position[i] >= 0) {
      const Memory &memory = memories[machine.deviceOfEngine(program[i].stream)];
      const size_t at = step * memory.atPosition.size() + static_cast<size_t>(position[i]);
      return {memory.profile->most(at, at) + memory.held - memory.budget, kNothing};
    }
    if (isOfNetwork(i) && !opens[i].empty()) {
      const Memory &memory = memories[machine.streams[program[i].stream].device];
      const size_t at = std::min<size_t>(memory.computed, steps * memory.atPosition.size() - 1);
      int64_t bytes = 0;
      for (uint32_t slot : opens[i])
        bytes += bytesOf(slot);
      return {memory.profile->most(at, at) + memory.held + bytes - memory.budget, kNothing};
    }
    for (uint32_t slot : opens[i]) {
      const int64_t bytes = bytesOf(slot);
      if (lives[slot].room >= 0)
        continue; // it has its room
      if (isUpload(i) && lives[slot].lastUse >= 0) {
        const Memory &memory = memoryOf(slot);
        const size_t last = step * memory.atPosition.size() + static_cast<size_t>(lives[slot].lastUse);
        return {memory.profile->most(std::min<size_t>(memory.computed, last), last) + memory.held + bytes -
                    memory.budget,
                kNothing};
      }
      const bool isUndo = program[i].begins >= 0;
      if (isUndo || (isDownload(i) && lives[slot].way < 0) || (lives[slot].ring >= 0 && ringsOf(slot).own))
        return {kNothing, hostLive + bytes - hostBudget};
    }
    return {kNothing, kNothing};
  }

  /// Whether a phase is near enough to bring what it needs.
  bool isNear(uint64_t which) const {
    auto i = static_cast<uint32_t>(which % count);
    if (isRead(i)) { // what has no room must not hold up what is read into a place that is there
      const uint32_t slot = program[i].accesses[1].slot;
      if (opens[i].empty())
        return startOf[instance(static_cast<uint32_t>(which / count), lives[slot].opener)] >= 0;
      const Rings &of = ringsOf(slot);
      if (of.count >= of.most || (of.own && hostLive + bytesOf(slot) > hostBudget))
        return false;
      // What waits for a device must not take the room of what others bring down, so that it is there.
      return lives[slot].ring == 0 || (of.next == static_cast<int64_t>(which / count) * of.turns + lives[slot].turn &&
                                       (!of.own || hostLive + bytesOf(slot) + largestDown <= hostBudget));
    }
    if (const Life &life = lives[program[i].accesses.back().slot]; life.way >= 0 && isDownload(i)) {
      const Memory &to = memories[life.to];
      return to.came + kWays > which / count * to.ways + static_cast<uint64_t>(life.way);
    }
    if (!isUpload(i))
      return true;
    const uint32_t slot = program[i].accesses[1].slot;
    const Memory &memory = memoryOf(slot);
    const std::vector<uint32_t> &atPosition = memory.atPosition;
    if (lives[slot].room >= 0)
      return memory.computed >= which / count * atPosition.size() + static_cast<uint64_t>(lives[slot].room);
    return decisions.distance == INT64_MAX || isPhaseNear(which, memory, decisions.distance);
  }

  Rings &ringsOf(uint32_t slot) { return rings[static_cast<size_t>(lives[slot].ring)]; }
  const Rings &ringsOf(uint32_t slot) const { return rings[static_cast<size_t>(lives[slot].ring)]; }

  /// Whether a device is so few phases before that of a command.
  bool isPhaseNear(uint64_t which, const Memory &memory, int64_t distance) const {
    return memory.atPosition.empty() || phaseOf(memory) + distance >= phaseOf(which);
  }
  /// Of what a device computes next; where it has computed all, beyond any.
  int64_t phaseOf(const Memory &memory) const {
    const std::vector<uint32_t> &atPosition = memory.atPosition;
    const uint64_t at = memory.computed;
    if (at >= uint64_t(steps) * atPosition.size())
      return int64_t(steps) * phases;
    return static_cast<int64_t>(at / atPosition.size()) * phases + program[atPosition[at % atPosition.size()]].phase;
  }

  bool start(uint32_t stream) {
    Lane &lane = lanes[stream];
    if (lane.sleeps || underWay.isBusy(stream))
      return false;
    std::optional<uint64_t> which = nextOf(lane);
    lane.sleeps = !which && (!lane.sorted || lane.ready.empty() || lane.ready.begin()->list > lane.list);
    if (!which || !isNear(*which))
      return false;
    auto [device, host] = missing(*which);
    if (device > 0 || host > 0)
      return false;
    deviceLeft = std::max(deviceLeft, device), hostLeft = std::max(hostLeft, host);
    auto i = static_cast<uint32_t>(*which % count);
    const auto step = static_cast<uint32_t>(*which / count);
    for (uint32_t slot : opens[i]) {
      const int64_t bytes = bytesOf(slot);
      if (lives[slot].ring >= 0) {
        Rings &of = ringsOf(slot);
        ++of.count, ++of.next;
        if (of.own)
          hostLive += bytes;
        else
          of.own = slotInstance(step, slot);
      }
      if (!onDevice(slot))
        hostLive += isCounted(slot) ? bytes : 0;
      else if (lives[slot].isOfNetwork) {
        isHeld[slotInstance(step, slot)] = true;
        memoryOf(slot).held += bytes;
      } else if (isUpload(i) && lives[slot].lastUse >= 0 && lives[slot].room < 0) {
        Memory &memory = memoryOf(slot);
        const size_t last = step * memory.atPosition.size() + static_cast<size_t>(lives[slot].lastUse);
        memory.profile->add(std::min<size_t>(memory.computed, last), last, bytes);
      }
    }
    if (lane.sorted)
      lane.ready.erase(waitingOf(*which));
    else
      ++lane.next;
    ++lane.begun[listOf(*which)];
    passLists(lane);
    lane.current = *which;
    startOf[*which] = underWay.now();
    underWay.begin(stream, program[i].seconds);
    return true;
  }

  void end(uint64_t which) {
    auto i = static_cast<uint32_t>(which % count);
    const auto step = static_cast<uint32_t>(which / count);
    endOf[which] = underWay.now();
    lanes[program[i].stream].sleeps = false;
    if (position[i] >= 0) {
      const uint32_t device = machine.deviceOfEngine(program[i].stream);
      ++memories[device].computed;
      for (auto &waiting = far[device];
           !waiting.empty() && isPhaseNear(waiting.begin()->second, memories[device], ahead());) {
        const uint64_t near = waiting.begin()->second;
        waiting.erase(waiting.begin());
        becomeReady(near);
      }
    }
    for (uint32_t slot : ends[i])
      if (leavesLeft[slotInstance(step, slot)] > 0) {
        isHeld[slotInstance(step, slot)] = true;
        memoryOf(slot).held += bytesOf(slot);
      }
    for (uint32_t slot : moves[i])
      if (const uint64_t which = slotInstance(step, slot); --leavesLeft[which] == 0 && isHeld[which])
        memoryOf(slot).held -= bytesOf(slot);
    for (uint32_t slot : hostUses[i])
      if (--usesLeft[slotInstance(step, slot)] == 0) {
        if (lives[slot].ring >= 0) {
          Rings &of = ringsOf(slot);
          --of.count;
          if (of.own == slotInstance(step, slot))
            of.own.reset();
          else
            hostLive -= bytesOf(slot);
        }
        hostLive -= isCounted(slot) ? bytesOf(slot) : 0;
      }
    if (program[i].arrives && lives[program[i].accesses[0].slot].way >= 0)
      ++memoryOf(program[i].accesses[1].slot).came;
    for (const Dependency &successor : successors[i])
      if (step + successor.back < steps)
        if (uint64_t next = instance(step + successor.back, successor.command); --left[next] == 0)
          becomeReady(next);
  }

  void simulate() {
    prepare();
    const uint32_t first = firstComputed();
    uint32_t begun = 0;            // steps whose first computation has started
    uint32_t settled = steps;      // a step like those before it
    while (true) {
      for (bool any = true; any;) {
        any = false;
        for (uint32_t stream = 0; stream < lanes.size(); ++stream)
          any |= start(stream);
      }
      if (begun < steps && startOf[instance(begun, first)] >= 0) {
        ++begun;
        if (begun >= 4) {
          const double last = period(begun - 2), before = period(begun - 3);
          if (std::abs(last - before) <= kSame * std::max(last, 1e-9) && settled == steps)
            settled = begun - 2;
        }
      }
      if (settled < steps && isDone(settled)) {
        if (lag(settled) <= (1 + kSteady) * period(settled) || settled + 2 >= steps)
          return measure(settled);
        ++settled;
      }
      if (!underWay.any())
        break;
      for (uint32_t stream : underWay.advance())
        end(lanes[stream].current);
    }
    if (isDone(steps - 1))
      return measure(steps > 2 ? steps - 2 : steps - 1);
    reportShortage();
  }

  uint32_t firstComputed() const { return computing.empty() ? 0 : computing.front(); }
  double period(uint32_t step) const {
    const uint32_t first = firstComputed();
    return startOf[instance(step + 1, first)] - startOf[instance(step, first)];
  }
  /// The longest time from a command of one step to the same of `step`. A stream that has more to do than a step has time falls
  /// behind from step to step, and computing goes on as long as there is memory for what piles up: not much longer.
  double lag(uint32_t step) const {
    double longest = 0;
    for (uint32_t i = 0; i < count && step > 0; ++i)
      longest = std::max(longest, startOf[instance(step, i)] - startOf[instance(step - 1, i)]);
    return longest;
  }
  bool isDone(uint32_t step) const {
    for (uint32_t i = count; i-- > 0;)
      if (endOf[instance(step, i)] < 0)
        return false;
    return true;
  }

  void measure(uint32_t step) {
    result.deviceUsed = decisions.deviceLimit + deviceLeft, result.hostUsed = decisions.hostLimit + hostLeft;
    // Of a limit that what is always there exceeds, though no command waits for memory.
    result.missingDevice = std::max<int64_t>(0, deviceLeft), result.missingHost = std::max<int64_t>(0, hostLeft);
    const uint32_t first = firstComputed();
    const double origin = startOf[instance(step, first)];
    result.seconds = 0;
    if (steps == 1)
      result.seconds = *std::ranges::max_element(endOf);
    else if (step + 1 < steps && startOf[instance(step + 1, first)] >= 0)
      result.seconds = period(step);
    if (const double longest = lag(step); longest > (1 + kSteady) * result.seconds)
      result.seconds = longest;
    result.expected = result.seconds;
    for (uint32_t i = 0; i < count; ++i)
      result.start[i] = startOf[instance(step, i)] - origin, result.end[i] = endOf[instance(step, i)] - origin;
    for (uint32_t i = 0; i < count; ++i)
      result.busy[program[i].stream] += endOf[instance(step, i)] - startOf[instance(step, i)];
    std::ranges::fill(result.pendingDown, INT64_MAX);
    for (const Command &command : program)
      if (command.lands >= 0)
        result.pendingDown[static_cast<size_t>(command.lands)] = 0;
    // What the next step lists cannot start before something that this one does, whenever that is.
    std::vector<double> last(machine.streams.size(), result.seconds);
    for (uint32_t i = 0; i < count; ++i)
      if (program[i].updates < 0 && program[i].lands < 0)
        last[program[i].stream] = std::max(last[program[i].stream], result.start[i]);
    for (uint32_t i = 0; i < count; ++i) {
      if (program[i].begins >= 0 && norm && result.start[i] >= std::min(result.start[*norm], result.seconds))
        result.vain[static_cast<size_t>(program[i].begins)] = true;
      auto isNotLate = [&](std::vector<int64_t> &pending, int64_t layer) {
        if (layer >= 0 && result.start[i] < last[program[i].stream])
          pending[static_cast<size_t>(layer)] = std::max(pending[static_cast<size_t>(layer)], program[i].part + 1);
      };
      isNotLate(result.pending, program[i].updates);
      isNotLate(result.pendingDown, program[i].lands);
      if (program[i].late)
        result.start[i] -= result.seconds, result.end[i] -= result.seconds;
    }
  }

  /// Nothing runs and not all is done: what could start but for memory says how much is missing. What waits for the host's
  /// holds bytes of the device, so that others may wait for those: where host memory is missing, it is what is missing first.
  void reportShortage() {
    auto lacksHost = [&](int64_t bytes) {
      if (bytes > 0 && (result.missingHost == 0 || bytes < result.missingHost))
        result.missingHost = bytes;
    };
    for (const Lane &lane : lanes)
      for (const Waiting &waiting : lane.ready) // what is read into memory that is not there
        if (const auto i = static_cast<uint32_t>(waiting.instance % count); isRead(i) && !opens[i].empty())
          if (const Rings &of = ringsOf(opens[i].front()); of.own && of.count < of.most)
            lacksHost(hostLive + bytesOf(opens[i].front()) + (goesUp(i) ? largestDown : 0) - hostBudget);
    for (const Lane &lane : lanes)
      if (std::optional<uint64_t> which = nextOf(lane)) {
        auto [device, host] = missing(*which);
        if (device > 0 && (result.missingDevice == 0 || device < result.missingDevice))
          result.missingDevice = device;
        lacksHost(host);
      }
    if (result.missingHost > 0)
      result.missingDevice = 0;
    else if (result.missingDevice == 0)
      result.missingDevice = 1;
  }
};
} // namespace

Timing time(const Schedule &schedule, std::span<const Command> program, const Machine &machine, const Decisions &decisions, bool cyclic) {
  return Simulation(schedule, program, machine, decisions, cyclic).run();
}

std::vector<uint32_t> listingOf(const Schedule &schedule, std::span<const Command> program, const Timing &timing,
                                bool cyclic) {
  const auto count = static_cast<uint32_t>(program.size());
  std::vector<std::vector<uint32_t>> users(count); // of the same listing
  std::vector<uint32_t> left(count, 0);
  const auto needs = dependencies(schedule, program, cyclic);
  for (uint32_t i = 0; i < count; ++i)
    for (const Dependency &need : needs[i])
      if (program[need.command].late - static_cast<int64_t>(need.back) == program[i].late) {
        users[need.command].push_back(i);
        ++left[i];
      }
  using Next = std::tuple<double, bool, uint32_t>;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> ready;
  auto add = [&](uint32_t i) { ready.emplace(timing.start[i], !program[i].late, i); };
  for (uint32_t i = 0; i < count; ++i)
    if (left[i] == 0)
      add(i);
  std::vector<uint32_t> order;
  for (; !ready.empty();) {
    const uint32_t i = std::get<uint32_t>(ready.top());
    ready.pop();
    order.push_back(i);
    for (uint32_t user : users[i])
      if (--left[user] == 0)
        add(user);
  }
  assert(order.size() == count && "commands need each other");
  return order;
}

void putInOrder(std::vector<Command> &program, Timing &timing, std::span<const uint32_t> listing) {
  std::vector<Command> sorted;
  std::vector<double> starts, ends;
  for (uint32_t i : listing) {
    sorted.push_back(std::move(program[i]));
    starts.push_back(timing.start[i]), ends.push_back(timing.end[i]);
  }
  program = std::move(sorted);
  timing.start = std::move(starts), timing.end = std::move(ends);
}

void sortAsLate(std::vector<Command> &finish, std::span<const Command> step, std::span<const uint32_t> listing) {
  std::vector<size_t> place(step.size());
  for (size_t at = 0; at < listing.size(); ++at)
    place[listing[at]] = at;
  // What is late of a layer on a stream is so in one order of data, in the step and in finish.
  std::map<std::pair<int64_t, uint32_t>, std::deque<size_t>> late; // by layer and stream
  for (size_t i = 0; i < step.size(); ++i)
    if (step[i].late)
      late[{step[i].layer, step[i].stream}].push_back(place[i]);
  std::multimap<size_t, Command> sorted; // of one place, in the order in which they were
  for (Command &command : finish) {
    std::deque<size_t> &same = late[{command.layer, command.stream}];
    const size_t at = same.empty() ? step.size() : same.front(); // the end of finish is no update
    if (!same.empty())
      same.pop_front();
    sorted.emplace(at, std::move(command));
  }
  assert(std::ranges::all_of(late, [](const auto &each) { return each.second.empty(); }) && "finish does what is late");
  finish.clear();
  for (auto &[at, command] : sorted)
    finish.push_back(std::move(command));
}

} // namespace mt::planner
