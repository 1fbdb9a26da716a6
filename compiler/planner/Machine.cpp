#include "compiler/planner/Machine.h"

#include <fmt/format.h>

namespace mt::planner {

Machine::Machine(const target::Target &target) : target(target) {
  using plan::SpaceKind, plan::StreamKind;
  /// Names of what each device has tell which, where there are several.
  auto named = [&](std::string_view name, uint32_t device) {
    return target.devices > 1 ? fmt::format("{} {}", name, device) : std::string(name);
  };
  auto addSpace = [&](std::string name, SpaceKind kind, uint32_t device) {
    spaces.push_back({std::move(name), kind, device});
    return static_cast<uint32_t>(spaces.size() - 1);
  };
  auto addStream = [&](std::string name, StreamKind kind, uint32_t device = 0) {
    streams.push_back({.kind = kind, .device = device, .name = std::move(name)});
    return static_cast<uint32_t>(streams.size() - 1);
  };
  const kernels::Backend backend = target.device == "cuda" ? kernels::Backend::cuda : kernels::Backend::cpu;
  for (uint32_t d = 0; d < target.devices; ++d)
    devices.push_back({addSpace(named("device", d), SpaceKind::device, d), {}});
  staging = addSpace("staging", SpaceKind::staging, 0);
  state = addSpace("state", SpaceKind::state, 0);
  if (target.diskMemory > 0)
    file = addSpace("file", SpaceKind::file, 0);
  for (uint32_t d = 0; d < target.devices; ++d) {
    Device &device = devices[d];
    const uint32_t up = target.unified ? kNone : addStream(named("upload", d), StreamKind::upload, d);
    device.engine = {addStream(named("compute", d), StreamKind::compute, d), device.memory, false, backend};
    if (target.unified)
      continue;
    links.push_back({staging, device.memory, up, 0, target.uploadBandwidth, target.copyOverheadSeconds});
    const uint32_t down = addStream(named("download", d), StreamKind::download, d);
    links.push_back({device.memory, staging, down, addStream(named("messages down", d), StreamKind::download, d),
                     target.downloadBandwidth, target.copyOverheadSeconds});
  }
  report = {addStream("host", StreamKind::host), staging, true};
  update = target.unified ? devices.front().engine : report;
  feed = {addStream("feed", StreamKind::host), staging, true};
  for (Link &link : links)
    if (isDevice(link.to))
      link.messages =
          addStream(named("messages up", spaces[link.to].device), StreamKind::upload, spaces[link.to].device);
  for (size_t i = 0, count = links.size(); i < count;
       ++i) { // what the host alone reaches is copied by the same streams where no step waits for it
    Link link = links[i];
    (link.from == staging ? link.from : link.to) = state;
    links.push_back(link);
  }
  if (file) {
    const uint32_t read = addStream("read", StreamKind::read), write = addStream("write", StreamKind::write);
    links.push_back({*file, staging, read, read, target.diskReadBandwidth, target.copyOverheadSeconds});
    links.push_back({staging, *file, write, write, target.diskWriteBandwidth, target.copyOverheadSeconds});
  }
  if (target.ranks > 1)
    network = {addStream("network", StreamKind::network), staging, true};
  for (uint32_t d = 0; d < target.devices && target.ranks > 1 && target.deviceNetworkBandwidth > 0 && !target.unified;
       ++d)
    devices[d].network = {addStream(named("device network", d), StreamKind::deviceNetwork, d), devices[d].memory, false,
                          backend};
  for (uint32_t from = 0; from < target.devices; ++from) {
    uint32_t stream = kNone;
    for (uint32_t to = 0; to < target.devices; ++to)
      if (const double bandwidth = target.peerBandwidth.empty() ? 0 : target.peerBandwidth[from][to]; bandwidth > 0) {
        stream = stream == kNone ? addStream(named("peer", from), StreamKind::peer, from) : stream;
        links.push_back(
            {devices[from].memory, devices[to].memory, stream, stream, bandwidth, target.copyOverheadSeconds});
      }
  }
  engineOf.assign(streams.size(), kNone);
  for (uint32_t d = 0; d < target.devices; ++d)
    engineOf[devices[d].engine.stream] = d;
  linkOf.assign(spaces.size() * spaces.size(), kNone);
  for (uint32_t i = 0; i < links.size(); ++i)
    linkOf[links[i].from * spaces.size() + links[i].to] = i;
}

} // namespace mt::planner
