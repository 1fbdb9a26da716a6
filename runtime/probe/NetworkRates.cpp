#include "runtime/probe/NetworkRates.h"

#include "runtime/network/Collectives.h"
#include "runtime/plan/Ranks.h"

#include <algorithm>
#include <array>
#include <bit>
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

Result<double> probeDeviceNetwork(network::Network &network, std::unique_ptr<device::Device> given) {
  const auto ranks = static_cast<int64_t>(network.ranks());
  const int64_t share = static_cast<int64_t>(kBytes) / 4 / ranks;
  const int64_t terms = ranks - (std::has_single_bit(network.ranks()) ? 1 : 0); // that an exchange writes
  plan::Template code{.name = "exchange", .arguments = {}, .calls = {}};
  std::vector<plan::Binding> arguments;
  plan::Call call;
  call.signature = {"all_to_all", {{"ranks", ranks}, {"shares", std::vector<int64_t>{share}}}, {}};
  uint64_t bytes = 0;
  auto add = [&](kernels::Dims dims, kernels::Effect effect) {
    call.signature.operands.push_back({kernels::DType::f32, std::move(dims), effect, true});
    const uint64_t size = call.signature.operands.back().bytes();
    call.operands.push_back({static_cast<int32_t>(arguments.size()), 0});
    code.arguments.push_back({size, effect});
    arguments.push_back(
        {.span = {0, bytes, size},
         .effect = effect == kernels::Effect::read ? plan::BindingEffect::read : plan::BindingEffect::write});
    bytes += (size + 255) / 256 * 256;
  };
  add({share * ranks}, kernels::Effect::read);
  add({share}, kernels::Effect::write);
  if (terms > 1)
    add({terms - 1, share}, kernels::Effect::write);
  code.calls.push_back(std::move(call));
  const plan::Space space{.kind = plan::SpaceKind::device, .device = 0, .bytes = bytes, .name = "device"};
  const plan::Stream stream{.kind = plan::StreamKind::deviceNetwork, .device = 0, .name = "device network"};
  device::HostFunctions functions; // of a device that is the host
  functions.instead["all_to_all"] = [&](const kernels::Signature &signature, std::span<void *const> operands) {
    return network::exchange(network, network::channelOfDevice(0), signature, operands);
  };
  const std::unique_ptr<device::Device> device = std::move(given); // what it refers to outlives it
  MT_TRY(device->reserve({&space, 1}, {&stream, 1}));
  MT_ASSIGN(const device::Code prepared, device->prepare(0, code, functions));
  std::array<double, kRounds + 1> tries = {};
  for (double &seconds : tries) {
    const auto begin = std::chrono::steady_clock::now();
    MT_TRY(device->run(0, prepared, arguments, {}, {"exchange"}));
    MT_TRY(network::agree(network, network::Channel::loop, device->synchronize())); // then what it sent has arrived
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  std::sort(tries.begin() + 1, tries.end());
  return static_cast<double>(plan::sentBytes(code.calls.front().signature)) / tries[1 + kRounds / 2];
}

} // namespace mt::probe
