// The memory of one space beside a GPU: on the GPU, or an arena on the host, registered with the GPU where it is
// staging. Where registering is refused the arena stays pageable: copies with it are slower, and those who issue them
// must wait for the stream around them. Private to runtime/device/cuda.
#ifndef MT_RUNTIME_DEVICE_CUDA_SPACEMEMORY_H
#define MT_RUNTIME_DEVICE_CUDA_SPACEMEMORY_H

#include "runtime/device/cuda/Driver.h"
#include "runtime/host/Arena.h"
#include "runtime/plan/Program.h"

namespace mt::device {

class SpaceMemory {
public:
  /// Exactly the space's bytes. Errors name space and bytes; a refused registration is a warning.
  static Result<SpaceMemory> reserve(const plan::Space &space, Driver &driver);
  SpaceMemory(SpaceMemory &&other) noexcept;
  SpaceMemory &operator=(SpaceMemory &&) = delete;
  ~SpaceMemory();

  std::byte *data() const { return base; }
  uint64_t bytes() const { return size; }
  bool isHost() const { return arena.has_value(); }
  /// Whether the GPU copies to and from it by itself.
  bool isDirect() const { return !isHost() || registered; }
  Status checkGuard() const { return arena ? arena->checkGuard() : Status(); }

private:
  SpaceMemory(Driver &driver, uint64_t size) : driver(driver), size(size) {}
  void registerWith(const std::string &name);

  Driver &driver;
  uint64_t size = 0;
  std::byte *base = nullptr;
  std::optional<host::Arena> arena;
  bool registered = false;
};

} // namespace mt::device
#endif
