#include "runtime/train/ReportSections.h"

#include "runtime/base/Html.h"
#include "runtime/base/Sizes.h"
#include "runtime/train/Chart.h"
#include "runtime/train/Recipe.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace mt::train {
namespace {

using nlohmann::ordered_json;

/// Text or a number of the header, as text; empty where it has none.
std::string headerText(const RunHistory &history, const char *key) {
  const auto at = history.header.find(key);
  if (at == history.header.end() || at->is_null() || at->is_structured())
    return "";
  return at->is_string() ? at->get<std::string>() : at->dump();
}

/// An amount of an object; zero where it has none.
double amountIn(const ordered_json &object, const char *key) {
  const auto at = object.is_object() ? object.find(key) : object.end();
  const double value = object.is_object() && at != object.end() && at->is_number() ? at->get<double>() : 0;
  return std::isfinite(value) && value > 0 && value < 1e18 ? value : 0;
}

std::string grouped(double number) {
  std::string digits = fmt::format("{:.0f}", number);
  for (size_t at = digits.size(); at > 3; at -= 3)
    digits.insert(at - 3, 1, ',');
  return digits;
}

std::string sizeText(double bytes) { return formatSize(static_cast<uint64_t>(bytes)); }

std::string_view unitOf(const RunHistory &history) {
  return amountIn(history.header, "sequence") > 0 ? "tok/s" : "rows/s";
}

/// A length as the style has it: a share of what is around.
std::string percent(double share) { return fmt::format("{:.2f}%", 100 * std::clamp(share, 0.0, 1.0)); }

/// A bar of parts, each a class and its share of the whole.
struct BarPart {
  std::string name;
  double share = 0;
};
std::string bar(const std::vector<BarPart> &parts) {
  std::string html = "<td class=\"bar\"><div>";
  for (const BarPart &part : parts)
    html += fmt::format("<i class=\"{}\" style=\"width:{}\"></i>", part.name, percent(part.share));
  return html + "</div></td>";
}

std::string number(const std::string &text) { return fmt::format("<td class=\"number\">{}</td>", text); }

} // namespace

namespace {

std::string tile(std::string_view name, const std::string &value, const std::string &about = "") {
  return fmt::format("<div><dt>{}</dt><dd>{}{}</dd></div>\n", name, value,
                     about.empty() ? "" : fmt::format("<small>{}</small>", about));
}

std::string lossTiles(const RunHistory &history) {
  std::string tiles;
  if (!history.loss.empty())
    tiles += tile("Loss, smoothed", fmt::format("{:.4f}", history.loss.smoothed().back().value),
                  fmt::format("{:.4f} in step {}", history.loss.last().value,
                              grouped(static_cast<double>(history.loss.last().step))));
  if (const Series &evaluation = history.evaluation; !evaluation.empty())
    tiles += tile("Evaluation loss", fmt::format("{:.4f}", evaluation.last().value),
                  fmt::format("after step {}; least {:.4f}", grouped(static_cast<double>(evaluation.last().step)),
                              evaluation.least().value));
  return tiles;
}

std::string paceTiles(const RunHistory &history, double steps) {
  std::string tiles = tile(unitOf(history) == "tok/s" ? "Tokens" : "Rows", formatCount(history.tokens),
                           fmt::format("epoch {}", history.epoch + 1));
  if (!history.throughput.empty())
    tiles += tile("Throughput",
                  fmt::format("{} {}", formatCount(history.throughput.smoothed().back().value), unitOf(history)),
                  fmt::format("{} a step", formatSeconds(history.smoothedSeconds)));
  const double left = std::max(0.0, steps - static_cast<double>(history.step));
  tiles += tile("Time in steps", formatSeconds(history.seconds));
  tiles += tile("Time left",
                steps == 0  ? "unknown"
                : left == 0 ? "done"
                            : formatSeconds(left * history.smoothedSeconds),
                steps == 0  ? ""
                : left == 0 ? "the last step is done"
                            : grouped(left) + " steps");
  return tiles;
}

} // namespace

