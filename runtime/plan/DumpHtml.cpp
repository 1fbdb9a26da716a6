// The HTML form: one page, no external resources. The step's commands and the boxes of every device space are embedded
// as JSON arrays; a script of a screen draws both against predicted time and zooms.
#include "runtime/plan/Dump.h"

#include "runtime/base/Html.h"
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
canvas { width: 100%; display: block; border: 1px solid #ccc; margin-bottom: 4px; }
h2 { font-size: 14px; margin: 14px 0 4px; }
table { border-collapse: collapse; } td, th { text-align: left; padding: 1px 14px 1px 0; font-weight: normal; } th { color: #666; }
.swatch { display: inline-block; width: 10px; height: 10px; margin: 0 4px 0 12px; }
#hint { color: #666; } #about { white-space: pre; font-family: monospace; min-height: 3.2em; position: sticky; bottom: 0; background: #fff; padding: 4px 0; }
</style>
<h1 id="title"></h1>
<table id="streams"></table>
<p id="hint">Wheel: zoom. Drag: move. Point at something for its name.</p>
<div id="pictures"></div>
<div id="about"></div>
<script>
const plan = )html";

constexpr std::string_view kScript = R"html(;
const roles = { prefetch: '#4c78a8', compute: '#54a24b', offload: '#f58518', update: '#b279a2', wait: '#f3d6d6' };
const kinds = { weight: '#4c78a8', state: '#b279a2', gradient: '#f58518', activation: '#54a24b', input: '#72b7b2', scalar: '#eeca3b',
                workspace: '#bab0ac', unknown: '#9d9d9d' };
const kRow = 28, kMap = 320;
const ends = plan.commands.map(c => c.start + c.seconds);
let left = 0, right = Math.max(1e-9, plan.seconds);
for (const e of ends) right = Math.max(right, e);
const computing = plan.commands.find(c => c.role === 'compute' && c.layer >= 0);
if (computing) left = Math.max(0, computing.start - 0.3 * plan.seconds); // what feeds the step lies before
const lastCommand = plan.commands.length - 1, latest = right;
const beginOf = (first, before) => before ? 0 : plan.commands[first].start;
const endOf = (last, before) => before && last === lastCommand ? latest : ends[last];
const pictures = [], about = document.getElementById('about'), all = document.getElementById('pictures');
document.getElementById('title').textContent = plan.title;
function element(parent, kind, text) {
  const made = document.createElement(kind);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}
const table = document.getElementById('streams'), head = element(table, 'tr');
for (const text of ['stream', 'busy', 'waits most for', 'in all', 'longest, before']) element(head, 'th', text);
for (const stream of plan.streams) {
  const row = element(table, 'tr');
  for (const text of stream.cells) element(row, 'td', text);
}
function legend(title, colors, shown) {
  const line = element(all, 'h2', title);
  for (const name of shown) {
    const swatch = element(line, 'span');
    swatch.className = 'swatch';
    swatch.style.background = colors[name];
    line.append(name);
  }
}
function picture(height, draw, find) {
  const canvas = element(all, 'canvas');
  canvas.height = height; canvas.style.height = height + 'px';
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
legend('Streams over predicted time', roles, Object.keys(roles));
picture(plan.streams.length * kRow + 18, (g, x, width) => {
  const bar = (color, stream, begin, end) => {
    const a = x(begin), b = x(end);
    if (b < 0 || a > width) return;
    g.fillStyle = color;
    g.fillRect(a, stream * kRow + 2, Math.max(0.5, b - a - 0.5), kRow - 4);
  };
  for (const w of plan.waits) bar(roles.wait, w.stream, w.start, w.start + w.seconds);
  plan.commands.forEach((c, i) => bar(roles[c.role], c.stream, c.start, ends[i]));
  g.fillStyle = '#000';
  plan.streams.forEach((s, i) => g.fillText(s.name, 4, i * kRow + 17));
  const about = (right - left) / 10, power = 10 ** Math.floor(Math.log10(about)), step = [1, 2, 5, 10].find(n => n * power >= about) * power;
  for (let t = Math.ceil(left / step) * step; t < right; t += step) {
    g.fillRect(x(t), plan.streams.length * kRow, 1, 4);
    g.fillText(step < 1 ? (t * 1e3).toFixed(step < 1e-3 ? 2 : 0) + ' ms' : t.toFixed(0) + ' s', x(t) + 3, plan.streams.length * kRow + 13);
  }
}, (t, y) => {
  const stream = Math.floor(y / kRow);
  const i = plan.commands.findIndex((c, i) => c.stream === stream && c.start <= t && t <= ends[i]);
  if (i >= 0) return '#' + i + ' ' + plan.commands[i].label + '\n' + plan.commands[i].about;
  const wait = plan.waits.find(w => w.stream === stream && w.start <= t && t <= w.start + w.seconds);
  return wait ? wait.about : '';
});
for (const space of plan.spaces) {
  legend(space.name, kinds, Object.keys(kinds).filter(kind => space.boxes.some(box => box[4] === kind)));
  const y = bytes => kMap * (1 - bytes / space.bytes);
  picture(kMap, (g, x, width) => {
    space.boxes.forEach(([begin, end, first, last, kind, before]) => {
      const a = x(beginOf(first, before)), b = x(endOf(last, before));
      if (b < 0 || a > width) return;
      g.fillStyle = kinds[kind];
      g.fillRect(a, y(end), Math.max(0.5, b - a - 0.5), Math.max(0.5, y(begin) - y(end) - 0.5));
    });
  }, (t, py) => {
    const at = (1 - py / kMap) * space.bytes;
    const box = space.boxes.find(([begin, end, first, last, kind, before]) =>
      begin <= at && at < end && beginOf(first, before) <= t && t <= endOf(last, before));
    return box && box[4] + ', bytes [' + box[0] + ', ' + box[1] + ')\nfrom ' + (box[5] ? 'before the step' : '#' + box[2] + ' ' +
      plan.commands[box[2]].label) + '\nto ' + (box[5] && box[3] === lastCommand ? 'after it' : '#' + box[3] + ' ' + plan.commands[box[3]].label);
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
         {"layer", command.layer},
         {"start", timeline.start[i]},
         {"seconds", timeline.took(i)},
         {"about", fmt::format("{}, {}, layer {}, micro-batch {}", formatSize(bytesOf(command)),
                               formatSeconds(timeline.took(i)), command.layer, command.microBatch)}});
  }
  return commands;
}

/// Stretches of time in which a stream has nothing to do, each before the command that ends it.
Json waitsOf(const Program &program, const Timeline &timeline, const std::vector<Wait> &waits) {
  Json found = Json::array();
  for (const Wait &wait : waits)
    found.push_back({{"stream", program.commands[wait.command].stream},
                     {"start", timeline.start[wait.command] - wait.seconds},
                     {"seconds", wait.seconds},
                     {"about", fmt::format("idle for {} before '{}': waits for '{}'{}", formatSeconds(wait.seconds),
                                           program.commands[wait.command].label, program.commands[wait.awaited].label,
                                           wait.back > 0 ? " of the step before" : "")}});
  return found;
}

/// Of each stream: its share of the step, and what it waits for most.
Json streamsOf(const Plan &plan, const Program &program, const Timeline &timeline, const std::vector<Wait> &waits) {
  const std::vector<WaitSum> sums = longestWaits(plan, program, waits);
  Json streams = Json::array();
  for (size_t i = 0; i < plan.streams.size(); ++i) {
    Json cells = {plan.streams[i].name,
                  fmt::format("{:.0f} %", timeline.seconds > 0 ? 100 * timeline.busy[i] / timeline.seconds : 0.0)};
    if (const WaitSum &sum = sums[i]; sum.seconds > 0)
      for (std::string text : {sum.what, formatSeconds(sum.seconds), fmt::format("{}, '{}'", formatSeconds(sum.longest), sum.before)})
        cells.push_back(std::move(text));
    streams.push_back({{"name", plan.streams[i].name}, {"cells", std::move(cells)}});
  }
  return streams;
}

Json spacesOf(const Plan &plan, const Program &program) {
  Json spaces = Json::array();
  for (uint32_t i = 0; i < plan.spaces.size(); ++i) {
    if (plan.spaces[i].kind != SpaceKind::device || plan.spaces[i].bytes == 0)
      continue;
    Json boxes = Json::array();
    for (const Box &box : occupancyOf(program, i))
      boxes.push_back({box.begin, box.end, box.first, box.last, name(box.kind), box.before});
    spaces.push_back({{"name", fmt::format("Bytes of {} over predicted time: {}", plan.spaces[i].name, formatSize(plan.spaces[i].bytes))},
                      {"bytes", plan.spaces[i].bytes},
                      {"boxes", std::move(boxes)}});
  }
  return spaces;
}

} // namespace

std::string dumpHtml(const Plan &plan) {
  static const Program kNone;
  const Program *found = plan.program(ProgramKind::step);
  const Program &program = found ? *found : kNone;
  const Timeline timeline = simulate(plan, program);
  const std::vector<Wait> idle = waits(plan, program, timeline);
  const Json json{{"title", fmt::format("{}: a step of {} on {} ({})", plan.model.name, formatSeconds(timeline.seconds),
                                        plan.target.name, plan.prediction.bound)},
                  {"seconds", timeline.seconds},
                  {"streams", streamsOf(plan, program, timeline, idle)},
                  {"commands", commandsOf(program, timeline)},
                  {"waits", waitsOf(program, timeline, idle)},
                  {"spaces", spacesOf(plan, program)}};
  return std::string(kHead) + scriptJson(json) + std::string(kScript);
}

} // namespace mt::plan
