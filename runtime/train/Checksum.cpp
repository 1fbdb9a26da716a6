#include "runtime/train/Checksum.h"

#include "runtime/base/Threads.h"

#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <mutex>

namespace mt::train {

uint64_t checksumOf(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

uint64_t checksumOfPieces(std::span<const uint64_t> pieces) { return checksumOf(std::as_bytes(pieces)); }

std::string checksumText(uint64_t checksum) { return fmt::format("{:016x}", checksum); }

std::vector<Piece> piecesOf(std::span<const uint64_t> tensorBytes) {
  std::vector<Piece> pieces;
  for (size_t tensor = 0; tensor < tensorBytes.size(); ++tensor)
    for (uint64_t begin = 0; begin < tensorBytes[tensor]; begin += kPieceBytes)
      pieces.push_back({tensor, static_cast<size_t>(begin / kPieceBytes), begin,
                        std::min(kPieceBytes, tensorBytes[tensor] - begin)});
  return pieces;
}

Status inParallel(size_t count, int threads, const std::function<Status(size_t)> &work) {
  constexpr uint64_t kHelpful = 8;
  uint64_t wanted = threads > 0 ? static_cast<uint64_t>(threads) : coreCount();
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  Status failure;
  onThreads(std::min({wanted, kHelpful, uint64_t{count}}), [&] {
    for (size_t i = next++; i < count; i = next++)
      if (Status status = work(i); !status) {
        std::lock_guard lock(mutex);
        if (failure)
          failure = status;
        next = count;
      }
  });
  return failure;
}

} // namespace mt::train
