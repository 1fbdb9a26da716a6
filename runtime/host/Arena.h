// The memory of one space on the host: exactly its bytes, one mapping, page-aligned, zero at first; followed by a
// guard of known bytes that shows writes beyond the end. Does not check what the machine has (MachineMemory.h).
#ifndef MT_RUNTIME_HOST_ARENA_H
#define MT_RUNTIME_HOST_ARENA_H

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace mt::host {

class Arena {
public:
  /// `hugePages`: ask the system for large pages. Errors name the arena and its bytes.
  static Result<Arena> reserve(uint64_t bytes, const std::string &name, bool hugePages);

  Arena(Arena &&other) noexcept;
  Arena &operator=(Arena &&) = delete;
  ~Arena();

  std::byte *data() const { return base; }
  uint64_t bytes() const { return size; }
  /// Fails if bytes after the end have been written.
  Status checkGuard() const;
  /// Makes every access fault, or possible again.
  void protect(bool forbidden) const;

private:
  Arena(std::byte *base, uint64_t size, uint64_t mapped, std::string name)
      : base(base), size(size), mapped(mapped), name(std::move(name)) {}
  std::byte *base = nullptr;
  uint64_t size = 0, mapped = 0;
  std::string name;
};

} // namespace mt::host
#endif