std::string titleOf(const RunHistory &history) {
  return fmt::format("{}: step {}", headerText(history, "model"), history.step);
}

std::string headSection(const RunHistory &history) {
  std::string about;
  if (const double parameters = amountIn(history.header, "parameters"); parameters > 0)
    about += formatCount(parameters) + " parameters, ";
  for (const char *key : {"precision", "optimizer"})
    if (const std::string text = headerText(history, key); !text.empty())
      about += escapeHtml(text) + ", ";
  const double steps = amountIn(history.header, "steps");
  const std::string ofSteps = steps > 0 ? " of " + grouped(steps) : "";
  std::string html =
      fmt::format("<h1><bdi>{}</bdi></h1>\n<p class=\"soft wrap\">{}step {}{}</p>\n",
                  escapeHtml(headerText(history, "model")), about, grouped(static_cast<double>(history.step)), ofSteps);
  if (steps > 0)
    html += fmt::format("<div class=\"progress\"><i style=\"width:{}\"></i></div>\n",
                        percent(static_cast<double>(history.step) / steps));
  if (history.steps == 0)
    return html + "<p>No step has been reported yet.</p>\n";
  return html + "<dl class=\"tiles\">\n" + lossTiles(history) + paceTiles(history, steps) + "</dl>\n";
}

std::string curveSection(const RunHistory &history, ordered_json &data) {
  if (history.steps == 0 && history.evaluatedStep < 0)
    return "";
  const auto both = [](const char *name, const Series &series) {
    return std::vector<Curve>{{name, Stroke::thin, series.extremes()}, {"smoothed", Stroke::thick, series.smoothed()}};
  };
  Chart loss{.title = "Loss",
             .curves = both("of the step", history.loss),
             .mayBeLog = true,
             .missing = history.loss.missing(),
             .wide = true};
  loss.curves.push_back({"evaluation", Stroke::dots, history.evaluation.extremes()});
  const Chart rate{.title = "Learning rate",
                   .curves = {{"learning rate", Stroke::thick, history.learningRate.extremes()}},
                   .fromZero = true};
  const Chart norm{.title = "Gradient norm",
                   .curves = both("of the step", history.gradientNorm),
                   .fromZero = true,
                   .mayBeLog = true,
                   .missing = history.gradientNorm.missing()};
  const Chart pace{.title = "Throughput",
                   .unit = std::string(unitOf(history)),
                   .curves = both("of the step", history.throughput),
                   .fromZero = true};
  std::string html = "<section class=\"figures\">\n";
  for (const Chart *chart : {&std::as_const(loss), &rate, &norm, &pace})
    html += drawChart(*chart, data);
  return html + "</section>\n";
}

namespace {

constexpr std::string_view kRoles[] = {"prefetch", "compute", "offload", "update"};

struct BusyStream {
  std::string name;
  std::vector<BarPart> roles = {}; ///< milliseconds
  double milliseconds = 0;
};

std::vector<BusyStream> busyStreams(const ordered_json &header) {
  std::vector<BusyStream> streams;
  for (const ordered_json &one : header.value("streams", ordered_json::array())) {
    if (!one.is_object() || !one.contains("name") || !one["name"].is_string())
      continue;
    BusyStream stream{.name = one["name"].get<std::string>()};
    for (std::string_view role : kRoles)
      if (double busy = amountIn(one.value("busy_ms", ordered_json::object()), std::string(role).c_str()); busy > 0) {
        stream.roles.push_back({std::string(role), busy});
        stream.milliseconds += busy;
      }
    streams.push_back(std::move(stream));
  }
  return streams;
}

std::string streamTable(const std::vector<BusyStream> &streams, double step) {
  double longest = step;
  std::map<std::string_view, double> busy;
  for (const BusyStream &stream : streams) {
    longest = std::max(longest, stream.milliseconds);
    for (const BarPart &role : stream.roles)
      busy[role.name] += role.share;
  }
  std::string html = "<p class=\"legend\">";
  for (std::string_view role : kRoles)
    html += fmt::format("<span><i class=\"swatch {0}\"></i>{0} {1}</span>", role, formatSeconds(busy[role] / 1e3));
  html += "</p>\n<div class=\"scroll\"><table>\n<tr><th>stream</th><th></th><th class=\"number\">busy</th><th "
          "class=\"number\">of the step</th></tr>\n";
  for (const BusyStream &stream : streams) {
    std::vector<BarPart> parts;
    for (const BarPart &role : stream.roles)
      parts.push_back({role.name, role.share / longest});
    html += fmt::format("<tr><td class=\"name\"><bdi>{}</bdi></td>{}{}{}</tr>\n", escapeHtml(stream.name), bar(parts),
                        number(formatSeconds(stream.milliseconds / 1e3)),
                        number(step > 0 ? fmt::format("{:.1f} %", 100 * stream.milliseconds / step) : ""));
  }
  return html + "</table></div>\n";
}

} // namespace

