// Training end to end on a linear layer, against the same arithmetic written out here, and its neutrality: stopping,
// resuming, evaluating, checkpointing change no bit.
#include "runtime/train/Trainer.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/train/Checkpoint.h"
#include "runtime/train/Checksum.h"
#include "runtime/train/EvaluationRecord.h"
#include "runtime/train/Export.h"
#include "tests/plan/LinearPlan.h"
#include "tests/train/TestFiles.h"

#include <nlohmann/json.hpp>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

namespace mt::tests {
namespace {

using namespace train;
using nlohmann::json;

constexpr int64_t kRows = 40;

class Training : public testing::TestWithParam<bool> {
protected:
  Folder folder;
  std::vector<float> x, y;

  Training() {
    plan::Plan plan = linearPlan(GetParam());
    Status saved = plan::save(plan, folder / "plan.bin");
    EXPECT_TRUE(saved.ok()) << saved.message();
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < kRows * Linear::kIn; ++i)
      x.push_back(normal(random));
    for (int64_t i = 0; i < kRows * Linear::kOut; ++i)
      y.push_back(normal(random));
    writeData("data.npz", kRows);
  }
  void writeData(const std::string &name, int64_t rows) {
    Result<NpzWriter> writer = NpzWriter::create(folder / name);
    auto bytes = [&](const std::vector<float> &values, int64_t width) {
      return std::as_bytes(std::span(values).first(static_cast<size_t>(rows * width)));
    };
    EXPECT_TRUE(writer->add("x", DType::f32, Dims{rows, Linear::kIn}, bytes(x, Linear::kIn)).ok());
    EXPECT_TRUE(writer->add("labels", DType::f32, Dims{rows, Linear::kOut}, bytes(y, Linear::kOut)).ok());
    EXPECT_TRUE(writer->finish().ok());
  }
  TrainOptions options(const std::string &out, int64_t steps) {
    TrainOptions options;
    options.plan = folder / "plan.bin";
    options.data.paths = {folder / "data.npz"};
    options.out = folder / out;
    options.recipe.steps = steps;
    options.quiet = true;
    options.recipe.rate = 0.1;
    options.recipe.hyperparameters["momentum"] = 0.9;
    options.machine.threads = 2;
    return options;
  }
  void run(const TrainOptions &options) {
    Status status = train::train(options);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  std::vector<json> metrics(const std::string &out) {
    std::vector<json> lines;
    std::ifstream file(folder / (out + "/metrics.jsonl"));
    for (std::string line; std::getline(file, line);)
      lines.push_back(json::parse(line));
    return lines;
  }
  std::vector<std::string> losses(const std::string &out) {
    std::vector<std::string> all;
    for (const json &line : metrics(out))
      if (line.contains("loss"))
        all.push_back(line["loss"].dump() + " " + line["grad_norm"].dump());
    return all;
  }
  /// Changes a field of the checkpoint run/step-2 as a writer would; null: removes it.
  void changeMeta(const std::string &key, const json &value) {
    std::string path = folder / "run/step-2/meta.json";
    json meta = json::parse(readFile(path));
    meta.erase("checksum");
    meta[key] = value;
    if (value.is_null())
      meta.erase(key);
    std::string text = meta.dump();
    meta["checksum"] = checksumText(checksumOf(std::as_bytes(std::span(text))));
    std::ofstream(path) << meta;
  }
  std::string state(const std::string &out) {
    std::string newest = newestCheckpoint(folder / out).value_or("");
    return readFile(newest + "/weight.safetensors") + readFile(newest + "/first_moment.safetensors");
  }
};

TEST_P(Training, FollowsTheFormulas) {
  TrainOptions wanted = options("run", 7);
  wanted.recipe.shuffle = false;
  wanted.recipe.weightDecay = 0.01;
  wanted.saveGradients = folder / "gradients.npz";
  TrainOptions none = wanted;
  none.out = folder / "start";
  none.saveGradients.clear();
  none.recipe.steps = 1;
  none.recipe.rate = 0;
  run(none);
  run(wanted);
  Result<SafetensorsFile> start = SafetensorsFile::open(folder / "start/step-1/weight.safetensors");
  ASSERT_TRUE(start.ok()) << start.status().message();
  const auto *first = reinterpret_cast<const float *>(start->find("weight")->data.data());
  std::vector<double> weight(first, first + Linear::kIn * Linear::kOut), momentum(weight.size());

  std::vector<json> lines = metrics("run");
  ASSERT_EQ(lines.size(), 8u);
  EXPECT_EQ(lines[0]["parameters"], 30);
  EXPECT_FALSE(lines[0].contains("loss"));
  for (int step = 0; step < 7; ++step) {
    std::vector<double> gradient(weight.size());
    double loss = 0, valid = Linear::kBatch * Linear::kOut, norm = 0;
    for (int64_t b = 0; b < Linear::kBatch; ++b) {
      auto row = static_cast<size_t>((step * Linear::kBatch + b) % kRows);
      for (size_t o = 0; o < Linear::kOut; ++o) {
        double difference = -y[row * Linear::kOut + o];
        for (size_t i = 0; i < Linear::kIn; ++i)
          difference += x[row * Linear::kIn + i] * weight[i * Linear::kOut + o];
        loss += difference * difference / valid;
        for (size_t i = 0; i < Linear::kIn; ++i)
          gradient[i * Linear::kOut + o] += 2 * difference / valid * x[row * Linear::kIn + i];
      }
    }
    if (step == 0) {
      Result<NpzFile> saved = NpzFile::open(folder / "gradients.npz");
      ASSERT_TRUE(saved.ok()) << saved.status().message();
      ASSERT_TRUE(saved->find("weight"));
      const auto *values = reinterpret_cast<const float *>(saved->find("weight")->data.data());
      for (size_t i = 0; i < gradient.size(); ++i)
        EXPECT_NEAR(values[i], gradient[i], 1e-6);
    }
    for (size_t i = 0; i < weight.size(); ++i) {
      norm += gradient[i] * gradient[i];
      momentum[i] = 0.9 * momentum[i] + gradient[i] + 0.01 * weight[i];
      weight[i] -= 0.1 * momentum[i];
    }
    const json &line = lines[static_cast<size_t>(step) + 1];
    EXPECT_EQ(line["step"], step + 1);
    EXPECT_EQ(line["epoch"], step / 5);
    EXPECT_EQ(line["tokens"], Linear::kBatch * Linear::kOut);
    EXPECT_NEAR(line["loss"].get<double>(), loss, 1e-5);
    EXPECT_NEAR(line["grad_norm"].get<double>(), std::sqrt(norm), 1e-5);
    EXPECT_GT(line["host_bytes"].get<uint64_t>(), 0u);
  }
}

TEST_P(Training, ResumingChangesNoBit) {
  run(options("whole", 11));
  TrainOptions parts = options("parts", 4);
  run(parts);
  parts.recipe.steps = 11;
  parts.resume = true;
  run(parts);
  EXPECT_EQ(losses("parts"), losses("whole"));
  EXPECT_EQ(losses("parts").size(), 11u);
  EXPECT_EQ(state("parts"), state("whole"));
  run(parts); // nothing is left to do
  EXPECT_EQ(state("parts"), state("whole"));
  EXPECT_EQ(losses("parts").size(), 11u);
}

TEST_P(Training, AFolderThatHoldsARunIsKept) {
  run(options("run", 3));
  std::string before = state("run");
  TrainOptions again = options("run", 2);
  EXPECT_ERROR(train::train(again), "/run: it holds a run (");
  EXPECT_EQ(state("run"), before);
  EXPECT_EQ(losses("run").size(), 3u);
  again.overwrite = true;
  run(again);
  EXPECT_EQ(losses("run").size(), 2u);
  EXPECT_EQ(newestCheckpoint(folder / "run"), folder / "run/step-2");
  EXPECT_TRUE(std::filesystem::exists(folder / "run/step-3")) << "checkpoints of another run are not pruned";
}

TEST_P(Training, ResumesAtStepZeroWhereNothingIs) {
  TrainOptions wanted = options("run", 3);
  wanted.resume = true;
  wanted.quiet = false;
  testing::internal::CaptureStdout();
  run(wanted);
  EXPECT_NE(testing::internal::GetCapturedStdout().find("has no checkpoint yet: starting at step 0"), std::string::npos);
  run(options("whole", 3));
  EXPECT_EQ(state("run"), state("whole"));
}

TEST_P(Training, TheStoredRecipeIsAdopted) {
  TrainOptions wanted = options("whole", 9);
  wanted.recipe.schedule = "cosine";
  wanted.recipe.warmup = 2;
  wanted.recipe.leastRate = 0.01;
  wanted.recipe.weightDecay = 0.1;
  wanted.recipe.decayAll = true;
  wanted.recipe.seed = 5;
  run(wanted);
  wanted.out = folder / "parts";
  wanted.checkpointEvery = 4;
  run(wanted);
  std::filesystem::remove_all(folder / "parts/step-9");
  TrainOptions resumed = options("parts", 9);
  resumed.recipe = {}; // nothing is said
  resumed.resume = true;
  run(resumed);
  EXPECT_EQ(losses("parts"), losses("whole"));
  EXPECT_EQ(state("parts"), state("whole"));
}

TEST_P(Training, ADecayFollowsTheStepsUnlessItIsSaid) {
  auto rates = [&](const std::string &out) {
    std::vector<double> all;
    for (const json &line : metrics(out))
      if (line.contains("lr"))
        all.push_back(line["lr"]);
    return all;
  };
  for (std::optional<int64_t> decay : {std::optional<int64_t>(), std::optional<int64_t>(4)}) {
    const std::string name = decay ? "said" : "usual";
    TrainOptions wanted = options(name, 5);
    wanted.recipe.schedule = "wsd";
    wanted.recipe.decaySteps = decay;
    wanted.recipe.decayShape = "linear";
    wanted.checkpointEvery = 1;
    run(wanted);
    std::filesystem::remove_all(folder / (name + "/step-5")); // as if it had been stopped in the decay
    TrainOptions resumed = options(name, 10);
    resumed.recipe = {};
    resumed.recipe.steps = 10;
    resumed.resume = true;
    run(resumed);
    wanted.out = folder / (name + "-whole");
    wanted.recipe.steps = 10;
    run(wanted);
    std::vector<double> got = rates(name), whole = rates(name + "-whole");
    ASSERT_EQ(got.size(), 10u);
    EXPECT_TRUE(std::equal(got.begin() + 4, got.end(), whole.begin() + 4));
    EXPECT_EQ(whole.at(7), decay ? 0.1 - 0.1 / 4 : 0.1);
    EXPECT_EQ(whole.at(9), decay ? 0.1 / 4 : 0.1 / 2);
  }
}

TEST_P(Training, WhatTheCommandLineChangesIsPrinted) {
  run(options("run", 3));
  TrainOptions resumed = options("run", 5);
  resumed.resume = true;
  resumed.quiet = false;
  resumed.recipe.rate = 0.05;
  resumed.recipe.shuffle = false;
  resumed.recipe.hyperparameters["momentum"] = 0.9; // as it was
  testing::internal::CaptureStdout();
  run(resumed);
  std::string printed = testing::internal::GetCapturedStdout();
  EXPECT_NE(printed.find("the command line changes the recipe: --steps 5 (was 3), --lr 0.05 (was 0.1), --shuffle off (was on)\n"),
            std::string::npos)
      << printed;
}

TEST_P(Training, OtherDataAreSaid) {
  run(options("run", 3));
  x[0] += 1;
  writeData("data.npz", kRows);
  TrainOptions resumed = options("run", 5);
  resumed.resume = true;
  testing::internal::CaptureStderr();
  run(resumed);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("was trained on other data than --data"), std::string::npos);
}

TEST_P(Training, AFlippedBitIsNamedAndTheCheckpointBeforeItUsed) {
  run(options("whole", 6));
  TrainOptions wanted = options("run", 6);
  wanted.checkpointEvery = 3;
  run(wanted);
  std::string weights = readFile(folder / "run/step-6/weight.safetensors");
  weights[weights.size() - 7] ^= 1;
  std::ofstream(folder / "run/step-6/weight.safetensors", std::ios::binary) << weights;
  wanted.resume = true;
  testing::internal::CaptureStderr();
  run(wanted);
  std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("step-6/weight.safetensors: parameter 'weight': its checksum is wrong"), std::string::npos) << said;
  EXPECT_TRUE(std::filesystem::exists(folder / "run/damaged-step-6"));
  EXPECT_EQ(losses("run"), losses("whole"));
  EXPECT_EQ(state("run"), state("whole"));
}

