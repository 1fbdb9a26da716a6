// The adapters of a run as its checkpoints say them (plan::Adapter, by name), and the sum of a weight and what its
// adapter adds. Between checkpoints and exports.
#ifndef MT_RUNTIME_TRAIN_ADAPTERS_H
#define MT_RUNTIME_TRAIN_ADAPTERS_H

#include "runtime/base/Status.h"
#include "runtime/plan/Program.h"
#include "runtime/train/Npy.h"

#include <nlohmann/json.hpp>

#include <span>
#include <string>
#include <vector>

namespace mt::train {

struct StoredAdapter {
  std::string weight, down, up;     ///< names of parameters; the weight is not in the checkpoint
  std::vector<plan::Alias> aliases; ///< of the weight
  Dims dims;                        ///< of the weight
  double scale = 1, dropout = 0;
  bool transposed = false; ///< the weight is of [in, out]
};

/// As a checkpoint's metadata hold them; of a plan without adapters null.
nlohmann::json adaptersOf(const plan::Plan &plan);
/// Of null, none. Errors: it is nothing that adaptersOf() returns.
Result<std::vector<StoredAdapter>> readAdapters(const nlohmann::json &adapters);

/// Adds scale * up down to `weight` [out, in], or its transpose to one of [in, out]: up is [out, rank], down [rank,
/// in], all row by row. Each element's sum over the rank is in order, in 32 bits; threads change no bit.
void addAdapter(std::span<const float> down, std::span<const float> up, int64_t rank, double scale, bool transposed,
                std::span<float> weight);

} // namespace mt::train
#endif
