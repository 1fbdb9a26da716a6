// Spaces of kind file on any device: made in the folder that users name, and copies between them and the host's memory.
// Private to runtime/device.
#ifndef MT_RUNTIME_DEVICE_COMMON_SPACEFILES_H
#define MT_RUNTIME_DEVICE_COMMON_SPACEFILES_H

#include "runtime/host/FileSpace.h"
#include "runtime/plan/Program.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mt::device {

/// By space; null for those of other kinds.
using SpaceFiles = std::vector<std::unique_ptr<host::FileSpace>>;

/// Errors: no folder is named, or it cannot be used.
Result<SpaceFiles> makeFiles(std::span<const plan::Space> spaces, const std::string &folder);

/// A copy of which one end is in a file, and the other in the host's memory.
Status copyFile(const SpaceFiles &files, const plan::Span &from, const plan::Span &to,
                const std::function<std::byte *(const plan::Span &)> &address);

} // namespace mt::device
#endif