TEST_P(Training, ACheckpointOfAnOlderVersionIsGoneOnWith) {
  run(options("whole", 6));
  run(options("run", 3));
  std::string path = folder / "run/step-3/meta.json";
  json meta = json::parse(readFile(path)), old = {{"format", 1}, {"hyperparameters", meta["recipe"]}, {"seed", 0}, {"shuffle", true}};
  for (const char *key : {"order", "step", "epoch", "position", "rows", "batch", "micro_batch", "sequence", "precision",
                          "optimizer", "plan", "model_file"})
    old[key] = meta[key];
  std::ofstream(path) << old;
  TrainOptions resumed = options("run", 6);
  resumed.resume = true;
  run(resumed);
  EXPECT_EQ(losses("run"), losses("whole"));
  EXPECT_EQ(state("run"), state("whole"));
}

TEST_P(Training, MetricsThatCannotBeWrittenDoNotEndTheRun) {
  run(options("whole", 4));
  TrainOptions wanted = options("run", 4);
  wanted.metrics = "/dev/full";
  testing::internal::CaptureStderr();
  Status status = train::train(wanted);
  std::string said = testing::internal::GetCapturedStderr();
  EXPECT_ERROR(status, "--metrics /dev/full: No space left on device") << "seen at the start, it is an error";
  EXPECT_FALSE(std::filesystem::exists(folder / "run/step-4"));
}

