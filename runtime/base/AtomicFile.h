// Writing a file so that readers see the old bytes or all of the new ones, also after a crash: the bytes go to a file
// aside (PATH.tmp.PID), which is synced and renamed over PATH by commit(). Without commit() nothing remains.
#ifndef MT_RUNTIME_BASE_ATOMICFILE_H
#define MT_RUNTIME_BASE_ATOMICFILE_H

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace mt {

class AtomicFile {
public:
  /// Creates the file aside. Errors: the folder does not exist or cannot be written.
  static Result<AtomicFile> create(const std::string &path);

  AtomicFile(AtomicFile &&other) noexcept;
  AtomicFile &operator=(AtomicFile &&) = delete;
  ~AtomicFile();

  /// Appends.
  Status write(std::span<const std::byte> bytes);
  /// Bytes appended so far.
  uint64_t written() const { return total; }
  /// Syncs, renames over the path, and syncs the folder. Call once, last.
  Status commit();

private:
  AtomicFile(std::string path, std::string aside, int descriptor)
      : path(std::move(path)), aside(std::move(aside)), descriptor(descriptor) {}
  std::string path, aside;
  int descriptor = -1;
  uint64_t total = 0;
};

/// The whole content at once.
Status writeFileAtomically(const std::string &path, std::span<const std::byte> bytes);
Status writeFileAtomically(const std::string &path, const std::string &text);

} // namespace mt
#endif
