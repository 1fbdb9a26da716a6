#include "runtime/probe/NetworkRates.h"

#include <algorithm>
#include <array>
#include <chrono>

namespace mt::probe {
namespace {

constexpr size_t kBytes = size_t(256) << 20, kRounds = 5;

/// Seconds of an exchange of so many bytes in all with the others: the median of some rounds after a first one.
Result<double> secondsOf(network::Network &network, std::span<std::byte> sent, std::span<std::byte> received,
                         int times) {
  const size_t share = sent.size() / (network.ranks() - 1);
  std::vector<network::Message> sends, receives;
  for (uint32_t rank = 0; rank < network.ranks(); ++rank)
    if (rank != network.rank()) {
      const size_t at = sends.size() * share;
      sends.push_back({rank, {sent.subspan(at, share)}});
      receives.push_back({rank, {received.subspan(at, share)}});
    }
  std::array<double, kRounds + 1> tries = {};
  for (double &seconds : tries) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i)
      MT_TRY(network.exchange(network::Channel::step, sends, receives));
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / times;
  }
  std::sort(tries.begin() + 1, tries.end());
  return tries[1 + kRounds / 2];
}

} // namespace

Result<NetworkRates> probeNetwork(network::Network &network) {
  constexpr int kTimes = 100;
  std::vector<std::byte> sent(kBytes, std::byte{1}), received(kBytes);
  const size_t little = 8 * (network.ranks() - 1);
  MT_ASSIGN(const double overhead,
            secondsOf(network, std::span(sent).first(little), std::span(received).first(little), kTimes));
  MT_ASSIGN(const double seconds, secondsOf(network, sent, received, 1));
  return NetworkRates{static_cast<double>(kBytes) / seconds, overhead / (network.ranks() - 1)};
}

} // namespace mt::probe
