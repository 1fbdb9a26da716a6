#include "runtime/executor/Trace.h"

#include "runtime/plan/Dump.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace mt::executor {
namespace {

using nlohmann::json;

constexpr int kMeasured = 1, kPlanned = 2;

uint64_t bytesOf(const plan::Command &command) {
  uint64_t bytes = command.isCopy ? command.to.bytes : 0;
  for (const plan::Binding &binding : command.arguments)
    bytes += binding.span.bytes;
  return bytes;
}

json eventOf(const plan::Command &command, int process, double begin, double seconds) {
  return {{"name", command.label},
          {"cat", plan::name(command.role)},
          {"ph", "X"},
          {"pid", process},
          {"tid", command.stream},
          {"ts", begin * 1e6},
          {"dur", seconds * 1e6},
          {"args",
           {{"role", plan::name(command.role)},
            {"layer", command.layer},
            {"microBatch", command.microBatch},
            {"bytes", bytesOf(command)}}}};
}

/// Names of the rows.
void addNames(const plan::Plan &plan, json &events) {
  for (int process : {kMeasured, kPlanned}) {
    std::string_view name = process == kMeasured ? "measured" : "planned";
    events.push_back({{"name", "process_name"}, {"ph", "M"}, {"pid", process}, {"args", {{"name", name}}}});
    for (size_t i = 0; i < plan.streams.size(); ++i)
      events.push_back({{"name", "thread_name"},
                        {"ph", "M"},
                        {"pid", process},
                        {"tid", i},
                        {"args", {{"name", plan.streams[i].name}}}});
  }
}

json callsOf(const CallTable &table) {
  json all = json::array();
  for (const CallTable::Row &row : table.rows())
    all.push_back({{"stream", plan::name(row.kind)},
                   {"call", row.call},
                   {"runs", row.runs},
                   {"seconds", row.seconds},
                   {"flops", row.flops},
                   {"bytes", row.bytes},
                   {"share", row.share}});
  return all;
}

} // namespace

uint64_t Trace::begin(plan::ProgramKind kind, bool drained) {
  const plan::Program *program = plan.program(kind);
  uint64_t first = next;
  next += program->commands.size();
  if (first < kMaxCommands)
    iterations.push_back(
        {program, first, drained ? 0 : iterations.back().place + 1, drained ? first : iterations.back().origin});
  return first;
}

void Trace::add(const std::vector<device::Measured> &more) {
  for (const device::Measured &one : more) {
    if (iterations.empty() || one.number >= iterations.back().first + iterations.back().program->commands.size())
      continue;
    const Iteration &iteration = iterationOf(one.number);
    busy[iteration.program->commands[one.number - iteration.first].stream] += one.end - one.begin;
    measured.push_back(one);
  }
}

const Trace::Iteration &Trace::iterationOf(uint64_t number) const {
  auto after = std::ranges::upper_bound(iterations, number, {}, &Iteration::first);
  return *(after - 1);
}

/// When what followed a drain began, by the number of its first command.
std::map<uint64_t, double> Trace::origins() const {
  std::map<uint64_t, double> begins;
  for (const device::Measured &one : measured) {
    auto [found, fresh] = begins.try_emplace(iterationOf(one.number).origin, one.begin);
    if (!fresh)
      found->second = std::min(found->second, one.begin);
  }
  return begins;
}

Shares Trace::overlap() const {
  Overlap overlap;
  for (const device::Measured &one : measured) {
    const Iteration &iteration = iterationOf(one.number);
    if (iteration.program->kind != plan::ProgramKind::step)
      continue;
    const plan::Command &command = iteration.program->commands[one.number - iteration.first];
    bool computes = plan.streams[command.stream].kind == plan::StreamKind::compute;
    if (computes || command.isCopy || command.role == plan::Role::update)
      overlap.add(iteration.origin,
                  computes         ? Work::compute
                  : command.isCopy ? Work::copy
                                   : Work::update,
                  one.begin, one.end);
  }
  return overlap.shares();
}

std::string Trace::json() const {
  nlohmann::json events = nlohmann::json::array();
  addNames(plan, events);
  std::map<const plan::Program *, plan::Timeline> timelines;
  for (const plan::Program &program : plan.programs)
    timelines[&program] = plan::simulate(plan, program);
  std::map<uint64_t, double> begins = origins();
  for (const device::Measured &one : measured) {
    const Iteration &iteration = iterationOf(one.number);
    size_t index = one.number - iteration.first;
    const plan::Command &command = iteration.program->commands[index];
    const plan::Timeline &timeline = timelines[iteration.program];
    double planned = begins[iteration.origin] + static_cast<double>(iteration.place) * timeline.seconds;
    events.push_back(eventOf(command, kMeasured, one.begin, one.end - one.begin));
    events.push_back(eventOf(command, kPlanned, planned + timeline.start[index], timeline.took(index)));
  }
  Shares shares = overlap();
  nlohmann::json trace = {{"displayTimeUnit", "ms"},
                          {"otherData",
                           {{"seconds", shares.seconds},
                            {"computeBusy", shares.computeBusy},
                            {"copySeconds", shares.copySeconds},
                            {"copiesHidden", shares.copiesHidden},
                            {"updateSeconds", shares.updateSeconds},
                            {"updatesHidden", shares.updatesHidden},
                            {"calls", callsOf(calls)}}},
                          {"traceEvents", std::move(events)}};
  return trace.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

} // namespace mt::executor
