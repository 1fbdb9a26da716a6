#include "runtime/network/Network.h"

#include <cstring>

namespace mt::network {
namespace {

std::vector<Message> toAll(const Network &network, std::span<std::byte> bytes) {
  std::vector<Message> messages;
  for (uint32_t rank = 0; rank < network.ranks(); ++rank)
    if (rank != network.rank())
      messages.push_back({rank, {bytes}});
  return messages;
}

} // namespace

Status ofRank(uint32_t rank, const Status &failure) {
  const std::string &text = failure.message();
  const size_t digits = text.find_first_not_of("0123456789", 5);
  const bool says = text.starts_with("rank ") && digits > 5 && digits != std::string::npos;
  return says ? failure : fail("rank {}: {}", rank, text);
}

Result<std::vector<std::string>> gatherTexts(Network &network, Channel channel, const std::string &own) {
  const uint32_t self = network.rank();
  std::vector<uint64_t> sizes(network.ranks());
  sizes[self] = own.size();
  std::vector<Message> receives;
  for (uint32_t rank = 0; rank < network.ranks(); ++rank)
    if (rank != self)
      receives.push_back({rank, {std::as_writable_bytes(std::span(&sizes[rank], 1))}});
  MT_TRY(network.exchange(channel, toAll(network, std::as_writable_bytes(std::span(&sizes[self], 1))), receives));
  std::vector<std::string> texts(network.ranks());
  texts[self] = own;
  receives.clear();
  for (uint32_t rank = 0; rank < network.ranks(); ++rank)
    if (rank != self && sizes[rank] > 0) {
      texts[rank].resize(sizes[rank]);
      receives.push_back({rank, {std::as_writable_bytes(std::span(texts[rank]))}});
    }
  std::vector<Message> sends;
  if (!own.empty())
    sends = toAll(network, std::as_writable_bytes(std::span(texts[self])));
  MT_TRY(network.exchange(channel, sends, receives));
  return texts;
}

Status agree(Network &network, Channel channel, const Status &own) {
  MT_ASSIGN(std::vector<std::string> texts, gatherTexts(network, channel, own ? std::string() : "!" + own.message()));
  for (size_t rank = 0; rank < texts.size(); ++rank)
    if (!texts[rank].empty())
      return ofRank(static_cast<uint32_t>(rank), Status::error(texts[rank].substr(1)));
  return Status();
}

Result<std::string> broadcast(Network &network, Channel channel, const Result<std::string> &own) {
  const bool isFirst = network.rank() == 0;
  MT_TRY(agree(network, channel, isFirst ? own.status() : Status()));
  MT_ASSIGN(std::vector<std::string> texts, gatherTexts(network, channel, isFirst ? *own : std::string()));
  return std::move(texts.front());
}

} // namespace mt::network
