#include "runtime/base/AtomicFile.h"

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

namespace mt {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40, kMostTries = 100;

Status cannotWrite(const std::string &path) { return fail("{}: cannot be written: {}", path, std::strerror(errno)); }

/// The number of the open descriptor that a path in /proc/self/fd names.
std::optional<int> namedDescriptor(const std::string &path) {
  std::error_code error;
  fs::path folder = fs::canonical(folderOf(path), error);
  if (error || folder != fmt::format("/proc/{}/fd", ::getpid()))
    return std::nullopt;
  std::string name = fs::path(path).filename().string();
  int number = -1;
  auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), number);
  return code == std::errc() && end == name.data() + name.size() ? std::optional(number) : std::nullopt;
}

/// Mode and, where we may, owner of the file that is replaced. Not every owner exists in every container.
Status keepMode(int descriptor, const struct stat &old) {
  if (::fchown(descriptor, old.st_uid, old.st_gid) != 0 && errno != EPERM && errno != EINVAL)
    return Status::error(std::strerror(errno));
  return ::fchmod(descriptor, old.st_mode & 07777) == 0 ? Status() : Status::error(std::strerror(errno));
}

} // namespace

Result<std::string> followLinks(const std::string &path) {
  std::string at = path;
  for (int links = 0; links < kMostLinks; ++links) {
    struct stat status = {};
    if (namedDescriptor(at) || ::lstat(at.c_str(), &status) != 0 || !S_ISLNK(status.st_mode))
      return at;
    std::error_code error;
    fs::path to = fs::read_symlink(at, error);
    if (error)
      return fail("{}: {}", path, error.message());
    at = to.is_absolute() ? to.string() : (fs::path(folderOf(at)) / to).string();
  }
  return fail("{}: too many links", path);
}

Result<Descriptor> openStream(const std::string &path) {
  MT_ASSIGN(std::string file, followLinks(path));
  if (std::optional<int> number = namedDescriptor(file)) {
    std::fflush(nullptr); // what was printed there comes first
    Descriptor copy(::fcntl(*number, F_DUPFD_CLOEXEC, 0));
    return copy.valid() ? Result<Descriptor>(std::move(copy)) : cannotWrite(path);
  }
  struct stat status = {};
  if (::stat(file.c_str(), &status) != 0 || S_ISREG(status.st_mode))
    return Descriptor();
  Descriptor stream(::open(file.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
  return stream.valid() ? Result<Descriptor>(std::move(stream)) : cannotWrite(path);
}

Result<AtomicFile> AtomicFile::create(const std::string &path) {
  MT_ASSIGN(Descriptor stream, openStream(path));
  if (stream.valid())
    return AtomicFile(path, path, "", std::move(stream));
  MT_ASSIGN(std::string file, followLinks(path));
  return createAside(path, file);
}

Result<AtomicFile> AtomicFile::createAside(const std::string &path, const std::string &file) {
  struct stat old = {};
  bool replaces = ::stat(file.c_str(), &old) == 0;
  if (replaces && ::access(file.c_str(), W_OK) != 0)
    return cannotWrite(path);
  // A file of the same name may be one that an earlier process of this number left, or one of another machine's.
  std::string aside = fmt::format("{}.tmp.{}", file, ::getpid());
  Descriptor descriptor;
  for (int tries = 0; !descriptor.valid() && tries < kMostTries; ++tries) {
    if (tries > 0)
      aside = fmt::format("{}.tmp.{}-{}", file, ::getpid(), tries);
    descriptor = Descriptor(::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, replaces ? 0600 : 0666));
    if (!descriptor.valid() && errno != EEXIST)
      break;
  }
  if (!descriptor.valid())
    return cannotWrite(path);
  AtomicFile made(path, file, aside, std::move(descriptor));
  if (replaces)
    MT_TRY(made.failed(keepMode(made.descriptor.get(), old)));
  return made;
}

AtomicFile::AtomicFile(AtomicFile &&other) noexcept
    : path(std::move(other.path)), file(std::move(other.file)), aside(std::move(other.aside)),
      descriptor(std::move(other.descriptor)), total(other.total) {}

AtomicFile::~AtomicFile() {
  if (descriptor.valid() && isFile())
    ::unlink(aside.c_str());
}

Status AtomicFile::failed(const Status &reason) const {
  return reason ? Status() : fail("{}: cannot be written: {}", path, reason.message());
}

Status AtomicFile::write(std::span<const std::byte> bytes) { return failed(writeAll(descriptor.get(), bytes, total)); }

Status AtomicFile::removeOld() {
  if (!isFile() || (::unlink(file.c_str()) != 0 && errno == ENOENT))
    return Status();
  return syncFolder(folderOf(file));
}

Status AtomicFile::sync() const {
  const bool synced = syncDescriptor(descriptor.get()) || (!isFile() && hasNothingToSync(errno));
  return synced ? Status() : cannotWrite(path);
}

Status AtomicFile::commit() {
  MT_TRY(sync());
  if (!isFile())
    return failed(descriptor.close());
  if (Result<bool> renamed = renamePath(aside, file); !renamed)
    return renamed.status();
  Status closed = descriptor.close();
  MT_TRY(syncFolder(folderOf(file)));
  return failed(closed);
}

Status AtomicFile::commit(AtomicFile &first, AtomicFile &last) {
  MT_TRY(first.sync());
  MT_TRY(last.sync());
  MT_TRY(last.removeOld());
  MT_TRY(first.commit());
  return last.commit();
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
