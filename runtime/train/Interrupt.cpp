#include "runtime/train/Interrupt.h"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>

namespace mt::train {
namespace {

/// When the first signal came, in nanoseconds; 0: none has. Signals may come to two threads at once.
std::atomic<int64_t> first = 0;
static_assert(std::atomic<int64_t>::is_always_lock_free, "handlers of signals may not wait");

extern "C" void onSignal(int signal) {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  const int64_t now = time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec + 1;
  int64_t before = 0;
  if (first.compare_exchange_strong(before, now) || !endsAtOnce(signal, static_cast<double>(now - before) * 1e-9))
    return;
  struct sigaction usual = {};
  usual.sa_handler = SIG_DFL;
  sigaction(signal, &usual, nullptr);
  raise(signal);
}

} // namespace

bool endsAtOnce(int signal, double seconds) {
  constexpr double kEcho = 1;
  return signal == SIGINT && seconds >= kEcho;
}

void catchInterrupts() {
  first = 0;
  struct sigaction action = {}, before = {};
  action.sa_handler = onSignal;
  action.sa_flags = SA_RESTART;
  sigaddset(&action.sa_mask, SIGINT);
  sigaddset(&action.sa_mask, SIGTERM);
  sigaddset(&action.sa_mask, SIGHUP);
  sigaddset(&action.sa_mask, SIGUSR1);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGUSR1, &action, nullptr);
  if (sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
    sigaction(SIGHUP, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

bool interrupted() { return first != 0; }

} // namespace mt::train
