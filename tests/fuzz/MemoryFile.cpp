#include "tests/fuzz/MemoryFile.h"

#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

namespace mt::fuzz {

MemoryFile::MemoryFile()
    : descriptor(::memfd_create("fuzz", MFD_CLOEXEC)), path("/proc/self/fd/" + std::to_string(descriptor)) {}

MemoryFile::~MemoryFile() { ::close(descriptor); }

const std::string &MemoryFile::of(std::span<const uint8_t> bytes) {
  bool made = ::ftruncate(descriptor, 0) == 0;
  for (size_t at = 0; made && at < bytes.size();) {
    ssize_t count = ::pwrite(descriptor, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    made = count > 0;
    at += made ? static_cast<size_t>(count) : 0;
  }
  if (!made) {
    std::perror("a file in memory");
    std::exit(1);
  }
  return path;
}

} // namespace mt::fuzz
