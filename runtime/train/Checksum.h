// Checksums of tensors on disk, XXH3-64 of the XXH3-64s of pieces of 1 MiB, so that threads share the work on one
// tensor; and the threads that share it. They find damage, not tampering. Used by checkpoints.
#ifndef MT_RUNTIME_TRAIN_CHECKSUM_H
#define MT_RUNTIME_TRAIN_CHECKSUM_H

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace mt::train {

constexpr uint64_t kPieceBytes = 1 << 20;

/// XXH3-64 of some bytes.
uint64_t checksumOf(std::span<const std::byte> bytes);
/// Of a tensor whose pieces have these.
uint64_t checksumOfPieces(std::span<const uint64_t> pieces);
/// Sixteen digits.
std::string checksumText(uint64_t checksum);

/// A piece of one of several tensors.
struct Piece {
  size_t tensor = 0, number = 0;
  uint64_t begin = 0, bytes = 0; ///< in the tensor
};
/// The pieces of tensors of these sizes, in order.
std::vector<Piece> piecesOf(std::span<const uint64_t> tensorBytes);

/// Calls work(i) for every i below `count` on up to `threads` threads (0: as many as help a disk). Returns the first
/// error; what had not begun then is left out.
Status inParallel(size_t count, int threads, const std::function<Status(size_t)> &work);

} // namespace mt::train
#endif
