// Exchanges between the GPUs of several ranks, which are threads here, on simulated drivers and what stands in for
// NCCL: that the calls are those that NCCL wants, that they bring what an exchange of the host brings, and how they
// end.
#include "runtime/device/cuda/GpuNetwork.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/device/cuda/CudaDevice.h"

#include "runtime/network/Collectives.h"
#include "runtime/network/LocalNetwork.h"
#include "runtime/probe/NetworkRates.h"
#include "tests/device/FakeNccl.h"
#include "tests/device/SimulatedDriver.h"

#include <gtest/gtest.h>

#include <functional>

namespace mt::tests {
namespace {

using device::GpuNetwork;
using kernels::Effect;
using kernels::Signature;

/// A rank's GPU.
struct Gpu {
  Simulation simulation;
  std::unique_ptr<device::Driver> driver = simulatedDriver(simulation);
  cudaStream_t stream = {};
  network::Network &others;
  std::unique_ptr<GpuNetwork> network;

  explicit Gpu(network::Network &others) : others(others) {
    EXPECT_EQ(driver->bind().message(), "");
    stream = *driver->createStream();
  }
  ~Gpu() {
    network.reset();
    driver->destroy(stream);
  }
  Status join() {
    Result<std::unique_ptr<GpuNetwork>> made = GpuNetwork::join(*driver, others, stream);
    MT_TRY(made.status());
    network = std::move(*made);
    return {};
  }
  Status run(const Signature &call, std::vector<void *> operands) const {
    MT_TRY(network->prepare(call)({.operands = operands, .stream = stream}));
    return driver->synchronize(stream);
  }
};

void onRanks(uint32_t ranks, const std::function<void(Gpu &)> &body) {
  const auto networks = network::makeLocalNetworks(ranks);
  std::vector<std::jthread> threads;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      Gpu gpu(*networks[rank]);
      body(gpu);
    });
}

struct Call {
  Signature signature;
  std::vector<std::vector<float>> data;
  std::vector<void *> operands() {
    std::vector<void *> all;
    for (auto &values : data)
      all.push_back(values.data());
    return all;
  }
};

/// Of two tensors, with other values on each rank.
Call exchangeOf(const char *kernel, uint32_t rank, uint32_t ranks) {
  const int64_t elements[] = {24, 7}, shares[] = {24 / ranks + (24 % ranks != 0), 7};
  const bool gathers = std::string_view(kernel) == "all_gather";
  Call made{
      {kernel, {{"ranks", int64_t{ranks}}, {"shares", std::vector<int64_t>(std::begin(shares), std::end(shares))}}, {}},
      {}};
  auto add = [&](kernels::Dims dims, Effect effect) {
    made.signature.operands.push_back({kernels::DType::f32, std::move(dims), effect, true});
    auto &values = made.data.emplace_back(static_cast<size_t>(made.signature.operands.back().elements()));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(1000 * (gathers ? 0 : rank) + 100 * made.data.size() + i);
  };
  for (const int64_t count : elements)
    add({count}, gathers ? Effect::update : Effect::read);
  const int64_t terms = ranks - ((ranks & (ranks - 1)) == 0 ? 1 : 0);
  for (size_t t = 0; t < 2 && !gathers; ++t) {
    add({shares[t]}, Effect::write);
    if (terms > 1)
      add({terms - 1, shares[t]}, Effect::write);
  }
  return made;
}

TEST(GpuNetwork, BringsWhatAnExchangeOfTheHostBrings) {
  for (uint32_t ranks : {2U, 3U, 4U})
    for (const char *kernel : {"all_to_all", "all_gather"})
      onRanks(ranks, [&](Gpu &gpu) {
        ASSERT_EQ(gpu.join().message(), "");
        Call call = exchangeOf(kernel, gpu.others.rank(), ranks), host = call;
        ASSERT_EQ(kernels::check(call.signature), "");
        for (int i = 0; i < 3; ++i)
          ASSERT_EQ(gpu.run(call.signature, call.operands()).message(), "");
        ASSERT_EQ(exchange(gpu.others, network::Channel::step, host.signature, host.operands()).message(), "");
        EXPECT_EQ(call.data, host.data) << kernel << ", rank " << gpu.others.rank() << " of " << ranks;
      });
  EXPECT_EQ(fakeCommunicators(), 0);
}

