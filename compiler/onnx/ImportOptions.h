// What a user may say about a model's dimensions and weights. Plain; shared by importing and checking.
#ifndef MT_COMPILER_ONNX_IMPORTOPTIONS_H
#define MT_COMPILER_ONNX_IMPORTOPTIONS_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mt::onnx {

/// Tokens per row where neither the model nor the user says.
inline constexpr int64_t kDefaultSequence = 256;

struct ImportOptions {
  int64_t batch = 1;                   ///< rows of every graph input
  std::optional<int64_t> sequence;     ///< tokens per row of integer inputs; none: the model's, else 256
  std::map<std::string, int64_t> dims; ///< other symbolic dimensions, by name (unnamed ones as "input:index")
  /// The dimension that is the batch, by input, and of "" for all others; none: what the model's symbols say, else 0.
  std::map<std::string, int64_t> batchDims;
  std::vector<std::string> train, freeze; ///< globs over initializer and original names; `train` wins
  bool asFixed = false;                   ///< no input has a batch or a sequence: every dimension is the model's own
};

} // namespace mt::onnx
#endif
