#include "runtime/base/AtomicFolder.h"

#include "runtime/base/Files.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace mt {

namespace fs = std::filesystem;

static constexpr int kMostTries = 100;

Result<AtomicFolder> AtomicFolder::create(const std::string &given) {
  std::string path = given;
  while (path.size() > 1 && path.back() == '/')
    path.pop_back();
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_directory(status))
    return fail("{}: it is there, and no folder: name a new folder", path);
  if (fs::exists(status)) {
    fs::directory_iterator entries(path, error);
    if (error)
      return fail("{}: {}", path, error.message());
    if (entries != fs::directory_iterator())
      return fail("{}: the folder is not empty: name a new one, or remove what is in it", path);
    path = fs::canonical(path, error).string(); // a link stays one
    if (error)
      return fail("{}: {}", given, error.message());
    struct stat own = {}, above = {};
    const bool known = ::stat(path.c_str(), &own) == 0 && ::stat(folderOf(path).c_str(), &above) == 0;
    if (!known || own.st_dev != above.st_dev || path == "/" || fs::equivalent(path, fs::current_path(error), error))
      return fail(
          "{}: a folder that something is mounted on, or that this runs in, cannot be replaced: name a new folder "
          "inside it",
          given);
  }
  MT_TRY(makeFolders(folderOf(path)));
  // One of the same name may be what a process of this number left that was killed, or that of another machine's.
  std::string aside = fmt::format("{}.tmp.{}", path, ::getpid());
  for (int tries = 1; ::mkdir(aside.c_str(), 0777) != 0; ++tries) {
    if (errno != EEXIST || tries == kMostTries)
      return fail("{}: {}", aside, std::strerror(errno));
    aside = fmt::format("{}.tmp.{}-{}", path, ::getpid(), tries);
  }
  return AtomicFolder(path, aside);
}

AtomicFolder::AtomicFolder(AtomicFolder &&other) noexcept
    : path(std::move(other.path)), aside(std::exchange(other.aside, {})) {}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!aside.empty())
    fs::remove_all(aside, ignored);
}

Status AtomicFolder::commit() {
  MT_TRY(syncFolder(aside));
  MT_TRY(renamePath(aside, path).status());
  aside.clear();
  return syncFolder(folderOf(path));
}

} // namespace mt
