#include "runtime/host/Arena.h"

#include "runtime/base/Sizes.h"
#include "runtime/base/Threads.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <mutex>
#include <optional>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace mt::host {
namespace {

constexpr uint64_t kGuardBytes = 64;
constexpr std::byte kGuard{0xA5};

/// False, with errno, where the system has no page for some of it. Pages of older systems are taken by writing to them.
bool populate(std::span<std::byte> memory) {
#ifdef MADV_POPULATE_WRITE
  if (::madvise(memory.data(), memory.size(), MADV_POPULATE_WRITE) == 0)
    return true;
  if (errno != EINVAL)
    return false;
#endif
  auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  for (size_t at = 0; at < memory.size(); at += page)
    *static_cast<volatile std::byte *>(memory.data() + at) = std::byte{0};
  return true;
}

/// The numbers in a list of the kernel's, "0-1,4", as bits.
uint64_t bitsOf(const std::string &file) {
  uint64_t bits = 0;
  std::ifstream stream(file);
  for (std::string part; std::getline(stream, part, ',');) {
    unsigned first = 0, last = 0;
    const int read = std::sscanf(part.c_str(), "%u-%u", &first, &last);
    for (unsigned i = first; read > 0 && i <= (read == 2 ? last : first) && i < 64; ++i)
      bits |= uint64_t{1} << i;
  }
  return bits;
}

/// Where a machine has several memories, pages lie in all of them in turn: any core may read any of them, and all give their
/// bandwidth. A system that refuses has its own order.
void spread(void *address, uint64_t bytes) {
  constexpr int kDefault = 0, kInterleave = 3, kMemoriesAllowed = 4; // MPOL_.., MPOL_F_MEMS_ALLOWED
  int policy = kDefault;
  uint64_t allowed[16] = {}; // as many nodes as kernels are built for
  if (::syscall(SYS_get_mempolicy, &policy, nullptr, 0, nullptr, 0) != 0 || policy != kDefault) // numactl's, say
    return;
  if (::syscall(SYS_get_mempolicy, nullptr, allowed, 8 * sizeof allowed, nullptr, kMemoriesAllowed) != 0)
    return;
  const uint64_t nodes = bitsOf("/sys/devices/system/node/has_memory") & allowed[0];
  if (std::popcount(nodes) > 1)
    static_cast<void>(::syscall(SYS_mbind, address, bytes, kInterleave, &nodes, 65, 0));
}

/// Pieces of a memory, taken by threads one after another until all are there or one fails.
class Committing {
public:
  Committing(std::span<std::byte> memory, const std::string &name, const std::function<MachineMemory()> &available)
      : memory(memory), name(name), available(available) {}

  Status run() {
    constexpr uint64_t kMostThreads = 16;
    onThreads(std::min({memory.size() / kPiece, coreCount(), kMostThreads}), [this] { work(); });
    return failure;
  }

private:
  static constexpr uint64_t kPiece = uint64_t{64} << 20;
  std::span<std::byte> memory;
  const std::string &name;
  const std::function<MachineMemory()> &available;
  std::mutex mutex;
  uint64_t begun = 0; ///< bytes; this and `failure` are guarded by the mutex
  Status failure;

  /// `populate`, which a machine whose memory grows on demand may refuse until it has grown.
  static bool take(std::span<std::byte> piece) {
    constexpr int kTries = 100;
    constexpr std::chrono::milliseconds kBetween(100);
    for (int tries = 1; !populate(piece); ++tries) {
      const int error = errno;
      if ((error != ENOMEM && error != EAGAIN) || !isMachineMemoryTrusted() || tries == kTries) {
        errno = error;
        return false;
      }
      std::this_thread::sleep_for(kBetween);
    }
    return true;
  }

  void work() {
    while (std::optional<std::span<std::byte>> piece = next())
      if (!take(*piece)) {
        int error = errno;
        stop(fail("space \"{}\": its {} cannot be had: {}; {}", name, formatExactSize(memory.size()),
                  std::strerror(error), kRemedy));
      }
  }

  std::optional<std::span<std::byte>> next() {
    std::lock_guard lock(mutex);
    uint64_t left = memory.size() - begun;
    if (left == 0 || !failure.ok())
      return std::nullopt;
    if (MachineMemory machine = available(); machine.available < left) {
      failure =
          fail("space \"{}\": of its {}, {} are taken, and for the rest this machine has only {} left, limited by "
               "{}; {}{}",
               name, formatExactSize(memory.size()), formatSize(begun), formatSize(machine.available), machine.limit,
               kRemedy, kTrustRemedy);
      return std::nullopt;
    }
    return memory.subspan(std::exchange(begun, begun + std::min(kPiece, left)), std::min(kPiece, left));
  }

  void stop(Status status) {
    std::lock_guard lock(mutex);
    failure = std::move(status);
  }

  static constexpr std::string_view kRemedy =
      "stop what else uses memory, or compile the model again with a smaller --device-memory or --host-memory";
};

} // namespace

Status commit(std::span<std::byte> memory, const std::string &name, const std::function<MachineMemory()> &available) {
  return Committing(memory, name, available).run();
}

Result<Arena> Arena::reserve(uint64_t bytes, const std::string &name, bool hugePages) {
  uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  uint64_t mapped = (bytes + kGuardBytes + page - 1) / page * page;
  void *address = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED)
    return fail("space \"{}\": {} bytes cannot be reserved: {}", name, bytes, std::strerror(errno));
  if (hugePages)
    ::madvise(address, mapped, MADV_HUGEPAGE);
  spread(address, mapped);
  Arena arena(static_cast<std::byte *>(address), bytes, mapped, name);
  MT_TRY(commit({arena.base, mapped}, name, [] { return memoryOfMapped(); }));
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
