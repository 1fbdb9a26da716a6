#include "runtime/host/Arena.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace mt::host {

constexpr uint64_t kGuardBytes = 64;
constexpr std::byte kGuard{0xA5};

Result<Arena> Arena::reserve(uint64_t bytes, const std::string &name, bool hugePages) {
  uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  uint64_t mapped = (bytes + kGuardBytes + page - 1) / page * page;
  void *address = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED)
    return fail("space \"{}\": {} bytes cannot be reserved: {}", name, bytes, std::strerror(errno));
  if (hugePages)
    ::madvise(address, mapped, MADV_HUGEPAGE);
  Arena arena(static_cast<std::byte *>(address), bytes, mapped, name);
  std::fill_n(arena.base + bytes, kGuardBytes, kGuard);
  return arena;
}

Arena::Arena(Arena &&other) noexcept
    : base(std::exchange(other.base, nullptr)), size(other.size), mapped(other.mapped), name(std::move(other.name)) {}

Arena::~Arena() {
  if (base)
    ::munmap(base, mapped);
}

Status Arena::checkGuard() const {
  if (std::all_of(base + size, base + size + kGuardBytes, [](std::byte one) { return one == kGuard; }))
    return {};
  return fail("space \"{}\": bytes after its end, {}, have been written; report this with the plan", name, size);
}

void Arena::protect(bool forbidden) const { ::mprotect(base, mapped, forbidden ? PROT_NONE : PROT_READ | PROT_WRITE); }

} // namespace mt::host
