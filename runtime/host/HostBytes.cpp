#include "runtime/host/HostBytes.h"

#include <algorithm>

namespace mt::host {

HostBytes HostBytes::part(uint64_t begin, uint64_t bytes) const {
  return file ? HostBytes(*file, offset + begin, bytes) : HostBytes(memory.subspan(begin, bytes));
}

Result<std::span<const std::byte>> HostBytes::get(std::vector<std::byte> &buffer) const {
  if (!file)
    return std::span<const std::byte>(memory);
  buffer.resize(length);
  MT_TRY(file->read(offset, buffer));
  return std::span<const std::byte>(buffer);
}

Status HostBytes::copyTo(std::span<std::byte> to) const {
  if (file)
    return file->read(offset, to);
  std::ranges::copy(memory, to.begin());
  return {};
}

Status HostBytes::set(const std::function<Status(std::span<std::byte>)> &fill) const {
  if (!file)
    return fill(memory);
  std::vector<std::byte> buffer(length);
  MT_TRY(fill(buffer));
  return file->write(offset, buffer);
}

Status HostBytes::clear() const {
  if (!file)
    std::ranges::fill(memory, std::byte{0});
  return {};
}

} // namespace mt::host
