// The Chrome trace form (trace event format, "JSON object" flavour): the predicted timeline of the step program, one
// process per program, one thread per stream, times in microseconds. Opens in Perfetto and chrome://tracing.
#include "runtime/plan/Dump.h"
#include "runtime/plan/LayerIndex.h"
#include "runtime/plan/Timeline.h"

#include <nlohmann/json.hpp>

namespace mt::plan {
namespace {

using Json = nlohmann::ordered_json;

Json metadata(const char *what, size_t process, size_t thread, const std::string &text) {
  return {{"name", what}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", {{"name", text}}}};
}

Json event(const Command &command, uint32_t index, const Timeline &timeline, size_t process) {
  std::string awaits;
  for (const Await &await : command.awaits)
    awaits += fmt::format("{}#{}{}", awaits.empty() ? "" : " ", await.command, await.back ? "-1" : "");
  return {{"name", command.label},
          {"cat", name(command.role)},
          {"ph", "X"},
          {"pid", process},
          {"tid", command.stream},
          {"ts", timeline.start[index] * 1e6},
          {"dur", timeline.took(index) * 1e6},
          {"args",
           {{"command", index},
            {"layer", command.layer},
            {"micro_batch", command.microBatch},
            {"bytes", bytesOf(command)},
            {"awaits", awaits}}}};
}

} // namespace

std::string dumpTrace(const Plan &plan) {
  Json events = Json::array();
  for (size_t process = 0; process < plan.programs.size(); ++process) {
    const Program &program = plan.programs[process];
    const Timeline timeline = simulate(plan, program);
    events.push_back(metadata("process_name", process, 0, fmt::format("{} (predicted)", name(program.kind))));
    for (size_t stream = 0; stream < plan.streams.size(); ++stream)
      events.push_back(metadata("thread_name", process, stream, plan.streams[stream].name));
    for (uint32_t i = 0; i < program.commands.size(); ++i)
      events.push_back(event(program.commands[i], i, timeline, process));
  }
  const Json trace{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  return trace.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace mt::plan
