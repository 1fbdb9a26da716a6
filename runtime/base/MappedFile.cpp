#include "runtime/base/MappedFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mt {

Result<MappedFile> MappedFile::open(const std::string &path) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return fail("{}: cannot be opened: {}", path, std::strerror(errno));
  struct stat status = {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    return fail("{}: not a regular file", path);
  }
  size_t length = static_cast<size_t>(status.st_size);
  void *address = length ? ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, descriptor, 0) : nullptr;
  int error = errno;
  ::close(descriptor);
  if (address == MAP_FAILED)
    return fail("{}: cannot be mapped: {}", path, std::strerror(error));
  return MappedFile(path, std::span(static_cast<const std::byte *>(address), length));
}

Result<MappedFile> MappedFile::copyOf(const std::string &name, std::span<const std::byte> bytes) {
  if (bytes.empty())
    return MappedFile(name, {});
  void *address = ::mmap(nullptr, bytes.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED)
    return fail("{}: no memory for {} bytes: {}", name, bytes.size(), std::strerror(errno));
  std::memcpy(address, bytes.data(), bytes.size());
  return MappedFile(name, std::span(static_cast<const std::byte *>(address), bytes.size()));
}

MappedFile::MappedFile(MappedFile &&other) noexcept
    : file(std::move(other.file)), all(std::exchange(other.all, std::span<const std::byte>())) {}

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  std::swap(file, other.file);
  std::swap(all, other.all);
  return *this;
}

MappedFile::~MappedFile() {
  if (!all.empty())
    ::munmap(const_cast<std::byte *>(all.data()), all.size());
}

Result<std::span<const std::byte>> MappedFile::view(uint64_t offset, uint64_t length) const {
  if (offset > all.size() || length > all.size() - offset)
    return fail("{}: has {} bytes, want {} at offset {}: the file is truncated or not the right one", file, all.size(),
                length, offset);
  return all.subspan(offset, length);
}

} // namespace mt
