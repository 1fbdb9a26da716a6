// The report of a run: curves that stay small and keep their extremes, round ticks, what the lines of metrics add up
// to, and a page in which nothing that others wrote is markup.
#include "runtime/base/Html.h"
#include "runtime/train/Axis.h"
#include "runtime/train/Metrics.h"
#include "runtime/train/RunReport.h"
#include "tests/train/TestFiles.h"

#include <algorithm>
#include <cmath>

namespace mt::tests {
namespace {

using namespace train;

TEST(Series, KeepsEveryValueOfAShortRun) {
  Series series;
  for (int64_t step = 11; step <= 310; ++step)
    series.add(step, static_cast<double>(step % 7));
  const std::vector<Point> points = series.extremes();
  ASSERT_EQ(points.size(), 300U);
  for (size_t i = 0; i < points.size(); ++i)
    EXPECT_EQ(points[i], (Point{static_cast<int64_t>(i) + 11, static_cast<double>((i + 11) % 7)}));
  EXPECT_EQ(series.smoothed().size(), 300U);
  EXPECT_EQ(series.smoothed().front(), points.front());
  EXPECT_EQ(series.last(), points.back());
}

TEST(Series, StaysSmallAndKeepsItsExtremes) {
  constexpr int64_t kSteps = 3'000'000;
  Series series;
  for (int64_t step = 1; step <= kSteps; ++step)
    series.add(step, step == 1'234'567   ? 100.0
                     : step == 2'345'678 ? -50.0
                                         : std::sin(static_cast<double>(step) * 1e-6));
  const std::vector<Point> points = series.extremes(), smooth = series.smoothed();
  EXPECT_LE(points.size(), 2 * Series::kMostBuckets);
  EXPECT_GT(points.size(), Series::kMostBuckets / 2);
  EXPECT_TRUE(std::ranges::is_sorted(points, {}, &Point::step));
  EXPECT_TRUE(std::ranges::count(points, Point{1'234'567, 100.0}) == 1);
  EXPECT_TRUE(std::ranges::count(points, Point{2'345'678, -50.0}) == 1);
  EXPECT_EQ(series.least(), (Point{2'345'678, -50.0}));
  for (const Point &point : smooth)
    EXPECT_NEAR(point.value, std::sin(static_cast<double>(point.step) * 1e-6), 0.05);
  EXPECT_LE(smooth.back().step, kSteps);
}

TEST(Series, LeavesOutWhatIsNoNumber) {
  Series series;
  for (double value : {std::nan(""), HUGE_VAL, -HUGE_VAL, 1e300})
    series.add(1, value);
  EXPECT_TRUE(series.empty());
  series.add(2, 5);
  series.add(1, 7); // before the first
  series.add((int64_t(1) << 52), 6);
  EXPECT_EQ(series.missing(), 4);
  EXPECT_EQ(series.extremes(), (std::vector<Point>{{2, 5}, {(int64_t(1) << 52), 6}}));
}

std::vector<std::string> textsOf(const Axis &axis) {
  std::vector<std::string> texts;
  for (const Axis::Tick &tick : axis.ticks)
    texts.push_back(tick.text);
  return texts;
}

TEST(Axis, HasRoundTicks) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(textsOf(valueAxis(2.41, 5.55, false, true)), (Texts{"2", "3", "4", "5", "6"}));
  EXPECT_EQ(textsOf(valueAxis(0.0001, 0.003, true, false)), (Texts{"0", "0.001", "0.002", "0.003"}));
  EXPECT_EQ(textsOf(valueAxis(3, 16700, true, false)), (Texts{"0", "5 k", "10 k", "15 k", "20 k"}));
  EXPECT_EQ(textsOf(valueAxis(0.02, 12, false, true)), (Texts{"0.1", "1", "10"}));
  EXPECT_EQ(textsOf(valueAxis(0.02, 2.5, false, true)), (Texts{"0.02", "0.05", "0.1", "0.2", "0.5", "1", "2"}));
  EXPECT_EQ(textsOf(valueAxis(1e-9, 1e9, true, true)), (Texts{"1e-09", "1e-06", "0.001", "1", "1 k", "1 M", "1 G"}));
  EXPECT_EQ(textsOf(valueAxis(4, 4, false, false)), (Texts{"3.6", "3.8", "4.0", "4.2", "4.4"}));
  EXPECT_EQ(textsOf(valueAxis(0, 0, true, true)), (Texts{"-1.0", "-0.5", "0", "0.5", "1.0"}));
  EXPECT_EQ(textsOf(stepAxis(1, 200)), (Texts{"50", "100", "150", "200"}));
  EXPECT_EQ(textsOf(stepAxis(1, 1)), (Texts{"1", "2"}));
  EXPECT_EQ(stepAxis(0x1p52, 0x1p52).ticks.size(), 2U);
  EXPECT_EQ(textsOf(stepAxis(1, 10'000'000)), (Texts{"2 M", "4 M", "6 M", "8 M", "10 M"}));
  const Axis log = valueAxis(0.01, 100, false, true);
  EXPECT_DOUBLE_EQ(log.at(1), 0.5);
  EXPECT_EQ(log.at(0), 0);
}

/// Whatever is on it: no more ticks than fit, each within it.
TEST(Axis, HasFewTicks) {
  for (double least : {-3e8, -1.0, 0.0, 1e-300, 2e-7, 0.999, 1e5, 1e99})
    for (double span : {0.0, 1e-12, 3e-3, 1.0, 77.0, 1e9, 1e99})
      for (bool mayBeLog : {false, true}) {
        const Axis axis = valueAxis(least, least + span, false, mayBeLog);
        EXPECT_LT(axis.low, axis.high);
        EXPECT_LE(axis.ticks.size(), 12U) << least << " " << span;
        for (const Axis::Tick &tick : axis.ticks)
          EXPECT_TRUE(axis.at(tick.value) >= 0 && axis.at(tick.value) <= 1) << least << " " << span;
      }
}

const char *const kHeader =
    R"({"run":"r","plan":"p","model":"small","parameters":12,"steps":4,"sequence":8,"recipe":{"lr":0.5,)"
    R"("groups":["a'b*:lr=1","w*:optimizer=sgd"],"decay_all":true}})";

std::string stepLine(int64_t step, const std::string &loss) {
  return fmt::format(
      R"({{"step":{},"epoch":0,"loss":{},"grad_norm":2,"lr":0.5,"tokens":10,"tokens_per_s":100,"step_ms":100,)"
      R"("device_bytes":1024,"host_bytes":2048}})",
      step, loss);
}

RunHistory historyOf(const std::vector<std::string> &lines) {
  RunHistory history;
  for (const std::string &line : lines)
    history.add(line);
  return history;
}

TEST(RunHistory, AddsUpTheLines) {
  const RunHistory history = historyOf(
      {kHeader, stepLine(1, "4"), stepLine(2, "null"), R"({"step":2,"eval_loss":3.5,"eval_tokens":7})",
       stepLine(3, "2"), R"({"step":3,"note":"a spike"})", R"({"step":3,"sample":{"prompt":"Once","text":" upon"}})",
       R"({"step":3,"resumed":{"plan":"q","steps":9}})", "[1,2]", R"({"step":"x","loss":1})", R"({"step":4,"lo)"});
  EXPECT_EQ(history.steps, 3);
  EXPECT_EQ(history.step, 3);
  EXPECT_EQ(history.tokens, 30);
  EXPECT_DOUBLE_EQ(history.seconds, 0.3);
  EXPECT_DOUBLE_EQ(history.smoothedSeconds, 0.1);
  EXPECT_EQ(history.hostBytes, 2048);
  EXPECT_EQ(history.evaluatedStep, 2);
  EXPECT_EQ(history.loss.extremes(), (std::vector<Point>{{1, 4}, {3, 2}}));
  EXPECT_EQ(history.loss.missing(), 1);
  EXPECT_EQ(history.evaluation.extremes(), (std::vector<Point>{{2, 3.5}}));
  ASSERT_EQ(history.notes.size(), 2U);
  EXPECT_EQ(history.notes[0].text, "a spike");
  EXPECT_EQ(history.notes[1].text, "went on with other settings: plan p \u2192 q, steps 4 \u2192 9");
  ASSERT_EQ(history.samples.size(), 1U);
  EXPECT_EQ(history.samples[0].text, " upon");
  EXPECT_EQ(history.header["steps"], 9);
}

TEST(RunHistory, KeepsTheNewestTexts) {
  RunHistory history = historyOf({kHeader});
  const std::string longText(RunHistory::kMostText - 1, 'x');
  for (int step = 1; step <= 60; ++step) {
    history.add(fmt::format(R"({{"step":{0},"note":"note {0}"}})", step));
    history.add(fmt::format(R"({{"step":{0},"sample":{{"prompt":"{0}","text":"{1}\u20ac"}}}})", step, longText));
  }
  EXPECT_EQ(history.notes.size(), RunHistory::kMostNotes);
  EXPECT_EQ(history.noteCount, 60);
  EXPECT_EQ(history.samples.size(), RunHistory::kMostSamples);
  EXPECT_EQ(history.samples.back().prompt, "60");
  EXPECT_EQ(history.samples.back().text, longText + " \u2026"); // no part of a character
  EXPECT_NE(reportPage(history).find("the newest 20 of 60"), std::string::npos);
}

TEST(RunHistory, ReadsNothingElse) {
  Folder folder;
  EXPECT_ERROR(RunHistory::read(folder / "none").status(), "No such file or directory: name a run's folder");
  EXPECT_ERROR(RunHistory::read(folder.write("steps", stepLine(1, "2") + "\n")).status(), "no record of a run");
  EXPECT_ERROR(makeReport({folder.path}), "metrics.jsonl: No such file");
  EXPECT_ERROR(makeReport({folder.write("metrics.jsonl", kHeader), folder / "missing/page.html"}), "missing/page.html");
}

/// Going on keeps the lines up to the step, and says what is otherwise, once.
TEST(Metrics, GoOnWithTheirHistory) {
  Folder folder;
  const std::string path = folder / "metrics.jsonl";
  const nlohmann::ordered_json first = {{"run", "r"}, {"plan", "p"}, {"model", "m\xff"}},
                               other = {{"run", "r"}, {"plan", "q"}};
  const auto lines = [&] { return std::ranges::count(readFile(path), '\n'); };
  {
    Result<MetricsFile> metrics = MetricsFile::open(path, first, 0, false, [](float) {});
    ASSERT_TRUE(metrics.ok());
    for (int64_t step = 1; step <= 3; ++step)
      EXPECT_TRUE(metrics->step({.step = step, .loss = 2.0F / static_cast<float>(step), .seconds = 0.1}).ok());
    EXPECT_TRUE(metrics->evaluation(2, 1.5, 3).ok());
  }
  for (int again = 0; again < 2; ++again) {
    std::vector<float> losses;
    Result<MetricsFile> metrics = MetricsFile::open(path, first, 2, true, [&](float loss) { losses.push_back(loss); });
    ASSERT_TRUE(metrics.ok());
    EXPECT_EQ(losses, (std::vector<float>{2, 1}));
    EXPECT_EQ(metrics->history().step, 2);
    EXPECT_EQ(lines(), 4);
  }
  for (int again = 0; again < 2; ++again) {
    Result<MetricsFile> metrics = MetricsFile::open(path, other, 2, true, [](float) {});
    ASSERT_TRUE(metrics.ok());
    EXPECT_EQ(metrics->history().header["plan"], "q");
    EXPECT_EQ(lines(), 5);
    EXPECT_EQ(reportPage(metrics->history()), reportPage(*RunHistory::read(path)));
  }
}

TEST(Metrics, WhatCannotBeReadIsKept) {
  Folder folder;
  std::filesystem::create_symlink("/proc/self/mem", folder / "metrics.jsonl"); // a file whose first page is not there
  EXPECT_ERROR(MetricsFile::open(folder / "metrics.jsonl", {{"run", "r"}}, 2, true, [](float) {}).status(),
               "metrics.jsonl: it cannot be read");
}

TEST(Report, RecipeCanBeSaidAgain) {
  const std::string page = reportPage(historyOf({kHeader}));
  EXPECT_NE(page.find("<pre>" + escapeHtml(R"(--lr 0.5 --decay all --group 'a'\''b*:lr=1')") + "</pre>"),
            std::string::npos);
}

TEST(Report, OfNoStepsIsAPage) {
  const std::string page = reportPage(historyOf({kHeader}));
  EXPECT_NE(page.find("No step has been reported yet."), std::string::npos);
  EXPECT_EQ(page.find("nan"), std::string::npos);
}

TEST(Report, IsSmallHoweverLongTheRun) {
  RunHistory history = historyOf({kHeader});
  for (int64_t step = 1; step <= 100'000; ++step)
    history.add(stepLine(step * 1000 + 7, fmt::format("{}", 3 + std::sin(static_cast<double>(step) * 1.7))));
  EXPECT_LT(reportPage(history).size(), 500'000U);
}

TEST(Progress, SaysWhatIsLeft) {
  StepRecord record{.step = 3, .loss = 2.5, .gradientNorm = 1.25, .learningRate = 0.01, .tokens = 300, .seconds = 2};
  EXPECT_EQ(progressText(record, 10, "tok", 1, 14),
            "step 3/10  loss 2.5000  grad 1.25  lr 0.01  150 tok/s  50 % of peak  device 0 B  host 0 B  14.0 s left");
}

TEST(Html, TextStaysText) {
  EXPECT_EQ(escapeHtml("a<b>&\"c'\x01\x7f\n\t\u00e9"), "a&lt;b&gt;&amp;&quot;c&#39;\uFFFD\uFFFD\n\t\u00e9");
  EXPECT_EQ(scriptJson({"</script><!--", 1.5}), "[\"\\u003c/script>\\u003c!--\",1.5]");
}

} // namespace
} // namespace mt::tests
