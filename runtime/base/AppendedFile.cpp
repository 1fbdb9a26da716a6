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

/// The older half goes, in whole lines: of the first one a part may be in the file already.
void AppendedFile::dropOldest() {
  size_t begin = waiting.find('\n'), end = waiting.find('\n', waiting.size() / 2);
  if (begin < end && end != std::string::npos)
    waiting.erase(begin, end - begin);
}

Status AppendedFile::append(std::string_view record) {
  if (waiting.size() + record.size() > kMostWaiting)
    dropOldest();
  waiting += record;
  uint64_t written = 0;
  Status status = writeAll(descriptor.get(), std::as_bytes(std::span(waiting)), written);
  waiting.erase(0, written);
  return status;
}

Status AppendedFile::sync() {
  MT_TRY(append(""));
  if (!syncDescriptor(descriptor.get()) && errno != EINVAL && errno != EROFS && errno != ENOTSUP)
    return Status::error(std::strerror(errno));
  return Status();
}

} // namespace mt
