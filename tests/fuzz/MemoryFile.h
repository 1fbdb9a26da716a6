// A file of given bytes that lies in memory and in no folder: what a fuzz target hands to code that takes a path. One
// at a time of each object; not for code that writes.
#ifndef MT_TESTS_FUZZ_MEMORYFILE_H
#define MT_TESTS_FUZZ_MEMORYFILE_H

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace mt::fuzz {

class MemoryFile {
public:
  MemoryFile();
  ~MemoryFile();
  MemoryFile(const MemoryFile &) = delete;

  /// The path of a file that has exactly these bytes until the next call.
  const std::string &of(std::span<const uint8_t> bytes);

private:
  int descriptor;
  std::string path;
};

} // namespace mt::fuzz
#endif
