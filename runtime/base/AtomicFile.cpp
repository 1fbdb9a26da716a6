#include "runtime/base/AtomicFile.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace mt {

Result<AtomicFile> AtomicFile::create(const std::string &path) {
  std::string aside = fmt::format("{}.tmp.{}", path, ::getpid());
  int descriptor = ::open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0)
    return fail("{}: cannot be written: {}", path, std::strerror(errno));
  return AtomicFile(path, std::move(aside), descriptor);
}

AtomicFile::AtomicFile(AtomicFile &&other) noexcept
    : path(std::move(other.path)), aside(std::move(other.aside)), descriptor(std::exchange(other.descriptor, -1)),
      total(other.total) {}

AtomicFile::~AtomicFile() {
  if (descriptor < 0)
    return;
  ::close(descriptor);
  ::unlink(aside.c_str());
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return fail("{}: cannot be written: {}", path, std::strerror(errno));
    bytes = bytes.subspan(static_cast<size_t>(count));
    total += static_cast<uint64_t>(count);
  }
  return {};
}

static void syncFolder(const std::string &path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  int descriptor = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0)
    return;
  ::fsync(descriptor);
  ::close(descriptor);
}

Status AtomicFile::commit() {
  if (::fsync(descriptor) != 0)
    return fail("{}: cannot be written: {}", path, std::strerror(errno));
  if (::rename(aside.c_str(), path.c_str()) != 0)
    return fail("{}: cannot be replaced: {}", path, std::strerror(errno));
  ::close(std::exchange(descriptor, -1));
  syncFolder(path);
  return {};
}

Status writeFileAtomically(const std::string &path, std::span<const std::byte> bytes) {
  MT_ASSIGN(AtomicFile file, AtomicFile::create(path));
  MT_TRY(file.write(bytes));
  return file.commit();
}

Status writeFileAtomically(const std::string &path, const std::string &text) {
  return writeFileAtomically(path, std::as_bytes(std::span(text)));
}

} // namespace mt
