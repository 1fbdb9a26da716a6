#include "runtime/device/common/SpaceFiles.h"

#include "runtime/base/Sizes.h"

namespace mt::device {

Result<SpaceFiles> makeFiles(std::span<const plan::Space> spaces, const std::string &folder) {
  SpaceFiles files(spaces.size());
  for (size_t i = 0; i < spaces.size(); ++i) {
    if (spaces[i].kind != plan::SpaceKind::file || spaces[i].bytes == 0)
      continue;
    if (folder.empty())
      return fail(
          "the plan keeps {} in a file; say in which folder with --state-dir, on a fast local disk, or compile the "
          "model again with more --host-memory",
          formatSize(spaces[i].bytes));
    MT_ASSIGN(files[i], host::FileSpace::make(folder, spaces[i].bytes, spaces[i].name));
  }
  return files;
}

Status copyFile(const SpaceFiles &files, const plan::Span &from, const plan::Span &to,
                const std::function<std::byte *(const plan::Span &)> &address) {
  if (host::FileSpace *file = files[from.space].get())
    return file->read(from.offset, {address(to), to.bytes});
  return files[to.space]->write(to.offset, {address(from), from.bytes});
}

} // namespace mt::device
