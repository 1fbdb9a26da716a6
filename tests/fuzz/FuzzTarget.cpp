// Target descriptions in JSON; what is taken prints and parses again to the same text.
#include "compiler/target/Target.h"
#include "tests/fuzz/Bytes.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace mt::target;
  auto target = parseTarget(mt::fuzz::Bytes(data, size).text(), "fuzz.json");
  if (!target.ok())
    return 0;
  std::string printed = printTarget(*target);
  auto again = parseTarget(printed, "again.json");
  if (!again.ok() || printTarget(*again) != printed)
    std::abort();
  return 0;
}
