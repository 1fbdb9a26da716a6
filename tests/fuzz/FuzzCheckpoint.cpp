// Checkpoint folders: meta.json and the weights' file, for a small plan.
#include "runtime/base/Log.h"
#include "runtime/train/Checkpoint.h"
#include "runtime/train/RunFolder.h"
#include "runtime/train/StateFiles.h"
#include "tests/fuzz/Bytes.h"
#include "tests/plan/LinearPlan.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

namespace {

/// A folder of its own for this process, removed at its end.
struct Folder {
  std::string path = (std::filesystem::temp_directory_path() / ("mt-fuzz-" + std::to_string(::getpid()))).string();
  Folder() { std::filesystem::create_directories(path + "/step-1"); }
  ~Folder() { std::filesystem::remove_all(path); }
  void write(const std::string &name, std::span<const uint8_t> bytes) const {
    std::ofstream(path + "/step-1/" + name, std::ios::binary)
        .write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace mt;
  static const Folder folder;
  static const plan::Plan plans[] = {tests::linearPlan(true), tests::linearPlan(true, true)};
  fuzz::Bytes bytes(data, size);
  const plan::Plan &plan = plans[bytes.choice(2)];
  folder.write("meta.json", bytes.sized());
  for (plan::PartRole role : {plan::PartRole::weight, plan::PartRole::firstMoment, plan::PartRole::secondMoment})
    folder.write(fmt::format("{}.safetensors", train::fileStem(role)), bytes.rest());
  std::map<const plan::Part *, std::vector<std::byte>> places;
  auto place = [&](const plan::Part &part) -> std::span<std::byte> {
    std::vector<std::byte> &own = places[&part];
    own.resize(part.span.bytes);
    return own;
  };
  log().set_level(spdlog::level::off);
  (void)train::withNewest(folder.path,
                          [](const train::FoundCheckpoint &found) { return train::verifyCheckpoint(found.folder, true, 1); });
  (void)train::readMeta(folder.path + "/step-1");
  (void)train::verifyCheckpoint(folder.path + "/step-1", false, 1);
  (void)train::loadCheckpoint(folder.path + "/step-1", plan, place, false, 1);
  return 0;
}
