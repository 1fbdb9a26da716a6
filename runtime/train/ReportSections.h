// The parts of a run's report, each as HTML and each a function of what the metrics say (RunHistory.h). What is not
// known is left out: a section without content is empty text. RunReport.h makes the page of them.
#ifndef MT_RUNTIME_TRAIN_REPORTSECTIONS_H
#define MT_RUNTIME_TRAIN_REPORTSECTIONS_H

#include "runtime/train/RunHistory.h"

namespace mt::train {

/// The model and the step, as plain text.
std::string titleOf(const RunHistory &history);
/// What run it is, how far it is, and its numbers now.
std::string headSection(const RunHistory &history);
/// Loss, learning rate, gradient norm, throughput; what the script needs of them is appended to `data`.
std::string curveSection(const RunHistory &history, nlohmann::ordered_json &data);
/// The predicted time of a step by stream and role beside the measured one.
std::string timeSection(const RunHistory &history);
/// Bytes of every space, and what is reserved.
std::string memorySection(const RunHistory &history);
/// Texts that the model wrote, newest first.
std::string sampleSection(const RunHistory &history);
std::string noteSection(const RunHistory &history);
/// Model, plan, data and recipe.
std::string factSection(const RunHistory &history);

} // namespace mt::train
#endif
