// The report of a run: one page of HTML, RUN/report.html, that stands alone and needs no network. A function of the
// run's metrics (RunHistory.h), so that `mtrun report` makes the bytes that the run wrote. Clocks and machines are not
// in it.
#ifndef MT_RUNTIME_TRAIN_RUNREPORT_H
#define MT_RUNTIME_TRAIN_RUNREPORT_H

#include "runtime/train/Options.h"
#include "runtime/train/RunHistory.h"

namespace mt::train {

/// The page, below a megabyte however long the run.
std::string reportPage(const RunHistory &history);
/// Writes FOLDER/report.html, whole or not at all.
Status writeReport(const std::string &folder, const RunHistory &history);

/// mtrun report: makes the page anew, prints a line. Errors: no metrics of a run are there; the page cannot be written.
Status makeReport(const ReportOptions &options);

} // namespace mt::train
#endif
