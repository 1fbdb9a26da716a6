#include "runtime/plan/Timeline.h"
#include "SmallPlan.h"

#include <gtest/gtest.h>

namespace mt::plan {
namespace {

TEST(Timeline, ChainsAndStreams) {
  const std::vector<Await> afterFirst{{0, 0}}, none;
  const std::vector<TimedCommand> program{{0, 2, none}, {1, 3, afterFirst}, {0, 4, none}};
  const Timeline timeline = simulate(program, 2, false);
  EXPECT_EQ(timeline.start, (std::vector<double>{0, 2, 2}));
  EXPECT_EQ(timeline.seconds, 6);
  EXPECT_EQ(timeline.busy, (std::vector<double>{6, 3}));
}

TEST(Timeline, IterationsOverlapUnlessAwaited) {
  // An upload of 2 s, then a compute of 3 s: overlapped steps follow each other every 3 s, serial ones every 5 s.
  const std::vector<Await> upload{{0, 0}}, compute{{1, 1}}, none;
  const std::vector<TimedCommand> overlapped{{0, 2, none}, {1, 3, upload}};
  EXPECT_DOUBLE_EQ(simulate(overlapped, 2, true).seconds, 3);
  const std::vector<TimedCommand> serial{{0, 2, compute}, {1, 3, upload}};
  const Timeline timeline = simulate(serial, 2, true);
  EXPECT_DOUBLE_EQ(timeline.seconds, 5);
  EXPECT_EQ(timeline.start, (std::vector<double>{0, 2}));
}

TEST(Timeline, BoundIsTheBusiestKind) {
  const std::vector<Stream> streams{{StreamKind::upload, 0, "u"},
                                    {StreamKind::compute, 0, "c"},
                                    {StreamKind::download, 0, "d"},
                                    {StreamKind::host, 0, "h"}};
  Prediction prediction;
  predict({{}, 9, {1, 5, 2, 3}}, streams, prediction);
  EXPECT_EQ(prediction.bound, "compute-bound");
  EXPECT_EQ(prediction.stepSeconds, 9);
  EXPECT_EQ(prediction.downloadSeconds, 2);
  predict({{}, 9, {6, 5, 2, 3}}, streams, prediction);
  EXPECT_EQ(prediction.bound, "copy-bound");
  predict({{}, 9, {6, 5, 2, 7}}, streams, prediction);
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
  const Timeline timeline = simulate({}, 2, true);
  EXPECT_EQ(timeline.seconds, 0);
  EXPECT_TRUE(timeline.start.empty());
}

} // namespace
} // namespace mt::plan
