// A run's folder: one process at a time, no run destroyed by accident, and where a run begins.
#include "runtime/train/RunFolder.h"
#include "runtime/train/Checksum.h"
#include "tests/plan/LinearPlan.h"
#include "tests/train/TestFiles.h"

namespace mt::tests {
namespace {

using namespace train;
namespace fs = std::filesystem;

class RunFolders : public testing::Test {
protected:
  Folder folder;
  plan::Plan plan = linearPlan(true);
  std::vector<float> values = std::vector<float>(30);

  void save(int64_t step, const std::string &run) {
    CheckpointMeta meta;
    meta.step = step;
    meta.run = run;
    auto bytes = [&](const plan::Part &) { return std::as_writable_bytes(std::span(values)); };
    ASSERT_TRUE(saveCheckpoint(folder.path, plan, meta, bytes, 9).ok());
  }
  Result<RunFolder::Start> start(bool resume, bool overwrite = false) {
    Result<RunFolder> locked = RunFolder::lock(folder.path);
    EXPECT_TRUE(locked.ok()) << locked.status().message();
    return locked->start(resume, overwrite);
  }
  /// Begins a run, and returns its identity.
  std::string begin(bool resume, bool overwrite = false) {
    Result<RunFolder> locked = RunFolder::lock(folder.path);
    Result<RunFolder::Start> from = locked->start(resume, overwrite);
    EXPECT_TRUE(from.ok()) << from.status().message();
    EXPECT_TRUE(locked->begin(*from).ok());
    return locked->run();
  }
};

TEST_F(RunFolders, AreLocked) {
  std::optional<RunFolder> first = std::move(*RunFolder::lock(folder.path));
  Status second = RunFolder::lock(folder.path).status();
  EXPECT_ERROR(second, "another mtrun trains in it (process " + std::to_string(::getpid()) + " on ");
  first.reset();
  EXPECT_TRUE(RunFolder::lock(folder.path).ok());
}

TEST_F(RunFolders, WithARunAreRefused) {
  EXPECT_TRUE(start(false).ok());
  save(4, "a");
  EXPECT_ERROR(start(false).status(), "it holds a run (" + folder.path +
                                          "/step-4): go on with --resume, start a new one in "
                                          "its place with --overwrite, or choose another folder");
  EXPECT_FALSE(start(false, true)->checkpoint);
  EXPECT_TRUE(fs::exists(folder / "step-4")) << "nothing goes before there is something new";
  fs::rename(folder / "step-4", folder / "damaged-step-4");
  EXPECT_FALSE(start(false).ok());
}

TEST_F(RunFolders, WithMetricsOfStepsAreRefused) {
  folder.write("metrics.jsonl", "{\"plan\":1}\n");
  EXPECT_TRUE(start(false).ok()) << "a run that never began";
  folder.write("metrics.jsonl", "{\"plan\":1}\n{\"step\":1}\n");
  EXPECT_ERROR(start(false).status(), "metrics.jsonl");
  EXPECT_TRUE(start(true).ok());
}

TEST_F(RunFolders, WithoutACheckpointAreResumedAtStepZero) {
  Result<RunFolder::Start> from = start(true);
  ASSERT_TRUE(from.ok());
  EXPECT_FALSE(from->checkpoint);
  EXPECT_NE(from->note.find("has no checkpoint yet: starting at step 0"), std::string::npos);
}

TEST_F(RunFolders, GoOnFromTheNewestOfTheirRun) {
  std::string first = begin(false);
  save(8, first);
  EXPECT_EQ(begin(true), first);
  EXPECT_EQ(start(true)->checkpoint, folder / "step-8");
  std::string second = begin(false, true);
  EXPECT_NE(second, first);
  EXPECT_FALSE(start(true)->checkpoint) << "the new run has none yet";
  EXPECT_NE(start(true)->note.find("checkpoints of an earlier run only"), std::string::npos);
  save(2, second);
  EXPECT_EQ(start(true)->checkpoint, folder / "step-2");
  EXPECT_TRUE(fs::exists(folder / "step-8"));
}

TEST_F(RunFolders, OfOlderVersionsAreGoneOnWithEvenAfterALaterStart) {
  save(8, "");
  begin(true);
  EXPECT_EQ(start(true)->checkpoint, folder / "step-8");
}

TEST_F(RunFolders, OfLaterVersionsAreRefused) {
  save(2, "a");
  save(4, "a");
  nlohmann::json meta = nlohmann::json::parse(readFile(folder / "step-4/meta.json"));
  meta.erase("checksum");
  meta["format"] = 3;
  std::string text = meta.dump();
  meta["checksum"] = checksumText(checksumOf(std::as_bytes(std::span(text))));
  folder.write("step-4/meta.json", meta.dump());
  EXPECT_ERROR(start(true).status(), "step-4/meta.json: format 3 is neither 1 nor 2");
  EXPECT_TRUE(fs::exists(folder / "step-4"));
}

TEST_F(RunFolders, DamagedCheckpointsAreSetAsideAndNeverForgotten) {
  save(2, "a");
  save(4, "a");
  fs::resize_file(folder / "step-4/weight.safetensors", 10);
  EXPECT_EQ(RunFolder::look(folder.path).start(true, false)->checkpoint, folder / "step-2");
  EXPECT_TRUE(fs::exists(folder / "step-4")) << "looking changes nothing";
  EXPECT_EQ(start(true)->checkpoint, folder / "step-2");
  EXPECT_TRUE(fs::exists(folder / "damaged-step-4"));
  fs::remove(folder / "step-2/meta.json");
  EXPECT_ERROR(start(true).status(), "no checkpoint of " + folder.path + " is whole");
  fs::remove_all(folder / "step-2");
  EXPECT_ERROR(start(true).status(), "damaged-step-4 was damaged");
}

} // namespace
} // namespace mt::tests