/// The same layer with its master in two halves.
class SplitTraining : public Training {
protected:
  SplitTraining() {
    plan::Plan plan = linearPlan(GetParam(), true);
    Status saved = plan::save(plan, folder / "plan.bin");
    EXPECT_TRUE(saved.ok()) << saved.message();
  }
  std::vector<float> weights(const std::string &out) {
    Result<SafetensorsFile> file = SafetensorsFile::open(*newestCheckpoint(folder / out) + "/weight.safetensors");
    EXPECT_EQ(file->find("weight")->type, DType::f32);
    std::vector<float> values(30);
    std::memcpy(values.data(), file->find("weight")->data.data(), sizeof(float) * values.size());
    return values;
  }
};

TEST_P(SplitTraining, ResumingChangesNoBitOfTheMaster) {
  TrainOptions whole = options("whole", 11), parts = options("parts", 4);
  whole.recipe.rate = parts.recipe.rate = 1e-3; // steps smaller than an ulp of bf16
  whole.saveGradients = folder / "gradients.npz";
  run(whole);
  run(parts);
  parts.recipe.steps = 11;
  parts.resume = true;
  run(parts);
  EXPECT_EQ(losses("parts"), losses("whole"));
  EXPECT_EQ(state("parts"), state("whole"));
  int inBf16 = 0;
  for (float value : weights("whole"))
    inBf16 += (std::bit_cast<uint32_t>(value) & 0xffff) == 0;
  EXPECT_LT(inBf16, 3);
  ASSERT_TRUE(exportWeights({folder / "whole", folder / "whole.npz", ""}).ok());
  Result<NpzFile> exported = NpzFile::open(folder / "whole.npz");
  EXPECT_EQ(std::memcmp(exported->find("weight")->data.data(), weights("whole").data(), 120), 0);
  EXPECT_EQ(NpzFile::open(folder / "gradients.npz")->find("weight")->type, DType::f32);
}

