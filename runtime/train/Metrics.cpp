#include "runtime/train/Metrics.h"

#include "runtime/base/AtomicFile.h"
#include "runtime/base/Sizes.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>

namespace mt::train {
namespace {

using nlohmann::ordered_json;

/// The lines of a metrics file up to a step, as one text; empty if there is none.
std::string linesUpTo(const std::string &path, int64_t step) {
  std::ifstream file(path);
  std::string kept;
  for (std::string line; std::getline(file, line);) {
    ordered_json object = ordered_json::parse(line, nullptr, false);
    if (!object.is_object() || !object.contains("step") || !object["step"].is_number_integer()) {
      kept += kept.empty() && object.is_object() ? line + "\n" : "";
      continue;
    }
    if (object["step"].get<int64_t>() <= step)
      kept += line + "\n";
  }
  return kept;
}

double perSecond(const StepRecord &record) {
  return record.seconds > 0 ? static_cast<double>(record.tokens) / record.seconds : 0;
}

/// Not a number where JSON has none.
ordered_json finite(double value) { return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr); }

} // namespace

Result<MetricsFile> MetricsFile::open(const std::string &path, const ordered_json &header, int64_t resumedStep) {
  std::string before = resumedStep > 0 ? linesUpTo(path, resumedStep) : "";
  if (!before.empty())
    MT_TRY(writeFileAtomically(path, before));
  std::FILE *file = std::fopen(path.c_str(), before.empty() ? "w" : "a");
  if (!file)
    return fail("--metrics {}: {}: choose a file that can be written", path, std::strerror(errno));
  MetricsFile metrics(path, file);
  if (before.empty())
    MT_TRY(metrics.line(header));
  return metrics;
}

Status MetricsFile::line(const ordered_json &object) {
  std::string text = object.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  if (std::fwrite(text.data(), 1, text.size(), file.get()) != text.size() || std::fflush(file.get()) != 0)
    return fail("--metrics {}: {}", path, std::strerror(errno));
  return Status();
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
  return line(object);
}

Status MetricsFile::evaluation(int64_t step, double loss, int64_t tokens) {
  ordered_json object;
  object["step"] = step;
  object["eval_loss"] = finite(loss);
  object["eval_tokens"] = tokens;
  return line(object);
}

ProgressLine::ProgressLine(bool quiet, std::string unit, double peakSeconds, int64_t steps)
    : quiet(quiet), terminal(isatty(STDOUT_FILENO) == 1), unit(std::move(unit)), peakSeconds(peakSeconds),
      steps(steps) {}

void ProgressLine::step(const StepRecord &record) {
  if (quiet)
    return;
  smoothed = smoothed == 0 ? record.seconds : 0.9 * smoothed + 0.1 * record.seconds;
  std::string text =
      progressText(record, steps, unit, peakSeconds, smoothed * static_cast<double>(steps - record.step));
  fmt::print("{}{}{}", terminal ? "\r" : "", text, terminal ? "\x1b[K" : "\n");
  std::fflush(stdout);
}

void ProgressLine::note(const std::string &text) {
  if (quiet)
    return;
  fmt::print("{}{}{}\n", terminal ? "\r" : "", text, terminal ? "\x1b[K" : "");
  std::fflush(stdout);
}

std::string progressText(const StepRecord &record, int64_t steps, const std::string &unit, double peakSeconds,
                         double secondsLeft) {
  std::string share;
  if (peakSeconds > 0 && record.seconds > 0)
    share = fmt::format("  {:.0f} % of peak", 100 * peakSeconds / record.seconds);
  return fmt::format("step {}/{}  loss {:.4f}  grad {:.3g}  lr {:.3g}  {:.0f} {}/s{}  device {}  host {}  {} left",
                     record.step, steps, record.loss, record.gradientNorm, record.learningRate, perSecond(record),
                     unit, share, formatSize(record.deviceBytes), formatSize(record.hostBytes),
                     formatSeconds(secondsLeft));
}

} // namespace mt::train
