// The contract of Device.h, for every device: one is added to the cases and passes all of this. What only the CPU
// device offers (guards, slow copies, protected host memory) is in CpuDeviceTest.cpp.
#include "tests/device/DeviceCases.h"
#include "tests/device/Workbench.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <latch>
#include <numeric>

namespace mt::device {
namespace {

using plan::BindingEffect;
using plan::Span;
using tests::DeviceCase;

class DeviceContract : public testing::TestWithParam<DeviceCase> {
protected:
  void SetUp() override {
    Result<std::unique_ptr<Device>> made = GetParam().make(false);
    MT_SKIP_WITHOUT(made);
    held = std::make_unique<tests::Workbench>(std::move(*made));
  }
  tests::Workbench &bench() { return *held; }

private:
  std::unique_ptr<tests::Workbench> held;
};

TEST_P(DeviceContract, ReservesExactBytes) {
  for (uint32_t i = 0; i < bench().spaces.size(); ++i)
    EXPECT_EQ(bench().device->reserved(i), bench().spaces[i].bytes);
  Span span{1, 64, 32};
  EXPECT_EQ(bench().device->host(span).size(), 32u);
  EXPECT_EQ(bench().device->host(span).data(), bench().device->host({1, 0, 1}).data() + 64);
}

TEST_P(DeviceContract, RunsAStreamInOrder) {
  std::vector<int> order;
  for (int i = 0; i < 100; ++i)
    bench().call(0, "append", [&order, i] {
      order.push_back(i);
      return Status();
    });
  ASSERT_TRUE(bench().device->synchronize().ok());
  std::vector<int> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(order, expected);
}

TEST_P(DeviceContract, OverlapsStreams) {
  std::latch both(2); // each command waits for the other: neither ends unless both run
  for (uint32_t stream : {0u, 1u})
    bench().call(stream, "meet", [&both] {
      both.arrive_and_wait();
      return Status();
    });
  EXPECT_TRUE(bench().device->synchronize().ok());
}

TEST_P(DeviceContract, WaitsForEventsOfOtherStreamsWithoutBlockingTheCaller) {
  std::latch released(1);
  std::vector<std::string> order;
  bench().call(0, "first", [&] {
    released.wait();
    order.push_back("first");
    return Status();
  });
  Result<Event> event = bench().device->record(0);
  ASSERT_TRUE(event.ok());
  ASSERT_TRUE(bench().device->wait(1, *event).ok());
  bench().call(1, "second", [&] {
    order.push_back("second");
    return Status();
  });
  released.count_down(); // reached only if nothing above waited for stream 0
  ASSERT_TRUE(bench().device->synchronize().ok());
  EXPECT_EQ(order, (std::vector<std::string>{"first", "second"}));
}

TEST_P(DeviceContract, EventsCoverWhatWasIssuedBeforeAndNoMore) {
  std::latch released(1);
  bench().call(0, "before", [] { return Status(); });
  Result<Event> event = bench().device->record(0);
  bench().call(0, "after", [&] {
    released.wait();
    return Status();
  });
  EXPECT_TRUE(bench().device->synchronize(*event).ok()); // "after" still runs
  released.count_down();
  EXPECT_TRUE(bench().device->synchronize().ok());
}

TEST_P(DeviceContract, RunsAheadOfASlowStream) {
  std::latch released(1);
  int done = 0;
  bench().call(0, "slow", [&] {
    released.wait();
    return Status();
  });
  for (int i = 0; i < 1000; ++i)
    bench().call(0, "queued", [&done] {
      ++done;
      return Status();
    });
  released.count_down();
  ASSERT_TRUE(bench().device->synchronize().ok());
  EXPECT_EQ(done, 1000);
}

TEST_P(DeviceContract, CopiesBetweenSpaces) {
  std::ranges::fill(bench().device->host({1, 0, 256}), std::byte{0x2A});
  ASSERT_TRUE(bench().device->copy(2, {1, 0, 256}, {0, 512, 256}, {"up", 0}).ok());
  Event up = *bench().device->record(2);
  ASSERT_TRUE(bench().device->wait(3, up).ok());
  ASSERT_TRUE(bench().device->copy(3, {0, 512, 256}, {2, 100, 256}, {"down", 0}).ok());
  ASSERT_TRUE(bench().device->synchronize().ok());
  EXPECT_TRUE(
      std::ranges::all_of(bench().device->host({2, 100, 256}), [](std::byte b) { return b == std::byte{0x2A}; }));
}

TEST_P(DeviceContract, AddsWhereABindingAccumulates) {
  plan::Template code = tests::copyTemplate(8);
  plan::Command command = tests::copyCommand({1, 0, 32}, {1, 64, 32}, BindingEffect::accumulate);
  std::ranges::fill(bench().floats({1, 0, 32}), 1.5f);
  std::ranges::fill(bench().floats({1, 64, 32}), 2.0f);
  Result<Code> prepared = bench().device->prepare(0, code, {});
  ASSERT_EQ(prepared.status().message(), "");
  for (int i = 0; i < 2; ++i)
    ASSERT_TRUE(bench().device->run(0, *prepared, command.arguments, command.workspace, {"add", 0}).ok());
  ASSERT_TRUE(bench().device->synchronize().ok());
  EXPECT_TRUE(std::ranges::all_of(bench().floats({1, 64, 32}), [](float value) { return value == 5.0f; }));
}

/// Host, upload, compute, download and host again, each waiting for the one before, through the same bytes many times:
/// an order that is not kept shows in the sums.
TEST_P(DeviceContract, OrdersAllKindsOfStreamsByEvents) {
  constexpr int kRounds = 60;
  constexpr Span up{1, 0, 32}, in{0, 0, 32}, out{0, 256, 32}, down{1, 256, 32};
  Device &device = *bench().device;
  plan::Template code = tests::copyTemplate(8);
  plan::Command set = tests::copyCommand(in, out, BindingEffect::write),
                add = tests::copyCommand(in, out, BindingEffect::accumulate);
  Result<Code> prepared = device.prepare(4, code, {});
  ASSERT_EQ(prepared.status().message(), "");
  std::vector<float> seen;
  Event uploaded{}, computed{}, downloaded{}, looked{};
  for (int i = 0; i < kRounds; ++i) {
    ASSERT_TRUE(device.wait(0, uploaded).ok());
    bench().call(0, "write", [&, i] {
      std::ranges::fill(bench().floats(up), static_cast<float>(i));
      return Status();
    });
    ASSERT_TRUE(device.wait(2, *device.record(0)).ok());
    ASSERT_TRUE(device.wait(2, computed).ok());
    ASSERT_TRUE(device.copy(2, up, in, {"upload", 0}).ok());
    uploaded = *device.record(2);
    ASSERT_TRUE(device.wait(4, uploaded).ok());
    ASSERT_TRUE(device.wait(4, downloaded).ok());
    for (const plan::Command *command : {&set, &add})
      ASSERT_TRUE(device.run(4, *prepared, command->arguments, command->workspace, {"compute", 0}).ok());
    computed = *device.record(4);
    ASSERT_TRUE(device.wait(3, computed).ok());
    ASSERT_TRUE(device.wait(3, looked).ok());
    ASSERT_TRUE(device.copy(3, out, down, {"download", 0}).ok());
    downloaded = *device.record(3);
    ASSERT_TRUE(device.wait(1, downloaded).ok());
    bench().call(1, "look", [&] {
      seen.push_back(bench().floats(down)[7]);
      return Status();
    });
    looked = *device.record(1);
  }
  ASSERT_EQ(device.synchronize().message(), "");
  ASSERT_EQ(seen.size(), size_t{kRounds});
  for (int i = 0; i < kRounds; ++i)
    EXPECT_EQ(seen[static_cast<size_t>(i)], 2.0f * static_cast<float>(i)) << i;
}

TEST_P(DeviceContract, ASlowHostCommandDelaysNoOtherStream) {
  std::latch released(1);
  Device &device = *bench().device;
  plan::Template code = tests::copyTemplate(8);
  plan::Command command = tests::copyCommand({0, 0, 32}, {0, 256, 32}, BindingEffect::write);
  Result<Code> prepared = device.prepare(4, code, {});
  ASSERT_EQ(prepared.status().message(), "");
  bench().call(0, "slow", [&] {
    released.wait();
    return Status();
  });
  ASSERT_TRUE(device.copy(2, {1, 0, 32}, {0, 0, 32}, {"upload", 0}).ok());
  ASSERT_TRUE(device.wait(4, *device.record(2)).ok());
  ASSERT_TRUE(device.run(4, *prepared, command.arguments, command.workspace, {"compute", 0}).ok());
  ASSERT_TRUE(device.wait(3, *device.record(4)).ok());
  ASSERT_TRUE(device.copy(3, {0, 256, 32}, {1, 64, 32}, {"download", 0}).ok());
  ASSERT_TRUE(device.wait(1, *device.record(3)).ok());
  bench().call(1, "update", [] { return Status(); });
  EXPECT_TRUE(device.synchronize(*device.record(1)).ok()); // "slow" still runs
  released.count_down();
  EXPECT_TRUE(device.synchronize().ok());
}

TEST_P(DeviceContract, EventsCarryWhatAStreamHasWaitedFor) {
  std::latch released(1);
  Device &device = *bench().device;
  bench().call(0, "slow", [&] {
    released.wait();
    std::ranges::fill(bench().floats({1, 0, 32}), 3.0f);
    return Status();
  });
  ASSERT_TRUE(device.wait(2, *device.record(0)).ok());
  ASSERT_TRUE(device.copy(2, {1, 0, 32}, {0, 0, 32}, {"upload", 0}).ok());
  ASSERT_TRUE(device.wait(4, *device.record(2)).ok()); // no command of stream 4 follows, but an event
  ASSERT_TRUE(device.wait(3, *device.record(4)).ok());
  ASSERT_TRUE(device.copy(3, {0, 0, 32}, {1, 64, 32}, {"download", 0}).ok());
  released.count_down();
  ASSERT_EQ(device.synchronize().message(), "");
  EXPECT_TRUE(std::ranges::all_of(bench().floats({1, 64, 32}), [](float value) { return value == 3.0f; }));
}

TEST_P(DeviceContract, RefusesTooLittleScratchWithBothNumbers) {
  plan::Template code;
  code.name = "norm";
  plan::Call &call = code.calls.emplace_back();
  call.signature = {"squared_norm",
                    {},
                    {{kernels::DType::f32, {4}},
                     {kernels::DType::f64, {1}, kernels::Effect::write},
                     {kernels::DType::u8, {3}, kernels::Effect::scratch}}};
  call.operands.resize(3);
  for (uint32_t stream : {0u, 4u}) {
    std::string message = bench().device->prepare(stream, code, {}).status().message();
    EXPECT_EQ(message.find("template \"norm\": squared_norm: squared_norm: scratch has 3 bytes, want "), 0u) << message;
    EXPECT_NE(message.find("compile the model again with a --target of"), std::string::npos) << message;
  }
}

TEST_P(DeviceContract, StopsAtTheFirstErrorAndNamesTheCommand) {
  bool ranLater = false, ranElsewhere = false;
  bench().call(0, "update layer 3", [] { return fail("the gradient is not finite"); });
  Result<Event> event = bench().device->record(0);
  Status ignored = bench().tryCall(0, "later", [&] {
    ranLater = true;
    return fail("another error");
  });
  if (event.ok() && bench().device->wait(1, *event).ok())
    ignored = bench().tryCall(1, "elsewhere", [&] {
      ranElsewhere = true;
      return Status();
    });
  Status status = bench().device->synchronize();
  EXPECT_EQ(status.message(), "\"update layer 3\": feed: the gradient is not finite");
  EXPECT_FALSE(ranLater);
  EXPECT_FALSE(ranElsewhere);
  EXPECT_EQ(bench().device->record(1).status().message(), status.message());
  EXPECT_EQ(bench().device->copy(2, {1, 0, 8}, {0, 0, 8}, {"copy", 0}).message(), status.message());
  EXPECT_EQ(bench().device->wait(1, {0, 1}).message(), status.message());
  EXPECT_EQ(bench().device->synchronize({0, 1}).message(), status.message());
}

TEST_P(DeviceContract, CanBeReleasedWithWorkUnderWay) {
  std::latch released(1);
  bench().call(0, "slow", [&] {
    released.wait();
    return Status();
  });
  Event event = *bench().device->record(0);
  ASSERT_TRUE(bench().device->wait(1, event).ok());
  bench().call(1, "waiting", [] { return Status(); });
  released.count_down();
  bench().device.reset();
}

TEST_P(DeviceContract, PoisonsMemoryWhoseContentMustNotMatter) {
  tests::Workbench poisoned{std::move(*GetParam().make(true))};
  auto isPoison = [](std::byte one) { return one == std::byte{0xFF}; };
  for (uint32_t i = 0; i < poisoned.spaces.size(); ++i)
    EXPECT_TRUE(std::ranges::all_of(poisoned.read({i, 0, poisoned.spaces[i].bytes}), isPoison)) << i;
  std::ranges::fill(poisoned.device->host({1, 0, 1024}), std::byte{1});
  plan::Template code = tests::copyTemplate(8);
  code.calls[0].signature.kernel = "feed"; // whoever looks at the operands as the command finds them
  std::vector<bool> found;
  HostFunctions functions;
  functions.instead["feed"] = [&](const kernels::Signature &, std::span<void *const> operands) {
    for (void *operand : operands)
      found.push_back(std::ranges::all_of(std::span(static_cast<std::byte *>(operand), 32), isPoison));
    return Status();
  };
  Code prepared = *poisoned.device->prepare(0, code, functions);
  plan::Command fresh = tests::copyCommand({1, 0, 32}, {1, 64, 32}, BindingEffect::write, true);
  fresh.workspace = {1, 128, 64};
  plan::Command again = tests::copyCommand({1, 0, 32}, {1, 192, 32}, BindingEffect::write, false);
  ASSERT_TRUE(poisoned.device->run(0, prepared, fresh.arguments, fresh.workspace, {"fresh", 0}).ok());
  ASSERT_TRUE(poisoned.device->run(0, prepared, again.arguments, again.workspace, {"again", 0}).ok());
  ASSERT_TRUE(poisoned.device->synchronize().ok());
  EXPECT_EQ(found, (std::vector<bool>{false, true, false, false}));
  EXPECT_TRUE(std::ranges::all_of(poisoned.device->host({1, 128, 64}), isPoison));
  EXPECT_EQ(poisoned.device->host({1, 256, 1})[0], std::byte{1});
}

INSTANTIATE_TEST_SUITE_P(All, DeviceContract, testing::ValuesIn(tests::deviceCases()),
                         [](const auto &info) { return info.param.name; });

} // namespace
} // namespace mt::device
