// A file that grows record by record, such as metrics: what cannot be written now, because the disk is full, is kept
// and written with a later record, so that no record is torn or lost while the program lives. A device or pipe is
// written to. Not for files that readers must see whole: AtomicFile.h.
#ifndef MT_RUNTIME_BASE_APPENDEDFILE_H
#define MT_RUNTIME_BASE_APPENDEDFILE_H

#include "runtime/base/Files.h"

#include <deque>

namespace mt {

class AppendedFile {
public:
  /// Opens for appending; `anew`: what the file held is gone. Errors: the path cannot be written.
  static Result<AppendedFile> open(const std::string &path, bool anew);

  /// Appends a record after those that wait. An error says why they could not be written; they are
  /// kept, the oldest given up only beyond 64 MiB.
  Status append(std::string_view record);
  /// What waits is written, and on disk.
  Status sync();
  /// Bytes that wait.
  uint64_t waitingBytes() const { return bytes; }

private:
  explicit AppendedFile(Descriptor descriptor) : descriptor(std::move(descriptor)) {}
  void dropOldest();
  Descriptor descriptor;
  std::deque<std::string> waiting; ///< whole records, but for the first, the rest of one
  uint64_t bytes = 0;              ///< of them
};

} // namespace mt
#endif