TEST_P(SplitTraining, EvaluationOfACheckpointIsThatOfTheRun) {
  TrainOptions wanted = options("run", 5);
  wanted.evalData = {folder / "data.npz"};
  run(wanted);
  testing::internal::CaptureStdout();
  Status status = evaluate({folder / "plan.bin", {{folder / "data.npz"}, ""}, {}, folder / "run"});
  std::string printed = testing::internal::GetCapturedStdout();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_NE(printed.find(fmt::format("loss {:.6f}", metrics("run").back()["eval_loss"].get<double>())), std::string::npos)
      << printed;
}

TEST_P(Training, EvaluatingAndCheckpointingChangeNoBit) {
  run(options("plain", 10));
  TrainOptions busy = options("busy", 10);
  busy.evalData = {folder / "data.npz"};
  busy.evalEvery = 1;
  busy.checkpointEvery = 3;
  busy.machine.jitter = 4;
  busy.machine.poison = true;
  busy.machine.trace = folder / "trace.json";
  busy.tensorboard = folder / "board";
  run(busy);
  EXPECT_EQ(losses("busy"), losses("plain"));
  EXPECT_EQ(state("busy"), state("plain"));
  EXPECT_TRUE(std::filesystem::exists(folder / "busy/step-9"));
  EXPECT_FALSE(std::filesystem::exists(folder / "busy/step-6"));
  int evaluations = 0;
  for (const json &line : metrics("busy"))
    evaluations += line.contains("eval_loss");
  EXPECT_EQ(evaluations, 10);
  EXPECT_TRUE(json::parse(readFile(folder / "trace.json"), nullptr, false).is_object());
}

TEST_P(Training, CheckpointsBesideTrainingAreThoseAtRest) {
  TrainOptions beside = options("beside", 10), rest = options("rest", 10);
  for (TrainOptions *wanted : {&beside, &rest}) {
    wanted->checkpointEvery = 3;
    wanted->keep = 9;
    wanted->quiet = false;
  }
  rest.checkpointCopy = false;
  testing::internal::CaptureStdout();
  run(beside);
  EXPECT_NE(testing::internal::GetCapturedStdout().find("checkpoints are written beside training, from a copy of the state of "),
            std::string::npos);
  testing::internal::CaptureStdout();
  run(rest);
  EXPECT_EQ(testing::internal::GetCapturedStdout().find("beside training"), std::string::npos);
  for (int step : {3, 6, 9, 10}) {
    std::string one = fmt::format("{}/beside/step-{}", folder.path, step), other = fmt::format("{}/rest/step-{}", folder.path, step);
    for (const char *file : {"/weight.safetensors", "/first_moment.safetensors"})
      EXPECT_EQ(readFile(one + file), readFile(other + file)) << step;
    json about = json::parse(readFile(one + "/meta.json")), otherAbout = json::parse(readFile(other + "/meta.json"));
    for (const char *key : {"run", "checksum"})
      about[key] = otherAbout[key];
    EXPECT_EQ(about, otherAbout);
  }
  for (const char *name : {"beside", "rest"}) // from step 6, which was written beside training in one of them
    for (int step : {9, 10})
      std::filesystem::remove_all(fmt::format("{}/{}/step-{}", folder.path, name, step));
  beside.resume = rest.resume = true;
  run(beside);
  run(rest);
  run(options("whole", 10));
  for (const char *name : {"beside", "rest"}) {
    EXPECT_EQ(losses(name), losses("whole"));
    EXPECT_EQ(state(name), state("whole"));
  }
}

TEST_P(Training, WritesNoCheckpointWhereNoneIsKept) {
  run(options("plain", 4));
  TrainOptions bare = options("bare", 4);
  bare.keep = 0;
  bare.checkpointEvery = 2;
  run(bare);
  EXPECT_FALSE(newestCheckpoint(folder / "bare"));
  EXPECT_EQ(losses("bare"), losses("plain"));
}

TEST_P(Training, EvaluationOfACheckpointIsThatOfTheRun) {
  TrainOptions wanted = options("run", 5);
  wanted.evalData = {folder / "data.npz"};
  run(wanted);
  testing::internal::CaptureStdout();
  EvalOptions eval{folder / "plan.bin", {{folder / "data.npz"}, ""}, {}, folder / "run"};
  Status status = evaluate(eval);
  std::string printed = testing::internal::GetCapturedStdout();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_NE(printed.find(fmt::format("loss {:.6f}", metrics("run").back()["eval_loss"].get<double>())),
            std::string::npos)
      << printed;
}

