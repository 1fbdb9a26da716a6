// Which signals end training at once, and which only ask it to end.
#include "runtime/train/Interrupt.h"

#include <gtest/gtest.h>

#include <csignal>

namespace mt::tests {
namespace {

TEST(Interrupts, OnlyALaterOneFromTheKeyboardEndsAtOnce) {
  EXPECT_FALSE(train::endsAtOnce(SIGINT, 0.001)) << "the echo of the first";
  EXPECT_TRUE(train::endsAtOnce(SIGINT, 5));
  for (double seconds : {0.001, 5.0, 500.0})
    EXPECT_FALSE(train::endsAtOnce(SIGTERM, seconds) || train::endsAtOnce(SIGHUP, seconds));
}

TEST(Interrupts, SetAFlagHoweverOftenTheyCome) {
  train::catchInterrupts();
  EXPECT_FALSE(train::interrupted());
  for (int signal : {SIGTERM, SIGTERM, SIGINT, SIGINT})
    std::raise(signal);
  EXPECT_TRUE(train::interrupted());
  train::catchInterrupts();
  EXPECT_FALSE(train::interrupted());
}

} // namespace
} // namespace mt::tests
