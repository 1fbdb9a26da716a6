// The host's side of the CUDA device on the simulated driver: what it refuses, what it calls and in which order, how it
// takes errors and faults. No GPU is involved; the CPU's kernels stand in for the GPU's.
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/base/Log.h"
#include "runtime/device/cuda/CheckPlan.h"
#include "runtime/device/cuda/SpaceMemory.h"
#include "tests/device/SimulatedDriver.h"
#include "tests/device/Workbench.h"
#include "tests/plan/LinearPlan.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <latch>
#include <sstream>
#include <thread>

namespace mt::device {
namespace {

using plan::BindingEffect;
using plan::Span;
using tests::Simulation;

constexpr uint32_t kUpload = 2, kDownload = 3, kCompute = 4;

/// A bench on a simulated GPU, and commands that go through all of it.
class Gpu {
public:
  explicit Gpu(
      CudaOptions options = {}, std::function<void(Simulation &)> set = [](Simulation &) {})
      : bench((set(simulation), makeCudaDevice(options, tests::simulatedDriver(simulation)))) {}

  Status upload() { return bench.device->copy(kUpload, {1, 0, 32}, {0, 0, 32}, {"weights", 1}); }
  Status download() { return bench.device->copy(kDownload, {0, 256, 32}, {1, 256, 32}, {"gradient", 3}); }
  /// Copies floats on the compute stream, from where upload() brings them to where download() takes them.
  Status compute(const plan::Command &command, std::string_view label = "forward layer 3") {
    if (!code) {
      MT_ASSIGN(code, bench.device->prepare(kCompute, copy, {}));
    }
    return bench.device->run(kCompute, *code, command.arguments, command.workspace, {label, 2});
  }
  Status compute() { return compute(set); }
  Status order(uint32_t before, uint32_t after) {
    MT_ASSIGN(Event event, bench.device->record(before));
    return bench.device->wait(after, event);
  }
  /// Host, upload, compute, download, host.
  Status pass(std::function<Status()> last) {
    MT_TRY(bench.tryCall(0, "feed", [] { return Status(); }));
    MT_TRY(order(0, kUpload));
    MT_TRY(upload());
    MT_TRY(order(kUpload, kCompute));
    MT_TRY(compute());
    MT_TRY(order(kCompute, kDownload));
    MT_TRY(download());
    MT_TRY(order(kDownload, 1));
    MT_TRY(bench.tryCall(1, "update", std::move(last)));
    return bench.device->synchronize();
  }