TEST_P(Training, ADryRunLeavesNothing) {
  TrainOptions dry = options("run", 5);
  dry.dryRun = true;
  testing::internal::CaptureStdout();
  Status status = train::train(dry);
  std::string printed = testing::internal::GetCapturedStdout();
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_NE(printed.find("40 rows, 5 steps an epoch; this run takes 5 steps"), std::string::npos) << printed;
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
  dry.data.paths.clear();
  EXPECT_TRUE(train::train(dry).ok());
}

TEST_P(Training, WhatIsWrongIsSaidBeforeAnythingIsWritten) {
  auto refusal = [&](auto change) {
    TrainOptions changed = options("refused", 5);
    change(changed);
    return train::train(changed);
  };
  EXPECT_ERROR(refusal([](auto &o) { o.recipe.clipNorm = 1.0; }),
               "--clip-norm 1: the plan is not compiled for clipping");
  EXPECT_ERROR(
      refusal([](auto &o) { o.recipe.skipNonFinite = true; }),
      "--non-finite skip: the plan updates weights before the whole gradient is known: compile it with --clip");
  EXPECT_ERROR(refusal([](auto &o) { o.recipe.hyperparameters["beta1"] = 0.5; }),
               "is of adamw or lion, and the plan's optimizer is sgd");
  EXPECT_ERROR(refusal([](auto &o) {
                 o.recipe.leastRate = 1;
                 o.recipe.schedule = "linear";
               }),
               "--min-lr 1 is above --lr 0.1");
  EXPECT_ERROR(refusal([](auto &o) { o.recipe.leastRate = 0.01; }),
               "--min-lr: --lr-schedule constant does not read it");
  EXPECT_ERROR(refusal([](auto &o) { o.machine.device = "cuda:99"; }), "--device cuda:99: ");
  EXPECT_ERROR(refusal([](auto &o) { o.machine.device = "abacus"; }), "there are cpu, cuda and cuda:N");
  EXPECT_ERROR(refusal([](auto &o) { o.plan += ".gone"; }), "plan.bin.gone");
  EXPECT_ERROR(refusal([](auto &o) { o.out = "/proc/nowhere/run"; }), "--out /proc/nowhere/run");
  EXPECT_ERROR(refusal([](auto &o) { o.metrics = "/proc/nowhere/m.jsonl"; }), "--metrics /proc/nowhere/m.jsonl");
  EXPECT_FALSE(refusal([](auto &o) { o.saveGradients = "/proc/nowhere/g.npz"; }).ok());
  writeData("few.npz", 7);
  EXPECT_ERROR(refusal([&](auto &o) { o.data.paths = {folder / "few.npz"}; }), "7 rows, and a step takes 8");
  EXPECT_ERROR(refusal([&](auto &o) { o.evalData = {folder / "few.npz"}; }), "cannot be padded");
}

TEST_P(Training, AnotherKindOfRunIsNotResumed) {
  run(options("run", 2));
  plan::Plan other = linearPlan(GetParam());
  other.settings.precision = "bf16";
  ASSERT_TRUE(plan::save(other, folder / "other.bin").ok());
  TrainOptions resumed = options("run", 4);
  resumed.resume = true;
  resumed.plan = folder / "other.bin";
  EXPECT_ERROR(train::train(resumed), "was trained with precision fp32, and the plan has bf16");
}

TEST_P(Training, AnotherSequenceOrLossIsNotResumed) {
  run(options("run", 2));
  TrainOptions resumed = options("run", 4);
  resumed.resume = true;
  resumed.plan = folder / "other.bin";
  plan::Plan other = linearPlan(GetParam());
  other.settings.sequence = 64;
  ASSERT_TRUE(plan::save(other, folder / "other.bin").ok());
  EXPECT_ERROR(train::train(resumed), "was trained with sequence");
  other = linearPlan(GetParam());
  other.settings.loss = "another";
  ASSERT_TRUE(plan::save(other, folder / "other.bin").ok());
  EXPECT_ERROR(train::train(resumed), "compile a plan with the same loss");
}

TEST_P(Training, AnotherGraphIsNotResumed) {
  run(options("run", 2));
  plan::Plan other = linearPlan(GetParam());
  other.model.digest = 8;
  other.model.file = "/new.onnx";
  ASSERT_TRUE(plan::save(other, folder / "other.bin").ok());
  TrainOptions resumed = options("run", 4);
  resumed.resume = true;
  resumed.plan = folder / "other.bin";
  EXPECT_ERROR(train::train(resumed), "step-2 was trained on another graph (");
  EXPECT_ERROR(train::train(resumed), ") than the plan has (/new.onnx): compile a plan of that model; or, to take its weights "
                                      "over, start a new run from what mtrun export with --model /new.onnx writes");
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  EXPECT_TRUE(evaluate({folder / "other.bin", {{folder / "data.npz"}, ""}, {}, folder / "run"}).ok()) << "weights fit";
  testing::internal::GetCapturedStdout();
  EXPECT_NE(testing::internal::GetCapturedStderr().find("was trained on another graph"), std::string::npos);
}

