#include "runtime/device/cuda/SpaceMemory.h"

#include "runtime/base/Log.h"
#include "runtime/base/Sizes.h"

#include <algorithm>

namespace mt::device {

constexpr int kTries = 3; // with smaller pieces

Result<SpaceMemory> SpaceMemory::reserve(const plan::Space &space, Driver &driver, uint64_t chunk) {
  SpaceMemory made(driver, space.bytes, chunk);
  if (space.kind == plan::SpaceKind::device)
    return made;
  MT_ASSIGN(host::Arena arena, host::Arena::reserve(space.bytes, space.name, true));
  made.arena.emplace(std::move(arena));
  made.base = made.arena->data();
  if (space.kind == plan::SpaceKind::staging)
    made.registerWith(space.name);
  return made;
}

Status SpaceMemory::allocate(const plan::Space &space) {
  if (isHost() || size == 0)
    return {};
  Result<void *> memory = driver.allocate(size);
  if (!memory.ok())
    return fail("space \"{}\": {} cannot be had on {}: {}; stop what else uses the GPU, or compile the model again "
                "with a smaller --device-memory",
                space.name, formatExactSize(size), driver.name(), memory.status().message());
  base = static_cast<std::byte *>(*memory);
  return {};
}

void SpaceMemory::registerWith(const std::string &name) {
  constexpr uint64_t kPage = 4096, kSmaller = 8;
  for (int tries = 0; registered < size;) {
    uint64_t bytes = std::min(chunk, size - registered);
    if (Status status = driver.registerHost(base + registered, bytes); !status.ok()) {
      unregister();
      // What is refused in one piece may be had in several: a limit of the driver's, or no place for large tables.
      const uint64_t smaller = std::min(chunk, size) / kSmaller / kPage * kPage;
      if (++tries <= kTries && smaller > 0) {
        log().info("space \"{}\": registering {} at once is refused ({}); trying pieces of {}", name, formatSize(bytes),
                   status.message(), formatSize(smaller));
        chunk = smaller;
        continue;
      }
      log().warn("space \"{}\": its {} cannot be registered with {}: {}; its copies go through buffers of the driver, "
                 "one at a time: right, but slow. See whether so much memory is free and what the kernel's log (dmesg) "
                 "says, then whether the limit of locked memory (ulimit -l) allows it; or lower --host-memory",
                 name, formatSize(size), driver.name(), status.message());
      return;
    }
    registered += bytes;
  }
}

void SpaceMemory::unregister() {
  while (registered > 0) {
    registered = (registered - 1) / chunk * chunk;
    driver.unregisterHost(base + registered);
  }
}

SpaceMemory::SpaceMemory(SpaceMemory &&other) noexcept
    : driver(other.driver), size(other.size), chunk(other.chunk), base(std::exchange(other.base, nullptr)),
      arena(std::move(other.arena)), registered(std::exchange(other.registered, 0)) {}

SpaceMemory::~SpaceMemory() {
  unregister();
  if (base && !isHost())
    driver.release(base);
}

} // namespace mt::device
