// The choice of the next token from a model's logits: the likeliest, or one drawn from the likelier ones. Pure; knows
// no models and no text.
#ifndef MT_RUNTIME_TRAIN_CHOOSETOKEN_H
#define MT_RUNTIME_TRAIN_CHOOSETOKEN_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <span>

namespace mt::train {

struct ChoiceOptions {
  double temperature = 0.8; ///< of the softmax; 0: the likeliest token
  int64_t topK = 0;         ///< drawn from so many; 0: from all
  double topP = 1; ///< drawn from the fewest that have this probability together (Holtzman et al., arXiv 1904.09751)
};

/// The number of a logit. `uniform`, in [0, 1), decides what is drawn. Of equal logits the first counts as likelier.
/// Errors: one is not a number.
Result<uint32_t> chooseToken(std::span<const float> logits, const ChoiceOptions &options, double uniform);

} // namespace mt::train
#endif
