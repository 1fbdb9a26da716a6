// A file's bytes, read-only, mapped into memory: nothing is read before it is looked at. Views are checked against
// the file's length. Not for files that others shorten while we read.
#ifndef MT_RUNTIME_BASE_MAPPEDFILE_H
#define MT_RUNTIME_BASE_MAPPEDFILE_H

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace mt {

class MappedFile {
public:
  /// Errors: the file does not exist, is a folder, or cannot be read. An empty file is fine.
  static Result<MappedFile> open(const std::string &path);

  /// A copy of bytes that are in no file; `name` stands for it in messages.
  static Result<MappedFile> copyOf(const std::string &name, std::span<const std::byte> bytes);

  MappedFile(MappedFile &&other) noexcept;
  MappedFile &operator=(MappedFile &&other) noexcept;
  ~MappedFile();

  const std::string &path() const { return file; }
  uint64_t size() const { return all.size(); }
  std::span<const std::byte> bytes() const { return all; }
  /// `length` bytes from `offset`; an error that names the file where it is shorter.
  Result<std::span<const std::byte>> view(uint64_t offset, uint64_t length) const;

private:
  MappedFile(std::string path, std::span<const std::byte> bytes) : file(std::move(path)), all(bytes) {}
  std::string file;
  std::span<const std::byte> all;
};

} // namespace mt
#endif