TEST_P(Training, OtherFrozenWeightsAreNotResumed) {
  run(options("run", 2));
  changeMeta("frozen_weights", "0123456789abcdef");
  TrainOptions resumed = options("run", 4);
  resumed.resume = true;
  EXPECT_ERROR(train::train(resumed), "--resume: " + folder.path + "/run/step-2 was trained beside other frozen weights than the "
                                      "plan's files hold now: bring those back");
}

TEST_P(Training, WhatACheckpointDoesNotSayIsSaid) {
  run(options("run", 2));
  for (const char *key : {"graph", "frozen_weights", "corpus"})
    changeMeta(key, nullptr);
  TrainOptions resumed = options("run", 4);
  resumed.resume = true;
  testing::internal::CaptureStderr();
  run(resumed);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("is of an older version: it does not say which graph, frozen weights and "
                                                        "data it was trained with"),
            std::string::npos);
}

TEST_P(Training, ARateBelowTheStoredLeastIsSaidAsWhatItIs) {
  TrainOptions wanted = options("run", 2);
  wanted.recipe.schedule = "linear";
  wanted.recipe.leastRate = 0.01;
  run(wanted);
  TrainOptions resumed = options("run", 4);
  resumed.resume = true;
  resumed.recipe.rate = 0.001;
  EXPECT_EQ(train::train(resumed).message(),
            "--lr 0.001 is below the run's least rate, 0.01, which stays unless said otherwise: say --min-lr too");
  resumed.recipe.rate.reset();
  resumed.recipe.leastRate = 1;
  EXPECT_EQ(train::train(resumed).message(),
            "--min-lr 1 is above the run's rate, 0.1, which stays unless said otherwise: say --lr too");
}

TEST_P(Training, MetricsOfAnotherRunAreKept) {
  TrainOptions first = options("one", 3), second = options("two", 2);
  first.metrics = second.metrics = folder / "metrics.jsonl";
  run(first);
  std::string before = readFile(folder / "metrics.jsonl");
  run(second);
  EXPECT_EQ(readFile(folder / "metrics.jsonl.1"), before);
  EXPECT_NE(readFile(folder / "metrics.jsonl"), before);
  first.resume = true;
  first.recipe.steps = 5;
  run(first);
  EXPECT_EQ(readFile(folder / "metrics.jsonl.1"), before);
  EXPECT_TRUE(std::filesystem::exists(folder / "metrics.jsonl.2"));
  folder.write("metrics.jsonl", before); // its own
  first.recipe.steps = 7;
  run(first);
  std::string own = readFile(folder / "metrics.jsonl");
  EXPECT_EQ(own.substr(0, before.size()), before);
  EXPECT_FALSE(std::filesystem::exists(folder / "metrics.jsonl.3"));
  folder.write("metrics.jsonl", "a letter\n");
  second.out = folder / "three";
  EXPECT_EQ(train::train(second).message(), "--metrics " + folder.path + "/metrics.jsonl: the file is no record of a run, and would be "
                                            "written over: choose another, or replace it with --overwrite");
  EXPECT_EQ(readFile(folder / "metrics.jsonl"), "a letter\n");
  EXPECT_FALSE(std::filesystem::exists(folder / "three/run.json"));
  second.overwrite = true;
  run(second);
  EXPECT_NE(readFile(folder / "metrics.jsonl"), "a letter\n");
}

TEST_P(Training, MetricsOfARunThatBeginsAgainAtStepZeroStartAnew) {
  TrainOptions wanted = options("run", 3);
  wanted.metrics = folder / "metrics.jsonl";
  wanted.resume = true;
  run(wanted);
  std::filesystem::remove_all(folder / "run/step-3"); // as if it had been killed before
  run(wanted);
  std::string lines = readFile(folder / "metrics.jsonl");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 4);
}

TEST_P(Training, AnotherProcessorIsSaidAndLostClippingRefused) {
  run(options("run", 2));
  TrainOptions resumed = options("run", 3);
  resumed.resume = true;
  changeMeta("clip", true);
  EXPECT_ERROR(train::train(resumed), "was trained with clipping, and the plan has none: compile it with --clip");
  changeMeta("clip", false);
  changeMeta("numerics", "ABACUS");
  testing::internal::CaptureStderr();
  run(resumed);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("was trained with other kernels (ABACUS; here: "), std::string::npos);
}

TEST_P(Training, ANumberThatIsNotFiniteStopsTheRunAndKeepsWhatWasThere) {
  run(options("run", 2));
  std::string before = state("run");
  x[3] = std::numeric_limits<float>::infinity();
  writeData("data.npz", kRows);
  TrainOptions resumed = options("run", 40);
  resumed.resume = true;
  EXPECT_FALSE(train::train(resumed).ok());
  EXPECT_EQ(state("run"), before);
}

