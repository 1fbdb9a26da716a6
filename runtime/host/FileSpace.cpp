#include "runtime/host/FileSpace.h"

#include "runtime/base/Log.h"
#include "runtime/base/Sizes.h"
#include "runtime/base/Threads.h"

#include <xxhash.h>

#ifdef MT_HAS_URING
#include <liburing.h>
#endif

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <optional>
#include <vector>

namespace mt::host {
namespace {

/// Bytes of a request, which go on their own: large enough for a disk's full rate, small enough for several at once.
constexpr uint64_t kPiece = 4 << 20;
/// Requests at a time.
constexpr unsigned kDepth = 8;

uint64_t checksumOf(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

/// A file that no folder lists: made so, or where that cannot be, made and removed.
Descriptor makeUnnamed(const std::string &folder) {
  Descriptor file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.valid() || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
    return file;
  std::string path = folder + "/.mt-state-XXXXXX";
  file = Descriptor(::mkostemp(path.data(), O_CLOEXEC));
  if (file.valid() && ::unlink(path.c_str()) != 0)
    return {};
  return file;
}

Status noRoom(const std::string &folder, uint64_t bytes, const std::string &name, int error) {
  struct statvfs disk = {};
  const bool known = ::statvfs(folder.c_str(), &disk) == 0 && disk.f_blocks > 0;
  const uint64_t free = static_cast<uint64_t>(::geteuid() == 0 ? disk.f_bfree : disk.f_bavail) * disk.f_frsize;
  return fail("--state-dir {}: space \"{}\" needs {}{}: {}; make room, choose a folder of another disk, or compile the "
              "model again with more --host-memory",
              folder, name, formatExactSize(bytes),
              known ? fmt::format(", and the disk has {} free", formatSize(free)) : std::string(), std::strerror(error));
}

/// Takes the file's bytes from the disk.
Status preallocate(int file, const std::string &folder, uint64_t bytes, const std::string &name) {
  while (::fallocate(file, 0, 0, static_cast<off_t>(bytes)) != 0) {
    if (errno == EINTR)
      continue;
    if (errno != EOPNOTSUPP && errno != ENOSYS)
      return noRoom(folder, bytes, name, errno);
    if (::ftruncate(file, static_cast<off_t>(bytes)) != 0)
      return noRoom(folder, bytes, name, errno);
    log().warn("--state-dir {}: its file system cannot set {} aside: a disk that is full later ends the run", folder,
               formatSize(bytes));
    break;
  }
  return {};
}

} // namespace

#ifdef MT_HAS_URING
class FileSpace::Queue {
public:
  /// Null where the kernel has no io_uring, or does not let us have it.
  static std::unique_ptr<Queue> make() {
    std::unique_ptr<Queue> made(new Queue);
    made->isOpen = ::io_uring_queue_init(kDepth, &made->ring, 0) == 0;
    return made->isOpen ? std::move(made) : nullptr;
  }
  ~Queue() {
    if (isOpen)
      ::io_uring_queue_exit(&ring);
  }

