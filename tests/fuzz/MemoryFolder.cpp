#include "tests/fuzz/MemoryFolder.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace mt::fuzz {

namespace fs = std::filesystem;

MemoryFolder::MemoryFolder() : root((fs::temp_directory_path() / "mt-fuzz-XXXXXX").string()) {
  if (!::mkdtemp(root.data())) {
    std::perror("a folder for links");
    std::exit(1);
  }
}

MemoryFolder::~MemoryFolder() {
  std::error_code error;
  fs::remove_all(root, error);
}

void MemoryFolder::write(const std::string &name, std::span<const uint8_t> bytes) {
  auto [at, fresh] = files.try_emplace(name);
  const std::string &there = at->second.of(bytes);
  if (!fresh)
    return;
  const fs::path link = fs::path(root) / name;
  std::error_code error;
  fs::create_directories(link.parent_path(), error);
  fs::create_symlink(there, link, error);
  if (error) {
    std::fprintf(stderr, "%s: %s\n", link.c_str(), error.message().c_str());
    std::exit(1);
  }
}

} // namespace mt::fuzz
