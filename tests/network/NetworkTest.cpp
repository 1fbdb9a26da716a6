// What ranks send each other, on LocalNetwork: texts that all see, errors that end all, and the exchanges of plans
// against plain loops.
#include "runtime/network/Collectives.h"
#include "runtime/network/LocalNetwork.h"
#include "runtime/network/OpenNetwork.h"
#include "runtime/plan/Ranks.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <numeric>
#include <thread>

namespace mt::network {
namespace {

using kernels::DType, kernels::Effect, kernels::OperandType, kernels::Signature;

/// Calls `work` on a thread for each rank.
template <typename Work> void onRanks(uint32_t ranks, Work work) {
  const auto networks = makeLocalNetworks(ranks);
  std::vector<std::jthread> threads;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] { work(*networks[rank]); });
}

TEST(Network, AllSeeTheTextsOfAll) {
  onRanks(4, [](Network &network) {
    for (int round = 0; round < 20; ++round) {
      const auto texts = gatherTexts(network, Channel::loop, std::string(network.rank() * round, 'x'));
      ASSERT_TRUE(texts.ok());
      for (uint32_t rank = 0; rank < 4; ++rank)
        EXPECT_EQ((*texts)[rank], std::string(rank * round, 'x'));
    }
  });
}

TEST(Network, WhatTheFirstSaysIsEverybodysAndSoAreErrors) {
  onRanks(3, [](Network &network) {
    const bool isFirst = network.rank() == 0;
    EXPECT_EQ(*broadcast(network, Channel::checkpoint, std::string(isFirst ? "so" : "ignored")), "so");
    const Result<std::string> no = isFirst ? Result<std::string>(fail("no")) : std::string("ignored");
    EXPECT_EQ(broadcast(network, Channel::loop, no).status().message(), "rank 0: no");
    EXPECT_TRUE(agree(network, Channel::loop, Status()).ok());
    EXPECT_EQ(agree(network, Channel::loop, network.rank() > 0 ? fail("it is {}", network.rank()) : Status()).message(),
              "rank 1: it is 1");
    EXPECT_EQ(agree(network, Channel::loop, fail("")).message(), "rank 0: ") << "an error without words is one, too";
  });
}

TEST(Network, AFailureEndsWaitsAndNamesTheRank) {
  onRanks(3, [](Network &network) {
    if (network.rank() == 2)
      return network.fail(fail("the disk is full"));
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(gatherTexts(network, Channel::step, "x").status().message(), "rank 2: the disk is full");
    EXPECT_EQ(network.failure().message(), "rank 2: the disk is full");
  });
}

TEST(Network, MessagesOfAnotherSizeAreAnError) {
  onRanks(2, [](Network &network) {
    std::vector<std::byte> bytes(8);
    const uint32_t other = 1 - network.rank();
    const std::vector<Message> sends = {{other, {std::span(bytes).first(network.rank() == 0 ? 8 : 4)}}};
    const std::vector<Message> receives = {{other, {std::span(bytes)}}};
    const Status status = network.exchange(Channel::step, sends, receives);
    EXPECT_EQ(status.message(), network.rank() == 0 ? "rank 1 sent 4 bytes, and 8 are expected" : "");
  });
}

OperandType tensor(std::vector<int64_t> dims, Effect effect) {
  return {DType::f32, kernels::Dims(dims.begin(), dims.end()), effect, true};
}

