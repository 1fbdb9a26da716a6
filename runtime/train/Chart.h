// Curves over steps as a figure of HTML: an SVG that stretches to the width it is given, axes with round ticks beside
// it, a legend, and for the page's script the points as JSON. Knows nothing of what is drawn; part of the run's report.
#ifndef MT_RUNTIME_TRAIN_CHART_H
#define MT_RUNTIME_TRAIN_CHART_H

#include "runtime/train/Series.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace mt::train {

/// How a curve is drawn: each is a class of the page's style.
enum class Stroke : uint8_t { thin, thick, dots };

struct Curve {
  std::string name;
  Stroke stroke = Stroke::thick;
  std::vector<Point> points; ///< by step
};

struct Chart {
  std::string title, unit = {};
  std::vector<Curve> curves;
  bool fromZero = false, mayBeLog = false; ///< of the values' axis
  int64_t missing = 0;                     ///< values that are no numbers, of which the figure says how many
  bool wide = false;
};

/// The figure; what the script needs of it is appended to `data`. Without any point it says so.
std::string drawChart(const Chart &chart, nlohmann::ordered_json &data);

} // namespace mt::train
#endif
