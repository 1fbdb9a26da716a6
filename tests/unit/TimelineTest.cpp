#include "runtime/plan/Timeline.h"
#include "SmallPlan.h"
#include "runtime/plan/Contention.h"

#include <gtest/gtest.h>

namespace mt::plan {
namespace {

const std::vector<Stream> kTwo{{StreamKind::upload, 0, "u"}, {StreamKind::compute, 0, "c"}};

TEST(Timeline, ChainsAndStreams) {
  const std::vector<Await> afterFirst{{0, 0}}, none;
  const std::vector<TimedCommand> program{{0, 2, none}, {1, 3, afterFirst}, {0, 4, none}};
  const Timeline timeline = simulate(program, kTwo, {}, false);
  EXPECT_EQ(timeline.start, (std::vector<double>{0, 2, 2}));
  EXPECT_EQ(timeline.seconds, 6);
  EXPECT_EQ(timeline.busy, (std::vector<double>{6, 3}));
}

TEST(Timeline, IterationsOverlapUnlessAwaited) {
  // An upload of 2 s, then a compute of 3 s: overlapped steps follow each other every 3 s, serial ones every 5 s.
  const std::vector<Await> upload{{0, 0}}, compute{{1, 1}}, none;
  const std::vector<TimedCommand> overlapped{{0, 2, none}, {1, 3, upload}};
  EXPECT_DOUBLE_EQ(simulate(overlapped, kTwo, {}, true).seconds, 3);
  const std::vector<TimedCommand> serial{{0, 2, compute}, {1, 3, upload}};
  const Timeline timeline = simulate(serial, kTwo, {}, true);
  EXPECT_DOUBLE_EQ(timeline.seconds, 5);
  EXPECT_EQ(timeline.start, (std::vector<double>{0, 2}));
}

Contention shared(double share) {
  Contention contention{};
  contention[0][1] = contention[1][0] = share;
  return contention;
}

TEST(Timeline, StreamsThatShareSomethingSlowEachOtherDown) {
  // 2 s of copies and 6 s of work at once, each at 1 / 1.5 of its rate: copies end at 3 s, the work has done 2 s of its 6 then.
  const std::vector<TimedCommand> program{{0, 2, {}}, {1, 6, {}}};
  const Timeline timeline = simulate(program, kTwo, shared(0.5), false);
  EXPECT_DOUBLE_EQ(timeline.took(0), 3);
  EXPECT_DOUBLE_EQ(timeline.took(1), 7);
  EXPECT_EQ(timeline.busy, (std::vector<double>{3, 7}));
}

TEST(Timeline, WorkThatBeginsLaterSlowsOnlyTheRest) {
  // The copy begins after 1 s, when work of 1 s on its own stream has ended: 3 s of the 4 are left then.
  const std::vector<Await> first{{1, 0}};
  const std::vector<TimedCommand> program{{1, 4, {}}, {0, 1, {}}, {0, 2, first}};
  const Timeline alone = simulate(program, kTwo, {}, false), timeline = simulate(program, kTwo, shared(1), false);
  EXPECT_DOUBLE_EQ(alone.seconds, 4);
  EXPECT_DOUBLE_EQ(timeline.end[1], 2);     // half as fast
  EXPECT_DOUBLE_EQ(timeline.end[2], 6);     // and so the next
  EXPECT_DOUBLE_EQ(timeline.seconds, 7);    // the work: 1 s of it by 2 s, 3 s by 6 s, the last alone
}

TEST(Timeline, CopiesOneWayShareTheirLink) {
  const Stream bulk{StreamKind::upload, 0, "a"}, messages{StreamKind::upload, 0, "b"},
      other{StreamKind::upload, 1, "c"};
  EXPECT_EQ(contentionBetween(bulk, messages, {}), 1);
  EXPECT_EQ(contentionBetween(bulk, other, {}), 0) << "that of another device";
  Contention contention{};
  contention[1][1] = contention[0][0] = contention[1][3] = contention[3][1] = contention[0][1] = 0.5;
  const Stream compute{StreamKind::compute, 0, "d"}, beside{StreamKind::compute, 1, "e"},
      host{StreamKind::host, 0, "f"};
  EXPECT_EQ(contentionBetween(bulk, other, contention), 0.5) << "through the host's memory";
  EXPECT_EQ(contentionBetween(compute, beside, contention), 0) << "each has its own";
  EXPECT_EQ(contentionBetween(other, compute, contention), 0);
  EXPECT_EQ(contentionBetween(beside, host, contention), 0.5) << "all share the host";
}

TEST(Timeline, BoundIsTheBusiestKind) {
  const std::vector<Stream> streams{{StreamKind::upload, 0, "u"},
                                    {StreamKind::compute, 0, "c"},
                                    {StreamKind::download, 0, "d"},
                                    {StreamKind::host, 0, "h"}};
  Prediction prediction;
  predict({{}, {}, 9, {1, 5, 2, 3}}, streams, prediction);
  EXPECT_EQ(prediction.bound, "compute-bound");
  EXPECT_EQ(prediction.stepSeconds, 9);
  EXPECT_EQ(prediction.downloadSeconds, 2);
  predict({{}, {}, 9, {6, 5, 2, 3}}, streams, prediction);
  EXPECT_EQ(prediction.bound, "copy-bound");
  predict({{}, {}, 9, {6, 5, 2, 7}}, streams, prediction);
  EXPECT_EQ(prediction.bound, "host-bound");
}

TEST(Timeline, OfAPlan) {
  const Plan plan = smallPlan();
  const Timeline timeline = simulate(plan, plan.programs[0]);
  // Per step the compute stream is busy 2 x 4 ms, and the first forward waits for its output to be read: the chain
  // forward 0 (4 ms), gradient 0 (2 ms) of the step before ends in time.
  EXPECT_DOUBLE_EQ(timeline.seconds, 0.008);
  EXPECT_EQ(timeline.busy.size(), 3u);
}

TEST(Timeline, EmptyProgram) {
  const Timeline timeline = simulate({}, kTwo, {}, true);
  EXPECT_EQ(timeline.seconds, 0);
  EXPECT_TRUE(timeline.start.empty());
}

} // namespace
} // namespace mt::plan
