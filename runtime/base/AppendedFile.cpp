#include "runtime/base/AppendedFile.h"

#include "runtime/base/AtomicFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace mt {

constexpr size_t kMostWaiting = 64 << 20;

Result<AppendedFile> AppendedFile::open(const std::string &path, bool anew) {
  MT_ASSIGN(Descriptor stream, openStream(path));
  if (stream.valid())
    return AppendedFile(std::move(stream));
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (anew ? O_TRUNC : 0), 0666));
  if (!file.valid())
    return Status::error(std::strerror(errno));
  MT_ASSIGN(std::string target, followLinks(path));
  MT_TRY(syncFolder(folderOf(target)));
  return AppendedFile(std::move(file));
}

/// The older half of the records goes; of the first a part may be in the file already, and it stays.
void AppendedFile::dropOldest() {
  for (uint64_t half = bytes / 2; bytes > half && waiting.size() > 1; waiting.erase(waiting.begin() + 1))
    bytes -= waiting[1].size();
}

Status AppendedFile::append(std::string_view record) {
  if (bytes + record.size() > kMostWaiting)
    dropOldest();
  if (!record.empty())
    waiting.emplace_back(record);
  bytes += record.size();
  while (!waiting.empty()) {
    uint64_t written = 0;
    Status status = writeAll(descriptor.get(), std::as_bytes(std::span(waiting.front())), written);
    bytes -= written;
    waiting.front().erase(0, written);
    MT_TRY(status);
    waiting.pop_front();
  }
  return Status();
}

Status AppendedFile::sync() {
  MT_TRY(append(""));
  if (!syncDescriptor(descriptor.get()) && !hasNothingToSync(errno))
    return Status::error(std::strerror(errno));
  return Status();
}

} // namespace mt
