// Reading of .zip archives as NumPy writes them: stored and deflated members, Zip64. Not a general unzipper: no
// encryption, no spanning, no directories. Every offset and size is checked; the file may be hostile.
#ifndef MT_RUNTIME_TRAIN_ZIP_H
#define MT_RUNTIME_TRAIN_ZIP_H

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mt::train {

struct ZipMember {
  std::string name;
  uint16_t method = 0; ///< 0 stored, 8 deflated
  uint32_t crc = 0;
  uint64_t size = 0;                     ///< bytes once unpacked
  std::span<const std::byte> packed;     ///< inside the archive
};

/// The members of an archive that lies in memory, in the order of its directory. Names are distinct.
Result<std::vector<ZipMember>> zipMembers(std::span<const std::byte> archive);

/// The member's bytes: a view of the archive if it is stored, else of `buffer`, which receives them. Checks the CRC.
Result<std::span<const std::byte>> unpack(const ZipMember &member, std::vector<std::byte> &buffer);

} // namespace mt::train
#endif
