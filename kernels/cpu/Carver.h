// Buffers of a kernel, one after another in a thread's scratch: the code that takes them also says what they need.
// Private to kernels/cpu.
#ifndef MT_KERNELS_CPU_CARVER_H
#define MT_KERNELS_CPU_CARVER_H

#include <cstddef>
#include <cstdint>

namespace mt::kernels::cpu {

class Carver {
public:
  /// From an address that is a multiple of 64; null only counts.
  explicit Carver(std::byte *base) : base(base) {}

  /// Aligned to 64.
  template <typename T> T *take(int64_t count) {
    std::byte *at = base ? base + taken : nullptr;
    taken += (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
    return reinterpret_cast<T *>(at);
  }

  /// What `takes`, called with one that only counts, takes.
  template <typename Takes> static uint64_t bytes(Takes takes) {
    Carver counts(nullptr);
    takes(counts);
    return counts.taken;
  }

private:
  std::byte *base;
  size_t taken = 0;
};

} // namespace mt::kernels::cpu
#endif
