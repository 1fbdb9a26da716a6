#include "runtime/plan/Occupancy.h"

#include <algorithm>
#include <map>

namespace mt::plan {
namespace {

class Boxes {
public:
  std::vector<Box> done;

  /// A new value: what was there before ends.
  void replace(const Span &span, uint32_t command, ByteKind kind) {
    cut(span);
    auto at = open.lower_bound(span.offset);
    while (at != open.end() && at->first < span.offset + span.bytes) {
      done.push_back(at->second);
      at = open.erase(at);
    }
    open[span.offset] = {span.offset, span.offset + span.bytes, command, command, kind};
  }

  /// The value that is there is read, or added to.
  void use(const Span &span, uint32_t command, ByteKind kind) {
    cut(span);
    uint64_t place = span.offset;
    const uint64_t end = span.offset + span.bytes;
    for (auto at = open.lower_bound(place); place < end; ++at) {
      if (at == open.end() || at->first > place) {
        const uint64_t until = at == open.end() ? end : std::min(end, at->first);
        at = open.emplace_hint(at, place, Box{place, until, 0, command, kind, true});
      }
      at->second.last = command;
      place = at->second.end;
    }
  }

  void close(uint32_t last) {
    for (auto &[begin, box] : open) {
      if (box.before)
        box.last = last;
      done.push_back(box);
    }
    open.clear();
  }

private:
  std::map<uint64_t, Box> open;

  void cut(const Span &span) {
    cutAt(span.offset);
    cutAt(span.offset + span.bytes);
  }
  void cutAt(uint64_t place) {
    auto at = open.lower_bound(place);
    if (at == open.begin())
      return;
    Box &left = std::prev(at)->second;
    if (left.end <= place)
      return;
    Box right = left;
    right.begin = place;
    left.end = place;
    open.emplace_hint(at, place, right);
  }
};

void touch(Boxes &boxes, const Binding &binding, uint32_t command) {
  if (binding.effect == BindingEffect::write || binding.fresh)
    boxes.replace(binding.span, command, binding.bytes);
  else
    boxes.use(binding.span, command, binding.bytes);
}

} // namespace

std::vector<Box> occupancyOf(const Program &program, uint32_t space) {
  Boxes boxes;
  const auto here = [space](const Span &span) { return span.space == space && span.bytes > 0; };
  for (uint32_t i = 0; i < program.commands.size(); ++i) {
    const Command &command = program.commands[i];
    if (command.isCopy) {
      if (here(command.from))
        boxes.use(command.from, i, command.bytes);
      if (here(command.to))
        boxes.replace(command.to, i, command.bytes);
      continue;
    }
    for (const Binding &binding : command.arguments)
      if (here(binding.span))
        touch(boxes, binding, i);
    if (here(command.workspace))
      boxes.replace(command.workspace, i, ByteKind::workspace);
  }
  boxes.close(program.commands.empty() ? 0 : static_cast<uint32_t>(program.commands.size() - 1));
  return std::move(boxes.done);
}

} // namespace mt::plan
