#include "runtime/train/Metrics.h"

#include "runtime/base/AtomicFile.h"
#include "runtime/base/Json.h"
#include "runtime/base/Log.h"
#include "runtime/base/Sizes.h"
#include "runtime/train/JsonLine.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace mt::train {
namespace {

using nlohmann::ordered_json;

/// What of a metrics file is kept: the lines of its run up to a step, of that an evaluation only where it is not made again.
struct UpTo {
  int64_t step;
  bool isEvaluated;
};

/// The first line that no step has describes the run.
bool isKept(const std::string &line, UpTo end, bool isFirst) {
  Result<simdjson::dom::object> object = parseJsonLine(line);
  int64_t at = 0;
  if (object && object->at_key("step").get(at) == simdjson::SUCCESS)
    return at < end.step || (at == end.step && (end.isEvaluated || object->at_key("eval_loss").error() != simdjson::SUCCESS));
  return object && isFirst;
}

/// Calls use(line) for each of them.
template <typename Use> Status forLinesUpTo(const std::string &path, UpTo end, const Use &use) {
  std::ifstream file(path);
  bool isFirst = true;
  for (std::string line; std::getline(file, line);)
    if (isKept(line, end, isFirst)) {
      MT_TRY(use(line));
      isFirst = false;
    }
  if (!file.eof())
    return fail("{}: it cannot be read: {}", path, std::strerror(errno));
  return Status();
}

/// Leaves in a file, if there is one, what it has of a run up to a step, and adds that up; seen() is told the losses.
Result<RunHistory> keepLinesUpTo(const std::string &path, UpTo end, const std::function<void(float)> &seen) {
  RunHistory kept;
  std::error_code error;
  if (end.step == 0 || !std::filesystem::is_regular_file(path, error))
    return kept;
  uint64_t bytes = 0;
  MT_TRY(forLinesUpTo(path, end, [&](const std::string &line) {
    kept.add(line);
    double loss = 0;
    if (const Result<simdjson::dom::object> object = parseJsonLine(line);
        object && object->at_key("loss").get(loss) == simdjson::SUCCESS)
      seen(static_cast<float>(loss));
    bytes += line.size() + 1;
    return Status();
  }));
  if (bytes == 0 || bytes == std::filesystem::file_size(path, error))
    return kept;
  MT_ASSIGN(AtomicFile file, AtomicFile::create(path));
  MT_TRY(forLinesUpTo(path, end, [&](std::string line) {
    line += '\n';
    return file.write(std::as_bytes(std::span(line)));
  }));
  MT_TRY(file.commit());
  return kept;
}

double perSecond(const StepRecord &record) {
  return record.seconds > 0 ? static_cast<double>(record.tokens) / record.seconds : 0;
}

/// Not a number where JSON has none.
ordered_json finite(double value) { return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr); }

/// A line; what is not UTF-8 in it is replaced.
std::string lineOf(const ordered_json &object) {
  return object.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

/// A header as it comes back from its line.
ordered_json asRead(const ordered_json &header) {
  Result<ordered_json> read = parseOrderedJson(lineOf(header));
  return read ? *read : ordered_json();
}

} // namespace

Result<MetricsFile> MetricsFile::open(const std::string &path, const ordered_json &header, int64_t resumedStep,
                                      bool isEvaluated, const std::function<void(float loss)> &seen) {
  MT_ASSIGN(RunHistory kept, keepLinesUpTo(path, {resumedStep, isEvaluated}, seen));
  Result<AppendedFile> file = AppendedFile::open(path, kept.lines == 0);
  if (!file)
    return fail("--metrics {}: {}: choose a file that can be written", path, file.status().message());
  MetricsFile metrics(path, std::move(*file));
  metrics.sum = std::move(kept);
  if (metrics.sum.lines == 0)
    MT_TRY(metrics.line(header));
  else if (metrics.sum.header != asRead(header))
    MT_TRY(metrics.line({{"step", resumedStep}, {"resumed", header}}));
  return metrics;
}