TEST_P(Training, ALossThatStandsOutIsNoted) {
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  constexpr int64_t kSteps = 60, kBad = 56, kMany = kSteps * Linear::kBatch;
  for (auto [values, width] : {std::pair(&x, Linear::kIn), std::pair(&y, Linear::kOut)})
    while (values->size() < static_cast<size_t>(kMany * width))
      values->push_back(normal(random));
  y[static_cast<size_t>((kBad - 1) * Linear::kBatch * Linear::kOut)] = 1000;
  writeData("data.npz", kMany);
  auto notes = [&](const std::string &out) {
    std::vector<json> all;
    for (const json &line : metrics(out))
      if (line.contains("note"))
        all.push_back(line);
    return all;
  };
  TrainOptions wanted = options("whole", kSteps);
  wanted.recipe.shuffle = false;
  wanted.recipe.rate = 0.001;
  testing::internal::CaptureStderr();
  run(wanted);
  EXPECT_NE(testing::internal::GetCapturedStderr().find(fmt::format("warning: step {}: loss spike: ", kBad)),
            std::string::npos);
  const std::vector<json> noted = notes("whole");
  ASSERT_EQ(noted.size(), 1u);
  EXPECT_EQ(noted[0]["step"], kBad);
  EXPECT_TRUE(noted[0]["note"].get<std::string>().starts_with("loss spike: 2.495e+04, usually 2.")) << noted[0];
  for (bool forgets : {false, true}) { // where there are no metrics, nothing is known of the steps before
    wanted.out = folder / (forgets ? "forgets" : "parts");
    wanted.resume = false;
    wanted.recipe.steps = 40;
    run(wanted);
    if (forgets)
      std::filesystem::remove(wanted.out + "/metrics.jsonl");
    wanted.resume = true;
    wanted.recipe.steps = kSteps;
    run(wanted);
    EXPECT_EQ(notes(forgets ? "forgets" : "parts"), forgets ? std::vector<json>() : noted);
  }
}

/// Evaluations of a run on other rows than it is trained on.
class Evaluated : public Training {
protected:
  TrainOptions evaluated(const std::string &out) {
    TrainOptions wanted = options(out, 40);
    wanted.data.paths = {folder / "few.npz"};
    wanted.evalData = {folder / "data.npz"};
    wanted.evalEvery = 2;
    wanted.checkpointEvery = 1;
    wanted.keep = 99;
    wanted.recipe.rate = 0.05;
    return wanted;
  }
  Evaluated() { writeData("few.npz", 8); }
  std::map<int64_t, double> evaluations(const std::string &out) {
    std::map<int64_t, double> all;
    for (const json &line : metrics(out))
      EXPECT_TRUE(!line.contains("eval_loss") || all.emplace(line["step"], line["eval_loss"]).second)
          << "twice: " << line;
    return all;
  }
  /// Where the least loss is and where a run ends that has so much patience.
  static std::pair<int64_t, int64_t> endOf(const std::map<int64_t, double> &losses, int64_t patience) {
    int64_t best = 0, worse = 0;
    for (auto [step, loss] : losses) {
      worse = best == 0 || loss < losses.at(best) ? 0 : worse + 1;
      best = worse == 0 ? step : best;
      if (worse == patience)
        return {best, step};
    }
    return {best, 0};
  }
  bool has(const std::string &checkpoint) { return std::filesystem::exists(folder / checkpoint); }
};

TEST_P(Evaluated, PatienceEndsARunAtTheSameStepWhereverItGoesOn) {
  run(evaluated("whole"));
  auto [best, end] = endOf(evaluations("whole"), 3);
  ASSERT_GT(best, 2);
  ASSERT_TRUE(end > best && end < 40) << end;
  TrainOptions wanted = evaluated("run");
  wanted.patience = 3;
  wanted.quiet = false;
  testing::internal::CaptureStdout();
  run(wanted);
  std::string printed = testing::internal::GetCapturedStdout();
  EXPECT_NE(printed.find(fmt::format(
                "stopped after step {} of 40: 3 evaluations in a row were no better than {:.4f}, of step {} "
                "(whose checkpoint --keep-best keeps); checkpoint {}/run/step-{}\n",
                end, evaluations("whole").at(best), best, folder.path, end)),
            std::string::npos)
      << printed;
  const std::vector<std::string> wholeLosses = losses("run");
  const std::map<int64_t, double> wholeEvaluations = evaluations("run");
  const std::string wholeState = state("run");
  EXPECT_EQ(wholeEvaluations.rbegin()->first, end);
  wanted.quiet = true;
  wanted.resume = true;
  for (int64_t step : {end, end - 1, end - 2, end - 3, best, best - 1})
    for (bool unnoted : {false, true}) {
      SCOPED_TRACE(fmt::format("from step {}{}", step, unnoted ? ", killed before its evaluation was noted" : ""));
      for (int64_t later = step + 1; later <= end; ++later)
        std::filesystem::remove_all(folder / fmt::format("run/step-{}", later));
      const std::string at = folder / fmt::format("run/step-{}", step);
      if (unnoted) {
        json before = readMeta(folder / fmt::format("run/step-{}", step - 1))->evaluations;
        ASSERT_TRUE(recordEvaluations(at, before, {99}).ok());
      }
      run(wanted);
      EXPECT_EQ(losses("run"), wholeLosses);
      EXPECT_EQ(evaluations("run"), wholeEvaluations);
      EXPECT_EQ(state("run"), wholeState);
      EXPECT_EQ(newestCheckpoint(folder / "run"), folder / fmt::format("run/step-{}", end));
    }
  wanted.patience = 0;
  run(wanted);
  EXPECT_EQ(losses("run"), losses("whole"));
  EXPECT_EQ(evaluations("run"), evaluations("whole"));
}

