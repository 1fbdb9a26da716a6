// Losses that stand out from those before them: a pure function of the losses, so that a run that goes on finds the
// same. Knows no steps and writes nothing. Mean and deviation are exponential ones over some hundred steps (Finch,
// "Incremental calculation of weighted mean and variance", 2009); a spike is six deviations above, where OLMo 2's score
// takes seven of a window of a thousand steps (arXiv 2501.00656), which a warning could not wait for.
#ifndef MT_RUNTIME_TRAIN_LOSSSPIKES_H
#define MT_RUNTIME_TRAIN_LOSSSPIKES_H

#include <cstdint>
#include <optional>

namespace mt::train {

class LossSpikes {
public:
  /// Takes the next step's loss. Where it is a spike, returns the mean of those before. What is not finite is passed
  /// over.
  std::optional<double> add(float loss);

private:
  int64_t count = 0;
  double mean = 0, variance = 0;
};

} // namespace mt::train
#endif