Status MetricsFile::makeRoom(const std::string &path, const std::string &run, bool goesOn) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error) || std::filesystem::file_size(path, error) == 0)
    return Status();
  MT_ASSIGN(Descriptor stream, openStream(path));
  if (stream.valid()) // written to where it stands
    return Status();
  std::string first;
  std::ifstream file(path);
  std::getline(file, first);
  Result<ordered_json> parsed = parseOrderedJson(first);
  bool header = parsed && parsed->is_object() && parsed->contains("plan");
  if (header && (parsed->contains("run") ? (*parsed)["run"] == run : goesOn))
    return Status();
  if (!header)
    return fail("--metrics {}: the file is no record of a run, and would be written over: choose another, or replace it with "
                "--overwrite",
                path);
  std::string aside;
  for (int i = 1; aside.empty() || std::filesystem::exists(aside, error); ++i)
    aside = fmt::format("{}.{}", path, i);
  std::filesystem::rename(path, aside, error);
  if (error)
    return fail("--metrics {}: of another run, and cannot be renamed: {}", path, error.message());
  log().info("--metrics {}: what another run had written there is {} now", path, aside);
  return Status();
}

Status MetricsFile::line(const ordered_json &object) {
  const std::string text = lineOf(object);
  sum.add(text);
  return file.append(text + "\n").within("--metrics " + path);
}

Status MetricsFile::step(const StepRecord &record) {
  ordered_json object;
  object["step"] = record.step;
  object["epoch"] = record.epoch;
  object["loss"] = finite(record.loss);
  object["grad_norm"] = finite(record.gradientNorm);
  object["lr"] = record.learningRate;
  object["tokens"] = record.tokens;
  object["tokens_per_s"] = perSecond(record);
  object["step_ms"] = record.seconds * 1e3;
  object["device_bytes"] = record.deviceBytes;
  object["host_bytes"] = record.hostBytes;
  if (record.skipped)
    object["skipped"] = true;
  return line(object);
}

Status MetricsFile::evaluation(int64_t step, double loss, int64_t tokens) {
  ordered_json object;
  object["step"] = step;
  object["eval_loss"] = finite(loss);
  object["eval_tokens"] = tokens;
  return line(object);
}

Status MetricsFile::note(int64_t step, const std::string &text) {
  ordered_json object;
  object["step"] = step;
  object["note"] = text;
  return line(object);
}

Status MetricsFile::sample(int64_t step, const std::string &prompt, const std::string &text) {
  ordered_json object;
  object["step"] = step;
  object["sample"] = {{"prompt", prompt}, {"text", text}};
  return line(object);
}

/// Where somebody looks on: a launcher of several processes has terminals, too, but without a size.
static bool isTerminal() {
  winsize size = {};
  return isatty(STDOUT_FILENO) == 1 && (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col > 0);
}

ProgressLine::ProgressLine(bool quiet, std::string unit, double peakSeconds, int64_t steps)
    : quiet(quiet), terminal(isTerminal()), unit(std::move(unit)), peakSeconds(peakSeconds), steps(steps) {}

void ProgressLine::step(const StepRecord &record) {
  if (quiet)
    return;
  smoothed = smoothed == 0 ? record.seconds : 0.9 * smoothed + 0.1 * record.seconds;
  std::string text =
      progressText(record, steps, unit, peakSeconds, smoothed * static_cast<double>(steps - record.step));
  print(text, record.skipped);
}

void ProgressLine::note(const std::string &text, bool always) {
  if (!quiet || always)
    print(text, true);
}

void ProgressLine::print(const std::string &text, bool stays) const {
  std::string line = terminal ? fmt::format("\r{}\x1b[K{}", text, stays ? "\n" : "") : text + "\n";
  static_cast<void>(writeOut(line));
}

std::string progressText(const StepRecord &record, int64_t steps, const std::string &unit, double peakSeconds,
                         double secondsLeft) {
  std::string share;
  if (peakSeconds > 0 && record.seconds > 0)
    share = fmt::format("  {:.0f} % of peak", 100 * peakSeconds / record.seconds);
  return fmt::format("step {}/{}  loss {:.4f}  grad {:.3g}{}  lr {:.3g}  {:.0f} {}/s{}  device {}  host {}  {} left",
                     record.step, steps, record.loss, record.gradientNorm, record.skipped ? " skipped" : "",
                     record.learningRate, perSecond(record), unit, share, formatSize(record.deviceBytes),
                     formatSize(record.hostBytes), formatSeconds(secondsLeft));
}

} // namespace mt::train
