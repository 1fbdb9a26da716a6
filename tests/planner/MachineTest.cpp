// What the planner is told of a target: memories, links, engines and their streams.
#include "SmallModel.h"

#include <gtest/gtest.h>

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

} // namespace
} // namespace mt::planner
