#include "compiler/planner/Emitter.h"

#include <algorithm>

namespace mt::planner {
namespace {
using plan::BindingEffect;

kernels::Effect effectOf(BindingEffect effect) {
  switch (effect) {
  case BindingEffect::read:
    return kernels::Effect::read;
  case BindingEffect::update:
  case BindingEffect::accumulate: // reads and writes, for what costs depend on
    return kernels::Effect::update;
  case BindingEffect::write:
    return kernels::Effect::write;
  }
  return kernels::Effect::read;
}
} // namespace

int64_t aligned(int64_t bytes) { return (bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment; }

Place Emitter::slot(std::string name, uint32_t space, Kind kind, int64_t bytes, bool persistent) {
  schedule.slots.push_back({std::move(name), space, kind, std::max<int64_t>(bytes, 1), persistent, {}, {}});
  return {static_cast<uint32_t>(schedule.slots.size() - 1)};
}

Access Emitter::access(Place place, BindingEffect effect, const TensorType &type) {
  return {place.slot, place.offset, type.bytes(), effect, &type};
}

Access Emitter::accessShare(Place place, BindingEffect effect, kernels::DType element, const kernels::Shares &shares) {
  Access made = access(place, effect, type(element, {shares.share}));
  const auto size = static_cast<int64_t>(kernels::byteSize(element));
  made.stride = shares.share * size;
  made.reach = (shares.body - shares.share) * size;
  made.stride = std::min(made.stride, made.reach); // of one share there is no next
  return made;
}

Command &Emitter::begin(std::string label, uint32_t stream) {
  Command &command = commands->emplace_back();
  command.stream = stream;
  command.label = std::move(label);
  command.layer = layer;
  command.microBatch = microBatch;
  command.phase = phase;
  return command;
}

Command &Emitter::copy(std::string label, Place from, Place to, int64_t bytes, Urgency urgency) {
  const uint32_t target = schedule.slots[to.slot].space;
  const Link &link = *machine.link(schedule.slots[from.slot].space, target);
  Command &command = begin(std::move(label), urgency == Urgency::message ? link.messages : link.stream);
  const bool isRead = machine.isFile(schedule.slots[from.slot].space);
  command.role = machine.isDevice(target) || isRead ? plan::Role::prefetch : plan::Role::offload;
  command.isCopy = true;
  command.seconds = link.seconds(bytes);
  command.accesses = {{from.slot, from.offset, bytes, BindingEffect::read}, {to.slot, to.offset, bytes, BindingEffect::write}};
  return command;
}

void Emitter::move(const std::string &label, Place from, Place to, int64_t bytes) {
  constexpr int64_t kPiece = 256 << 20;
  const Place inFile = machine.isFile(schedule.slots[from.slot].space) ? from
                       : machine.isFile(schedule.slots[to.slot].space) ? to
                                                                       : Place();
  if (!inFile) {
    copy(label, from, to, bytes);
    return;
  }
  const Kind kind = schedule.slots[inFile.slot].kind;
  for (int64_t begin = 0; begin < bytes; begin += kPiece) {
    const int64_t size = std::min(kPiece, bytes - begin), inBlock = (inFile.offset + begin) % kFileBlock;
    const Place way = slot(text("{} on its way", label), machine.staging, kind, inBlock + size) + inBlock;
    copy(label, from + begin, way, size);
    copy(label, way, to + begin, size);
  }
}

Place Emitter::across(std::string label, Place from, uint32_t space, Kind kind, int64_t bytes) {
  const Place to = slot(text("device {}", label), space, kind, bytes);
  if (machine.link(schedule.slots[from.slot].space, space)) {
    copy(std::move(label), from, to, bytes, Urgency::message).arrives = true;
    return to;
  }
  const Place way = slot(text("{} on its way", label), machine.staging, kind, bytes);
  copy(label, from, way, bytes, Urgency::message);
  copy(std::move(label), way, to, bytes, Urgency::message).arrives = true;
  return to;
}

void Emitter::run(std::string label, int64_t code, const Device &device, std::vector<Access> accesses) {
  const Template &entry = model.templates[static_cast<size_t>(code)];
  if (entry.workspace > 0) {
    Place place = slot(text("workspace of {}", label), device.memory, Kind::workspace, entry.workspace);
    accesses.push_back({place.slot, 0, entry.workspace, BindingEffect::write});
  }
  Command &command = begin(std::move(label), device.engine.stream);
  command.code = code;
  command.seconds = entry.seconds;
  command.accesses = std::move(accesses);
}

Command &Emitter::exchange(std::string label, const Engine &network, std::string name, std::vector<Access> accesses,
                           std::vector<int64_t> shares, int64_t bytes) {
  Command &added = begin(std::move(label), network.stream);
  added.kernel = std::move(name);
  added.accesses = std::move(accesses);
  added.shares = std::move(shares);
  added.seconds = machine.exchangeSeconds(bytes, network);
  return added;
}

void Emitter::add(std::string label, const Engine &engine, const std::vector<Addition> &additions) {
  // Sums of a step that are no floats of 32 bits come one at a time.
  const bool isFloat = std::ranges::all_of(additions, [](const Addition &each) { return each.type->type == kernels::DType::f32; });
  std::vector<Access> operands;
  for (const Addition &each : additions) {
    for (const Place &other : each.others)
      operands.push_back(access(other, BindingEffect::read, *each.type));
    operands.push_back(access(each.into, isFloat ? BindingEffect::update : BindingEffect::accumulate, *each.type));
  }
  kernel(std::move(label), engine, isFloat ? "pairwise_sum" : "copy", std::move(operands), static_cast<int64_t>(additions.size()));
}

/// A call of a kernel on some accesses.
static kernels::Signature callOf(const std::string &kernel, std::span<const Access> accesses) {
  kernels::Signature call{kernel, {}, {}};
  for (const Access &access : accesses)
    call.operands.push_back({access.type->type, access.type->dims, effectOf(access.effect)});
  return call;
}

Machine::Cost Emitter::costOf(const std::string &kernel, std::span<const Access> accesses, const Engine &engine) {
  auto add = [&](int64_t number) { key.append(reinterpret_cast<const char *>(&number), sizeof(number)); };
  key = kernel;
  add(engine.isHost << 1 | (engine.backend == kernels::Backend::cuda));
  for (const Access &access : accesses) {
    add(static_cast<int64_t>(access.type->dims.size()) << 16 | static_cast<int64_t>(access.type->type) << 8 |
        static_cast<int64_t>(effectOf(access.effect)));
    for (int64_t dim : access.type->dims)
      add(dim);
  }
  return machine.cost(key, [&] {
    const kernels::Signature call = callOf(kernel, accesses);
    const target::Target &target = machine.target;
    return Machine::Cost{engine.isHost ? target::hostKernelSeconds(target, call) : target::kernelSeconds(target, call),
                         kernels::workspaceBytes(call, engine.backend)};
  });
}

Command &Emitter::kernel(std::string label, const Engine &engine, std::string name, std::vector<Access> accesses, int64_t groups) {
  double seconds = 0;
  uint64_t workspace = 0; // the largest of any: that of the first would do only if all had one shape
  const size_t each = accesses.size() / static_cast<size_t>(groups);
  for (size_t group = 0; group < static_cast<size_t>(groups); ++group) {
    const Machine::Cost cost = costOf(name, std::span(accesses).subspan(group * each, each), engine);
    seconds += cost.seconds;
    workspace = std::max(workspace, cost.workspace);
  }
  if (auto bytes = static_cast<int64_t>(workspace)) {
    Place place = slot(text("workspace of {}", label), engine.space, Kind::workspace, bytes);
    accesses.push_back({place.slot, 0, bytes, BindingEffect::write});
  }
  Command &added = begin(std::move(label), engine.stream);
  added.kernel = std::move(name);
  added.groups = groups;
  added.accesses = std::move(accesses);
  added.seconds = seconds;
  return added;
}

} // namespace mt::planner
