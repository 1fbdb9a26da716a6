#include "compiler/planner/Machine.h"

namespace mt::planner {

Machine::Machine(const target::Target &target) : target(target) {
  auto addSpace = [&](const char *name, plan::SpaceKind kind) {
    spaces.push_back({name, kind});
    return static_cast<uint32_t>(spaces.size() - 1);
  };
  auto addStream = [&](const char *name, plan::StreamKind kind) {
    streams.push_back({.kind = kind, .name = name});
    return static_cast<uint32_t>(streams.size() - 1);
  };
  device = addSpace("device", plan::SpaceKind::device);
  staging = addSpace("staging", plan::SpaceKind::staging);
  state = addSpace("state", plan::SpaceKind::state);
  if (target.unified) {
    upload = messagesUp = download = messagesDown = update = compute = addStream("compute", plan::StreamKind::compute);
  } else {
    upload = addStream("upload", plan::StreamKind::upload);
    compute = addStream("compute", plan::StreamKind::compute);
    download = addStream("download", plan::StreamKind::download);
    messagesDown = addStream("messages down", plan::StreamKind::download);
  }
  host = addStream("host", plan::StreamKind::host);
  feed = addStream("feed", plan::StreamKind::host);
  if (target.unified)
    return;
  update = host;
  messagesUp = addStream("messages up", plan::StreamKind::upload);
}

} // namespace mt::planner
