// Checkpoint folders: meta.json and the weights' file, for a small plan.
#include "runtime/base/Log.h"
#include "runtime/train/Checkpoint.h"
#include "runtime/train/RunFolder.h"
#include "runtime/train/StateFiles.h"
#include "tests/fuzz/Bytes.h"
#include "tests/fuzz/MemoryFolder.h"
#include "tests/plan/LinearPlan.h"

#include <map>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace mt;
  static fuzz::MemoryFolder folder;
  static const plan::Plan plans[] = {tests::linearPlan(true), tests::linearPlan(true, true)};
  fuzz::Bytes bytes(data, size);
  const plan::Plan &plan = plans[bytes.choice(2)];
  folder.write("step-1/meta.json", bytes.sized());
  for (std::string_view name : train::stateFiles())
    folder.write(fmt::format("step-1/{}.safetensors", name), bytes.rest());
  std::map<const plan::Part *, std::vector<std::byte>> places;
  auto place = [&](const plan::Part &part) -> std::span<std::byte> {
    std::vector<std::byte> &own = places[&part];
    own.resize(part.span.bytes);
    return own;
  };
  log().set_level(spdlog::level::off);
  const std::string checkpoint = folder.path() + "/step-1";
  auto verify = [](const train::FoundCheckpoint &found) { return train::verifyCheckpoint(found.folder, true, 1); };
  (void)train::withNewest(folder.path(), verify);
  (void)train::withBest(folder.path(), verify);
  (void)train::verifyCheckpoint(checkpoint, false, 1);
  (void)train::loadCheckpoint(checkpoint, plan, place, train::Wanted::all, 1);
  return 0;
}
