// The architectures of checkpoint folders, as a table: each says how config.json describes its graph. What the graph
// would not honour is refused by name. A new one is a row, and a function for what it says beyond the others.
#ifndef MT_MODELS_ARCHITECTURES_H
#define MT_MODELS_ARCHITECTURES_H

#include "models/CheckpointConfig.h"
#include "models/GraphBuilder.h"

namespace mt::models {

/// An error where no architecture of that name is known.
Status checkArchitecture(CheckpointConfig &config);
/// Builds the graph that `config` describes; its first error.
Status buildArchitecture(CheckpointConfig &config, GraphBuilder &b);

/// docs/checkpoints.md: what is read of a checkpoint folder, of each architecture.
std::string architecturesPage();

} // namespace mt::models
#endif
