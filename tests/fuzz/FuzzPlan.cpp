// Plan files whose header is right and whose payload is hostile. What loads is dumped in every format and saved again.
#include "runtime/plan/Dump.h"
#include "runtime/plan/PlanFile.h"
#include "tests/fuzz/Bytes.h"
#include "tests/plan/LinearPlan.h"
#include "tests/plan/Mutate.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace mt::plan;
  static const std::vector<std::byte> header = [] {
    Plan any = mt::tests::linearPlan(true);
    std::vector<std::byte> whole = serialize(any);
    whole.resize(32);
    return whole;
  }();
  std::vector<std::byte> file = header;
  file.insert(file.end(), reinterpret_cast<const std::byte *>(data), reinterpret_cast<const std::byte *>(data) + size);
  mt::tests::seal(file);
  mt::Result<Plan> plan = deserialize(file, "fuzz.bin");
  if (!plan.ok())
    return 0;
  for (DumpFormat format : {DumpFormat::text, DumpFormat::json, DumpFormat::html, DumpFormat::trace})
    dumpPlan(*plan, format);
  Plan copy = *plan;
  mt::Result<Plan> again = deserialize(serialize(copy), "again.bin");
  if (!again.ok() || dumpPlan(copy, DumpFormat::json) != dumpPlan(*again, DumpFormat::json))
    std::abort();
  return 0;
}
