#include "runtime/device/common/Disturbance.h"

#include <chrono>
#include <thread>

namespace mt::device {

Disturbance::Disturbance(std::optional<uint64_t> seed, uint32_t stream) {
  if (seed)
    random.emplace(*seed * 1000003 + stream);
}

void Disturbance::delay() {
  if (!random)
    return;
  uint64_t draw = (*random)();
  if (draw % 32 == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  else if (draw % 2 == 1)
    std::this_thread::sleep_for(std::chrono::microseconds(draw % 500));
}

} // namespace mt::device
