// Shares of overlap on times made up by hand.
#include "runtime/executor/Overlap.h"

#include <gtest/gtest.h>

namespace mt::executor {
namespace {

TEST(Overlap, CountsTimeUnderComputeOnce) {
  Overlap overlap;
  overlap.add(0, Work::compute, 1, 3);
  overlap.add(0, Work::compute, 2, 4); // compute 1 to 4 and 6 to 8
  overlap.add(0, Work::compute, 6, 8);
  overlap.add(0, Work::copy, 0, 2); // half hidden
  overlap.add(0, Work::copy, 1, 2); // beside it, on another stream
  overlap.add(0, Work::copy, 3.5, 6.5);
  overlap.add(0, Work::update, 7, 10);
  Shares shares = overlap.shares();
  EXPECT_DOUBLE_EQ(shares.seconds, 10);
  EXPECT_DOUBLE_EQ(shares.computeBusy, 0.5);
  EXPECT_DOUBLE_EQ(shares.copySeconds, 5);
  EXPECT_DOUBLE_EQ(shares.copiesHidden, 2.0 / 5);
  EXPECT_DOUBLE_EQ(shares.updateSeconds, 3);
  EXPECT_DOUBLE_EQ(shares.updatesHidden, 1.0 / 3);
  EXPECT_EQ(describe(shares), "compute is busy 50 % of 10.0 s; of 5.00 s of copies 40 % lie under it, of 3.00 s of "
                              "updates 33 %");
}

TEST(Overlap, LeavesOutTheTimeBetweenStretches) {
  Overlap overlap;
  overlap.add(0, Work::compute, 0, 1);
  overlap.add(0, Work::copy, 0, 1);
  overlap.add(7, Work::compute, 101, 102);
  overlap.add(7, Work::copy, 100, 101);
  Shares shares = overlap.shares();
  EXPECT_DOUBLE_EQ(shares.seconds, 3);
  EXPECT_DOUBLE_EQ(shares.computeBusy, 2.0 / 3);
  EXPECT_DOUBLE_EQ(shares.copiesHidden, 0.5);
  EXPECT_DOUBLE_EQ(shares.updatesHidden, 1);
}

TEST(Overlap, SaysNothingOfNothing) {
  Shares shares = Overlap().shares();
  EXPECT_EQ(shares.seconds, 0);
  EXPECT_EQ(shares.computeBusy, 0);
}

} // namespace
} // namespace mt::executor
