// Event files as TensorBoard reads them: scalars by tag and step. The format is TFRecord (length, masked CRC-32C, data,
// masked CRC-32C) of tensorflow.Event messages, written by hand: four fields need no schema.
#ifndef MT_RUNTIME_TRAIN_TENSORBOARD_H
#define MT_RUNTIME_TRAIN_TENSORBOARD_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace mt::train {

class TensorBoard {
public:
  /// Starts a new event file in `folder`, which is made if it is missing.
  static Result<TensorBoard> open(const std::string &folder);
  Status scalar(std::string_view tag, int64_t step, float value);

private:
  struct Close {
    void operator()(std::FILE *file) const { std::fclose(file); }
  };
  TensorBoard(std::string path, std::FILE *file) : path(std::move(path)), file(file) {}
  Status record(const std::string &event);
  std::string path;
  std::unique_ptr<std::FILE, Close> file;
};

/// CRC-32C (Castagnoli), as in RFC 3720.
uint32_t crc32c(std::string_view bytes);

} // namespace mt::train
#endif
