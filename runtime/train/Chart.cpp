#include "runtime/train/Chart.h"

#include "runtime/base/Html.h"
#include "runtime/train/Axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mt::train {
namespace {

using nlohmann::ordered_json;

/// Width and height of the picture's own coordinates, which are whole numbers.
constexpr double kSide = 4000;

std::string_view classOf(Stroke stroke) {
  return stroke == Stroke::thin ? "thin" : stroke == Stroke::thick ? "thick" : "dots";
}

int64_t across(const Axis &steps, int64_t step) { return std::llround(kSide * steps.at(static_cast<double>(step))); }
int64_t down(const Axis &values, double value) { return std::llround(kSide * (1 - values.at(value))); }

/// The line through the points; dots are strokes without length, round wherever the picture is stretched to. A single
/// point is one, too.
std::string pathOf(const Curve &curve, const Axis &steps, const Axis &values) {
  const bool apart = curve.stroke == Stroke::dots || curve.points.size() == 1;
  std::string path;
  for (const Point &point : curve.points)
    path += fmt::format("{}{} {}{}", path.empty() || apart ? 'M' : 'L', across(steps, point.step),
                        down(values, point.value), apart ? "h0" : "");
  return path;
}

std::string gridOf(const Axis &steps, const Axis &values) {
  std::string path;
  for (const Axis::Tick &tick : values.ticks)
    path += fmt::format("M0 {}h{}", down(values, tick.value), kSide);
  for (const Axis::Tick &tick : steps.ticks)
    path += fmt::format("M{} 0v{}", across(steps, static_cast<int64_t>(tick.value)), kSide);
  return path;
}

std::string labelsOf(const Axis &steps, const Axis &values) {
  std::string labels = "<span class=\"x name\">step</span>";
  for (const Axis::Tick &tick : values.ticks)
    labels +=
        fmt::format("<span class=\"y\" style=\"top:{:.2f}%\">{}</span>", 100 * (1 - values.at(tick.value)), tick.text);
  for (const Axis::Tick &tick : steps.ticks)
    labels += fmt::format("<span class=\"x\" style=\"left:{:.2f}%\">{}</span>", 100 * steps.at(tick.value), tick.text);
  return labels + "\n";
}

/// The range of all points: [first step, last step], [least value, most value].
struct Range {
  Point least, most;
};
Range rangeOf(const std::vector<Curve> &curves) {
  Range range;
  bool any = false;
  for (const Curve &curve : curves)
    for (const Point &point : curve.points) {
      range.least =
          any ? Point{std::min(range.least.step, point.step), std::min(range.least.value, point.value)} : point;
      range.most = any ? Point{std::max(range.most.step, point.step), std::max(range.most.value, point.value)} : point;
      any = true;
    }
  return range;
}

ordered_json dataOf(const Chart &chart, const Axis &steps) {
  ordered_json curves = ordered_json::array();
  for (const Curve &curve : chart.curves) {
    ordered_json points = ordered_json::array();
    for (const Point &point : curve.points)
      points.push_back({point.step, point.value});
    curves.push_back({{"name", curve.name}, {"points", std::move(points)}});
  }
  return {{"unit", chart.unit}, {"low", steps.low}, {"high", steps.high}, {"curves", std::move(curves)}};
}

std::string captionOf(const Chart &chart) {
  std::string caption = fmt::format("<figcaption><b>{}</b>", escapeHtml(chart.title));
  if (!chart.unit.empty())
    caption += fmt::format("<span class=\"unit\">{}</span>", escapeHtml(chart.unit));
  for (const Curve &curve : chart.curves)
    if (chart.curves.size() > 1 && !curve.points.empty())
      caption += fmt::format("<span class=\"key {}\">{}</span>", classOf(curve.stroke), escapeHtml(curve.name));
  if (chart.missing > 0)
    caption += fmt::format("<span class=\"missing\">{} of no finite number</span>", chart.missing);
  return caption + "</figcaption>\n";
}

} // namespace

std::string drawChart(const Chart &chart, ordered_json &data) {
  std::string figure = fmt::format("<figure{}>\n{}", chart.wide ? " class=\"wide\"" : "", captionOf(chart));
  if (std::ranges::all_of(chart.curves, [](const Curve &curve) { return curve.points.empty(); }))
    return figure + "<p class=\"none\">nothing yet</p>\n</figure>\n";
  const auto [least, most] = rangeOf(chart.curves);
  const Axis steps = stepAxis(static_cast<double>(least.step), static_cast<double>(most.step));
  const Axis values = valueAxis(least.value, most.value, chart.fromZero, chart.mayBeLog);
  figure +=
      fmt::format("<div class=\"plot\" data-chart=\"{}\">\n<svg viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" "
                  "role=\"img\" aria-label=\"{}\">\n<path class=\"grid\" d=\"{}\"/>\n",
                  data.size(), kSide, kSide, escapeHtml(chart.title), gridOf(steps, values));
  for (const Curve &curve : chart.curves)
    if (!curve.points.empty())
      figure += fmt::format("<path class=\"{}{}\" d=\"{}\"/>\n", classOf(curve.stroke),
                            curve.points.size() == 1 ? " single" : "", pathOf(curve, steps, values));
  data.push_back(dataOf(chart, steps));
  return figure + "</svg>\n" + labelsOf(steps, values) + "</div>\n</figure>\n";
}

} // namespace mt::train
