// Plan files: what is saved is loaded, and what is not a whole, current, undamaged plan is refused by name.
#include "runtime/plan/PlanFile.h"
#include "tests/plan/LinearPlan.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

namespace mt::plan {
namespace {

std::string pathOf(const std::string &name) { return testing::TempDir() + std::to_string(::getpid()) + name; }

std::string refusal(std::span<const std::byte> file) {
  Result<Plan> plan = deserialize(file, "plan.bin");
  EXPECT_FALSE(plan.ok());
  return plan.ok() ? "" : plan.status().message();
}

class PlanFile : public testing::TestWithParam<bool> {};

TEST_P(PlanFile, GivesBackWhatWasSaved) {
  Plan plan = tests::linearPlan(GetParam());
  std::string path = pathOf("saved.bin");
  ASSERT_EQ(save(plan, path).message(), "");
  Result<Plan> loaded = load(path);
  ASSERT_EQ(loaded.status().message(), "");
  EXPECT_EQ(loaded->digest, plan.digest);
  EXPECT_NE(plan.digest, 0u);
  ASSERT_EQ(loaded->parameters[0].aliases.size(), 2u);
  EXPECT_EQ(loaded->parameters[0].aliases[0].name, "linear.weight");
  EXPECT_EQ(loaded->parameters[0].aliases[0].kind, Alias::Kind::module);
  EXPECT_TRUE(loaded->parameters[0].aliases[1].transposed);
  EXPECT_EQ(loaded->parameters[0].initial.deviation, 0.5);
  EXPECT_EQ(loaded->inputs[1].parts, plan.inputs[1].parts);
  EXPECT_EQ(loaded->programs[0].commands.size(), plan.programs[0].commands.size());
  EXPECT_EQ(loaded->programs[0].commands.back().awaits, plan.programs[0].commands.back().awaits);
  // Serializing says every field: the same bytes mean that nothing was lost.
  EXPECT_EQ(serialize(*loaded), serialize(plan));
}
INSTANTIATE_TEST_SUITE_P(Targets, PlanFile, testing::Values(false, true),
                         [](const auto &info) { return info.param ? "unified" : "discrete"; });

TEST(PlanFileNames, MayBeNoText) {
  Plan plan = tests::linearPlan(true);
  plan.model.file = "/models/\xff.onnx";
  plan.templates[0].name = "node \xc4";
  std::vector<std::byte> file = serialize(plan);
  Result<Plan> loaded = deserialize(file, "plan.bin");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(loaded->model.file, plan.model.file);
  EXPECT_EQ(loaded->templates[0].name, plan.templates[0].name);
}

TEST(PlanFileRefusal, NamesVersions) {
  Plan plan = tests::linearPlan(true);
  std::vector<std::byte> file = serialize(plan);
  uint32_t version = kPlanVersion + 1;
  std::memcpy(file.data() + 8, &version, sizeof(version));
  EXPECT_NE(refusal(file).find("written by a newer mtc"), std::string::npos) << refusal(file);
  version = 0;
  std::memcpy(file.data() + 8, &version, sizeof(version));
  EXPECT_NE(refusal(file).find("written by an older mtc"), std::string::npos) << refusal(file);
}

TEST(PlanFileRefusal, NamesEveryFlippedByte) {
  Plan plan = tests::linearPlan(true);
  std::vector<std::byte> file = serialize(plan);
  for (size_t i = 32; i < file.size(); ++i) {
    file[i] ^= std::byte{0x10};
    ASSERT_NE(refusal(file).find("plan.bin: the plan is damaged: its checksum is"), std::string::npos) << i;
    file[i] ^= std::byte{0x10};
  }
  for (size_t i = 0; i < 32; ++i) {
    file[i] ^= std::byte{0x10};
    EXPECT_NE(refusal(file), "") << i;
    file[i] ^= std::byte{0x10};
  }
}

TEST(PlanFileRefusal, NamesTruncation) {
  Plan plan = tests::linearPlan(true);
  std::vector<std::byte> file = serialize(plan);
  for (size_t length : {size_t{0}, size_t{5}, size_t{31}, size_t{32}, file.size() / 2, file.size() - 1})
    EXPECT_NE(refusal(std::span(file).first(length)).find("the plan is truncated"), std::string::npos) << length;
  file.push_back(std::byte{0});
  EXPECT_NE(refusal(file).find("1 bytes too many"), std::string::npos);
}

TEST(PlanFileRefusal, NamesOtherFiles) {
  std::string text = "import torch\nthis is no plan, but long enough to have a header";
  EXPECT_NE(refusal(std::as_bytes(std::span(text))).find("plan.bin: not a plan"), std::string::npos);
  EXPECT_NE(load(pathOf("absent.bin")).status().message().find("absent.bin: cannot be opened"), std::string::npos);
  EXPECT_NE(load(testing::TempDir()).status().message().find("not a regular file"), std::string::npos);
}

TEST(PlanFileSave, LeavesNothingHalfWritten) {
  Plan plan = tests::linearPlan(true);
  std::string folder = pathOf("save-folder"), path = folder + "/plan.bin";
  std::filesystem::remove_all(folder);
  EXPECT_NE(save(plan, path).message().find("plan.bin: cannot be written"), std::string::npos);
  std::filesystem::create_directory(folder);
  ASSERT_TRUE(save(plan, path).ok());
  plan.programs[0].commands[1].templateIndex = 1000;
  EXPECT_FALSE(save(plan, path).ok());
  EXPECT_TRUE(load(path).ok());
  auto entries = std::filesystem::directory_iterator(folder);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

} // namespace
} // namespace mt::plan
