// What a disk gives to what a plan keeps in files: the same requests, measured.
#ifndef MT_RUNTIME_PROBE_DISK_H
#define MT_RUNTIME_PROBE_DISK_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>

namespace mt::probe {

struct DiskRates {
  uint64_t memory = 0;        ///< bytes: nine tenths of what is free
  double read = 0, write = 0; ///< bytes per second, of either alone
  double together = 0;        ///< how many times as long both take at once
  bool isDirect = false;      ///< whether bytes go past the system's cache
};

/// Takes some seconds and, while it lasts, two gigabytes of the folder's disk; writes up to ten. Errors name the
/// folder.
Result<DiskRates> probeDisk(const std::string &folder);

} // namespace mt::probe
#endif
