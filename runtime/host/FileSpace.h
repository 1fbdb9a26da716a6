// The bytes of a space of kind file: a file without a name in a folder that the user chose, on a disk as fast as can be.
// All of it is taken from the disk at the start, and it is gone with the process, however that ends: scratch, never a
// checkpoint. Bytes go past the system's cache, several requests at a time, where offset, length and memory are whole blocks
// (of all that a plan moves in a step); the rest, loading and saving between steps, goes through it.
#ifndef MT_RUNTIME_HOST_FILESPACE_H
#define MT_RUNTIME_HOST_FILESPACE_H

#include "runtime/base/Files.h"
#include "runtime/plan/Program.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace mt::host {

/// Offsets, lengths and addresses of what goes past the cache are multiples of it.
inline constexpr uint64_t kFileAlignment = plan::kFileBlock;

class FileSpace {
public:
  enum class Requests : uint8_t {
    best,   ///< through io_uring, where the kernel allows it
    threads ///< each by a thread of its own
  };
  /// Errors name the folder, the bytes needed and those free, and the remedy.
  static Result<std::unique_ptr<FileSpace>> make(const std::string &folder, uint64_t bytes, const std::string &name,
                                                 Requests requests = Requests::best);
  ~FileSpace();
  FileSpace(const FileSpace &) = delete;

  uint64_t bytes() const { return size; }
  /// Whether whole blocks go past the cache: not every file system can do that.
  bool isDirect() const { return direct.valid(); }

  /// Any range, from any thread; ranges that are read or written at once must not overlap what is written. Errors: the
  /// system's; bytes that a step wrote are not those that are read.
  Status read(uint64_t offset, std::span<std::byte> into);
  Status write(uint64_t offset, std::span<const std::byte> from);

private:
  struct Piece {
    uint64_t offset = 0;
    std::span<std::byte> memory; ///< written from where `writes`
  };
  /// Requests of one direction under way.
  class Queue;

  FileSpace(std::string folder, uint64_t bytes);
  bool isWhole(uint64_t offset, std::span<const std::byte> memory) const;
  static std::vector<Piece> piecesOf(uint64_t offset, std::span<std::byte> memory);
  Status move(uint64_t offset, std::span<std::byte> memory, bool writes);
  Status moveOne(const Piece &piece, bool writes) const;
  Status check(uint64_t offset, std::span<const std::byte> memory);
  void note(uint64_t offset, std::span<const std::byte> from);
  void forget(uint64_t offset, uint64_t length);

  std::string folder;
  uint64_t size = 0;
  Descriptor cached, direct;
  std::unique_ptr<Queue> reads, writes;
  struct Written {
    uint64_t bytes = 0, checksum = 0;
  };
  std::mutex mutex;
  std::map<uint64_t, Written> written; ///< by offset: pieces of what was written last
};

} // namespace mt::host
#endif
