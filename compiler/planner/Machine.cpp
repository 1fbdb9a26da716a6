#include "compiler/planner/Machine.h"

#include <algorithm>

namespace mt::planner {

Machine::Machine(const target::Target &target) : target(target) {
  using plan::SpaceKind, plan::StreamKind;
  auto addSpace = [&](const char *name, SpaceKind kind) {
    spaces.push_back({name, kind, 0});
    return static_cast<uint32_t>(spaces.size() - 1);
  };
  auto addStream = [&](const char *name, StreamKind kind) {
    streams.push_back({.kind = kind, .device = 0, .name = name});
    return static_cast<uint32_t>(streams.size() - 1);
  };
  const uint32_t memory = addSpace("device", SpaceKind::device);
  staging = addSpace("staging", SpaceKind::staging);
  state = addSpace("state", SpaceKind::state);
  const kernels::Backend backend = target.device == "cuda" ? kernels::Backend::cuda : kernels::Backend::cpu;
  if (target.unified) {
    devices.push_back({memory, {addStream("compute", StreamKind::compute), memory, false, backend}});
    update = devices.front().engine;
    report = {addStream("host", StreamKind::host), staging, true};
    feed = {addStream("feed", StreamKind::host), staging, true};
    return;
  }
  Link up{staging, memory, addStream("upload", StreamKind::upload), 0, target.uploadBandwidth, target.copyOverheadSeconds};
  devices.push_back({memory, {addStream("compute", StreamKind::compute), memory, false, backend}});
  Link down{memory, staging, addStream("download", StreamKind::download), 0, target.downloadBandwidth, target.copyOverheadSeconds};
  down.messages = addStream("messages down", StreamKind::download);
  update = report = {addStream("host", StreamKind::host), staging, true};
  feed = {addStream("feed", StreamKind::host), staging, true};
  up.messages = addStream("messages up", StreamKind::upload);
  links = {up, down};
  for (Link link : {up, down}) { // what the host alone reaches is copied by the same streams where no step waits for it
    (link.from == staging ? link.from : link.to) = state;
    links.push_back(link);
  }
}

bool Machine::computes(uint32_t stream) const {
  return std::ranges::any_of(devices, [&](const Device &device) { return device.engine.stream == stream; });
}

const Link *Machine::link(uint32_t from, uint32_t to) const {
  auto found = std::ranges::find_if(links, [&](const Link &link) { return link.from == from && link.to == to; });
  return found == links.end() ? nullptr : &*found;
}

} // namespace mt::planner
