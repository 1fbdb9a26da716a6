// A folder whose files lie in memory: what a fuzz target hands to code that takes a folder and only reads it. The
// folder itself, of links to them, is on disk, of this process alone, and made once.
#ifndef MT_TESTS_FUZZ_MEMORYFOLDER_H
#define MT_TESTS_FUZZ_MEMORYFOLDER_H

#include "tests/fuzz/MemoryFile.h"

#include <map>

namespace mt::fuzz {

class MemoryFolder {
public:
  MemoryFolder();
  ~MemoryFolder();
  MemoryFolder(const MemoryFolder &) = delete;

  const std::string &path() const { return root; }
  /// Makes `name`, which may lie in a folder inside, exactly these bytes.
  void write(const std::string &name, std::span<const uint8_t> bytes);

private:
  std::string root;
  std::map<std::string, MemoryFile> files;
};

} // namespace mt::fuzz
#endif
