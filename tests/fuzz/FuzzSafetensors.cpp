// Safetensors files: views of every tensor lie inside the file.
#include "runtime/train/Safetensors.h"
#include "tests/fuzz/Bytes.h"
#include "tests/fuzz/MemoryFile.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static mt::fuzz::MemoryFile memory;
  auto file = mt::train::SafetensorsFile::open(memory.of({data, size}));
  if (!file.ok())
    return 0;
  std::span<const std::byte> all = file->bytes();
  for (const auto &[name, view] : file->tensors())
    if (view.data.data() < all.data() || view.data.data() + view.data.size() > all.data() + all.size())
      std::abort();
  return 0;
}
