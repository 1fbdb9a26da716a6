// Bytes of a plan's spaces that the host reads and writes while no program runs: in memory, or in a file. What loads,
// saves and copies state sees no other difference between the two.
#ifndef MT_RUNTIME_HOST_HOSTBYTES_H
#define MT_RUNTIME_HOST_HOSTBYTES_H

#include "runtime/host/FileSpace.h"

#include <functional>
#include <vector>

namespace mt::host {

class HostBytes {
public:
  HostBytes() = default;
  HostBytes(std::span<std::byte> memory) : memory(memory), length(memory.size()) {}
  HostBytes(FileSpace &file, uint64_t offset, uint64_t bytes) : file(&file), offset(offset), length(bytes) {}

  uint64_t size() const { return length; }
  HostBytes part(uint64_t begin, uint64_t bytes) const;
  /// The bytes themselves where they are memory, else a copy in `buffer`.
  Result<std::span<const std::byte>> get(std::vector<std::byte> &buffer) const;
  /// As many as there are.
  Status copyTo(std::span<std::byte> to) const;
  /// What `fill` makes of them, all of them.
  Status set(const std::function<Status(std::span<std::byte>)> &fill) const;
  /// Of what has not been written: files begin as zeros.
  Status clear() const;

private:
  std::span<std::byte> memory;
  FileSpace *file = nullptr;
  uint64_t offset = 0, length = 0;
};

} // namespace mt::host
#endif
