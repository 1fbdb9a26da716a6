#include "runtime/train/Interrupt.h"

#include <csignal>
#include <ctime>

namespace mt::train {
namespace {

volatile std::sig_atomic_t flag = 0;
timespec first; // written before the flag is set, read after

extern "C" void onSignal(int signal) {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (flag == 0) {
    first = now;
    flag = 1;
    return;
  }
  double seconds =
      static_cast<double>(now.tv_sec - first.tv_sec) + static_cast<double>(now.tv_nsec - first.tv_nsec) * 1e-9;
  if (!endsAtOnce(signal, seconds))
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
  flag = 0;
  struct sigaction action = {}, before = {};
  action.sa_handler = onSignal;
  action.sa_flags = SA_RESTART;
  sigaddset(&action.sa_mask, SIGINT);
  sigaddset(&action.sa_mask, SIGTERM);
  sigaddset(&action.sa_mask, SIGHUP);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  if (sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
    sigaction(SIGHUP, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

bool interrupted() { return flag != 0; }

} // namespace mt::train
