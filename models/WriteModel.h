// Writes a built model to disk: the graph, and for `--weights` the values its generators stand for as external data
// beside it. Nothing is left half-written.
#ifndef MT_MODELS_WRITEMODEL_H
#define MT_MODELS_WRITEMODEL_H

#include "models/Families.h"

#include <cstdint>
#include <string>

namespace mt::models {

struct WriteOptions {
  std::string output;
  int64_t opset = 23;
  uint64_t seed = 0;
  bool weights = false; ///< write the bytes too, as OUTPUT.data
};

/// What was written, for the line that says so.
struct Written {
  uint64_t parameters = 0, graphBytes = 0, weightBytes = 0;
  std::vector<std::string> warnings; ///< complete messages
};

/// `shape` is complete (completeShape).
Result<Written> writeFamily(const Family &family, const Shape &shape, const WriteOptions &options);
/// The graph of a checkpoint folder; its weights stay where they are.
Result<Written> writeCheckpointGraph(const std::string &folder, const WriteOptions &options);

} // namespace mt::models
#endif
