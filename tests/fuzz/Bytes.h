// A fuzz target's input, taken apart from the front: choices first, then what is left. Too short an input gives zeros.
#ifndef MT_TESTS_FUZZ_BYTES_H
#define MT_TESTS_FUZZ_BYTES_H

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

namespace mt::fuzz {

class Bytes {
public:
  Bytes(const uint8_t *data, size_t size) : left(data, size) {}

  uint8_t one() {
    uint8_t value = left.empty() ? 0 : left.front();
    left = left.subspan(std::min<size_t>(1, left.size()));
    return value;
  }
  /// A number below `count`.
  uint8_t choice(uint8_t count) { return one() % count; }
  /// So many bytes as the next two say, or what there is.
  std::span<const uint8_t> sized() {
    size_t low = one(), high = one(), size = std::min(left.size(), low + high * 256);
    std::span<const uint8_t> taken = left.first(size);
    left = left.subspan(size);
    return taken;
  }
  std::span<const uint8_t> rest() const { return left; }
  std::string_view text() const { return {reinterpret_cast<const char *>(left.data()), left.size()}; }

private:
  std::span<const uint8_t> left;
};

} // namespace mt::fuzz

/// What a target defines: reads the input as hostile as it is, and returns 0. It must neither crash nor take long.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
#endif
