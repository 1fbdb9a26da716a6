// Checkpoints: round trip, which one is the newest, what an interrupted writer leaves, what does not match.
#include "runtime/train/Checkpoint.h"
#include "runtime/train/EvaluationRecord.h"
#include "runtime/train/Export.h"
#include "tests/plan/LinearPlan.h"
#include "tests/train/TestFiles.h"

#include <bit>
#include <cstring>
#include <map>
#include <numeric>

namespace mt::tests {
namespace {

using namespace train;
namespace fs = std::filesystem;

class Checkpoints : public testing::Test {
protected:
  plan::Plan plan = linearPlan(true);
  Folder folder;
  std::map<std::string_view, std::vector<float>> state;
  std::string run = "0123";
  EvaluationRecord known; ///< evaluations

  Checkpoints() {
    for (std::string_view role : {plan::kWeight, std::string_view("first_moment")}) {
      std::vector<float> values(30);
      for (size_t i = 0; i < 30; ++i)
        values[i] = static_cast<float>(i) / 7 + static_cast<float>(role.size());
      state[role] = values;
    }
  }
  PartBytes place() {
    return [this](const plan::Part &part) { return std::as_writable_bytes(std::span(state[part.name])); };
  }
  /// Loads a checkpoint's weights; for withNewest().
  std::function<Status(const FoundCheckpoint &)> load = [this](const FoundCheckpoint &found) {
    return loadCheckpoint(found.folder, plan, place(), Wanted::weights);
  };
  /// The checkpoint that withNewest() comes to use.
  std::string used(const std::string &path) {
    std::string folder;
    Status done = withNewest(path, [&](const FoundCheckpoint &found) { return folder = found.folder, load(found); });
    EXPECT_TRUE(done.ok()) << done.message();
    return folder;
  }
  std::string save(int64_t step, Keep keep = {2}) {
    CheckpointMeta meta;
    meta.evaluations = known.toJson();
    meta.step = step;
    meta.position = step * 8;
    meta.run = run;
    meta.recipe = {{"seed", 5}};
    meta.precision = "fp32";
    Result<std::string> saved = saveCheckpoint(folder.path, plan, meta, place(), keep);
    EXPECT_TRUE(saved.ok()) << saved.status().message();
    return saved ? *saved : "";
  }
};

TEST_F(Checkpoints, RoundTrip) {
  auto before = state;
  std::string saved = save(7);
  EXPECT_EQ(saved, folder / "step-7");
  EXPECT_EQ(newestCheckpoint(folder.path), saved);
  EXPECT_EQ(newestCheckpoint(saved), saved);
  for (auto &[role, values] : state)
    std::fill(values.begin(), values.end(), 0.0f);
  Status loaded = loadCheckpoint(saved, plan, place(), Wanted::all);
  ASSERT_TRUE(loaded.ok()) << loaded.message();
  EXPECT_EQ(state, before);
  Result<CheckpointMeta> meta = readMeta(saved);
  ASSERT_TRUE(meta.ok());
  EXPECT_EQ(meta->step, 7);
  EXPECT_EQ(meta->position, 56);
  EXPECT_EQ(meta->recipe["seed"], 5);
  EXPECT_EQ(meta->precision, "fp32");
}

// A plan of before may have trained apart what this one trains as one.
TEST_F(Checkpoints, TiedTensorsThatWereTrainedApart) {
  plan::Plan before = plan;
  before.parameters[0].aliases.clear();
  before.parameters.push_back(before.parameters[0]);
  before.parameters[1].name = "weight.T";
  CheckpointMeta meta;
  meta.step = 3;
  Result<std::string> saved = saveCheckpoint(folder.path, before, meta, place(), {2});
  ASSERT_TRUE(saved.ok()) << saved.status().message();
  EXPECT_ERROR(loadCheckpoint(*saved, plan, place(), Wanted::weights),
               "it has 'weight' and 'weight.T', which the plan trains as one tensor");
}

/// Halves of the masters that `state` has, and the plan that wants them.
struct SplitState {
  plan::Plan plan;
  std::vector<uint16_t> upper = std::vector<uint16_t>(30);
  std::vector<int16_t> lower = std::vector<int16_t>(30);
  std::vector<float> momentum = std::vector<float>(30);

