#include "runtime/network/LocalNetwork.h"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>

namespace mt::network {
namespace {

/// What was sent and not received yet, in order, by channel and the two ranks.
struct Mailbox {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::tuple<Channel, uint32_t, uint32_t>, std::deque<std::vector<std::byte>>> waiting;
  Status failure;
  std::mutex stopping;
  std::map<uint32_t, std::function<void()>> stops; ///< by rank: see whenEnded()
};

class LocalNetwork final : public Network {
public:
  LocalNetwork(std::shared_ptr<Mailbox> mailbox, uint32_t own, uint32_t count)
      : mailbox(std::move(mailbox)), own(own), count(count) {}

  uint32_t rank() const override { return own; }
  uint32_t ranks() const override { return count; }

  Status exchange(Channel channel, std::span<const Message> sends, std::span<const Message> receives) override {
    std::unique_lock lock(mailbox->mutex);
    for (const Message &message : sends) {
      std::vector<std::byte> bytes;
      for (std::span<const std::byte> piece : message.pieces)
        bytes.insert(bytes.end(), piece.begin(), piece.end());
      mailbox->waiting[{channel, own, message.rank}].push_back(std::move(bytes));
    }
    mailbox->changed.notify_all();
    for (const Message &message : receives) {
      auto &queue = mailbox->waiting[{channel, message.rank, own}];
      mailbox->changed.wait(lock, [&] { return !queue.empty() || !mailbox->failure; });
      MT_TRY(mailbox->failure);
      MT_TRY(take(queue.front(), message));
      queue.pop_front();
    }
    return mailbox->failure;
  }

  void fail(const Status &failure) override {
    {
      std::lock_guard lock(mailbox->mutex);
      if (mailbox->failure)
        mailbox->failure = ofRank(own, failure);
      mailbox->changed.notify_all();
    }
    std::lock_guard lock(mailbox->stopping);
    for (const auto &[rank, stop] : std::exchange(mailbox->stops, {}))
      stop();
  }
  void whenEnded(std::function<void()> stop) override {
    std::lock_guard lock(mailbox->stopping);
    mailbox->stops.erase(own);
    if (stop && !failure())
      stop();
    else if (stop)
      mailbox->stops[own] = std::move(stop);
  }
  Status failure() const override {
    std::lock_guard lock(mailbox->mutex);
    return mailbox->failure;
  }

private:
  std::shared_ptr<Mailbox> mailbox;
  const uint32_t own, count;

  static Status take(std::span<const std::byte> from, const Message &message) {
    uint64_t wanted = 0;
    for (std::span<std::byte> piece : message.pieces)
      wanted += piece.size();
    if (wanted != from.size())
      return mt::fail("rank {} sent {} bytes, and {} are expected", message.rank, from.size(), wanted);
    for (std::span<std::byte> piece : message.pieces) {
      std::memcpy(piece.data(), from.data(), piece.size());
      from = from.subspan(piece.size());
    }
    return Status();
  }
};

} // namespace

std::vector<std::unique_ptr<Network>> makeLocalNetworks(uint32_t ranks) {
  auto mailbox = std::make_shared<Mailbox>();
  std::vector<std::unique_ptr<Network>> networks;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    networks.push_back(std::make_unique<LocalNetwork>(mailbox, rank, ranks));
  return networks;
}

} // namespace mt::network