  Simulation simulation;
  plan::Template copy = [] {
    plan::Template made = tests::copyTemplate(8);
    made.calls[0].location = "/h.3/Gather";
    return made;
  }();
  plan::Command set = tests::copyCommand({0, 0, 32}, {0, 256, 32}, BindingEffect::write);
  plan::Command add = tests::copyCommand({0, 0, 32}, {0, 256, 32}, BindingEffect::accumulate);
  tests::Workbench bench;
  std::optional<Code> code;
};

Status reserveWith(Simulation &simulation, CudaOptions options = {}) {
  std::vector<plan::Space> spaces = {{plan::SpaceKind::device, 0, 1 << 20, "device"},
                                     {plan::SpaceKind::staging, 0, 64, "staging"},
                                     {plan::SpaceKind::state, 0, 64, "state"}};
  std::vector<plan::Stream> streams = {{plan::StreamKind::compute, 0, "compute"}, {plan::StreamKind::host, 0, "host"}};
  return makeCudaDevice(options, tests::simulatedDriver(simulation))->reserve(spaces, streams);
}

TEST(CudaDevice, ReservesExactlyAndGivesEverythingBack) {
  Simulation simulation;
  ASSERT_EQ(reserveWith(simulation, {.window = 8}).message(), "");
  std::vector<std::string> calls = simulation.calls();
  std::erase(calls, "bind");
  std::vector<std::string> expected = {"memory",       "openLibraries", "memory",   "createStream",
                                       "registerHost", "memory",        "allocate", "synchronizeStream"};
  ASSERT_GE(calls.size(), expected.size());
  calls.resize(expected.size());
  EXPECT_EQ(calls, expected); // one allocation a device space, last; staging is registered, state is not
  EXPECT_EQ(simulation.count("createEvent"), 8 + 8); // of commands, and among launches
  EXPECT_EQ(simulation.count("createTimedEvent"), 0);
  EXPECT_EQ(simulation.alive, 0);
}

TEST(CudaDevice, CountsWhatLibrariesTakeAndRefusesWithBothNumbers) {
  Simulation simulation;
  simulation.memory = {400 << 20, 600 << 20};
  simulation.libraryBytes = 144 << 20; // what stays is the spare for kernels, and nothing for the plan
  std::string message = reserveWith(simulation).message();
  for (const char *part : {"the plan needs 1.00 MiB (1,048,576 bytes) of device memory", "GPU 0, simulated has 0 B",
                           "of 600.0 MiB, 344.0 MiB are taken", "--device-memory 0B or less"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_EQ(simulation.count("registerHost"), 0);
  EXPECT_EQ(simulation.count("allocate"), 0);
  EXPECT_EQ(simulation.alive, 0);
}

TEST(CudaDevice, CountsWhatRegisteringTakes) {
  Simulation simulation;
  simulation.memory = {400 << 20, 600 << 20};
  simulation.registrationBytes = 144 << 20;
  std::string message = reserveWith(simulation).message();
  EXPECT_NE(message.find("GPU 0, simulated has 0 B"), std::string::npos) << message;
  EXPECT_EQ(simulation.count("registerHost"), 1);
  EXPECT_EQ(simulation.count("allocate"), 0);
  EXPECT_EQ(simulation.alive, 0);
}

TEST(CudaDevice, NamesTheSpaceThatCannotBeHad) {
  Simulation simulation;
  simulation.failAt("allocate");
  EXPECT_EQ(reserveWith(simulation).message(),
            "space \"device\": 1.00 MiB (1,048,576 bytes) cannot be had on GPU 0, simulated: allocate: injected; stop "
            "what else uses the GPU, or compile the model again with a smaller --device-memory");
}

TEST(CudaDevice, EveryErrorAtTheStartIsReturnedAndNothingIsKept) {
  for (const char *call :
       {"bind", "memory", "allocate", "createStream", "createEvent", "allocatePinned", "synchronizeStream"})
    for (int nth : {1, 2, 3}) {
      Simulation simulation;
      simulation.failAt(call, nth);
      Status status = reserveWith(simulation);
      bool atTheEnd = nth >= 2 && (call == std::string_view("bind") || call == std::string_view("synchronizeStream"));
      if (simulation.count(call) >= nth && !atTheEnd) {
        EXPECT_NE(status.message().find("injected"), std::string::npos) << call << " " << nth;
      }
      EXPECT_EQ(simulation.alive, 0) << call << " " << nth;
    }
}

/// What is logged while it lives.
class Heard {
public:
  Heard() { log().sinks().push_back(sink); }
  ~Heard() { log().sinks().pop_back(); }
  std::string text() const { return stream.str(); }

private:
  std::ostringstream stream;
  std::shared_ptr<spdlog::sinks::ostream_sink_mt> sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(stream);
};

TEST(CudaDevice, GoesOnWithAWarningWhereRegisteringIsRefused) {
  Heard heard;
  Gpu gpu({}, [](Simulation &simulation) { simulation.failAt("registerHost"); });
  EXPECT_NE(heard.text().find("space \"staging\": its 4.88 KiB cannot be registered with GPU 0, simulated"),
            std::string::npos)
      << heard.text();
  EXPECT_LT(heard.text().find("dmesg"), heard.text().find("ulimit -l")) << heard.text();
  for (int i = 1; i <= 20; ++i) { // pageable memory is touched when the copy is called: it must be late enough
    Status status = gpu.bench.tryCall(0, "write", [&, i] {
      std::ranges::fill(gpu.bench.floats({1, 0, 32}), static_cast<float>(i));
      return Status();
    });
    ASSERT_EQ(gpu.pass([&, i] {
                   EXPECT_EQ(gpu.bench.floats({1, 256, 32})[3], static_cast<float>(i));
                   return Status();
                 })
                  .message(),
              "");
  }
}

/// Copies of more than a chunk, to places that are no multiples of it.
void copyAcrossChunks(Gpu &gpu) {
  constexpr Span up{1, 100, 2000}, in{0, 50, 2000}, down{1, 2500, 2000};
  std::span<std::byte> from = gpu.bench.device->host(up), to = gpu.bench.device->host(down);
  for (size_t i = 0; i < from.size(); ++i)
    from[i] = static_cast<std::byte>(i % 251);
  ASSERT_EQ(gpu.bench.device->copy(kUpload, up, in, {"up", 1}).message(), "");
  ASSERT_EQ(gpu.order(kUpload, kDownload).message(), "");
  ASSERT_EQ(gpu.bench.device->copy(kDownload, in, down, {"down", 2}).message(), "");
  ASSERT_EQ(gpu.bench.device->synchronize().message(), "");
  EXPECT_TRUE(std::ranges::equal(from, to));
}

TEST(CudaDevice, RegistersInChunksThatNoCopyCrosses) {
  Gpu gpu({.registerBytes = 1024});
  EXPECT_EQ(gpu.simulation.count("registerHost"), 5 + 4); // of 5,000 and 4,096 bytes
  copyAcrossChunks(gpu);
  EXPECT_EQ(gpu.simulation.count("copy"), 3 + 3);
  gpu.bench.device.reset();
  EXPECT_EQ(gpu.simulation.count("unregisterHost"), 5 + 4);
  EXPECT_EQ(gpu.simulation.alive, 0);
}

TEST(CudaDevice, KeepsNoChunkOfASpaceOfWhichOneIsRefused) {
  Heard heard;
  Gpu gpu({.registerBytes = 1024}, [](Simulation &simulation) { simulation.failAt("registerHost", 3); });
  EXPECT_NE(heard.text().find("space \"staging\""), std::string::npos) << heard.text();
  EXPECT_EQ(gpu.simulation.count("unregisterHost"), 2);
  copyAcrossChunks(gpu);
  EXPECT_EQ(gpu.simulation.count("copy"), 1 + 1);
  gpu.bench.device.reset();
  EXPECT_EQ(gpu.simulation.count("unregisterHost"), 2 + 4);
  EXPECT_EQ(gpu.simulation.alive, 0);
}

TEST(CudaDevice, RegistersInSmallerPiecesWhatIsRefusedInOne) {
  for (int refused : {1, 2}) { // the first piece of two, or the second
    Simulation simulation;
    std::unique_ptr<Driver> driver = tests::simulatedDriver(simulation);
    ASSERT_TRUE(driver->bind().ok());
    simulation.failAt("registerHost", refused);
    Heard heard;
    {
      auto memory = SpaceMemory::reserve({plan::SpaceKind::staging, 0, 1 << 20, "staging"}, *driver, 512 << 10);
      ASSERT_TRUE(memory.ok()) << memory.status().message();
      EXPECT_TRUE(memory->isDirect());
      EXPECT_EQ(memory->copyable(0), 64U << 10);
      EXPECT_EQ(memory->copyable(100), (64U << 10) - 100);
      EXPECT_EQ(simulation.count("registerHost"), refused + 16);
    }
    EXPECT_EQ(simulation.count("unregisterHost"), refused - 1 + 16);
    EXPECT_EQ(heard.text().find("warning"), std::string::npos) << heard.text();
  }
}

TEST(CudaDevice, RegisteredCopiesNeverWaitForTheStream) {
  Gpu gpu;
  int before = gpu.simulation.count("synchronizeStream");
  for (int i = 0; i < 10; ++i)
    ASSERT_TRUE(gpu.upload().ok());
  ASSERT_TRUE(gpu.order(kUpload, 0).ok());
  Event last = *gpu.bench.device->record(0);
  ASSERT_TRUE(gpu.bench.device->synchronize(last).ok());
  EXPECT_EQ(gpu.simulation.count("synchronizeStream"), before);
}

TEST(CudaDevice, StreamsOfTheGpuWaitForEachOtherThere) {
  Gpu gpu;
  ASSERT_EQ(gpu.pass([] { return Status(); }).message(), "");
  EXPECT_EQ(gpu.simulation.count("wait"), 2); // upload to compute, compute to download
  EXPECT_EQ(gpu.simulation.count("launchKernel"), 1);
}

TEST(CudaDevice, OldEventsStayValidWhenTheRingHasGoneRound) {
  Gpu gpu({.window = 2});
  int before = gpu.simulation.count("createEvent");
  std::vector<Event> events;
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(gpu.upload().ok());
    events.push_back(*gpu.bench.device->record(kUpload));
  }
  for (const Event &event : events) {
    EXPECT_TRUE(gpu.bench.device->wait(kCompute, event).ok());
    EXPECT_TRUE(gpu.bench.device->wait(0, event).ok());
    EXPECT_TRUE(gpu.bench.device->synchronize(event).ok());
  }
  EXPECT_EQ(gpu.bench.device->synchronize().message(), "");
  EXPECT_EQ(gpu.simulation.count("createEvent"), before);
}

/// Kernels wait on the GPU until the latch is down.
auto holdKernels(std::latch &released) {
  return [&released](Simulation &simulation) {
    simulation.kernels["copy"] = [&released](const kernels::cuda::Launch &) { released.wait(); };
  };
}

TEST(CudaDevice, RunsAheadByNoMoreLaunchesThanTheDriverHasRoomFor) {
  for (size_t most : {1, 3, 5, 9}) {
    std::latch released(1);
    Gpu gpu({.mostLaunches = most}, holdKernels(released));
    gpu.copy.calls.push_back(gpu.copy.calls[0]); // two launches a command, which may wait between them
    for (int i = 0; i < 10; ++i)
      ASSERT_EQ(gpu.compute().message(), "");
    while (gpu.simulation.count("synchronizeEvent") == 0) // one launch more waits for the first
      std::this_thread::yield();
    EXPECT_EQ(gpu.simulation.count("launchKernel"), static_cast<int>(most));
    released.count_down();
    ASSERT_EQ(gpu.bench.device->synchronize().message(), "");
    EXPECT_EQ(gpu.simulation.count("launchKernel"), 10 * 2);
  }
}

TEST(CudaDevice, CanBeReleasedWithKernelsAndGraphsUnderWay) {
  for (bool graphs : {false, true}) {
    std::latch released(1);
    Gpu gpu({.graphs = graphs}, holdKernels(released));
    ASSERT_EQ(gpu.compute().message(), "");
    while (gpu.simulation.count("record") == 0) // the command is on the GPU
      std::this_thread::yield();
    int before = gpu.simulation.count("synchronizeStream");
    std::jthread later([&] {
      while (gpu.simulation.count("synchronizeStream") < before + 3) // it waits for its three streams
        std::this_thread::yield();
      released.count_down();
    });
    gpu.bench.device.reset(); // the simulated driver fails the test if something is released too early
    EXPECT_EQ(gpu.simulation.alive, 0);
  }
}

TEST(CudaDevice, KernelsAreLoadedWhenTheyArePreparedAndNothingRuns) {
  Heard heard;
  Gpu gpu({}, [](Simulation &simulation) {
    simulation.memory = {300 << 20, 400 << 20};
    simulation.kernelBytes = 130 << 20;
  });
  log().set_level(spdlog::level::info);
  gpu.code = *gpu.bench.device->prepare(kCompute, gpu.copy, {});
  EXPECT_EQ(gpu.simulation.count("preloadKernel"), 2); // replacing, and adding
  EXPECT_EQ(gpu.simulation.count("launchKernel"), 0);
  for (int i = 0; i < 2; ++i)
    ASSERT_EQ(gpu.compute().message(), "");
  ASSERT_EQ(gpu.bench.device->synchronize().message(), "");
  log().set_level(spdlog::level::warn);
  EXPECT_EQ(gpu.simulation.count("preloadKernel"), 2);
  std::string told = "kernels and libraries take 260.0 MiB beside the plan", text = heard.text();
  EXPECT_NE(text.find(told), std::string::npos) << text;
  EXPECT_EQ(text.find(told), text.rfind(told)) << text;
  EXPECT_NE(text.find("GPU 0, simulated: only 40.0 MiB of its memory are left"), std::string::npos) << text;
}

/// A kernel that stores a fault when its turn comes.
void faulty(Simulation &simulation) {
  simulation.kernels["copy"] = [](const kernels::cuda::Launch &launch) {
    *launch.fault = static_cast<uint32_t>(kernels::cuda::Fault::indexOutOfRange);
  };
}

TEST(CudaDevice, AFaultStopsBeforeTheHostUsesWhatCameOfIt) {
  for (bool graphs : {false, true}) {
    Gpu gpu({.graphs = graphs}, faulty);
    bool updated = false;
    Status status = gpu.pass([&] {
      updated = true;
      return Status();
    });
    std::string expected = fmt::format("\"forward layer 3\": copy of /h.3/Gather: {}",
                                       kernels::cuda::message(kernels::cuda::Fault::indexOutOfRange));
    EXPECT_EQ(status.message(), expected);
    EXPECT_FALSE(updated);
    EXPECT_EQ(gpu.bench.device->record(0).status().message(), expected);
    EXPECT_EQ(gpu.upload().message(), expected);
  }
}

TEST(CudaDevice, ErrorsOfTheDriverNameTheCommandAndStop) {
  struct Case {
    const char *call, *label;
    CudaOptions options = {};
  };
  for (const Case &one :
       {Case{"copy", "\"weights\": copy: injected"},
        Case{"launchKernel", "\"forward layer 3\": copy of /h.3/Gather: launchKernel: injected"},
        Case{"record", "\"weights\": record: injected"}, Case{"wait", "waiting for \"weights\": wait: injected"},
        Case{"synchronizeEvent", "waiting for \"gradient\": synchronizeEvent: injected"},
        Case{"isDone", "\"gradient\", or a command before it: isDone: injected"},
        Case{"fill", "\"forward layer 3\": fill: injected", {.poison = true}},
        Case{"beginCapture", "\"forward layer 3\": capturing a CUDA graph: beginCapture: injected", {.graphs = true}},
        Case{"endCapture", "\"forward layer 3\": capturing a CUDA graph: endCapture: injected", {.graphs = true}},
        Case{"launchGraph", "\"forward layer 3\": launchGraph: injected", {.graphs = true}}}) {
    auto gpu = std::make_unique<Gpu>(one.options);
    gpu->set.arguments[1].fresh = true;
    gpu->simulation.failAt(one.call);
    bool updated = false;
    Status status = gpu->pass([&] {
      updated = true;
      return Status();
    });
    EXPECT_EQ(gpu->bench.device->synchronize().message(), one.label) << one.call;
    EXPECT_FALSE(status.ok()) << one.call;
    EXPECT_FALSE(updated) << one.call;
    EXPECT_EQ(gpu->upload().message(), one.label);
    gpu->bench.device.reset();
    EXPECT_EQ(gpu->simulation.alive, 0) << one.call;
  }
}

TEST(CudaDevice, ReplaysGraphsOfTheSameAddressesAndEffects) {
  Gpu gpu({.graphs = true});
  auto floats = [&] { return gpu.bench.floats({1, 256, 32})[0]; };
  std::ranges::fill(gpu.bench.floats({1, 0, 32}), 2.0f);
  ASSERT_TRUE(gpu.upload().ok());
  ASSERT_TRUE(gpu.order(kUpload, kCompute).ok());
  for (const plan::Command *command : {&gpu.set, &gpu.add, &gpu.add, &gpu.add, &gpu.set, &gpu.add})
    ASSERT_EQ(gpu.compute(*command).message(), "");
  ASSERT_TRUE(gpu.order(kCompute, kDownload).ok());
  ASSERT_TRUE(gpu.download().ok());
  ASSERT_EQ(gpu.bench.device->synchronize().message(), "");
  EXPECT_EQ(floats(), 4.0f);
  EXPECT_EQ(gpu.simulation.count("beginCapture"), 2);
  EXPECT_EQ(gpu.simulation.count("launchKernel"), 2);
  EXPECT_EQ(gpu.simulation.count("launchGraph"), 6);
  gpu.set.arguments[1].effect = BindingEffect::accumulate; // another command at the same place
  ASSERT_TRUE(gpu.compute().ok());
  ASSERT_TRUE(gpu.bench.device->synchronize().ok());
  EXPECT_EQ(gpu.simulation.count("beginCapture"), 3);
}

TEST(CudaDevice, AllocatesNothingWhileCommandsAreIssued) {
  Gpu gpu;
  ASSERT_EQ(gpu.pass([] { return Status(); }).message(), "");
  std::map<std::string, int> before;
  const std::vector<std::string> fixed = {"allocate",     "allocatePinned", "registerHost",
                                          "createStream", "createEvent",    "prepare"};
  for (const std::string &call : fixed)
    before[call] = gpu.simulation.count(call);
  for (int i = 0; i < 5; ++i)
    ASSERT_EQ(gpu.pass([] { return Status(); }).message(), "");
  for (const std::string &call : fixed)
    EXPECT_EQ(gpu.simulation.count(call), before[call]) << call;
}

TEST(CudaDevice, MeasuresCommandsByTimedEvents) {
  Gpu gpu({.measure = true});
  EXPECT_EQ(gpu.simulation.count("createEvent"), 3 * 8); // among launches alone
  ASSERT_EQ(gpu.pass([] { return Status(); }).message(), "");
  std::vector<uint64_t> numbers;
  for (const Measured &one : gpu.bench.device->measured()) {
    numbers.push_back(one.number);
    EXPECT_GE(one.end, one.begin);
  }
  std::ranges::sort(numbers);
  EXPECT_EQ(numbers, (std::vector<uint64_t>{0, 0, 1, 2, 3})); // two of the host
  EXPECT_TRUE(gpu.bench.device->measured().empty());
}

TEST(CudaDevice, MeasuresLengthsThatAreExactLongAfterTheOrigin) {
  Gpu gpu({.measure = true}, [](Simulation &simulation) { simulation.idleMilliseconds = 1e9; });
  ASSERT_EQ(gpu.upload().message(), "");
  ASSERT_EQ(gpu.bench.device->synchronize().message(), "");
  std::vector<Measured> measured = gpu.bench.device->measured();
  ASSERT_EQ(measured.size(), 1u);
  EXPECT_NEAR(measured[0].end - measured[0].begin, 1e-3, 1e-8);
}

/// The simulated driver's events are a millisecond apart.
TEST(CudaDevice, MeasuresCallsByEventsBetweenThem) {
  Gpu gpu({.measure = true, .measureCalls = true, .window = 3});
  gpu.copy.calls.resize(3, gpu.copy.calls[0]);
  const int before = gpu.simulation.count("createTimedEvent");
  for (int run = 0; run < 5; ++run)
    ASSERT_EQ(gpu.compute().message(), "");
  ASSERT_EQ(gpu.bench.device->synchronize().message(), "");
  EXPECT_EQ(gpu.simulation.count("createTimedEvent") - before,
            3 * 2); // two between three calls, for each of three commands
  std::vector<CallTimes> times = gpu.bench.device->callTimes();
  ASSERT_EQ(times.size(), 1u);
  EXPECT_EQ(times[0].code, &gpu.copy);
  EXPECT_EQ(times[0].stream, kCompute);
  EXPECT_EQ(times[0].runs, 5u);
  ASSERT_EQ(times[0].seconds.size(), 3u);
  for (double seconds : times[0].seconds)
    EXPECT_NEAR(seconds, 5e-3, 1e-8);
  EXPECT_TRUE(gpu.bench.device->callTimes().empty());
}

TEST(CudaDevice, NamesTheCallThatCannotBePrepared) {
  Gpu gpu({}, [](Simulation &simulation) { simulation.failAt("prepare"); });
  EXPECT_EQ(gpu.compute().message(), "template \"copy\": copy of /h.3/Gather: prepare: injected");
  gpu.simulation.failAt("preloadKernel");
  EXPECT_EQ(gpu.compute().message(), "template \"copy\": copy of /h.3/Gather: preloadKernel: injected");
  HostFunctions functions;
  functions.instead["copy"] = [](const kernels::Signature &, std::span<void *const>) { return Status(); };
  std::string message = gpu.bench.device->prepare(kCompute, gpu.copy, functions).status().message();
  EXPECT_NE(message.find("copy of /h.3/Gather works on the host"), std::string::npos) << message;
}

TEST(CudaDevice, RefusesCopiesThatAStreamCannotDo) {
  Gpu gpu;
  std::string message = gpu.bench.device->copy(0, {1, 0, 8}, {0, 0, 8}, {"weights", 0}).message();
  EXPECT_EQ(message.find("\"weights\": a host stream cannot copy memory of the GPU"), 0u) << message;
  message = gpu.bench.device->copy(kUpload, {1, 0, 8}, {2, 0, 8}, {"weights", 0}).message();
  EXPECT_EQ(message.find("\"weights\": a stream of the GPU cannot copy within the host"), 0u) << message;
  EXPECT_TRUE(gpu.bench.device->copy(0, {1, 0, 8}, {2, 0, 8}, {"weights", 0}).ok());
  EXPECT_TRUE(gpu.bench.device->synchronize().ok());
}

std::string refusal(const std::function<void(plan::Plan &)> &change, bool unified = false) {
  plan::Plan plan = tests::linearPlan(unified);
  change(plan);
  return checkGpuPlan(plan, 1, [](std::string_view kernel) { return kernel != "nothing"; }).message();
}

TEST(CheckGpuPlan, TakesDiscretePlansForAsManyDevicesAsThereAre) {
  EXPECT_EQ(refusal([](plan::Plan &) {}), "");
  EXPECT_NE(refusal([](plan::Plan &) {}, true).find("compile the model again for a GPU"), std::string::npos);
  EXPECT_EQ(refusal([](plan::Plan &plan) { plan.streams[0].device = 1; }),
            "the plan is for 2 devices, and 1 GPU is given; name as many with --device cuda:0,1,..., or compile the model again with "
            "--devices 1");
  EXPECT_EQ(refusal([](plan::Plan &plan) { plan.spaces[0].device = UINT32_MAX; }).find("the plan is for 4294967296 devices"), 0u);
}

TEST(CheckGpuPlan, NamesKernelsAndMemoryThatAStreamCannotUse) {
  EXPECT_EQ(refusal([](plan::Plan &plan) { plan.templates[1].calls[0].signature.kernel = "nothing"; }),
            "template \"train\": the GPU has no kernel \"nothing\"; compile the model again with this version of mtc");
  EXPECT_EQ(refusal([](plan::Plan &plan) { plan.templates[0].calls[0].signature.kernel = "nonsense"; }),
            "template \"feed\": the host has no kernel \"nonsense\"; compile the model again with this version of mtc");
  std::string message = refusal([](plan::Plan &plan) {
    for (plan::Command &command : plan.programs[0].commands)
      if (command.role == plan::Role::update)
        command.arguments[0].span.space = 0;
  });
  EXPECT_NE(message.find("runs on the host and touches space \"device\" of the GPU"), std::string::npos) << message;
  message = refusal([](plan::Plan &plan) {
    for (plan::Command &command : plan.programs[0].commands)
      if (command.isCopy)
        command.from.space = command.to.space = 1;
  });
  EXPECT_NE(message.find("copies within the host on a stream of the GPU; compile the model again"), std::string::npos)
      << message;
}

} // namespace
} // namespace mt::device