/// What rank r has of element e of tensor t.
float valueOf(size_t t, uint32_t rank, int64_t e) {
  return static_cast<float>(100'000 * (rank + 1) + 1000 * t) + static_cast<float>(e);
}

struct Case {
  uint32_t ranks;
  std::vector<std::pair<int64_t, int64_t>> tensors; ///< elements, share
};
const Case kCases[] = {{2, {{10, 5}}}, {3, {{12, 4}, {7, 3}}}, {4, {{9, 3}, {1, 1}, {16, 4}}}, {5, {{20, 4}, {17, 4}}}};

TEST(Collectives, EachGetsItsShareOfAllAndSendsAllTheirs) {
  for (const Case &each : kCases)
    onRanks(each.ranks, [&](Network &network) {
      const auto count = each.tensors.size();
      const bool isByNeighbours = std::has_single_bit(each.ranks);
      const int64_t others = each.ranks - (isByNeighbours ? 2 : 1);
      Signature call{"all_to_all", {{"ranks", int64_t{each.ranks}}, {"shares", std::vector<int64_t>()}}, {}};
      std::vector<std::vector<float>> data;
      for (size_t t = 0; t < count; ++t) {
        const auto [elements, share] = each.tensors[t];
        std::get<std::vector<int64_t>>(call.attributes["shares"]).push_back(share);
        call.operands.push_back(tensor({elements}, Effect::read));
        for (auto &values = data.emplace_back(); static_cast<int64_t>(values.size()) < elements;)
          values.push_back(valueOf(t, network.rank(), static_cast<int64_t>(values.size())));
      }
      for (size_t t = 0; t < count; ++t) {
        const int64_t share = each.tensors[t].second;
        call.operands.push_back(tensor({share}, Effect::write));
        data.emplace_back(share);
        if (others > 0)
          call.operands.push_back(tensor({others, share}, Effect::write)), data.emplace_back(others * share);
      }
      ASSERT_EQ(kernels::check(call), "");
      std::vector<void *> operands;
      for (auto &values : data)
        operands.push_back(values.data());
      ASSERT_EQ(exchange(network, Channel::step, call, operands).message(), "");
      for (size_t t = 0; t < count; ++t) {
        const auto [elements, share] = each.tensors[t];
        for (int64_t i = 0; i < share; ++i) {
          const int64_t element = std::min(network.rank() * share, elements - share) + i;
          for (int64_t n = 0; n <= others; ++n) {
            const auto number = static_cast<uint32_t>(n),
                       rank = isByNeighbours ? network.rank() ^ (number + 1) : number;
            const size_t first = count + (others > 0 ? 2 : 1) * t;
            EXPECT_EQ(n == 0 ? data[first][i] : data[first + 1][(n - 1) * share + i], valueOf(t, rank, element))
                << rank << " " << t;
          }
        }
      }
    });
}

TEST(Collectives, AllHaveWhatEachHadOfItsOwn) {
  for (const Case &each : kCases)
    onRanks(each.ranks, [&](Network &network) {
      Signature call{"all_gather", {{"ranks", int64_t{each.ranks}}, {"shares", std::vector<int64_t>()}}, {}};
      std::vector<std::vector<float>> data;
      std::vector<void *> operands;
      for (size_t t = 0; t < each.tensors.size(); ++t) {
        const auto [elements, share] = each.tensors[t];
        std::get<std::vector<int64_t>>(call.attributes["shares"]).push_back(share);
        call.operands.push_back(tensor({elements}, Effect::update));
        auto &values = data.emplace_back(elements, -1);
        const int64_t begin = std::min(network.rank() * share, elements - share);
        for (int64_t e = begin; e < begin + share; ++e) // of what two have both have the same
          values[e] = valueOf(t, 0, e);
      }
      for (auto &values : data)
        operands.push_back(values.data());
      ASSERT_EQ(kernels::check(call), "");
      EXPECT_GT(plan::sentBytes(call), 0U);
      ASSERT_EQ(exchange(network, Channel::step, call, operands).message(), "");
      for (size_t t = 0; t < data.size(); ++t)
        for (int64_t e = 0; e < each.tensors[t].first; ++e)
          EXPECT_EQ(data[t][e], valueOf(t, 0, e)) << "rank " << network.rank() << " of " << each.ranks;
    });
}

TEST(Collectives, TheCatalogueRefusesWhatDoesNotFit) {
  auto problem = [](std::vector<int64_t> shares, int64_t ranks, std::vector<OperandType> operands,
                    const char *kernel = "all_gather") {
    return kernels::check({kernel, {{"ranks", ranks}, {"shares", std::move(shares)}}, std::move(operands)});
  };
  const OperandType ten = tensor({10}, Effect::update);
  EXPECT_EQ(problem({5}, 2, {ten}), "");
  EXPECT_NE(problem({5}, 1, {ten}).find("ranks must be 2 at least"), std::string::npos);
  EXPECT_NE(problem({4}, 2, {ten}).find("fewer elements than their tensor"), std::string::npos);
  EXPECT_NE(problem({0}, 2, {ten}).find("a share is some elements"), std::string::npos);
  EXPECT_NE(problem({5, 5}, 2, {ten}).find("an entry for each tensor"), std::string::npos);
  EXPECT_EQ(problem({5}, 2, {tensor({10}, Effect::read), tensor({5}, Effect::write)}, "all_to_all"), "");
  EXPECT_NE(problem({5}, 2, {tensor({10}, Effect::read)}, "all_to_all").find("one or two that are written"),
            std::string::npos);
  EXPECT_NE(problem({5}, 2, {tensor({10}, Effect::read), tensor({5}, Effect::write), tensor({2, 5}, Effect::write)},
                    "all_to_all"),
            "");
}

TEST(OpenNetwork, SaysHowToStartAsManyProcesses) {
  for (const char *name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"})
    ::unsetenv(name);
  EXPECT_EQ(launchedRanks(), 1U);
  EXPECT_NE(openNetwork(4).status().message().find("mpirun -n 4"), std::string::npos);
  ::setenv("PMI_SIZE", "3", 1);
  EXPECT_EQ(launchedRanks(), 3U);
  EXPECT_NE(openNetwork(4).status().message().find("3 processes were started"), std::string::npos);
  const std::string message = openNetwork(3).status().message(); // built without MPI, or with one that started none
  EXPECT_NE(message.find(message.starts_with("MPI: ") ? "it has 1 ranks, and the plan 3" : "libmt_mpi.so: not there"),
            std::string::npos)
      << message;
  ::setenv("PMI_SIZE", "many", 1);
  EXPECT_EQ(launchedRanks(), 1U);
  ::unsetenv("PMI_SIZE");
}

} // namespace
} // namespace mt::network
