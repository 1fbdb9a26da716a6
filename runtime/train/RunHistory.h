// What the lines of a metrics file (Metrics.h) add up to: what the run is, where it stands, its curves, its newest
// samples and notes. In bounded memory however long the run is. The file is the only source: who writes it and who
// reads it later come to the same. RunReport.h shows it.
#ifndef MT_RUNTIME_TRAIN_RUNHISTORY_H
#define MT_RUNTIME_TRAIN_RUNHISTORY_H

#include "runtime/base/Status.h"
#include "runtime/train/Series.h"

#include <nlohmann/json.hpp>

#include <deque>
#include <string>
#include <string_view>

namespace mt::train {

struct RunHistory {
  static constexpr size_t kMostSamples = 20, kMostNotes = 50, kMostText = 2048;

  /// Text that a model wrote after a step.
  struct Sample {
    int64_t step = 0;
    std::string prompt, text; ///< the first kMostText bytes of each
  };
  struct Note {
    int64_t step = 0;
    std::string text;
  };

  /// Of a file, line by line. Errors: it cannot be read; it is no record of a run.
  static Result<RunHistory> read(const std::string &path);
  /// The next line. One that is no JSON object, or of no kind that is known here, counts for nothing: the last one of a
  /// run that is under way may be half written.
  void add(std::string_view line);

  /// What the run is (RunHeader.h), since it last went on; empty: not known yet.
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  int64_t lines = 0;                     ///< added, but for those that are no objects
  int64_t steps = 0;                     ///< reported
  int64_t step = 0, epoch = 0;           ///< of the newest
  int64_t evaluatedStep = -1;            ///< after which the newest evaluation was
  double tokens = 0;                     ///< labels that counted
  double seconds = 0;                    ///< of all steps
  double smoothedSeconds = 0;            ///< of a step, newer ones the heavier
  double deviceBytes = 0, hostBytes = 0; ///< reserved, as the newest step says
  Series loss, evaluation, learningRate, gradientNorm, throughput;
  std::deque<Sample> samples; ///< the newest, in order
  std::deque<Note> notes;
  int64_t sampleCount = 0, noteCount = 0; ///< of the whole run

private:
  void addHeader(nlohmann::ordered_json object);
  void addNote(int64_t at, std::string_view text);
};

} // namespace mt::train
#endif
