// A device of no memory and no kernels: every command takes the time that the plan predicts for it, on its stream, after
// what it awaits. It shows what the executor makes of a plan of any size on any machine.
#ifndef MT_RUNTIME_DEVICE_REHEARSAL_REHEARSALDEVICE_H
#define MT_RUNTIME_DEVICE_REHEARSAL_REHEARSALDEVICE_H

#include "runtime/device/Device.h"

#include <memory>

namespace mt::device {

struct RehearsalOptions {
  double pace = 1;      ///< seconds that a predicted one takes; 0: commands take no time
  bool measure = false; ///< keep the times of commands
};
std::unique_ptr<Device> makeRehearsalDevice(RehearsalOptions options);

} // namespace mt::device
#endif
