#include "compiler/target/Target.h"
#include "compiler/target/CostModel.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace mt::target {
namespace {

Target h200() { return *findTarget("h200"); }

TEST(Target, BuiltinsAreSound) {
  const std::vector<std::string> names = targetNames();
  EXPECT_EQ(names, (std::vector<std::string>{"cpu", "cpu-discrete", "h200", "h100", "a100-80gb", "rtx-4090", "rtx-3090",
                                             "rtx-3080"}));
  for (const std::string &name : names) {
    const auto target = findTarget(name);
    ASSERT_TRUE(target.ok());
    EXPECT_EQ(target->name, name);
    EXPECT_EQ(checkTarget(*target).message(), "");
    EXPECT_EQ(target->unified, name == "cpu");
  }
}

TEST(Target, UnknownNameListsWhatThereIs) {
  const auto target = findTarget("h900");
  ASSERT_FALSE(target.ok());
  EXPECT_EQ(target.status().message(),
            "'h900' is neither a target nor a file: use one of cpu, cpu-discrete, h200, h100, "
            "a100-80gb, rtx-4090, rtx-3090, rtx-3080, or a JSON file as `mtrun probe -o` "
            "writes it");
}

TEST(Target, JsonRoundTrip) {
  for (const std::string &name : targetNames()) {
    const Target target = *findTarget(name);
    const auto again = parseTarget(printTarget(target), "x.json");
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(printTarget(*again), printTarget(target));
  }
}

TEST(Target, WhatElseWasMeasuredChangesNothing) {
  std::string json = printTarget(h200());
  const auto with = [&](const std::string &value) {
    return parseTarget(json.substr(0, json.rfind('}')) + ", \"measured\": " + value + "}", "x.json");
  };
  const auto target = with("{\"updates_per_second\": 1e9, \"anything\": []}");
  ASSERT_TRUE(target.ok()) << target.status().message();
  EXPECT_EQ(printTarget(*target), json);
  EXPECT_EQ(with("5").status().message(), "x.json: measured is 5; it must be an object");
}

TEST(Target, FilesAreFoundByPath) {
  const std::string path = testing::TempDir() + std::to_string(::getpid()) + "target-test.json";
  Target target = h200();
  target.name = "mine";
  std::ofstream(path) << printTarget(target);
  const auto found = findTarget(path);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->name, "mine");
  std::remove(path.c_str());
}

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Target, BadFilesAreRefusedWithTheField) {
  const std::string good = printTarget(h200());
  const auto messageOf = [](const std::string &json) { return parseTarget(json, "t.json").status().message(); };
  EXPECT_EQ(messageOf("{"), "t.json: is not JSON: a syntax error at line 1, column 2; write it with `mtrun probe -o`");
  EXPECT_EQ(messageOf(std::string(200000, '[')), "t.json: is not JSON: it nests deeper than 64 levels at line 1, column "
                                                 "65; write it with `mtrun probe -o`");
  EXPECT_EQ(messageOf("[]"), "t.json: must be one JSON object, as `mtrun probe -o` writes it");
  EXPECT_EQ(messageOf(replaced(good, "\"device\"", "\"devise\"")),
            "t.json: unknown field \"devise\"; the fields are those that `mtrun probe -o` writes");
  EXPECT_EQ(messageOf(replaced(good, "\"unified\": false,", "")),
            "t.json: field \"unified\" is missing; write the file with `mtrun probe -o`");
  EXPECT_EQ(messageOf(replaced(good, "\"unified\": false", "\"unified\": 0")),
            "t.json: unified is 0; it must be true or false");
  EXPECT_EQ(messageOf(replaced(good, "\"device\": \"cuda\"", "\"device\": \"tpu\"")),
            "t.json: device is 'tpu'; it must be cpu or cuda");
  EXPECT_EQ(messageOf(replaced(good, "\"device_memory\": 148176371712", "\"device_memory\": -5")),
            "t.json: device_memory is -5; it must be a whole number of bytes, or a size such as \"80GiB\"");
  EXPECT_EQ(messageOf(replaced(good, "\"device_memory\": 148176371712", "\"device_memory\": 12")),
            "t.json: device_memory is 12 bytes; it must be between 1 KiB and 1024 TiB");
  EXPECT_EQ(messageOf(replaced(good, "\"upload_bandwidth\": 55000000000.0", "\"upload_bandwidth\": 0")),
            "t.json: upload_bandwidth is 0; it must be between 1000 and 1e+16");
  EXPECT_EQ(parseTarget(replaced(good, "148176371712", "\"138GiB\""), "t.json")->deviceMemory, h200().deviceMemory);
}

TEST(CostModel, RooflineTakesTheSlowerSide) {
  Target target = h200();
  target.fp32Flops = 100;
  target.bf16Flops = 1000;
  target.deviceBandwidth = 10;
  target.kernelOverheadSeconds = 0.5;
  EXPECT_DOUBLE_EQ(kernelSeconds(target, 1000, 20, kernels::DType::f32), 10.5);
  EXPECT_DOUBLE_EQ(kernelSeconds(target, 1000, 20, kernels::DType::bf16), 2.5);
}

TEST(CostModel, KernelCallsUseTheCatalogue) {
  kernels::Signature call;
  call.kernel = "add";
  using kernels::DType, kernels::Effect;
  call.operands = {{DType::f32, {1000, 1000}, Effect::read},
                   {DType::f32, {1000, 1000}, Effect::read},
                   {DType::f32, {1000, 1000}, Effect::write}};
  const Target target = h200();
  EXPECT_NEAR(kernelSeconds(target, call), 12e6 / target.deviceBandwidth + target.kernelOverheadSeconds, 1e-12);
  EXPECT_NEAR(hostKernelSeconds(target, call), 12e6 / target.hostBandwidth + target.kernelOverheadSeconds, 1e-12);
}

TEST(CostModel, CopiesAndUpdates) {
  Target target = h200();
  target.uploadBandwidth = 100;
  target.downloadBandwidth = 50;
  target.deviceBandwidth = 1000;
  target.hostBandwidth = 10;
  target.copyOverheadSeconds = target.kernelOverheadSeconds = 1;
  EXPECT_DOUBLE_EQ(copySeconds(target, 200, CopyDirection::upload), 3);
  EXPECT_DOUBLE_EQ(copySeconds(target, 200, CopyDirection::download), 5);
  EXPECT_DOUBLE_EQ(copySeconds(target, 500, CopyDirection::withinDevice), 2);
  EXPECT_DOUBLE_EQ(copySeconds(target, 5, CopyDirection::withinHost), 2);
  EXPECT_DOUBLE_EQ(hostSeconds(target, 20), 3);
}

} // namespace
} // namespace mt::target
