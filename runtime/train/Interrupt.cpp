#include "runtime/train/Interrupt.h"

#include <csignal>

namespace mt::train {
namespace {

volatile std::sig_atomic_t flag = 0;

extern "C" void onSignal(int) { flag = 1; }

} // namespace

void catchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = onSignal;
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() { return flag != 0; }

} // namespace mt::train
