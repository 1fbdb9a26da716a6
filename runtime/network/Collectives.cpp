#include "runtime/network/Collectives.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace mt::network {
namespace {

/// A tensor of which every rank has a share of as many elements; they are all of it, and the last ones may overlap.
struct Shared {
  std::byte *data = nullptr;
  int64_t elements = 0, share = 0, size = 0; ///< of an element, in bytes

  Shared(const kernels::OperandType &type, void *data, int64_t share)
      : data(static_cast<std::byte *>(data)), elements(type.elements()), share(share),
        size(static_cast<int64_t>(kernels::byteSize(type.type))) {}

  std::span<std::byte> of(int64_t first, int64_t count) const {
    return {data + first * size, static_cast<size_t>(count * size)};
  }
  std::span<std::byte> of(int64_t rank) const { return of(std::min(rank * share, elements - share), share); }
  /// What of a rank's share no other one sends.
  std::span<std::byte> sentBy(int64_t rank) const {
    const int64_t first = std::min(rank * share, elements);
    return of(first, std::min(share, elements - first));
  }
};

/// Messages with each other rank, without those that have no bytes.
template <typename Pieces> std::vector<Message> withOthers(uint32_t self, uint32_t ranks, Pieces pieces) {
  std::vector<Message> messages;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    if (rank == self)
      continue;
    Message message{rank, {}};
    for (std::span<std::byte> piece : pieces(rank))
      if (!piece.empty())
        message.pieces.push_back(piece);
    if (!message.pieces.empty())
      messages.push_back(std::move(message));
  }
  return messages;
}

Exchange allToAllOf(uint32_t self, uint32_t ranks, const kernels::Signature &call, std::span<void *const> operands) {
  const std::vector<int64_t> shares = call.integers("shares");
  std::vector<Shared> tensors;
  for (size_t i = 0; i < shares.size(); ++i)
    tensors.emplace_back(call.operands[i], operands[i], shares[i]);
  const size_t each = call.operands.size() / shares.size() - 1; // operands that are written
  const bool isByNeighbours = std::has_single_bit(ranks);
  /// Where what a rank sends of a tensor is to lie.
  auto place = [&](size_t i, uint32_t rank) {
    const size_t bytes = static_cast<size_t>(tensors[i].share * tensors[i].size), first = shares.size() + each * i;
    const uint32_t number = isByNeighbours ? (rank ^ self) - 1 : rank;
    return std::span(static_cast<std::byte *>(operands[first + (number > 0)]) + (number > 0 ? (number - 1) * bytes : 0),
                     bytes);
  };
  Exchange made;
  for (size_t i = 0; i < tensors.size() && !isByNeighbours; ++i)
    made.copies.push_back({tensors[i].of(self), place(i, self)});
  made.sends = withOthers(self, ranks, [&](uint32_t rank) {
    std::vector<std::span<std::byte>> pieces;
    for (const Shared &tensor : tensors)
      pieces.push_back(tensor.of(rank));
    return pieces;
  });
  made.receives = withOthers(self, ranks, [&](uint32_t rank) {
    std::vector<std::span<std::byte>> pieces;
    for (size_t i = 0; i < tensors.size(); ++i)
      pieces.push_back(place(i, rank));
    return pieces;
  });
  return made;
}

Exchange allGatherOf(uint32_t self, uint32_t ranks, const kernels::Signature &call, std::span<void *const> operands) {
  const std::vector<int64_t> shares = call.integers("shares");
  std::vector<Shared> tensors;
  for (size_t i = 0; i < shares.size(); ++i)
    tensors.emplace_back(call.operands[i], operands[i], shares[i]);
  auto sentBy = [&](uint32_t rank) {
    std::vector<std::span<std::byte>> pieces;
    for (const Shared &tensor : tensors)
      pieces.push_back(tensor.sentBy(rank));
    return pieces;
  };
  Exchange made;
  made.sends = withOthers(self, ranks, [&](uint32_t) { return sentBy(self); });
  made.receives = withOthers(self, ranks, sentBy);
  return made;
}

} // namespace

Exchange exchangeOf(uint32_t rank, const kernels::Signature &call, std::span<void *const> operands) {
  const auto ranks = static_cast<uint32_t>(call.integer("ranks"));
  return call.kernel == "all_gather" ? allGatherOf(rank, ranks, call, operands)
                                     : allToAllOf(rank, ranks, call, operands);
}

Status exchange(Network &network, Channel channel, const kernels::Signature &call, std::span<void *const> operands) {
  const Exchange made = exchangeOf(network.rank(), call, operands);
  for (const Exchange::Copy &copy : made.copies)
    std::memcpy(copy.to.data(), copy.from.data(), copy.to.size());
  return network.exchange(channel, made.sends, made.receives);
}

} // namespace mt::network
