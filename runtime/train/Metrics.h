// The record of a run: one JSON object a step in a file that grows line by line, and one line for people. Reads no
// clocks and no plans: it writes what it is given.
#ifndef MT_RUNTIME_TRAIN_METRICS_H
#define MT_RUNTIME_TRAIN_METRICS_H

#include "runtime/base/AppendedFile.h"

#include "runtime/train/RunHistory.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace mt::train {

/// One step, measured.
struct StepRecord {
  int64_t step = 0, epoch = 0;
  float loss = 0;
  double gradientNorm = 0, learningRate = 0;
  int64_t tokens = 0;   ///< labels that count
  bool skipped = false; ///< its gradient is not finite: weights and their state are those before it
  double seconds = 0;
  uint64_t deviceBytes = 0, hostBytes = 0;
};

class MetricsFile {
public:
  /// Starts the file with `header`. When going on from `resumedStep` > 0 with a file that is there, keeps its lines up
  /// to that step instead, so that no step appears twice - of that step an evaluation only where it `isEvaluated`, and will
  /// not be again -, and adds `header` where it says other things than theirs; calls seen() with the loss of each step that
  /// stays, but for those that are not finite. What the file held otherwise is gone: see makeRoom(). Errors: the path
  /// cannot be written.
  static Result<MetricsFile> open(const std::string &path, const nlohmann::ordered_json &header, int64_t resumedStep,
                                  bool isEvaluated, const std::function<void(float loss)> &seen);

  /// Renames metrics of another run than `run`, as their first line says, to the first of FILE.1, FILE.2, .. that is free.
  /// Going on with a run, a line of older versions, which do not say whose it is, is the run's. Errors: the file holds
  /// something else, which would be written over.
  static Status makeRoom(const std::string &path, const std::string &run, bool goesOn);

  // An error of these says why a line waits to be written; later calls try again.
  Status step(const StepRecord &record);
  /// Mean loss over evaluation data after a step.
  Status evaluation(int64_t step, double loss, int64_t tokens);
  /// What the model made of a prompt after a step.
  Status sample(int64_t step, const std::string &prompt, const std::string &text);
  /// What is to be known of a step, for people.
  Status note(int64_t step, const std::string &text);
  /// Every line so far is on disk.
  Status sync() { return file.sync().within("--metrics " + path); }
  /// Bytes of lines that wait.
  uint64_t waitingBytes() const { return file.waitingBytes(); }
  /// What all lines add up to, those that wait included.
  const RunHistory &history() const { return sum; }

private:
  MetricsFile(std::string path, AppendedFile file) : path(std::move(path)), file(std::move(file)) {}
  Status line(const nlohmann::ordered_json &object);
  std::string path;
  AppendedFile file;
  RunHistory sum;
};

/// The line for people: on a terminal one that is rewritten, else one a step. What cannot be printed is left out: a run
/// goes on when nobody reads it any more.
class ProgressLine {
public:
  /// `unit`: what is counted per second, "tok" or "rows"; `peakSeconds`: what the step would take at the peak rate, or 0.
  ProgressLine(bool quiet, std::string unit, double peakSeconds, int64_t steps);

  void step(const StepRecord &record);
  /// A line that stays; `always`: also when quiet.
  void note(const std::string &text, bool always = false);
private:
  void print(const std::string &text, bool stays) const;
  bool quiet, terminal;
  std::string unit;
  double peakSeconds;
  int64_t steps;
  double smoothed = 0; ///< seconds a step, an exponential mean, for the time left
};

/// The text of such a line.
std::string progressText(const StepRecord &record, int64_t steps, const std::string &unit, double peakSeconds,
                         double secondsLeft);

} // namespace mt::train
#endif
