// Random delays that shake the order in which streams come forward, for tests: results must not depend on it. Each
// stream has its own sequence, so a seed gives the same delays on every run. Private to runtime/device.
#ifndef MT_RUNTIME_DEVICE_COMMON_DISTURBANCE_H
#define MT_RUNTIME_DEVICE_COMMON_DISTURBANCE_H

#include <cstdint>
#include <optional>
#include <random>

namespace mt::device {

class Disturbance {
public:
  Disturbance() = default;
  /// Without a seed there are no delays.
  Disturbance(std::optional<uint64_t> seed, uint32_t stream);
  /// Sleeps: not at all in half of all cases, up to half a millisecond in most others, rarely for three.
  void delay();

private:
  std::optional<std::mt19937_64> random;
};

} // namespace mt::device
#endif
