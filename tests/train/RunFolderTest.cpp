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
    ASSERT_TRUE(saveCheckpoint(folder.path, plan, meta, bytes, {9}).ok());
  }
  /// Of format 1, which names no run.
  void saveOld(int64_t step) {
    save(step, "");
    folder.write(fmt::format("step-{}/meta.json", step), fmt::format("{{\"format\": 1, \"step\": {}}}", step));
  }
  void ofLaterVersion(const std::string &name) {
    std::string path = folder / name + "/meta.json";
    nlohmann::json meta = nlohmann::json::parse(tests::readFile(path));
    meta.erase("checksum");
    meta["format"] = 3;
    std::string text = meta.dump();
    meta["checksum"] = checksumText(checksumOf(std::as_bytes(std::span(text))));
    std::ofstream(path) << meta;
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

TEST_F(RunFolders, WhatAnEarlierRunOfAnOlderVersionLeftIsNotTakenUp) {
  saveOld(8);
  std::string second = begin(false, true); // and killed before it has a checkpoint
  EXPECT_FALSE(start(true)->checkpoint);
  EXPECT_NE(start(true)->note.find("checkpoints of an earlier run only"), std::string::npos);
  EXPECT_EQ(begin(true), second) << "it goes on, at step 0";
  EXPECT_ERROR(checkpointsOf(folder.path).status(), "its checkpoints are of an earlier run (" + folder.path + "/step-8)");
  EXPECT_EQ(checkpointsOf(folder / "step-8")->front().step, 8) << "asked for by name";
  save(2, second);
  EXPECT_EQ(start(true)->checkpoint, folder / "step-2");
  EXPECT_EQ(checkpointsOf(folder.path)->size(), 1u);
}

TEST_F(RunFolders, OfAnOlderVersionAreTakenUp) {
  saveOld(8);
  begin(true);
  EXPECT_EQ(start(true)->checkpoint, folder / "step-8");
  EXPECT_EQ(checkpointsOf(folder.path)->front().folder, folder / "step-8");
}

TEST_F(RunFolders, DamagedCheckpointsOfAnEarlierRunDoNotCount) {
  save(4, "a");
  save(6, "a");
  save(8, "a");
  fs::resize_file(folder / "step-6/weight.safetensors", 10); // it still says whose it is
  folder.write("step-8/meta.json", "{");                     // this one does not
  EXPECT_EQ(start(true)->checkpoint, folder / "step-4");
  EXPECT_TRUE(fs::exists(folder / "damaged-step-6") && fs::exists(folder / "damaged-step-8"));
  folder.write("step-4/meta.json", "{");
  EXPECT_ERROR(start(true).status(), "no checkpoint of " + folder.path + " is whole");
  std::string second = begin(false, true);
  EXPECT_TRUE(fs::exists(folder / "damaged-step-4"));
  Result<RunFolder::Start> resumed = start(true);
  ASSERT_TRUE(resumed.ok()) << resumed.status().message();
  EXPECT_FALSE(resumed->checkpoint);
  save(4, second);
  EXPECT_EQ(start(true)->checkpoint, folder / "step-4");
  folder.write("step-4/meta.json", "{"); // of the new run
  EXPECT_ERROR(start(true).status(), "step-4/meta.json: damaged");
}

/// In place of a file a link that leads nowhere but to itself: it is there, and cannot be read.
void makeUnreadable(const std::string &path) {
  fs::remove(path);
  fs::create_symlink(fs::path(path).filename(), path);
}

TEST_F(RunFolders, WhatCannotBeReadIsNoDamage) {
  save(2, "a");
  save(4, "a");
  for (const char *file : {"/meta.json", "/weight.safetensors"}) {
    fs::rename(folder / "step-4" + file, folder / "kept");
    makeUnreadable(folder / "step-4" + file);
    EXPECT_ERROR(start(true).status(), "--resume: " + folder.path + "/step-4" + file + ": Too many levels of symbolic links");
    EXPECT_ERROR(withNewest(folder.path, [](const FoundCheckpoint &) { return Status(); }), "Too many levels");
    EXPECT_TRUE(fs::exists(folder / "step-4") && !fs::exists(folder / "damaged-step-4"));
    fs::remove(folder / "step-4" + file);
    fs::rename(folder / "kept", folder / "step-4" + file);
  }
  makeUnreadable(folder / "step-2/meta.json");
  EXPECT_EQ(start(true)->checkpoint, folder / "step-4") << "an older one is not needed";
  makeUnreadable(folder / "run.json");
  EXPECT_ERROR(start(true).status(), "run.json: Too many levels");
  fs::remove(folder / "run.json");
  folder.write("run.json", "{");
  EXPECT_ERROR(start(true).status(), "run.json: damaged: without it, it is not known which checkpoints are of the run; remove it");
}

TEST_F(RunFolders, LeftoversThatCannotBeReadOrAreOfLaterVersionsStay) {
  save(2, "a");
  save(4, "a");
  fs::rename(folder / "step-4", folder / ".writing-4");
  ofLaterVersion(".writing-4");
  EXPECT_ERROR(start(true).status(), ".writing-4/meta.json: format 3 is neither");
  EXPECT_TRUE(fs::exists(folder / ".writing-4") && !fs::exists(folder / "damaged-.writing-4"));
  fs::remove_all(folder / ".writing-4");
  save(4, "a");
  fs::rename(folder / "step-4", folder / ".writing-4");
  makeUnreadable(folder / ".writing-4/weight.safetensors");
  EXPECT_ERROR(start(true).status(), ".writing-4/weight.safetensors: Too many levels");
  EXPECT_TRUE(fs::exists(folder / ".writing-4") && !fs::exists(folder / "damaged-.writing-4"));
}

TEST_F(RunFolders, OfLaterVersionsAreRefused) {
  save(2, "a");
  save(4, "a");
  ofLaterVersion("step-4");
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