  /// One caller at a time. What came back short is gone on with.
  Status move(int file, std::vector<Piece> pieces, bool writes) {
    std::lock_guard lock(mutex);
    if (!isOpen)
      return fail("io_uring has failed before");
    size_t next = 0, underWay = 0;
    Status failure;
    while (underWay > 0 || (next < pieces.size() && failure)) {
      for (; next < pieces.size() && underWay < kDepth && failure; ++next, ++underWay)
        submit(file, pieces[next], writes);
      if (int done = ::io_uring_submit_and_wait(&ring, 1);
          done < 0 && done != -EINTR && done != -EAGAIN && done != -EBUSY) {
        ::io_uring_queue_exit(&ring);
        isOpen = false;
        return fail("{}", std::strerror(-done));
      }
      io_uring_cqe *entry = nullptr;
      while (::io_uring_peek_cqe(&ring, &entry) == 0) {
        auto *piece = static_cast<Piece *>(::io_uring_cqe_get_data(entry));
        const int result = entry->res;
        ::io_uring_cqe_seen(&ring, entry);
        --underWay;
        if (result == -EINTR || result == -EAGAIN) {
          submit(file, *piece, writes), ++underWay;
        } else if (result < 0) {
          failure = failure ? fail("{}", std::strerror(-result)) : failure;
        } else if (result == 0) {
          failure = failure ? fail("the file ends at {}", piece->offset) : failure;
        } else if (static_cast<size_t>(result) < piece->memory.size()) {
          piece->offset += static_cast<uint64_t>(result);
          piece->memory = piece->memory.subspan(static_cast<size_t>(result));
          submit(file, *piece, writes), ++underWay;
        }
      }
    }
    return failure;
  }

private:
  Queue() = default;
  void submit(int file, Piece &piece, bool writes) {
    io_uring_sqe *entry = ::io_uring_get_sqe(&ring); // there is room: no more than kDepth are under way
    const auto length = static_cast<unsigned>(piece.memory.size());
    if (writes)
      ::io_uring_prep_write(entry, file, piece.memory.data(), length, piece.offset);
    else
      ::io_uring_prep_read(entry, file, piece.memory.data(), length, piece.offset);
    ::io_uring_sqe_set_data(entry, &piece);
  }
  io_uring ring = {};
  bool isOpen = false;
  std::mutex mutex;
};
#else
class FileSpace::Queue {
public:
  static std::unique_ptr<Queue> make() { return nullptr; }
  Status move(int, const std::vector<Piece> &, bool) { return fail("built without io_uring"); }
};
#endif

FileSpace::FileSpace(std::string folder, uint64_t bytes) : folder(std::move(folder)), size(bytes) {}
FileSpace::~FileSpace() = default;

Result<std::unique_ptr<FileSpace>> FileSpace::make(const std::string &folder, uint64_t bytes, const std::string &name,
                                                   Requests requests) {
  std::unique_ptr<FileSpace> made(new FileSpace(folder, bytes));
  made->cached = makeUnnamed(folder);
  if (!made->cached.valid())
    return fail("--state-dir {}: {}: choose a folder that can be written", folder, std::strerror(errno));
  MT_TRY(preallocate(made->cached.get(), folder, bytes, name));
  made->direct = Descriptor(
      ::open(fmt::format("/proc/self/fd/{}", made->cached.get()).c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  if (!made->direct.valid())
    log().warn("--state-dir {}: its file system cannot go past the system's cache ({}): what is kept there takes memory "
               "and time twice; use a folder of a local disk",
               folder, std::strerror(errno));
  struct statfs system = {};
  if (::fstatfs(made->cached.get(), &system) == 0 && (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC))
    log().warn(
        "--state-dir {}: its files are in memory, which they take from what the plan needs; use a folder on a disk",
        folder);
  if (requests == Requests::best && made->direct.valid()) {
    made->reads = Queue::make();
    made->writes = Queue::make();
  }
  return made;
}

bool FileSpace::isWhole(uint64_t offset, std::span<const std::byte> memory) const {
  return direct.valid() && offset % kFileAlignment == 0 && memory.size() % kFileAlignment == 0 &&
         reinterpret_cast<uintptr_t>(memory.data()) % kFileAlignment == 0;
}

Status FileSpace::read(uint64_t offset, std::span<std::byte> into) {
  return move(offset, into, false).within(fmt::format("--state-dir {}", folder));
}

Status FileSpace::write(uint64_t offset, std::span<const std::byte> from) {
  return move(offset, {const_cast<std::byte *>(from.data()), from.size()}, true).within(fmt::format("--state-dir {}", folder));
}

/// What comes before the first whole block, whole blocks, and what is left.
std::vector<FileSpace::Piece> FileSpace::piecesOf(uint64_t offset, std::span<std::byte> memory) {
  std::vector<Piece> pieces;
  for (uint64_t at = 0; at < memory.size(); at += pieces.back().memory.size()) {
    const uint64_t left = memory.size() - at, inBlock = (offset + at) % kFileAlignment;
    const uint64_t bytes = inBlock > 0             ? kFileAlignment - inBlock
                           : left < kFileAlignment ? left
                                                   : std::min(kPiece, left / kFileAlignment * kFileAlignment);
    pieces.push_back({offset + at, memory.subspan(at, std::min(bytes, left))});
  }
  return pieces;
}

Status FileSpace::moveOne(const Piece &piece, bool writes) const {
  const int file = isWhole(piece.offset, piece.memory) ? direct.get() : cached.get();
  return writes ? writeAllAt(file, piece.memory, piece.offset) : readAllAt(file, piece.memory, piece.offset);
}

Status FileSpace::move(uint64_t offset, std::span<std::byte> memory, bool writing) {
  if (offset > size || memory.size() > size - offset)
    return fail("{} bytes at {} leave its {}", memory.size(), offset, size);
  const std::vector<Piece> pieces = piecesOf(offset, memory);
  if (writing)
    forget(offset, memory.size());
  Queue *queue = (writing ? writes : reads).get();
  if (queue) {
    std::vector<Piece> whole;
    std::ranges::copy_if(pieces, std::back_inserter(whole), [&](const Piece &each) { return isWhole(each.offset, each.memory); });
    MT_TRY(queue->move(direct.get(), std::move(whole), writing));
  }
  // What is compared, and what is moved, piece by piece is so by several threads.
  std::atomic<size_t> next = 0;
  std::mutex failing;
  Status failure;
  onThreads(std::min<uint64_t>(pieces.size(), queue ? 2 : kDepth), [&] {
    for (size_t i = next++; i < pieces.size(); i = next++) {
      const bool whole = isWhole(pieces[i].offset, pieces[i].memory);
      Status done = queue && whole ? Status() : moveOne(pieces[i], writing);
      if (done.ok() && writing && whole)
        note(pieces[i].offset, pieces[i].memory);
      if (!done.ok()) {
        std::lock_guard lock(failing);
        failure = failure.ok() ? done : failure;
        next = pieces.size();
      }
    }
  });
  return failure.ok() && !writing ? check(offset, memory) : failure;
}

/// Compares what was read with what was written there. Of pieces that reach beyond it, the whole is read again.
Status FileSpace::check(uint64_t offset, std::span<const std::byte> memory) {
  std::vector<std::pair<uint64_t, Written>> known;
  {
    std::lock_guard lock(mutex);
    for (auto at = written.lower_bound(offset > kPiece ? offset - kPiece : 0);
         at != written.end() && at->first < offset + memory.size(); ++at)
      if (at->first + at->second.bytes > offset)
        known.emplace_back(*at);
  }
  std::atomic<size_t> next = 0;
  std::mutex failing;
  Status failure;
  onThreads(std::min<uint64_t>(known.size(), 2), [&] {
    std::vector<std::byte> whole;
    for (size_t i = next++; i < known.size(); i = next++) {
      const auto [begin, piece] = known[i];
      Status done;
      std::span<const std::byte> bytes;
      if (begin >= offset && begin + piece.bytes <= offset + memory.size()) {
        bytes = memory.subspan(begin - offset, piece.bytes);
      } else {
        whole.resize(piece.bytes);
        done = readAllAt(cached.get(), whole, begin);
        bytes = whole;
      }
      if (done.ok() && checksumOf(bytes) != piece.checksum)
        done =
            fail("{} bytes at {} are not those that were written there: the disk is failing, or the file was changed",
                 piece.bytes, begin);
      if (!done.ok()) {
        std::lock_guard lock(failing);
        failure = failure.ok() ? done : failure;
        next = known.size();
      }
    }
  });
  return failure;
}

void FileSpace::note(uint64_t offset, std::span<const std::byte> from) {
  const uint64_t checksum = checksumOf(from);
  std::lock_guard lock(mutex);
  written[offset] = {from.size(), checksum};
}

/// Of what overlaps a range, what was written is not known any more.
void FileSpace::forget(uint64_t offset, uint64_t length) {
  std::lock_guard lock(mutex);
  auto at = written.lower_bound(offset > kPiece ? offset - kPiece : 0);
  while (at != written.end() && at->first < offset + length)
    at = at->first + at->second.bytes > offset ? written.erase(at) : std::next(at);
}

} // namespace mt::host
