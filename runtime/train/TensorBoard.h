// Event files as TensorBoard reads them: scalars by tag and step. The format is TFRecord (length, masked CRC-32C, data,
// masked CRC-32C) of tensorflow.Event messages, written by hand: four fields need no schema.
#ifndef MT_RUNTIME_TRAIN_TENSORBOARD_H
#define MT_RUNTIME_TRAIN_TENSORBOARD_H

#include "runtime/base/AppendedFile.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace mt::train {

class TensorBoard {
public:
  /// Starts a new event file in `folder`, which is made if it is missing.
  static Result<TensorBoard> open(const std::string &folder);
  /// An error says why the scalar waits to be written; later calls try again.
  Status scalar(std::string_view tag, int64_t step, float value);

private:
  TensorBoard(std::string path, AppendedFile file) : path(std::move(path)), file(std::move(file)) {}
  Status record(const std::string &event);
  std::string path;
  AppendedFile file;
};

/// CRC-32C (Castagnoli), as in RFC 3720.
uint32_t crc32c(std::string_view bytes);

} // namespace mt::train
#endif
