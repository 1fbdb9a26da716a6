#include "compiler/target/Target.h"
#include "compiler/target/CostModel.h"
#include "kernels/SignatureText.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace mt::target {
namespace {

Target h200() { return *findTarget("h200"); }

TEST(Target, BuiltinsAreSound) {
  const std::vector<std::string> names = targetNames();
  EXPECT_EQ(names, (std::vector<std::string>{"cpu", "cpu-discrete", "h200", "h100", "dgx-h100", "dgx-h200", "a100-80gb",
                                             "rtx-4090", "8x-rtx-4090", "rtx-3090", "4x-rtx-3090", "rtx-3080"}));
  for (const std::string &name : names) {
    const auto target = findTarget(name);
    ASSERT_TRUE(target.ok());
    EXPECT_EQ(target->name, name);
    Target again = *target;
    EXPECT_EQ(completeTarget(again).message(), "");
    EXPECT_EQ(target->unified, name == "cpu");
  }
}

TEST(Target, UnknownNameListsWhatThereIs) {
  const auto target = findTarget("h900");
  ASSERT_FALSE(target.ok());
  EXPECT_EQ(target.status().message(),
            "'h900' is neither a target nor a file: use one of cpu, cpu-discrete, h200, h100, dgx-h100, dgx-h200, "
            "a100-80gb, rtx-4090, 8x-rtx-4090, rtx-3090, 4x-rtx-3090, rtx-3080, or a JSON file as `mtrun probe -o` "
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
  EXPECT_EQ(messageOf(replaced(good, "\"unified\": false", "\"unified\": false, \"isa\": \"vax\"")),
            "t.json: isa is 'vax'; it must be one of sse4, avx2, avx512, avx512-bf16, amx, amx-f32");
  EXPECT_EQ(messageOf(replaced(good, "\"device_memory\": 148176371712", "\"device_memory\": -5")),
            "t.json: device_memory is -5; it must be a whole number of bytes, or a size such as \"80GiB\"");
  EXPECT_EQ(messageOf(replaced(good, "\"device_memory\": 148176371712", "\"device_memory\": 12")),
            "t.json: device_memory is 12 bytes; it must be between 1 KiB and 1024 TiB");
  EXPECT_EQ(messageOf(replaced(good, "\"upload_bandwidth\": 55000000000.0", "\"upload_bandwidth\": 0")),
            "t.json: upload_bandwidth is 0; it must be between 1000 and 1e+16");
  EXPECT_EQ(parseTarget(replaced(good, "148176371712", "\"138GiB\""), "t.json")->deviceMemory, h200().deviceMemory);
  EXPECT_EQ(parseTarget(replaced(good, "\"unified\": false", "\"unified\": false, \"isa\": \"avx2\""), "t.json")->isa,
            "avx2");
}

kernels::Signature product(kernels::DType type, int64_t size) {
  using kernels::Effect;
  const kernels::Dims dims = {size, size};
  return {"matmul", {}, {{type, dims}, {type, dims}, {type, {}, Effect::read, false}, {type, dims, Effect::write}}};
}

TEST(CostModel, RooflineTakesTheSlowerSide) {
  Target target = h200();
  target.fp32Flops = 100;
  target.bf16Flops = 1000;
  target.deviceBandwidth = 10;
  target.kernelOverheadSeconds = 0.5;
  EXPECT_DOUBLE_EQ(roofline(target, product(kernels::DType::f32, 10)), 120.5);    // 1200 bytes
  EXPECT_DOUBLE_EQ(roofline(target, product(kernels::DType::f32, 1000)), 2e7 + 0.5); // 2e9 flops
  EXPECT_DOUBLE_EQ(roofline(target, product(kernels::DType::bf16, 1000)), 2e6 + 0.5);
}

Target measured(std::vector<std::string> calls) {
  Target target = h200();
  target.calls = std::move(calls);
  EXPECT_TRUE(completeTarget(target).ok());
  return target;
}

TEST(CostModel, CallsThatWereMeasuredTakeWhatTheyTook) {
  using kernels::DType;
  const Target target = measured({"device 0.25 matmul f32[64,64] f32[64,64] - -> f32[64,64]",
                                  "device 0.5 matmul bf16[64,64] bf16[64,64] - -> bf16[64,64]",
                                  "host 2 matmul f32[64,64] f32[64,64] - -> f32[64,64]"});
  EXPECT_NEAR(kernelSeconds(target, product(DType::f32, 64)), 0.25, 1e-12);
  EXPECT_NEAR(kernelSeconds(target, product(DType::bf16, 64)), 0.5, 1e-12);
  EXPECT_NEAR(hostKernelSeconds(target, product(DType::f32, 64)), 2, 1e-12);
}

TEST(CostModel, CallsBetweenThoseThatWereMeasuredLieOnAPlane) {
  // What is measured takes n^0.5 times as long as the roofline says; what lies between and beyond does, too, up to the ends.
  const Target plain = h200();
  std::vector<std::string> lines;
  for (int64_t n : {64, 512, 4096})
    lines.push_back(fmt::format("device {} matmul f32[{n},{n}] f32[{n},{n}] - -> f32[{n},{n}]",
                                std::sqrt(static_cast<double>(n)) * roofline(plain, product(kernels::DType::f32, n)), fmt::arg("n", n)));
  const Target target = measured(lines);
  for (int64_t n : {100, 200, 1000, 2000}) {
    const kernels::Signature call = product(kernels::DType::f32, n);
    EXPECT_NEAR(kernelSeconds(target, call) / roofline(plain, call) / std::sqrt(static_cast<double>(n)), 1, 0.1) << n;
  }
  const kernels::Signature beyond = product(kernels::DType::f32, 32768);
  EXPECT_NEAR(kernelSeconds(target, beyond) / roofline(plain, beyond), 64, 0.01);
}

TEST(CostModel, CallsThatAreMadeOfOthersAddUp) {
  using kernels::DType, kernels::Effect;
  const int64_t rows = 256, width = 64, classes = 1024;
  kernels::Signature head{"linear_cross_entropy",
                          {{"chunk", int64_t{64}}},
                          {{DType::f32, {rows, width}}, {DType::f32, {classes, width}}, {DType::f32, {}, Effect::read, false},
                           {DType::i64, {rows}}, {DType::f64, {16}}, {DType::f32, {}, Effect::write}}};
  ASSERT_EQ(kernels::check(head), "");
  const Target target = measured({"device 0.25 matmul{transposeRhs=1} f32[64,64] f32[1024,64] - -> f32[64,1024]",
                                  "device 0.5 cross_entropy f32[64,1024] i64[64] f64[16] -> f32[]"});
  EXPECT_NEAR(kernelSeconds(target, head), 4 * 0.75, 1e-5);
  const Target whole = measured({"device 0.125 " + kernels::print(head)});
  EXPECT_NEAR(kernelSeconds(whole, head), 0.125, 1e-12);
}

TEST(Target, CallsAndContentionAreSaidToBeWrong) {
  auto problemOf = [](std::vector<std::string> contention, std::vector<std::string> calls) {
    Target target = h200();
    target.contention = std::move(contention);
    target.calls = std::move(calls);
    return completeTarget(target).message();
  };
  EXPECT_EQ(problemOf({}, {"gpu 1 add"}), "calls[0]: 'gpu' is no place; a call begins with device or host");
  EXPECT_EQ(problemOf({}, {"host soon add"}), "calls[0]: 'soon' is no number of seconds");
  EXPECT_EQ(problemOf({}, {"host -1 add"}), "calls[0]: '-1' is no number of seconds");
  EXPECT_EQ(problemOf({}, {"host 1 adds f32[2]"}), "calls[0]: unknown kernel \"adds\"");
  EXPECT_EQ(problemOf({}, {"host 1 add f32[2] f32[3] -> f32[2]"}).substr(0, 9), "calls[0]:");
  EXPECT_EQ(problemOf({"upload host 0.2"}, {}), "");
  for (const char *line : {"upload host", "upload disk 1", "upload host -1", "upload host 1 2", "upload host nan", ""})
    EXPECT_EQ(problemOf({line}, {}).substr(0, 13), "contention[0]") << line;
}

TEST(Target, DevicesAndTheirLinks) {
  Target target = *findTarget("4x-rtx-3090");
  EXPECT_EQ(target.peerBandwidth[0], (std::vector<double>{0, 48e9, 0, 0}));
  EXPECT_EQ(target.peerBandwidth[3], (std::vector<double>{0, 0, 48e9, 0}));
  EXPECT_EQ(setDevices(target, 3).message(), "");
  EXPECT_EQ(target.peers, (std::vector<std::string>{"0 1 48e9"})) << "the other pair is gone";
  Target all = *findTarget("dgx-h100");
  EXPECT_EQ(all.peerBandwidth[5], (std::vector<double>{382e9, 382e9, 382e9, 382e9, 382e9, 0, 382e9, 382e9}));
  Target cpu = *findTarget("cpu");
  EXPECT_EQ(setDevices(cpu, 2).message(), "devices is 2; a device that shares the host's memory is the only one");
  auto problemOf = [](uint32_t devices, std::vector<std::string> peers) {
    Target target = h200();
    target.devices = devices;
    target.peers = std::move(peers);
    return completeTarget(target).message();
  };
  EXPECT_EQ(problemOf(0, {}), "devices is 0; it must be between 1 and 64");
  Target disk = *findTarget("cpu-discrete");
  disk.diskMemory = 1 << 30;
  EXPECT_EQ(completeTarget(disk).message(), "disk_read_bandwidth is 0; it must be between 1000 and 1e+16");
  disk.diskReadBandwidth = disk.diskWriteBandwidth = 5e9;
  EXPECT_TRUE(completeTarget(disk).ok());
  const Result<Target> again = parseTarget(printTarget(disk), "again");
  EXPECT_EQ(again->diskMemory, disk.diskMemory);
  EXPECT_EQ(again->diskWriteBandwidth, 5e9);
  Target ranks = *findTarget("cpu-discrete");
  ranks.ranks = 2;
  EXPECT_TRUE(completeTarget(ranks).ok()); // --network may say what is not known
  ranks.deviceNetworkBandwidth = 1;
  EXPECT_EQ(completeTarget(ranks).message(), "device_network_bandwidth is 1; it must be between 1000 and 1e+16");
  ranks.networkBandwidth = 5e9, ranks.networkOverheadSeconds = 2e-6, ranks.deviceNetworkBandwidth = 7e9;
  EXPECT_TRUE(completeTarget(ranks).ok());
  const Result<Target> read = parseTarget(printTarget(ranks), "again");
  EXPECT_EQ(read->ranks, 2U);
  EXPECT_EQ(read->networkBandwidth, 5e9);
  EXPECT_EQ(read->networkOverheadSeconds, 2e-6);
  EXPECT_EQ(read->deviceNetworkBandwidth, 7e9);
  ranks.ranks = 0;
  EXPECT_EQ(completeTarget(ranks).message(), "ranks is 0; it must be between 1 and 4096");
  EXPECT_EQ(problemOf(65, {}), "devices is 65; it must be between 1 and 64");
  EXPECT_EQ(problemOf(4, {"0 3 1e9", "all 2e9"}), "");
  EXPECT_EQ(problemOf(2, {"0 2 1e9"}),
            "peers[0] is '0 2 1e9'; it must be two of the 2 devices, or 'all', and bytes per second, as in '0 1 56e9'");
  for (const char *line :
       {"", "0", "0 1", "0 0 1e9", "x 1 1e9", "0 1 1", "0 1 nan", "0 1 1e9 2", "-1 0 1e9", "0x 1 1e9"})
    EXPECT_EQ(problemOf(2, {line}).substr(0, 8), "peers[0]") << line;
}

/// All copies at once move what the host's memory has.
TEST(Target, CopiesOfAllDevicesShareTheHostsMemory) {
  Target target = *findTarget("h100");
  ASSERT_EQ(setDevices(target, 8).message(), "");
  const double links = 8 * (target.uploadBandwidth + target.downloadBandwidth), share = target.shares[0][0];
  EXPECT_NEAR(links / (1 + 15 * share), target.hostBandwidth, 0.01 * target.hostBandwidth);
  EXPECT_EQ(target.shares[0][2], share);
  EXPECT_EQ(target.shares[2][2], share);
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

} // namespace
} // namespace mt::target
