// An output of several files that are valid only together: a folder that is whole or not there. It grows aside
// (FOLDER.tmp.PID) and is renamed by commit(); without commit() nothing remains.
#ifndef MT_RUNTIME_BASE_ATOMICFOLDER_H
#define MT_RUNTIME_BASE_ATOMICFOLDER_H

#include "runtime/base/Status.h"

#include <string>

namespace mt {

class AtomicFolder {
public:
  /// Begins the folder `path`, which must not exist or be empty. Errors: it is there and not empty, or no folder; its
  /// place cannot be written.
  static Result<AtomicFolder> create(const std::string &path);

  AtomicFolder(AtomicFolder &&other) noexcept;
  AtomicFolder &operator=(AtomicFolder &&) = delete;
  ~AtomicFolder();

  /// Where a file of it is written, which should be synced then (AtomicFile does).
  std::string file(const std::string &name) const { return aside + "/" + name; }
  /// Syncs the folder and gives it its name. Call once, last.
  Status commit();

private:
  AtomicFolder(std::string path, std::string aside) : path(std::move(path)), aside(std::move(aside)) {}

  std::string path, aside; ///< aside: empty once nothing is to be removed
};

} // namespace mt
#endif