TEST(GpuNetwork, WhatWaitsEndsWithTheJobAndNothingBeginsThen) {
  onRanks(2, [&](Gpu &gpu) {
    ASSERT_EQ(gpu.join().message(), "");
    gpu.others.whenEnded([&] { gpu.network->abort(); });
    Call call = exchangeOf("all_to_all", gpu.others.rank(), 2);
    if (gpu.others.rank() == 1) {
      gpu.others.fail(fail("its disk is full"));
    } else {
      (void)gpu.run(call.signature, call.operands()); // which ends, whether it had begun or not
      while (gpu.others.failure())
        std::this_thread::yield();
    }
    EXPECT_EQ(gpu.run(call.signature, call.operands()).message(), "rank 1: its disk is full");
    gpu.others.whenEnded(nullptr);
  });
  EXPECT_EQ(fakeCommunicators(), 0);
}

TEST(GpuNetwork, AFailureThatNcclTellsOfEndsTheJob) {
  onRanks(2, [&](Gpu &gpu) {
    ASSERT_EQ(gpu.join().message(), "");
    if (gpu.others.rank() == 1)
      failFakeNccl();
    while (gpu.others.failure())
      std::this_thread::yield();
    const std::string message = gpu.others.failure().message();
    EXPECT_NE(message.find("GPU 0, simulated: an exchange with other ranks' GPUs: remote error"), std::string::npos)
        << message;
  });
}

TEST(GpuNetwork, WhereOneRankHasNoNcclAllAreTold) {
  onRanks(3, [&](Gpu &gpu) {
    if (gpu.others.rank() == 2)
      gpu.simulation.failAt("nccl");
    EXPECT_EQ(gpu.join().message(), "rank 2: nccl: injected");
  });
}

/// The whole device, and that of the processor.
TEST(GpuNetwork, IsMeasured) {
  const auto networks = network::makeLocalNetworks(3);
  for (bool gpu : {false, true}) {
    std::vector<std::jthread> threads;
    for (const auto &network : networks)
      threads.emplace_back([&network = *network, gpu] {
        Simulation simulation;
        std::unique_ptr<device::Device> device =
            gpu ? device::makeCudaDevice({.threads = 1, .network = &network}, simulatedDriver(simulation))
                : device::makeCpuDevice({.threads = 1});
        const Result<double> rate = probe::probeDeviceNetwork(network, std::move(device));
        ASSERT_TRUE(rate.ok()) << rate.status().message();
        EXPECT_GT(*rate, 1e6);
        EXPECT_EQ(simulation.alive, 0);
      });
  }
  EXPECT_EQ(fakeCommunicators(), 0);
}

/// NVIDIA's own library: it has every function, and works as far as it does without a GPU.
TEST(Nccl, TheLibraryHasWhatIsCalled) {
  using namespace kernels::cuda;
  const Result<Nccl> nccl = Nccl::open(LibraryFolders::in(Surroundings::ofProcess()));
  if (!nccl.ok() && nccl.status().message().starts_with("cannot open"))
    GTEST_SKIP() << nccl.status().message();
  ASSERT_TRUE(nccl.ok()) << nccl.status().message();
  NcclId one = {}, other = {};
  EXPECT_EQ(nccl->told(nccl->ncclGetUniqueId(&one), "ncclGetUniqueId").message(), "");
  EXPECT_EQ(nccl->told(nccl->ncclGetUniqueId(&other), "ncclGetUniqueId").message(), "");
  EXPECT_NE(one.bytes, other.bytes);
  NcclComm comm = nullptr;
  const Status refused = nccl->told(nccl->ncclCommInitRank(&comm, 2, one, 2), "ncclCommInitRank");
  EXPECT_NE(refused.message().find("ncclCommInitRank: "), std::string::npos) << refused.message();
}

} // namespace
} // namespace mt::tests