std::string timeSection(const RunHistory &history) {
  const double predicted = amountIn(history.header, "predicted_step_ms");
  if (predicted == 0)
    return "";
  std::string html = fmt::format("<section>\n<h2>Time of a step</h2>\n<p>predicted {}", formatSeconds(predicted / 1e3));
  if (const std::string bound = headerText(history, "bound"); !bound.empty())
    html += fmt::format(" <span class=\"soft\">({} on {})</span>", escapeHtml(bound),
                        escapeHtml(headerText(history, "target")));
  if (history.smoothedSeconds > 0)
    html += fmt::format(", measured {} <span class=\"soft\">({:+.1f} %)</span>; {} on average",
                        formatSeconds(history.smoothedSeconds), 100 * (history.smoothedSeconds * 1e3 / predicted - 1),
                        formatSeconds(history.seconds / static_cast<double>(history.steps)));
  html += "</p>\n";
  if (const std::vector<BusyStream> streams = busyStreams(history.header); !streams.empty())
    html += streamTable(streams, predicted);
  return html + "</section>\n";
}

namespace {

struct SpaceRow {
  std::string name, kind;
  double bytes = 0;
};

std::vector<SpaceRow> spaceRows(const ordered_json &header) {
  std::vector<SpaceRow> rows;
  for (const ordered_json &one : header.value("spaces", ordered_json::array())) {
    const auto isText = [&](const char *key) { return one.contains(key) && one[key].is_string(); };
    if (one.is_object() && isText("name") && isText("kind"))
      rows.push_back({one["name"].get<std::string>(), one["kind"].get<std::string>(), amountIn(one, "bytes")});
  }
  return rows;
}

/// "device: 1.5 MiB reserved of 1.5 MiB planned".
std::string reservedText(const char *place, double reserved, double planned) {
  return fmt::format("{}: {} reserved{}", place, sizeText(reserved),
                     planned > 0 ? fmt::format(" of {} planned", sizeText(planned)) : "");
}

} // namespace

std::string memorySection(const RunHistory &history) {
  const std::vector<SpaceRow> rows = spaceRows(history.header);
  if (rows.empty() && history.steps == 0)
    return "";
  double onDevice = 0, onHost = 0, largest = 1;
  for (const SpaceRow &row : rows) {
    onDevice += row.kind == "device" ? row.bytes : 0;
    onHost += row.kind == "staging" || row.kind == "state" ? row.bytes : 0;
    largest = std::max(largest, row.bytes);
  }
  std::string html = "<section>\n<h2>Memory</h2>\n";
  if (history.steps > 0)
    html += fmt::format("<p>{}; {}</p>\n", reservedText("device", history.deviceBytes, onDevice),
                        reservedText("host", history.hostBytes, onHost));
  if (rows.empty())
    return html + "</section>\n";
  html +=
      "<div class=\"scroll\"><table>\n<tr><th>space</th><th>kind</th><th></th><th class=\"number\">planned</th></tr>\n";
  for (const SpaceRow &row : rows)
    html += fmt::format("<tr><td class=\"name\"><bdi>{}</bdi></td><td>{}</td>{}{}</tr>\n", escapeHtml(row.name),
                        escapeHtml(row.kind), bar({{"bytes", row.bytes / largest}}), number(sizeText(row.bytes)));
  return html + "</table></div>\n</section>\n";
}

