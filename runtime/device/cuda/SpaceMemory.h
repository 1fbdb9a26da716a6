// The memory of one space beside a GPU: on the GPU, or an arena on the host, registered with the GPU where it is
// staging, in chunks that no copy may cross. Where registering is refused the arena stays pageable: copies with it are
// slower, and those who issue them must wait for the stream around them. Private to runtime/device/cuda.
#ifndef MT_RUNTIME_DEVICE_CUDA_SPACEMEMORY_H
#define MT_RUNTIME_DEVICE_CUDA_SPACEMEMORY_H

#include "runtime/device/cuda/Driver.h"
#include "runtime/host/Arena.h"
#include "runtime/plan/Program.h"

namespace mt::device {

class SpaceMemory {
public:
  /// Exactly the space's bytes, but none yet if they are to be the GPU's. `chunk`: bytes to be registered at once,
  /// whole pages. Errors name space and bytes; a registration that is refused in smaller pieces
  /// too is a warning.
  static Result<SpaceMemory> reserve(const plan::Space &space, Driver &driver, uint64_t chunk);
  /// The bytes of a device space; nothing for others. Last, as registering takes memory of the GPU too.
  Status allocate(const plan::Space &space);
  SpaceMemory(SpaceMemory &&other) noexcept;
  SpaceMemory &operator=(SpaceMemory &&) = delete;
  ~SpaceMemory();

  std::byte *data() const { return base; }
  uint64_t bytes() const { return size; }
  bool isHost() const { return arena.has_value(); }
  /// Whether the GPU copies to and from it by itself.
  bool isDirect() const { return !isHost() || registered > 0; }
  /// Bytes from an offset on that one copy may take.
  uint64_t copyable(uint64_t offset) const { return registered > 0 ? chunk - offset % chunk : UINT64_MAX; }
  Status checkGuard() const { return arena ? arena->checkGuard() : Status(); }

private:
  SpaceMemory(Driver &driver, uint64_t size, uint64_t chunk) : driver(driver), size(size), chunk(chunk) {}
  void registerWith(const std::string &name);
  void unregister();

  Driver &driver;
  uint64_t size = 0, chunk = 0;
  std::byte *base = nullptr;
  std::optional<host::Arena> arena;
  uint64_t registered = 0; ///< bytes: all or none, but while it is done
};

} // namespace mt::device
#endif
