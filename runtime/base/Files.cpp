#include "runtime/base/Files.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mt {
namespace {

Status systemError() { return Status::error(std::strerror(errno)); }

/// Whether a call that failed is to be made again: it was interrupted, or a pipe has no room yet.
bool tryAgain(int descriptor) {
  if (errno == EINTR)
    return true;
  if (errno != EAGAIN && errno != EWOULDBLOCK)
    return false;
  pollfd wanted = {descriptor, POLLOUT, 0};
  return ::poll(&wanted, 1, -1) >= 0 || errno == EINTR;
}

} // namespace

Status Descriptor::close() {
  if (number >= 0 && ::close(std::exchange(number, -1)) != 0 && errno != EINTR)
    return systemError();
  return Status();
}

Status readAllAt(int descriptor, std::span<std::byte> bytes, uint64_t offset) {
  while (!bytes.empty()) {
    ssize_t count = ::pread(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return count < 0 ? systemError() : Status::error("cut short");
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
  return Status();
}

Result<std::optional<std::string>> readFile(const std::string &path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid() && (errno == ENOENT || errno == ENOTDIR))
    return std::optional<std::string>();
  struct stat status = {};
  if (!file.valid() || ::fstat(file.get(), &status) != 0)
    return systemError().within(path);
  std::string content(static_cast<size_t>(status.st_size), '\0');
  MT_TRY(readAllAt(file.get(), std::as_writable_bytes(std::span(content)), 0).within(path));
  return std::optional(std::move(content));
}

Status writeAll(int descriptor, std::span<const std::byte> bytes, uint64_t &written) {
  while (!bytes.empty()) {
    ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && tryAgain(descriptor))
      continue;
    if (count < 0)
      return systemError();
    bytes = bytes.subspan(static_cast<size_t>(count));
    written += static_cast<uint64_t>(count);
  }
  return Status();
}

Status writeAllAt(int descriptor, std::span<const std::byte> bytes, uint64_t offset) {
  while (!bytes.empty()) {
    ssize_t count = ::pwrite(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && tryAgain(descriptor))
      continue;
    if (count < 0)
      return systemError();
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
  return Status();
}

Status flushOut() { return std::fflush(stdout) == 0 ? Status() : systemError().within("standard output"); }

Status writeOut(const std::string &text) {
  MT_TRY(flushOut());
  uint64_t written = 0;
  return writeAll(STDOUT_FILENO, std::as_bytes(std::span(text)), written).within("standard output");
}

Status writeAbout(const std::string &output, const std::string &text) {
  struct stat file = {}, out = {};
  bool same = ::stat(output.c_str(), &file) == 0 && ::fstat(STDOUT_FILENO, &out) == 0 && !S_ISCHR(out.st_mode) &&
              file.st_dev == out.st_dev && file.st_ino == out.st_ino;
  if (!same)
    return writeOut(text);
  uint64_t written = 0;
  return writeAll(STDERR_FILENO, std::as_bytes(std::span(text)), written).within("standard error");
}

bool syncDescriptor(int descriptor) {
  int failed = 0;
  do
    failed = ::fsync(descriptor);
  while (failed != 0 && errno == EINTR);
  return failed == 0;
}

bool hasNothingToSync(int error) { return error == EINVAL || error == EROFS || error == ENOTSUP; }

Status keepInputs(const std::string &option, const std::string &output, std::span<const InputFile> inputs) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (output.empty() || !fs::is_regular_file(output, error))
    return Status();
  for (const InputFile &input : inputs) {
    const bool isFolder = fs::is_directory(input.path, error);
    if (fs::equivalent(isFolder ? folderOf(output) : output, input.path, error))
      return fail("{} {}: this would overwrite {}, {}: name another file", option, output, input.what, input.path);
  }
  return Status();
}

std::string folderOf(const std::string &path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

Status makeFolders(const std::string &path) {
  std::string trimmed = path;
  while (trimmed.size() > 1 && trimmed.back() == '/')
    trimmed.pop_back();
  std::error_code error;
  if (trimmed.empty() || std::filesystem::is_directory(trimmed, error))
    return Status();
  std::string above = folderOf(trimmed);
  MT_TRY(makeFolders(above));
  if (::mkdir(trimmed.c_str(), 0777) != 0)
    return errno == EEXIST && std::filesystem::is_directory(trimmed, error) ? Status() : systemError().within(trimmed);
  return syncFolder(above);
}

Status syncFolder(const std::string &path) {
  Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid())
    return systemError().within(path);
  if (!syncDescriptor(folder.get()) && !hasNothingToSync(errno))
    return systemError().within(path);
  return Status();
}

Result<bool> renamePath(const std::string &from, const std::string &to, bool exchange) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), exchange ? RENAME_EXCHANGE : 0) == 0)
    return true;
  if (exchange && (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP))
    return false;
  if (!exchange && errno == ENOSYS && ::rename(from.c_str(), to.c_str()) == 0)
    return true;
  return systemError().within(fmt::format("{}: cannot become {}", from, to));
}

} // namespace mt
