// The memory of one space on the host: exactly its bytes, one mapping, page-aligned, zero at first, all of it there from
// the start; followed by a guard of known bytes that shows writes beyond the end. Whether everything that a plan reserves
// fits together is MemoryCheck's to say, before.
#ifndef MT_RUNTIME_HOST_ARENA_H
#define MT_RUNTIME_HOST_ARENA_H

#include "runtime/base/Status.h"
#include "runtime/host/MachineMemory.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace mt::host {

class Arena {
public:
  /// Takes the memory itself, not only addresses: commit(). `hugePages`: ask the system for large pages. Errors name the
  /// arena and its bytes.
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

/// Has the system find and clear the pages of `memory`, on several threads, so that none is missing later. Looks at
/// `available` now and then: where less is left than is yet to come, it stops with an error before the system has to
/// kill a process for it. The error names the space, its bytes, those there, and the remedy.
Status commit(std::span<std::byte> memory, const std::string &name, const std::function<MachineMemory()> &available);

} // namespace mt::host
#endif
