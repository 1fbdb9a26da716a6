// The HTML form: one page, no external resources. The step's commands and the boxes of every device space are embedded
// as JSON arrays; a script of a screen draws both against predicted time and zooms.
#include "runtime/plan/Dump.h"

#include "runtime/base/Sizes.h"
#include "runtime/plan/LayerIndex.h"
#include "runtime/plan/Occupancy.h"
#include "runtime/plan/Timeline.h"

#include <nlohmann/json.hpp>

namespace mt::plan {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kHead = R"html(<!doctype html>
<meta charset="utf-8">
<title>plan</title>
<style>
body { font: 13px sans-serif; margin: 16px; color: #222; }
canvas { width: 100%; display: block; border: 1px solid #ccc; margin-bottom: 12px; }
#hint { color: #666; } #about { white-space: pre; font-family: monospace; min-height: 3em; }
</style>
<h1 id="title"></h1>
<p id="hint">Wheel: zoom. Drag: move. Above: streams over predicted time. Below: the bytes of each device space.</p>
<div id="pictures"></div>
<div id="about"></div>
<script>
const plan = )html";

constexpr std::string_view kScript = R"html(;
const colors = { prefetch: '#4c78a8', compute: '#54a24b', offload: '#f58518', update: '#b279a2' };
const ends = plan.commands.map(c => c.start + c.seconds);
let left = 0, right = Math.max(1e-9, plan.seconds);
for (const e of ends) right = Math.max(right, e);
const pictures = [], about = document.getElementById('about');
document.getElementById('title').textContent = plan.title;
function picture(height, draw, find) {
  const canvas = document.createElement('canvas');
  canvas.height = height; canvas.style.height = height + 'px';
  document.getElementById('pictures').append(canvas);
  const x = t => (t - left) / (right - left) * canvas.width;
  const time = px => left + px / canvas.clientWidth * (right - left);
  pictures.push(() => {
    canvas.width = canvas.clientWidth;
    const g = canvas.getContext('2d');
    g.clearRect(0, 0, canvas.width, height);
    draw(g, x, canvas.width);
  });
  canvas.onwheel = e => {
    e.preventDefault();
    const t = time(e.offsetX), f = Math.exp(e.deltaY * 0.001);
    left = t - (t - left) * f; right = t + (right - t) * f; redraw();
  };
  canvas.onmousemove = e => {
    if (e.buttons) {
      const d = e.movementX / canvas.clientWidth * (right - left);
      left -= d; right -= d; redraw();
    } else about.textContent = find(time(e.offsetX), e.offsetY) || '';
  };
}
function redraw() { pictures.forEach(p => p()); }
picture(plan.streams.length * 28, (g, x, width) => {
  plan.commands.forEach((c, i) => {
    const a = x(c.start), b = x(ends[i]);
    if (b < 0 || a > width) return;
    g.fillStyle = colors[c.role];
    g.fillRect(a, c.stream * 28 + 2, Math.max(0.5, b - a - 0.5), 24);
  });
  g.fillStyle = '#000';
  plan.streams.forEach((s, i) => g.fillText(s, 4, i * 28 + 17));
}, (t, y) => {
  const i = plan.commands.findIndex((c, i) => c.stream === Math.floor(y / 28) && c.start <= t && t <= ends[i]);
  return i < 0 ? '' : '#' + i + ' ' + plan.commands[i].label + '\n' + plan.commands[i].about;
});
for (const space of plan.spaces) {
  const height = 320, y = bytes => height * (1 - bytes / space.bytes);
  picture(height, (g, x, width) => {
    space.boxes.forEach(([begin, end, first, last], i) => {
      const a = x(plan.commands[first].start), b = x(ends[last]);
      if (b < 0 || a > width) return;
      g.fillStyle = 'hsl(' + (begin / space.bytes * 300 + i * 37 % 40) + ' 55% 62%)';
      g.fillRect(a, y(end), Math.max(0.5, b - a), Math.max(0.5, y(begin) - y(end) - 0.5));
    });
    g.fillStyle = '#000';
    g.fillText(space.name, 4, 14);
  }, (t, py) => {
    const at = (1 - py / height) * space.bytes;
    const box = space.boxes.find(([begin, end, first, last]) =>
      begin <= at && at < end && plan.commands[first].start <= t && t <= ends[last]);
    return box && space.name + ' bytes [' + box[0] + ', ' + box[1] + ')\nfrom #' + box[2] + ' ' +
      plan.commands[box[2]].label + '\nto #' + box[3] + ' ' + plan.commands[box[3]].label;
  });
}
window.onresize = redraw;
redraw();
</script>
)html";

Json commandsOf(const Program &program, const Timeline &timeline) {
  Json commands = Json::array();
  for (uint32_t i = 0; i < program.commands.size(); ++i) {
    const Command &command = program.commands[i];
    commands.push_back(
        {{"stream", command.stream},
         {"role", name(command.role)},
         {"label", command.label},
         {"start", timeline.start[i]},
         {"seconds", command.predictedSeconds},
         {"about", fmt::format("{}, {}, layer {}, micro-batch {}", formatSize(bytesOf(command)),
                               formatSeconds(command.predictedSeconds), command.layer, command.microBatch)}});
  }
  return commands;
}

Json spacesOf(const Plan &plan, const Program &program) {
  Json spaces = Json::array();
  for (uint32_t i = 0; i < plan.spaces.size(); ++i) {
    if (plan.spaces[i].kind != SpaceKind::device || plan.spaces[i].bytes == 0)
      continue;
    Json boxes = Json::array();
    for (const Box &box : occupancyOf(program, i))
      boxes.push_back({box.begin, box.end, box.first, box.last});
    spaces.push_back({{"name", fmt::format("{}: {}", plan.spaces[i].name, formatSize(plan.spaces[i].bytes))},
                      {"bytes", plan.spaces[i].bytes},
                      {"boxes", std::move(boxes)}});
  }
  return spaces;
}

/// JSON that can stand in a script element: no text in it can end the element.
std::string forScript(const Json &json) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace), result;
  for (char c : text)
    if (c == '<')
      result += "\\u003c";
    else
      result += c;
  return result;
}

} // namespace

std::string dumpHtml(const Plan &plan) {
  static const Program kNone;
  const Program *found = plan.program(ProgramKind::step);
  const Program &program = found ? *found : kNone;
  const Timeline timeline = simulate(plan, program);
  Json streams = Json::array();
  for (const Stream &stream : plan.streams)
    streams.push_back(stream.name);
  const Json json{{"title", fmt::format("{}: a step of {} on {} ({})", plan.model.name, formatSeconds(timeline.seconds),
                                        plan.target.name, plan.prediction.bound)},
                  {"seconds", timeline.seconds},
                  {"streams", std::move(streams)},
                  {"commands", commandsOf(program, timeline)},
                  {"spaces", spacesOf(plan, program)}};
  return std::string(kHead) + forScript(json) + std::string(kScript);
}

} // namespace mt::plan
