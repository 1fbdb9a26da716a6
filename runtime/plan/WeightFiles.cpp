#include "runtime/plan/WeightFiles.h"

#include <algorithm>
#include <set>
#include <vector>
#include <xxhash.h>

namespace mt::plan {

Result<uint64_t> sampleOf(const MappedFile &file, const Initial &initial) {
  constexpr uint64_t kEnd = 64;
  const uint64_t count = std::min(kEnd, initial.length);
  std::vector<std::byte> bytes;
  for (uint64_t offset : {initial.offset, initial.offset + initial.length - count}) {
    MT_ASSIGN(const std::span<const std::byte> part, file.view(offset, count));
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return std::max<uint64_t>(1, XXH3_64bits(bytes.data(), bytes.size()));
}

std::vector<InputFile> weightFiles(const Plan &plan) {
  std::set<std::string> paths;
  for (const Parameter &parameter : plan.parameters) {
    paths.insert(parameter.initial.path);
    for (const Piece &piece : parameter.initial.pieces)
      paths.insert(piece.initial.path);
  }
  paths.erase("");
  std::vector<InputFile> files;
  for (const std::string &path : paths)
    files.push_back({"the model's weights", path});
  return files;
}

} // namespace mt::plan
