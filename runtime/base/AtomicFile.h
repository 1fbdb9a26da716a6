// An output: a file that readers see with its old bytes or all of the new ones, also after a crash. The bytes go to a
// file aside (FILE.tmp.PID), synced and renamed over FILE by commit(); without commit() nothing remains. The mode of a
// file that is replaced is kept, a link is followed. What is no file - a device, a pipe, /dev/stdout - is written to.
#ifndef MT_RUNTIME_BASE_ATOMICFILE_H
#define MT_RUNTIME_BASE_ATOMICFILE_H

#include "runtime/base/Files.h"

namespace mt {

class AtomicFile {
public:
  /// Creates the file aside, in the folder of the file that it will replace, or opens the device or pipe. Errors: the
  /// folder does not exist or cannot be written, the file there is read-only, the path is a folder.
  static Result<AtomicFile> create(const std::string &path);

  AtomicFile(AtomicFile &&other) noexcept;
  AtomicFile &operator=(AtomicFile &&) = delete;
  ~AtomicFile();

  /// Appends.
  Status write(std::span<const std::byte> bytes);
  /// Bytes appended so far.
  uint64_t written() const { return total; }
  /// Whether a file is replaced or made; otherwise bytes have gone out as they were written.
  bool isFile() const { return !aside.empty(); }
  /// Syncs, renames over the file, and syncs the folder. Call once, last.
  Status commit();
  /// The same of two files that are valid only together: once both are synced the old `last` goes, durably, so that it
  /// is never beside the new `first`. A disk that is full has lost nothing.
  static Status commit(AtomicFile &first, AtomicFile &last);

private:
  AtomicFile(std::string path, std::string file, std::string aside, Descriptor descriptor)
      : path(std::move(path)), file(std::move(file)), aside(std::move(aside)), descriptor(std::move(descriptor)) {}
  Status failed(const Status &reason) const;
  Status sync() const;
  Status removeOld();
  static Result<AtomicFile> createAside(const std::string &path, const std::string &file);

  std::string path;  ///< as it was given, for messages
  std::string file;  ///< what is replaced
  std::string aside; ///< empty: bytes go to a device or pipe
  Descriptor descriptor;
  uint64_t total = 0;
};

/// The whole content at once.
Status writeFileAtomically(const std::string &path, std::span<const std::byte> bytes);
Status writeFileAtomically(const std::string &path, const std::string &text);

/// A device, pipe or open descriptor (/dev/stdout, /dev/fd/N) that a path names, opened for writing; invalid where it
/// names a file, or nothing yet.
Result<Descriptor> openStream(const std::string &path);
/// The path with links followed, also to what does not exist yet.
Result<std::string> followLinks(const std::string &path);

} // namespace mt
#endif
