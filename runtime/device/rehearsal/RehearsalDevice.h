// A device of no memory and no kernels: every command takes the time that the plan predicts for it, on its stream, after
// what it awaits. It shows what the executor makes of a plan of any size on any machine.
#ifndef MT_RUNTIME_DEVICE_REHEARSAL_REHEARSALDEVICE_H
#define MT_RUNTIME_DEVICE_REHEARSAL_REHEARSALDEVICE_H

#include "runtime/device/Device.h"

#include <functional>
#include <memory>

namespace mt::device {

struct RehearsalOptions {
  double pace = 1;      ///< seconds that a predicted one takes; 0: commands take no time
  bool measure = false; ///< keep the times of commands
  /// Sends and receives what a template of a network stream, of that number, does: such commands take as long as that,
  /// if that is longer.
  std::function<Status(const plan::Template &, uint32_t stream)> exchange = {};
};
std::unique_ptr<Device> makeRehearsalDevice(RehearsalOptions options);

} // namespace mt::device
#endif