TEST_P(Evaluated, TheBestIsKeptAndFound) {
  run(evaluated("whole"));
  auto [best, end] = endOf(evaluations("whole"), 3);
  for (int64_t every : {0, 3}) { // checkpoints at steps of evaluations, and at others
    const std::string name = fmt::format("every-{}", every);
    TrainOptions wanted = evaluated(name);
    wanted.checkpointEvery = every;
    wanted.keep = 1;
    wanted.keepBest = true;
    run(wanted);
    EXPECT_TRUE(has(fmt::format("{}/step-{}", name, best)));
    EXPECT_TRUE(has(name + "/step-40"));
    for (int64_t step = 1; step < 40; ++step)
      EXPECT_TRUE(step == best || !has(fmt::format("{}/step-{}", name, step))) << step;
    EXPECT_EQ(losses(name), losses("whole"));
    EXPECT_EQ(evaluations(name), evaluations("whole"));
    testing::internal::CaptureStdout();
    Status status = evaluate({folder / "plan.bin", {{folder / "data.npz"}, ""}, {}, folder / name, false, false, true});
    std::string printed = testing::internal::GetCapturedStdout();
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_NE(printed.find(fmt::format("loss {:.6f}", evaluations("whole").at(best))), std::string::npos) << printed;
    ASSERT_TRUE(
        exportWeights({.from = folder / name, .output = folder / (name + ".npz"), .model = "", .best = true}).ok());
    ASSERT_TRUE(
        exportWeights({.from = folder / fmt::format("whole/step-{}", best), .output = folder / "best.npz", .model = ""})
            .ok());
    EXPECT_EQ(readFile(folder / (name + ".npz")), readFile(folder / "best.npz"));
  }
}

/// The last step's evaluation comes after its checkpoint, which then knows it.
TEST_P(Evaluated, TheLastMayBeTheBest) {
  run(evaluated("whole"));
  auto [best, end] = endOf(evaluations("whole"), 3);
  TrainOptions wanted = evaluated("run");
  wanted.recipe.steps = best;
  wanted.evalEvery = wanted.checkpointEvery = 0;
  wanted.keepBest = true;
  wanted.quiet = false;
  testing::internal::CaptureStdout();
  run(wanted);
  EXPECT_NE(testing::internal::GetCapturedStdout().find(
                fmt::format("the best evaluation is {:.4f}, of step {}: mtrun export {} --best -o FILE\n",
                            evaluations("whole").at(best), best, folder / "run")),
            std::string::npos);
  wanted.quiet = true;
  wanted.resume = true;
  run(wanted); // nothing is left to do, nor to be evaluated
  EXPECT_EQ(evaluations("run").size(), 1u);
  wanted.recipe.steps = end;
  run(wanted);
  std::string used;
  ASSERT_TRUE(
      withBest(folder / "run", [&](const FoundCheckpoint &found) { return used = found.folder, Status(); }).ok());
  EXPECT_EQ(used, folder / fmt::format("run/step-{}", best));
}

/// What is evaluated on other data begins anew: its losses do not compare.
TEST_P(Evaluated, OtherDataBeginAnew) {
  TrainOptions wanted = evaluated("run");
  wanted.evalData = {folder / "few.npz"};
  wanted.recipe.steps = 10;
  run(wanted);
  const double before = evaluations("run").at(10);
  wanted.evalData = {folder / "data.npz"}; // with a larger loss
  wanted.recipe.steps = 12;
  wanted.resume = true;
  run(wanted);
  EXPECT_EQ(evaluations("run").size(), 6u);
  EXPECT_GT(evaluations("run").at(10), before) << "it is made again";
  EvaluationRecord record = *EvaluationRecord::read(readMeta(folder / "run/step-12")->evaluations);
  EXPECT_GE(record.bestStep, 10);
  EXPECT_EQ(record.bestLoss, std::min(evaluations("run").at(10), evaluations("run").at(12)));
}

INSTANTIATE_TEST_SUITE_P(Plans, Training, testing::Bool(),
                         [](const auto &info) { return info.param ? "unified" : "discrete"; });
INSTANTIATE_TEST_SUITE_P(Plans, Evaluated, testing::Bool(),
                         [](const auto &info) { return info.param ? "unified" : "discrete"; });
INSTANTIATE_TEST_SUITE_P(Plans, SplitTraining, testing::Bool(),
                         [](const auto &info) { return info.param ? "unified" : "discrete"; });

} // namespace
} // namespace mt::tests
