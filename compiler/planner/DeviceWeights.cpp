#include "compiler/planner/DeviceWeights.h"

#include <algorithm>

namespace mt::planner {

Place DeviceWeights::ifWanted(int64_t p, uint32_t device) const {
  const Brought &each = brought[indexOf(p, device)];
  return each.until == context.running ? each.place : Place();
}

void DeviceWeights::bring(int64_t phase) {
  const int64_t l = context.phases[static_cast<size_t>(phase)].layer;
  context.out.setPlace(l, -1);
  const std::vector<int64_t> list = missing(phase);
  auto joins = [&](int64_t p, int64_t next) {
    const Parameter &entry = context.parameter(p);
    return entry.owner == context.parameter(next).owner &&
           (entry.owner == l ||
            aligned(layout.weightOf(p).offset + entry.type.bytes()) == layout.weightOf(next).offset);
  };
  for (size_t i = 0, end = 0; i < list.size(); i = end) {
    for (end = i + 1; end < list.size() && joins(list[end - 1], list[end]);)
      ++end;
    bringRun(l, {list.begin() + static_cast<std::ptrdiff_t>(i), list.begin() + static_cast<std::ptrdiff_t>(end)});
  }
}

/// What the phase's template takes from the host (backward needs no table that forward only took rows from), but for
/// what is still there; by owner and place.
std::vector<int64_t> DeviceWeights::missing(int64_t phase) {
  const auto &[l, backward] = context.phases[static_cast<size_t>(phase)];
  const Layer &layer = context.layer(l);
  const bool all = !backward || layer.isLoss;
  std::vector<int64_t> list;
  for (size_t number = 0; number < layer.operands.size(); ++number) {
    const Operand &operand = layer.operands[number];
    if (operand.kind != Operand::parameter ||
        !(all || context.model.backwardReads(l, context.decision(l).rung, static_cast<int64_t>(number))))
      continue;
    const int64_t p = operand.index;
    bool stays = true; // alike on all devices that the layer runs on
    for (uint32_t device : context.devicesOf(l)) {
      Brought &each = brought[indexOf(p, device)];
      stays = each.place && (context.decision(context.parameter(p).owner).kept || each.until + 1 >= phase);
      each.until = phase;
    }
    Brought &there = brought[indexOf(p, context.devicesOf(l).front())];
    if (context.machine.unified())
      there.place = layout.weightOf(p);
    else if (Place always = layout.residentWeights[static_cast<size_t>(p)];
             always && context.deviceOf(context.model.homeOf(p)) == context.deviceOf(l))
      there.place = always;
    else if (!stays && always)
      bringResident(l, p);
    else if (!stays)
      list.push_back(p);
  }
  std::ranges::sort(list, {},
                    [&](int64_t p) { return std::pair(context.parameter(p).owner, layout.weightOf(p).offset); });
  return list;
}

void DeviceWeights::bringRun(int64_t l, const std::vector<int64_t> &run) {
  Emitter &out = context.out;
  Place begin = layout.weightOf(run.front());
  const int64_t bytes = layout.weightOf(run.back()).offset + context.parameter(run.back()).type.bytes() - begin.offset;
  const bool own = context.parameter(run.front()).owner == l;
  std::string label = own ? out.text("weights layer {}", l) : out.text("weight {} layer {}", context.named(run), l);
  std::vector<Place> places;
  for (uint32_t device : context.devicesOf(l)) {
    places.push_back(out.slot(out.text("device {}", label), context.device(device).memory, Kind::weight, bytes));
    for (int64_t p : run)
      brought[indexOf(p, device)].place = places.back() + (layout.weightOf(p).offset - begin.offset);
  }
  if (places.size() > 1 && context.hasPeers)
    return bringToAll(label, begin, places, bytes);
  const int64_t part = own ? context.sizeOfPart(l, bytes) : bytes;
  for (const Place &place : places)
    for (int64_t at = 0; at < bytes; at += part)
      out.move(label, begin + at, place + at, std::min(part, bytes - at));
}

/// To devices that share the batch: each brings a part from the host, and the others take that from it.
void DeviceWeights::bringToAll(const std::string &label, Place begin, const std::vector<Place> &places, int64_t bytes) {
  const auto count = static_cast<int64_t>(places.size());
  const int64_t part = aligned((bytes + count - 1) / count);
  auto sizeOf = [&](int64_t i) { return std::clamp<int64_t>(bytes - i * part, 0, part); };
  for (int64_t i = 0; i < count && sizeOf(i) > 0; ++i)
    context.out.copy(label, begin + i * part, places[static_cast<size_t>(i)] + i * part, sizeOf(i));
  for (int64_t distance = 1; distance < count; ++distance) // each sends to another one at a time
    for (int64_t i = 0; i < count && sizeOf(i) > 0; ++i) {
      const int64_t to = (i + distance) % count;
      const Place there = places[static_cast<size_t>(to)];
      Command &command =
          context.out.copy(label, places[static_cast<size_t>(i)] + i * part, there + i * part, sizeOf(i));
      if (sizeOf(to) > 0) // behind what opens the place
        command.accesses.push_back({there.slot, to * part, sizeOf(to), plan::BindingEffect::read});
    }
}

/// From the device where it always is.
void DeviceWeights::bringResident(int64_t l, int64_t p) {
  const uint32_t device = context.deviceOf(l);
  brought[indexOf(p, device)].place =
      context.out.across(context.out.text("weight {} layer {}", context.parameter(p).name, l),
                         layout.residentWeights[static_cast<size_t>(p)], context.device(device).memory, Kind::weight,
                         context.parameter(p).type.bytes());
}

} // namespace mt::planner
