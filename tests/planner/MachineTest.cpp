// What the planner is told of a target: memories, links, engines and their streams.
#include "SmallModel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace mt::planner {
namespace {

target::Target targetOf(bool unified) {
  target::Target target = smallTarget();
  target.unified = unified;
  target.downloadBandwidth = 5e8;
  target.copyOverheadSeconds = 1;
  return target;
}

TEST(Machine, LinksHaveTheirBandwidthAndTwoStreams) {
  const Machine machine(targetOf(false));
  const uint32_t memory = machine.devices.front().memory;
  const Link *up = machine.link(machine.staging, memory), *down = machine.link(memory, machine.staging);
  ASSERT_TRUE(up && down && machine.link(machine.state, memory) && machine.link(memory, machine.state));
  EXPECT_EQ(machine.link(machine.state, machine.staging), nullptr);
  EXPECT_DOUBLE_EQ(up->seconds(2'000'000'000), 3);
  EXPECT_DOUBLE_EQ(down->seconds(2'000'000'000), 5);
  EXPECT_EQ(machine.link(machine.state, memory)->stream, up->stream);
  std::set<uint32_t> streams = {machine.devices.front().engine.stream, machine.update.stream, machine.feed.stream};
  for (const Link *link : {up, down})
    for (uint32_t stream : {link->stream, link->messages}) {
      EXPECT_TRUE(streams.insert(stream).second) << "what others wait for queues behind what is large";
      EXPECT_EQ(machine.streams[stream].kind, link == up ? plan::StreamKind::upload : plan::StreamKind::download);
    }
  EXPECT_EQ(streams.size(), machine.streams.size());
}

TEST(Machine, UnifiedComputesAndUpdatesOnOneStreamWithoutLinks) {
  const Machine machine(targetOf(true));
  EXPECT_TRUE(machine.links.empty());
  EXPECT_EQ(machine.update.stream, machine.devices.front().engine.stream);
  EXPECT_FALSE(machine.update.isHost);
  EXPECT_TRUE(machine.computes(machine.update.stream));
  EXPECT_FALSE(machine.computes(machine.feed.stream));
}

TEST(Machine, RanksHaveANetworkAndWhatIsAloneHasNone) {
  target::Target target = targetOf(false);
  EXPECT_FALSE(Machine(target).network);
  target.ranks = 4, target.networkBandwidth = 3e9, target.networkOverheadSeconds = 1;
  const Machine machine(target);
  ASSERT_TRUE(machine.network);
  EXPECT_EQ(machine.streams[machine.network->stream].kind, plan::StreamKind::network);
  EXPECT_EQ(std::ranges::count(machine.streams, plan::StreamKind::network, &plan::Stream::kind), 1);
  EXPECT_DOUBLE_EQ(machine.exchangeSeconds(4'000'000'000, *machine.network), 1 + 3)
      << "three shares of a fourth each, to three others";
}

TEST(Machine, PeersAreAllOrNone) {
  target::Target target = targetOf(false);
  EXPECT_FALSE(Machine(target).hasPeers());
  target.peers = {"0 2 4e9"};
  ASSERT_EQ(target::setDevices(target, 3).message(), "");
  EXPECT_FALSE(Machine(target).hasPeers());
  target.peers = {"all 4e9"};
  ASSERT_EQ(target::setDevices(target, 3).message(), "");
  EXPECT_TRUE(Machine(target).hasPeers());
}

TEST(Machine, DevicesHaveStreamsAndLinksOfTheirOwn) {
  target::Target target = targetOf(false);
  target.peers = {"0 2 4e9"};
  ASSERT_EQ(target::setDevices(target, 3).message(), "");
  const Machine machine(target);
  ASSERT_EQ(machine.devices.size(), 3U);
  std::set<uint32_t> streams = {machine.update.stream, machine.feed.stream};
  for (uint32_t d = 0; d < 3; ++d) {
    const Device &device = machine.devices[d];
    EXPECT_EQ(machine.spaces[device.memory].name, "device " + std::to_string(d));
    EXPECT_EQ(machine.deviceOfSpace(device.memory), d);
    EXPECT_EQ(machine.deviceOfEngine(device.engine.stream), d);
    EXPECT_TRUE(streams.insert(device.engine.stream).second);
    for (const Link *link :
         {machine.link(machine.staging, device.memory), machine.link(device.memory, machine.staging)})
      for (uint32_t stream : {link->stream, link->messages}) {
        EXPECT_TRUE(streams.insert(stream).second);
        EXPECT_EQ(machine.streams[stream].device, d);
      }
  }
  const Link *there = machine.link(machine.devices[0].memory, machine.devices[2].memory);
  const Link *back = machine.link(machine.devices[2].memory, machine.devices[0].memory);
  ASSERT_TRUE(there && back);
  EXPECT_EQ(machine.streams[there->stream].kind, plan::StreamKind::peer);
  EXPECT_EQ(machine.streams[back->stream].device, 2U);
  EXPECT_DOUBLE_EQ(there->seconds(4'000'000'000), 2);
  EXPECT_EQ(machine.link(machine.devices[0].memory, machine.devices[1].memory), nullptr) << "through the host";
}

} // namespace
} // namespace mt::planner
