#include "runtime/train/RunHistory.h"

#include "runtime/base/Json.h"
#include "runtime/train/JsonLine.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

namespace mt::train {
namespace {

using nlohmann::ordered_json;
using Object = simdjson::dom::object;

constexpr int64_t kLargestStep = int64_t(1) << 52; // curves are of doubles, here and in scripts of pages

/// A number, or NaN where there is none.
double numberOf(const Object &object, std::string_view key) {
  double value = 0;
  return object.at_key(key).get(value) == simdjson::SUCCESS ? value : std::numeric_limits<double>::quiet_NaN();
}

/// The same for what is summed up: zero where it is none, or no amount of anything.
double amountOf(const Object &object, std::string_view key) {
  const double value = numberOf(object, key);
  return value >= 0 && value < 1e18 ? value : 0;
}

std::string shortened(std::string_view text) {
  if (text.size() <= RunHistory::kMostText)
    return std::string(text);
  size_t end = RunHistory::kMostText;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) // within a character of UTF-8
    --end;
  return std::string(text.substr(0, end)) + " \u2026";
}

std::string textOf(const Object &object, std::string_view key) {
  std::string_view text;
  return object.at_key(key).get(text) == simdjson::SUCCESS ? shortened(text) : "";
}

bool has(const Object &object, std::string_view key) { return object.at_key(key).error() == simdjson::SUCCESS; }

template <typename T> void keepNewest(std::deque<T> &all, T one, size_t most) {
  all.push_back(std::move(one));
  if (all.size() > most)
    all.pop_front();
}

/// "steps 100 -> 200, data a -> b": what a run that went on has otherwise. What is too long to read is named alone.
std::string changesOf(const ordered_json &before, const ordered_json &now) {
  constexpr size_t kLong = 60;
  const auto said = [](const ordered_json &value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
  };
  std::string changes;
  for (const auto &[key, value] : now.items()) {
    const ordered_json was = before.value(key, ordered_json());
    if (was == value)
      continue;
    const std::string from = said(was), to = said(value);
    const bool isShort = from.size() <= kLong && to.size() <= kLong && !value.is_structured() && !was.is_null();
    changes += fmt::format("{}{}", changes.empty() ? "" : ", ", key);
    if (isShort)
      changes += fmt::format(" {} \u2192 {}", from, to);
  }
  return changes;
}

void addStep(RunHistory &history, int64_t step, const Object &object) {
  ++history.steps;
  history.step = step;
  history.epoch = static_cast<int64_t>(amountOf(object, "epoch"));
  history.tokens += amountOf(object, "tokens");
  const double seconds = amountOf(object, "step_ms") / 1e3;
  history.seconds += seconds;
  history.smoothedSeconds = history.smoothedSeconds == 0 ? seconds : 0.9 * history.smoothedSeconds + 0.1 * seconds;
  history.deviceBytes = amountOf(object, "device_bytes");
  history.hostBytes = amountOf(object, "host_bytes");
  history.loss.add(step, numberOf(object, "loss"));
  history.gradientNorm.add(step, numberOf(object, "grad_norm"));
  history.learningRate.add(step, numberOf(object, "lr"));
  history.throughput.add(step, numberOf(object, "tokens_per_s"));
}

void addEvaluation(RunHistory &history, int64_t step, const Object &object) {
  history.evaluatedStep = step;
  history.evaluation.add(step, numberOf(object, "eval_loss"));
}

void addSample(RunHistory &history, int64_t step, const Object &sample) {
  ++history.sampleCount;
  keepNewest(history.samples, {step, textOf(sample, "prompt"), textOf(sample, "text")}, RunHistory::kMostSamples);
}

} // namespace

Result<RunHistory> RunHistory::read(const std::string &path) {
  std::ifstream file(path);
  if (!file)
    return fail("{}: {}: name a run's folder, as mtrun's --out named it, or the file that --metrics named", path,
                std::strerror(errno));
  RunHistory history;
  for (std::string line; std::getline(file, line);)
    history.add(line);
  if (file.bad())
    return fail("{}: cannot be read: {}", path, std::strerror(errno));
  if (history.header.empty())
    return fail("{}: no record of a run: its first line does not describe one; name the file that mtrun wrote", path);
  return history;
}

void RunHistory::addNote(int64_t at, std::string_view text) {
  ++noteCount;
  keepNewest(notes, {at, shortened(text)}, kMostNotes);
}

void RunHistory::addHeader(ordered_json object) {
  if (!header.empty())
    addNote(step, "went on with other settings: " + changesOf(header, object));
  header = std::move(object);
}

void RunHistory::add(std::string_view line) {
  Result<Object> parsed = parseJsonLine(line);
  if (!parsed)
    return;
  const Object &object = *parsed;
  ++lines;
  int64_t at = 0;
  if (object.at_key("step").get(at) != simdjson::SUCCESS) {
    if (header.empty() && has(object, "plan"))
      if (Result<ordered_json> first = parseOrderedJson(line))
        addHeader(std::move(*first));
    return;
  }
  if (at < 0 || at > kLargestStep)
    return;
  if (has(object, "loss"))
    addStep(*this, at, object);
  else if (has(object, "eval_loss"))
    addEvaluation(*this, at, object);
  else if (Object sample; object.at_key("sample").get(sample) == simdjson::SUCCESS)
    addSample(*this, at, sample);
  else if (has(object, "note"))
    addNote(at, textOf(object, "note"));
  else if (has(object, "resumed"))
    if (Result<ordered_json> whole = parseOrderedJson(line); whole && (*whole)["resumed"].is_object())
      addHeader(std::move((*whole)["resumed"]));
}

} // namespace mt::train
