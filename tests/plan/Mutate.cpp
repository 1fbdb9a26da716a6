#include "tests/plan/Mutate.h"

#include <xxhash.h>

#include <cstdint>
#include <cstring>

namespace mt::tests {
namespace {

constexpr size_t kHeaderBytes = 32, kDigestOffset = 24, kLengthOffset = 16;

} // namespace

void seal(std::vector<std::byte> &file) {
  uint64_t length = file.size() - kHeaderBytes, digest = XXH3_64bits(file.data() + kHeaderBytes, length);
  std::memcpy(file.data() + kLengthOffset, &length, sizeof(length));
  std::memcpy(file.data() + kDigestOffset, &digest, sizeof(digest));
}

void mutate(std::vector<std::byte> &file, std::mt19937 &random) {
  auto place = [&] { return kHeaderBytes + random() % (file.size() - kHeaderBytes); };
  for (uint32_t i = 1 + random() % 3; i > 0; --i) {
    size_t at = place();
    switch (random() % 4) {
    case 0:
      file[at] ^= std::byte(1u << random() % 8);
      break;
    case 1:
      file[at] = std::byte(random());
      break;
    case 2:
      file.erase(file.begin() + static_cast<ptrdiff_t>(at));
      break;
    default:
      file.insert(file.begin() + static_cast<ptrdiff_t>(at), std::byte(random()));
    }
  }
  seal(file);
}

} // namespace mt::tests