  explicit SplitState(plan::Plan whole) : plan(std::move(whole)) {
    std::vector<plan::Part> &parts = plan.parameters[0].parts;
    parts[0].type = DType::bf16;
    parts.push_back({std::string(plan::kRemainder), DType::i16, {}});
  }
  PartBytes place() {
    return [this](const plan::Part &part) {
      return part.name == plan::kWeight      ? std::as_writable_bytes(std::span(upper))
             : part.name == plan::kRemainder ? std::as_writable_bytes(std::span(lower))
                                                      : std::as_writable_bytes(std::span(momentum));
    };
  }
};

TEST_F(Checkpoints, MastersAreWholeInEveryPrecision) {
  SplitState split(plan);
  std::string whole = save(1);
  ASSERT_TRUE(loadCheckpoint(whole, split.plan, split.place(), Wanted::all).ok());
  for (size_t i = 0; i < 30; ++i) {
    uint32_t bits = std::bit_cast<uint32_t>(state[plan::kWeight][i]);
    EXPECT_EQ((static_cast<uint32_t>(split.upper[i]) << 16) + static_cast<uint32_t>(split.lower[i]), bits);
  }
  EXPECT_EQ(split.momentum, state["first_moment"]);
  Folder other;
  Result<std::string> saved = saveCheckpoint(other.path, split.plan, CheckpointMeta(), split.place(), {2});
  ASSERT_TRUE(saved.ok()) << saved.status().message();
  EXPECT_EQ(readFile(*saved + "/weight.safetensors"), readFile(whole + "/weight.safetensors"));
  EXPECT_FALSE(fs::exists(*saved + "/remainder.safetensors"));

  auto before = state;
  state[plan::kWeight].assign(30, 0.0f);
  ASSERT_TRUE(loadCheckpoint(*saved, plan, place(), Wanted::all).ok());
  EXPECT_EQ(state, before);
  state[plan::kWeight][7] = 3.4e38f;
  EXPECT_ERROR(loadCheckpoint(save(2), split.plan, split.place(), Wanted::all),
               "parameter 'weight': element 7 is 3.4e+38: not finite in bf16");
}

TEST_F(Checkpoints, ForEvaluationMomentsStay) {
  std::string saved = save(1);
  state["first_moment"].assign(30, 9.0f);
  ASSERT_TRUE(loadCheckpoint(saved, plan, place(), Wanted::weights).ok());
  EXPECT_EQ(state["first_moment"][3], 9.0f);
}

TEST_F(Checkpoints, TheNewestIsTheLastWrittenAndOldOnesGo) {
  save(10);
  save(20);
  save(30);
  EXPECT_FALSE(fs::exists(folder / "step-10"));
  EXPECT_EQ(newestCheckpoint(folder.path), folder / "step-30");
  save(5); // a run that started afresh in the same folder
  EXPECT_EQ(newestCheckpoint(folder.path), folder / "step-5");
  state[plan::kWeight][0] = 123;
  save(30); // replaces the one that is there
  EXPECT_EQ(newestCheckpoint(folder.path), folder / "step-30");
  state[plan::kWeight][0] = 0;
  ASSERT_TRUE(loadCheckpoint(folder / "step-30", plan, place(), Wanted::all).ok());
  EXPECT_EQ(state[plan::kWeight][0], 123);
}

void flip(const std::string &path, size_t at) {
  std::string bytes = readFile(path);
  bytes[at] = static_cast<char>(bytes[at] ^ 4);
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST_F(Checkpoints, AFlippedBitIsFoundAndNamed) {
  std::string saved = save(1);
  EXPECT_TRUE(verifyCheckpoint(saved, false).ok());
  size_t size = fs::file_size(saved + "/first_moment.safetensors");
  flip(saved + "/first_moment.safetensors", size - 5);
  EXPECT_ERROR(verifyCheckpoint(saved, false), "step-1/first_moment.safetensors: parameter 'weight': its checksum is wrong");
  EXPECT_ERROR(loadCheckpoint(saved, plan, place(), Wanted::all), "first_moment.safetensors: parameter 'weight'");
  EXPECT_TRUE(verifyCheckpoint(saved, true).ok()) << "the weights are whole";
  flip(saved + "/first_moment.safetensors", size - 5);
  flip(saved + "/weight.safetensors", 20);
  EXPECT_ERROR(verifyCheckpoint(saved, true), "weight.safetensors");
  EXPECT_ERROR(loadCheckpoint(saved, plan, place(), Wanted::weights), "weight.safetensors");
}

TEST_F(Checkpoints, EveryBitOfTheMetadataCounts) {
  std::string path = save(1) + "/meta.json", good = readFile(path);
  for (size_t at = 0; at < good.size(); ++at) {
    if (std::isspace(static_cast<unsigned char>(good[at])))
      continue;
    flip(path, at);
    Result<CheckpointMeta> meta = readMeta(folder / "step-1");
    EXPECT_FALSE(meta.ok()) << "byte " << at << ", " << good.substr(at - std::min<size_t>(at, 9), 10);
    std::ofstream(path, std::ios::binary) << good;
  }
}

TEST_F(Checkpoints, AMissingOrShortFileIsNamedAndTheOneBeforeIsTheNewest) {
  save(1);
  save(2);
  fs::resize_file(folder / "step-2/weight.safetensors", 100);
  EXPECT_EQ(newestCheckpoint(folder.path), folder / "step-1");
  EXPECT_ERROR((*findCheckpoints(folder.path))[1].whole, "step-2/weight.safetensors: has 100 bytes, and had");
  fs::remove(folder / "step-2/weight.safetensors");
  EXPECT_EQ(newestCheckpoint(folder.path), folder / "step-1");
  EXPECT_ERROR((*findCheckpoints(folder.path))[1].whole, "step-2/weight.safetensors: No such file");
  EXPECT_EQ(used(folder.path), folder / "step-1");
  EXPECT_ERROR(withNewest(folder / "step-2", load), "step-2/weight.safetensors: No such file");
  flip(folder / "step-1/weight.safetensors", fs::file_size(folder / "step-1/weight.safetensors") - 1);
  EXPECT_ERROR(withNewest(folder.path, load), "no checkpoint there is whole");
}

/// Bytes that this process has asked files for.
uint64_t bytesRead() {
  std::ifstream file("/proc/self/io");
  std::string name;
  uint64_t count = 0;
  file >> name >> count;
  return count;
}

TEST_F(Checkpoints, AreReadOnceWhereTheyAreWhole) {
  constexpr uint64_t kBytes = 4 << 20;
  plan.parameters[0].dims = {1024, 1024};
  for (auto &[role, values] : state)
    values.resize(kBytes / sizeof(float));
  std::string saved = save(3);
  uint64_t before = bytesRead();
  EXPECT_EQ(used(folder.path), saved);
  EXPECT_LT(bytesRead() - before, kBytes * 5 / 4);
  before = bytesRead();
  ASSERT_TRUE(exportWeights({folder.path, folder / "w.safetensors", ""}).ok());
  EXPECT_LT(bytesRead() - before, kBytes * 5 / 4);
}

TEST_F(Checkpoints, OneThatTurnsOutToBeDamagedIsPassedOver) {
  save(1);
  save(2);
  flip(folder / "step-2/weight.safetensors", fs::file_size(folder / "step-2/weight.safetensors") - 1);
  EXPECT_EQ(used(folder.path), folder / "step-1");
  folder.write("w.npz", "old");
  ASSERT_TRUE(exportWeights({folder.path, folder / "w.npz", ""}).ok());
  EXPECT_ERROR(exportWeights({folder / "step-2", folder / "x.npz", ""}), "parameter 'weight': its checksum is wrong");
  EXPECT_FALSE(fs::exists(folder / "x.npz"));
  Status refused = withNewest(folder.path, [](const FoundCheckpoint &) { return Status::error("of another model"); });
  EXPECT_EQ(refused.message(), "of another model") << "the next is tried only where the bytes are wrong";
}

TEST_F(Checkpoints, CompleteLeftoversAreAdopted) {
  save(4);
  fs::rename(folder / "step-4", folder / ".writing-4"); // killed between syncing and renaming
  EXPECT_EQ(newestCheckpoint(folder.path), folder / ".writing-4");
  adoptLeftovers(folder.path);
  EXPECT_EQ(newestCheckpoint(folder.path), folder / "step-4");

  fs::rename(folder / "step-4", folder / ".replaced-step-4"); // killed in the middle of replacing it
  state[plan::kWeight][0] = 77;
  save(4);
  EXPECT_FALSE(fs::exists(folder / ".replaced-step-4"));
  state[plan::kWeight][0] = 0;
  ASSERT_TRUE(loadCheckpoint(folder / "step-4", plan, place(), Wanted::all).ok());
  EXPECT_EQ(state[plan::kWeight][0], 77);
}

TEST_F(Checkpoints, OfTwoOfOneStepTheLaterStays) {
  auto keepCopy = [&](const std::string &name) { fs::copy(folder / "step-4", folder / name, fs::copy_options::recursive); };
  save(4);
  keepCopy("old");
  state[plan::kWeight][0] = 77;
  save(4);
  for (bool newerInPlace : {true, false}) {
    fs::rename(folder / "old", folder / ".writing-4"); // what an exchange leaves
    if (!newerInPlace) { // and what one leaves that did not come to pass
      fs::rename(folder / ".writing-4", folder / "x");
      fs::rename(folder / "step-4", folder / ".writing-4");
      fs::rename(folder / "x", folder / "step-4");
    } else {
      fs::copy(folder / ".writing-4", folder / "old", fs::copy_options::recursive);
    }
    adoptLeftovers(folder.path);
    state[plan::kWeight][0] = 0;
    ASSERT_TRUE(loadCheckpoint(folder / "step-4", plan, place(), Wanted::all).ok());
    EXPECT_EQ(state[plan::kWeight][0], 77) << newerInPlace;
    EXPECT_FALSE(fs::exists(folder / ".writing-4") || fs::exists(folder / ".removing-.writing-4"));
  }
}

TEST_F(Checkpoints, ThoseOfAnotherRunAreNotPruned) {
  save(10, {1});
  run = "4567";
  save(20, {1});
  save(30, {1});
  EXPECT_TRUE(fs::exists(folder / "step-10"));
  EXPECT_FALSE(fs::exists(folder / "step-20"));
  EXPECT_EQ(newestCheckpoint(folder.path), folder / "step-30");
}

TEST_F(Checkpoints, TheBestStaysBesideTheNewest) {
  const std::map<int64_t, double> losses = {{1, 5}, {2, 3}, {3, 4}, {4, 3}, {5, 6}, {6, NAN}, {7, 2}};
  const std::map<int64_t, std::string> kept = {{1, "1"},   {2, "2"},   {3, "2 3"}, {4, "2 4"},
                                               {5, "2 5"}, {6, "2 6"}, {7, "7"}};
  for (auto [step, loss] : losses) {
    std::string saved = save(step, {1, true});
    EXPECT_TRUE(fs::exists(folder / fmt::format("step-{}", step == 1 ? 1 : known.bestStep)))
        << "its evaluation is still to come";
    known.add(step, loss);
    ASSERT_TRUE(recordEvaluations(saved, known.toJson(), {1, true}).ok());
    std::string there;
    for (int64_t i = 1; i <= step; ++i)
      there += fs::exists(folder / fmt::format("step-{}", i)) ? fmt::format("{}{}", there.empty() ? "" : " ", i) : "";
    EXPECT_EQ(there, kept.at(step)) << step;
  }
  known = {.data = "other"}; // those on other data do not compare
  known.add(8, 9);
  save(8, {1, true});
  EXPECT_FALSE(fs::exists(folder / "step-7"));
}

TEST_F(Checkpoints, EvaluationsAreReadBackAndChangeNothingElse) {
  std::string saved = save(3);
  CheckpointMeta before = *readMeta(saved);
  known.data = "abc";
  known.add(2, 0.1);
  known.add(3, INFINITY);
  ASSERT_TRUE(recordEvaluations(saved, known.toJson(), {2}).ok());
  CheckpointMeta after = *readMeta(saved);
  EvaluationRecord read = *EvaluationRecord::read(after.evaluations);
  EXPECT_EQ(read.step, 3);
  EXPECT_FALSE(std::isfinite(read.loss));
  EXPECT_EQ(read.bestStep, 2);
  EXPECT_EQ(read.bestLoss, 0.1);
  EXPECT_EQ(read.worse, 1);
  EXPECT_EQ(read.data, "abc");
  EXPECT_EQ(after.order, before.order);
  EXPECT_EQ(after.files, before.files);
  EXPECT_TRUE(verifyCheckpoint(saved, false).ok());
  for (const char *damage : {"1", "{}", R"({"step":-1,"loss":1,"best_step":1,"best_loss":1,"worse":0,"data":""})",
                             R"({"step":1,"loss":"1","best_step":1,"best_loss":1,"worse":0,"data":""})",
                             R"({"step":1,"loss":1,"best_step":1,"best_loss":1,"worse":0.5,"data":""})",
                             R"({"step":1,"loss":1,"best_step":1,"best_loss":1,"worse":0,"data":7})"})
    EXPECT_EQ(EvaluationRecord::read(nlohmann::json::parse(damage)).status().message(),
              "its record of evaluations is damaged")
        << damage;
  EXPECT_EQ(EvaluationRecord::read(nlohmann::json())->step, 0);
  ASSERT_TRUE(recordEvaluations(saved, 7, {2}).ok());
  EXPECT_ERROR(readMeta(saved).status(), "meta.json: damaged");
}

TEST_F(Checkpoints, TheBestIsFoundAndTheNextWhereItIsDamaged) {
  auto usedOfBest = [&]() -> std::string {
    std::string folder;
    Status done =
        withBest(this->folder.path, [&](const FoundCheckpoint &found) { return folder = found.folder, load(found); });
    return done ? folder : done.message();
  };
  save(1, {9});
  EXPECT_EQ(usedOfBest(),
            folder.path + ": no checkpoint there has an evaluation: train with --eval-data, and --keep-best to keep "
                          "the best");
  const std::map<int64_t, double> losses = {{2, 3}, {3, 4}, {4, 2}, {5, 2}};
  for (auto [step, loss] : losses) {
    known.add(step, loss);
    save(step, {9});
  }
  save(6, {9}); // its own evaluation is not known
  EXPECT_EQ(usedOfBest(), folder / "step-4");
  flip(folder / "step-4/weight.safetensors", fs::file_size(folder / "step-4/weight.safetensors") - 1);
  testing::internal::CaptureStderr();
  EXPECT_EQ(usedOfBest(), folder / "step-5");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("; the best of the others is used"), std::string::npos);
  fs::remove(folder / "step-5/weight.safetensors");
  testing::internal::CaptureStderr();
  EXPECT_EQ(usedOfBest(), folder / "step-2");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("step-5/weight.safetensors"), std::string::npos);
  ASSERT_TRUE(exportWeights({.from = folder.path, .output = folder / "w.npz", .model = "", .best = true}).ok());
}

TEST_F(Checkpoints, ThreadsWriteAndReadTheSameBytes) {
  plan::Plan large;
  plan::Parameter parameter = plan.parameters[0];
  parameter.dims = {700, 1000};
  for (const char *name : {"a", "b"}) {
    parameter.name = name;
    large.parameters.push_back(parameter);
  }
  std::map<const plan::Part *, std::vector<float>> values; // of its own for each, as threads fill several at once
  for (const plan::Parameter &each : large.parameters)
    for (const plan::Part &part : each.parts) {
      float first = static_cast<float>(values.size());
      std::vector<float> &own = values[&part];
      own.resize(700000);
      std::iota(own.begin(), own.end(), first);
    }
  auto bytes = [&](const plan::Part &part) { return std::as_writable_bytes(std::span(values.at(&part))); };
  Folder one, four;
  ASSERT_TRUE(saveCheckpoint(one.path, large, {}, bytes, {2}, 1).ok());
  ASSERT_TRUE(saveCheckpoint(four.path, large, {}, bytes, {2}, 4).ok());
  for (const char *file : {"/weight.safetensors", "/first_moment.safetensors", "/meta.json"})
    EXPECT_EQ(readFile(one / "step-0" + file), readFile(four / "step-0" + file)) << file;
  auto before = values;
  for (auto &[part, own] : values)
    own.assign(own.size(), 0);
  ASSERT_TRUE(loadCheckpoint(four / "step-0", large, bytes, Wanted::all, 4).ok());
  EXPECT_EQ(values, before);
  flip(four / "step-0/weight.safetensors", fs::file_size(four / "step-0/weight.safetensors") / 2 + 100);
  EXPECT_ERROR(verifyCheckpoint(four / "step-0", false, 4), "parameter 'b': its checksum is wrong");
}

TEST_F(Checkpoints, LeftoversOfInterruptedWritersDoNotCountAndGo) {
  fs::create_directories(folder / ".writing-9");
  folder.write(".writing-9/weight.safetensors", "half of");
  fs::create_directories(folder / "step-8");
  folder.write("step-8/weight.safetensors", "half of");
  EXPECT_EQ(newestCheckpoint(folder.path), std::nullopt);
  save(3);
  EXPECT_EQ(newestCheckpoint(folder.path), folder / "step-3");
  EXPECT_FALSE(fs::exists(folder / ".writing-9"));
}

TEST_F(Checkpoints, WhatDoesNotMatchIsNamed) {
  std::string saved = save(1);
  plan::Plan other = plan;
  other.parameters[0].name = "head";
  EXPECT_ERROR(loadCheckpoint(saved, other, place(), Wanted::all), "no parameter 'head'");
  other = plan;
  other.parameters[0].dims = {5, 6};
  EXPECT_ERROR(loadCheckpoint(saved, other, place(), Wanted::all),
               "'weight' is f32 [6, 5], and the plan wants f32 [5, 6]");
  other = plan;
  other.parameters[0].trainable = false;
  other.parameters.push_back(plan.parameters[0]);
  other.parameters[1].name = "new";
  EXPECT_FALSE(loadCheckpoint(saved, other, place(), Wanted::all).ok());
  folder.write("step-1/weight.safetensors", readFile(folder / "step-1/weight.safetensors").substr(0, 100));
  EXPECT_ERROR(loadCheckpoint(saved, plan, place(), Wanted::all), "weight.safetensors");
  folder.write("step-1/meta.json", "{\"format\": 99}");
  EXPECT_ERROR(readMeta(saved).status(), "format 99 is neither 1 nor 2");
  folder.write("step-1/meta.json", "{\"format\": 1, \"hyperparameters\": " + std::string(200000, '['));
  EXPECT_ERROR(readMeta(saved).status(), "meta.json: damaged: it nests deeper than 64 levels at line 1, column 97");
}

} // namespace
} // namespace mt::tests
