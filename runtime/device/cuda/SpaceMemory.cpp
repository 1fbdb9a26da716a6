#include "runtime/device/cuda/SpaceMemory.h"

#include "runtime/base/Log.h"
#include "runtime/base/Sizes.h"

namespace mt::device {

Result<SpaceMemory> SpaceMemory::reserve(const plan::Space &space, Driver &driver) {
  SpaceMemory made(driver, space.bytes);
  if (space.kind != plan::SpaceKind::device) {
    MT_ASSIGN(host::Arena arena, host::Arena::reserve(space.bytes, space.name, true));
    made.arena.emplace(std::move(arena));
    made.base = made.arena->data();
    if (space.kind == plan::SpaceKind::staging && space.bytes > 0)
      made.registerWith(space.name);
    return made;
  }
  if (space.bytes == 0)
    return made;
  Result<void *> memory = driver.allocate(space.bytes);
  if (!memory.ok())
    return fail("space \"{}\": {} cannot be had on {}: {}; stop what else uses the GPU, or compile the model again "
                "with a smaller --device-memory",
                space.name, formatExactSize(space.bytes), driver.name(), memory.status().message());
  made.base = static_cast<std::byte *>(*memory);
  return made;
}

void SpaceMemory::registerWith(const std::string &name) {
  Status status = driver.registerHost(base, size);
  registered = status.ok();
  if (!registered)
    log().warn(
        "space \"{}\": its {} cannot be registered with {}: {}; its copies go through buffers of the driver, one "
        "at a time: right, but slow. Raise the limit of locked memory (ulimit -l), or lower --host-memory",
        name, formatSize(size), driver.name(), status.message());
}

SpaceMemory::SpaceMemory(SpaceMemory &&other) noexcept
    : driver(other.driver), size(other.size), base(std::exchange(other.base, nullptr)), arena(std::move(other.arena)),
      registered(std::exchange(other.registered, false)) {}

SpaceMemory::~SpaceMemory() {
  if (registered)
    driver.unregisterHost(base);
  if (base && !isHost())
    driver.release(base);
}

} // namespace mt::device
