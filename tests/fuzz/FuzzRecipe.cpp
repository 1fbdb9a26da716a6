// Recipe files in TOML; what is taken prints and reads again to the same options.
#include "runtime/train/RecipeFile.h"
#include "tests/fuzz/Bytes.h"
#include "tests/fuzz/MemoryFile.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace mt::train;
  static mt::fuzz::MemoryFile memory, printed;
  const auto options = readRecipeFile(memory.of({data, size}));
  if (!options)
    return 0;
  const std::string text = recipeFileText(*options);
  const auto again = readRecipeFile(printed.of({reinterpret_cast<const uint8_t *>(text.data()), text.size()}));
  if (!again || *again != *options)
    std::abort();
  return 0;
}
