// What every report of a run has alike: the style of its page and the script that names the points one points at. The
// script runs by its hash alone (the policy in kReportHead), so that nothing else on the page can. RunReport.cpp puts
// the parts together.
#ifndef MT_RUNTIME_TRAIN_REPORTTEMPLATE_H
#define MT_RUNTIME_TRAIN_REPORTTEMPLATE_H

#include <string_view>

namespace mt::train {

/// Up to the title's text. Allows the script whose SHA-256, in base64, stands here, and nothing from elsewhere.
inline constexpr std::string_view kReportHead = R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-LWVxSOfapzyYszYVv3bYyMUQ2H9fx/xLqVpaypz9a8U='">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>)html";

inline constexpr std::string_view kReportStyle = R"html(</title>
<style>
:root {
  --paper: #fff; --card: #fff; --ink: #1a1f26; --soft: #5d6773; --line: #e4e8ed; --track: #eef1f4;
  --accent: #1667c7; --thin: #84b3e8; --dots: #d9480f;
  --prefetch: #4c78a8; --compute: #54a24b; --offload: #f58518; --update: #b279a2;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14181d; --card: #1a1f26; --ink: #e3e7ec; --soft: #96a1ae; --line: #2c333c; --track: #262d35;
    --accent: #6aadf5; --thin: #3d6fa6; --dots: #ff9257;
    --prefetch: #6f9bcb; --compute: #6fbb67; --offload: #f79b45; --update: #c795b9;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 14px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 1440px; margin: 0 auto; padding: 24px clamp(12px, 3vw, 40px) 48px; }
h1 { margin: 0; font-size: 24px; line-height: 1.25; font-weight: 650; overflow-wrap: anywhere; }
h2 { margin: 36px 0 12px; font-size: 16px; font-weight: 650; }
p { margin: 0 0 8px; }
.soft, figcaption .unit, .none { color: var(--soft); }
.wrap { overflow-wrap: anywhere; }
bdi { unicode-bidi: isolate; }
.progress { height: 6px; margin: 16px 0; border-radius: 3px; background: var(--track); overflow: hidden; }
.progress i { display: block; height: 100%; background: var(--accent); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(132px, 1fr)); gap: 1px; border: 1px solid var(--line); border-radius: 8px; background: var(--line); overflow: hidden; }
.tiles div { padding: 10px 14px; background: var(--card); }
.tiles dt { color: var(--soft); font-size: 12px; }
.tiles dd { margin: 0; font-size: 20px; font-weight: 600; font-variant-numeric: tabular-nums; white-space: nowrap; }
.tiles small { display: block; color: var(--soft); font-size: 12px; font-weight: 400; white-space: normal; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(340px, 100%), 1fr)); gap: 20px 28px; margin-top: 28px; }
figure { margin: 0; min-width: 0; }
figure.wide { grid-column: 1 / -1; }
figcaption { display: flex; flex-wrap: wrap; gap: 0 14px; align-items: baseline; margin-bottom: 8px; font-size: 13px; }
figcaption b { font-size: 14px; font-weight: 650; }
.key::before { content: ""; display: inline-block; width: 16px; margin-right: 6px; vertical-align: middle; border-top: 2.5px solid var(--accent); }
.key.thin::before { border-top: 1.5px solid var(--thin); }
.key.dots::before { width: 8px; height: 8px; border: 0; border-radius: 4px; background: var(--dots); }
.key, .missing { color: var(--soft); }
.plot { position: relative; height: 190px; margin: 0 8px 24px 52px; }
.wide .plot { height: 320px; }
.plot svg { display: block; width: 100%; height: 100%; overflow: visible; }
.plot path { fill: none; vector-effect: non-scaling-stroke; stroke-linejoin: round; stroke-linecap: round; }
.grid { stroke: var(--line); stroke-width: 1; }
.thin { stroke: var(--thin); stroke-width: 1; }
.thick { stroke: var(--accent); stroke-width: 2; }
.dots { stroke: var(--dots); stroke-width: 7; }
.single { stroke-width: 7; }
.x, .y { position: absolute; color: var(--soft); font-size: 12px; line-height: 1; font-variant-numeric: tabular-nums; white-space: nowrap; }
.y { right: calc(100% + 8px); transform: translateY(-50%); }
.x { top: calc(100% + 8px); transform: translateX(-50%); }
.x.name { left: -8px; transform: translateX(-100%); }
.cross { position: absolute; top: 0; bottom: 0; width: 1px; background: var(--soft); pointer-events: none; }
.tip { position: absolute; top: 4px; z-index: 1; padding: 6px 10px; border: 1px solid var(--line); border-radius: 6px; background: var(--card); color: var(--ink); box-shadow: 0 2px 8px #0003; font-size: 12px; font-variant-numeric: tabular-nums; white-space: pre; pointer-events: none; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: 5px 14px 5px 0; border-bottom: 1px solid var(--line); text-align: left; font-weight: 400; vertical-align: baseline; }
th { color: var(--soft); font-size: 12px; }
tr > :last-child { padding-right: 0; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.name { white-space: nowrap; }
.notes :first-child { width: 1%; }
.bar { width: 55%; min-width: 90px; }
.bar div { display: flex; height: 12px; border-radius: 3px; background: var(--track); overflow: hidden; }
.bar i { display: block; height: 100%; background: var(--accent); }
.prefetch { background: var(--prefetch) !important; } .compute { background: var(--compute) !important; }
.offload { background: var(--offload) !important; } .update { background: var(--update) !important; }
.swatch { display: inline-block; width: 10px; height: 10px; margin: 0 6px 0 0; border-radius: 2px; }
.legend { display: flex; flex-wrap: wrap; gap: 0 16px; color: var(--soft); font-size: 13px; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(300px, 100%), 1fr)); column-gap: 40px; margin: 0; }
.facts div { display: flex; justify-content: space-between; gap: 16px; padding: 5px 0; border-bottom: 1px solid var(--line); }
.facts dt { color: var(--soft); white-space: nowrap; }
.facts dd { margin: 0; text-align: right; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; min-width: 0; }
pre { margin: 0 0 12px; padding: 10px 14px; border: 1px solid var(--line); border-radius: 8px; background: var(--card); font: 13px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: isolate; }
.sample { margin-bottom: 16px; }
.sample p { margin: 0 0 4px; color: var(--soft); font-size: 12px; }
.prompt { color: var(--soft); }
@media (max-width: 600px) {
  .wide .plot { height: 240px; }
  .bar { width: 35%; }
}
@media print {
  :root { color-scheme: light; --paper: #fff; --card: #fff; --ink: #000; --soft: #444; --line: #ccc; --track: #eee; --accent: #1667c7; --thin: #84b3e8; --dots: #d9480f;
    --prefetch: #4c78a8; --compute: #54a24b; --offload: #f58518; --update: #b279a2; }
  main { max-width: none; padding: 0; }
  .figures { grid-template-columns: 1fr 1fr; }
  figure, table, .tiles, .sample { break-inside: avoid; }
  .bar i, .swatch, .progress i { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  .cross, .tip { display: none; }
}
</style>
</head>
<body>
<main>
)html";

inline constexpr std::string_view kReportScript = R"html(
const charts = JSON.parse(document.getElementById('charts').textContent);
const shown = value => Number(value.toPrecision(6)).toLocaleString('en', { maximumSignificantDigits: 6 });
function nearest(points, step) {
  let low = 0, high = points.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle][0] < step) low = middle + 1; else high = middle;
  }
  return low > 0 && step - points[low - 1][0] <= points[low][0] - step ? points[low - 1] : points[low];
}
function element(plot, kind, name) {
  const made = document.createElement(kind);
  made.className = name;
  made.hidden = true;
  plot.append(made);
  return made;
}
for (const plot of document.querySelectorAll('[data-chart]')) {
  const chart = charts[plot.dataset.chart], curves = chart.curves.filter(curve => curve.points.length);
  const cross = element(plot, 'i', 'cross'), tip = element(plot, 'output', 'tip');
  plot.onpointermove = event => {
    const box = plot.getBoundingClientRect(), wanted = chart.low + (event.clientX - box.left) / box.width * (chart.high - chart.low);
    const at = nearest(curves[0].points, wanted)[0], left = (at - chart.low) / (chart.high - chart.low) * box.width;
    const lines = curves.map(curve => [curve, nearest(curve.points, at)]).map(([curve, [step, value]]) =>
      curve.name + (step === at ? '' : ' at ' + shown(step)) + '  ' + shown(value) + (chart.unit ? ' ' + chart.unit : ''));
    tip.textContent = ['step ' + at.toLocaleString('en'), ...lines].join('\n');
    cross.hidden = tip.hidden = false;
    cross.style.left = left + 'px';
    tip.style.left = Math.max(0, Math.min(left + 10, box.width - tip.offsetWidth)) + 'px';
    if (left + 10 > box.width - tip.offsetWidth) tip.style.left = Math.max(0, left - 10 - tip.offsetWidth) + 'px';
  };
  plot.onpointerleave = () => { cross.hidden = tip.hidden = true; };
}
)html";

} // namespace mt::train
#endif