namespace {

/// "the newest 20 of 300", where not all are there.
std::string newestOf(size_t shown, int64_t all) {
  return static_cast<int64_t>(shown) == all ? ""
                                            : fmt::format("<p class=\"soft\">the newest {} of {}</p>\n", shown, all);
}

} // namespace

std::string sampleSection(const RunHistory &history) {
  if (history.samples.empty())
    return "";
  std::string html = "<section>\n<h2>Samples</h2>\n" + newestOf(history.samples.size(), history.sampleCount);
  for (auto sample = history.samples.rbegin(); sample != history.samples.rend(); ++sample)
    html +=
        fmt::format("<div class=\"sample\"><p>after step {}</p>\n<pre dir=\"auto\"><span "
                    "class=\"prompt\">{}</span>{}</pre></div>\n",
                    grouped(static_cast<double>(sample->step)), escapeHtml(sample->prompt), escapeHtml(sample->text));
  return html + "</section>\n";
}

std::string noteSection(const RunHistory &history) {
  if (history.notes.empty())
    return "";
  std::string html = "<section>\n<h2>Notes</h2>\n" + newestOf(history.notes.size(), history.noteCount) +
                     "<table class=\"notes\">\n<tr><th class=\"number\">step</th><th>note</th></tr>\n";
  for (auto note = history.notes.rbegin(); note != history.notes.rend(); ++note)
    html += fmt::format("<tr>{}<td class=\"wrap\"><bdi>{}</bdi></td></tr>\n",
                        number(grouped(static_cast<double>(note->step))), escapeHtml(note->text));
  return html + "</table>\n</section>\n";
}

namespace {

/// What the header has of it, by what people call it.
std::string factList(const RunHistory &history) {
  constexpr std::pair<const char *, const char *> kFacts[] = {{"model", "model"},
                                                              {"layers", "layers"},
                                                              {"precision", "precision"},
                                                              {"optimizer", "optimizer"},
                                                              {"loss_kind", "loss"},
                                                              {"batch", "batch"},
                                                              {"micro_batch", "micro-batch"},
                                                              {"sequence", "sequence"},
                                                              {"ranks", "ranks"},
                                                              {"target", "target"},
                                                              {"plan", "plan"},
                                                              {"run", "run"},
                                                              {"data", "data"},
                                                              {"eval_data", "evaluation data"},
                                                              {"seed", "seed"}};
  std::string html = "<dl class=\"facts\">\n";
  const auto add = [&](const char *name, const std::string &value) {
    html += value.empty() ? "" : fmt::format("<div><dt>{}</dt><dd><bdi>{}</bdi></dd></div>\n", name, escapeHtml(value));
  };
  if (const double parameters = amountIn(history.header, "parameters"); parameters > 0)
    add("parameters", grouped(parameters));
  for (const auto &[key, name] : kFacts)
    add(name, headerText(history, key));
  return html + "</dl>\n";
}

} // namespace

std::string factSection(const RunHistory &history) {
  std::string html = "<section>\n<h2>The run</h2>\n" + factList(history);
  const ordered_json recipe = history.header.value("recipe", ordered_json());
  if (Result<std::string> options = recipe.is_object() ? asCommandLine(nlohmann::json(recipe)) : fail("no recipe");
      options)
    html += fmt::format(
        "<h2>Recipe</h2>\n<p class=\"soft\">as its checkpoints store it, in the options of mtrun</p>\n<pre>{}</pre>\n",
        escapeHtml(*options));
  return html + "</section>\n";
}

} // namespace mt::train
