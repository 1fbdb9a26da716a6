#include "runtime/train/Checksum.h"

#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <system_error>
#include <thread>

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
  constexpr size_t kHelpful = 8;
  size_t wanted = threads > 0 ? static_cast<size_t>(threads) : std::max(1u, std::thread::hardware_concurrency());
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  Status failure;
  auto run = [&] {
    for (size_t i = next++; i < count; i = next++)
      if (Status status = work(i); !status) {
        std::lock_guard lock(mutex);
        if (failure)
          failure = status;
        next = count;
      }
  };
  std::vector<std::thread> helpers;
  try {
    while (helpers.size() + 1 < std::min({wanted, kHelpful, count}))
      helpers.emplace_back(run);
  } catch (const std::system_error &) { // no more threads are to be had: fewer do it
  }
  run();
  for (std::thread &helper : helpers)
    helper.join();
  return failure;
}

} // namespace mt::train
