// What the CPU device offers beyond the contract: guards behind spaces, slow copies, measured times, host memory that
// compute cannot touch, and the refusal of plans that the machine has no memory for.
#include "runtime/device/cpu/CpuDevice.h"
#include "kernels/cpu/ThreadPool.h"
#include "runtime/base/OutOfMemory.h"
#include "runtime/base/Threads.h"
#include "runtime/device/MakeDevice.h"
#include "runtime/host/Arena.h"
#include "runtime/host/MachineMemory.h"
#include "runtime/host/MemoryCheck.h"
#include "tests/device/Workbench.h"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <latch>
#include <map>
#include <mutex>
#include <regex>
#include <set>
#include <thread>

namespace mt::device {
namespace {

TEST(CpuDevice, NoticesWritesBehindASpace) {
  tests::Workbench bench(makeCpuDevice({.threads = 1}));
  bench.device->host({2, 1233, 1}).data()[1] = std::byte{0};
  Status status = bench.device->synchronize();
  EXPECT_NE(status.message().find("space \"state\": bytes after its end, 1234, have been written"), std::string::npos)
      << status.message();
  EXPECT_EQ(bench.device->synchronize().message(), status.message());
}

TEST(CpuDevice, MeasuresCommandsAndHoldsCopiesBack) {
  tests::Workbench bench(makeCpuDevice({.threads = 1, .measure = true, .slowCopyBytesPerSecond = 1e6}));
  ASSERT_TRUE(bench.device->copy(2, {1, 0, 4000}, {0, 0, 4000}, {"copy", 7}).ok());
  ASSERT_TRUE(bench.device->synchronize().ok());
  std::vector<Measured> measured = bench.device->measured();
  ASSERT_EQ(measured.size(), 1u);
  EXPECT_EQ(measured[0].number, 7u);
  EXPECT_GE(measured[0].end - measured[0].begin, 0.004); // 4000 bytes at 1e6 bytes/s, never less
  EXPECT_TRUE(bench.device->measured().empty());
}

/// So a probe can time both: each device has kernels of its own.
TEST(CpuDevice, MultipliesFloatsOnWhatItWasToldWhenItPrepared) {
  constexpr int64_t kSide = 64;
  constexpr uint64_t kBytes = kSide * kSide * sizeof(float);
  kernels::Signature product = {"matmul", {{"transposeLhs", int64_t(0)}, {"transposeRhs", int64_t(0)}}, {}};
  plan::Template code{.name = "product", .arguments = {}, .workspaceBytes = 0, .calls = {}};
  plan::Call call;
  plan::Command command;
  for (int32_t i = 0; i < 4; ++i) {
    const bool isBias = i == 2;
    const kernels::Effect effect = i == 3 ? kernels::Effect::write : kernels::Effect::read;
    product.operands.push_back(
        {kernels::DType::f32, isBias ? kernels::Dims{} : kernels::Dims{kSide, kSide}, effect, !isBias});
    call.operands.push_back({isBias ? -1 : static_cast<int32_t>(code.arguments.size()), 0});
    if (isBias)
      continue;
    command.arguments.push_back({{0, code.arguments.size() * kBytes, kBytes},
                                 i == 3 ? plan::BindingEffect::write : plan::BindingEffect::read,
                                 false});
    code.arguments.push_back({kBytes, effect});
  }
  call.signature = product;
  code.calls.push_back(call);
  const plan::Space spaces[] = {{plan::SpaceKind::device, 0, 3 * kBytes, "device"}};
  const plan::Stream streams[] = {{plan::StreamKind::compute, 0, "compute"}};
  std::vector<std::vector<float>> results;
  for (const bool onTiles : {false, true, false}) {
    multiplyFloatsOnTiles(onTiles);
    const std::unique_ptr<Device> device = makeCpuDevice({.threads = 1});
    ASSERT_TRUE(device->reserve(spaces, streams).ok());
    const std::span<std::byte> bytes = device->host({0, 0, 3 * kBytes});
    const std::span<float> floats(reinterpret_cast<float *>(bytes.data()), bytes.size() / sizeof(float));
    for (size_t i = 0; i < floats.size(); ++i)
      floats[i] = std::sin(static_cast<float>(i));
    Result<Code> prepared = device->prepare(0, code, {});
    ASSERT_TRUE(prepared.ok()) << prepared.status().message();
    ASSERT_TRUE(device->run(0, *prepared, command.arguments, {}, {"product", 1}).ok());
    ASSERT_TRUE(device->synchronize().ok());
    const auto result = floats.subspan(2 * kSide * kSide);
    results.emplace_back(result.begin(), result.end());
  }
  EXPECT_EQ(results[0], results[2]);
  EXPECT_EQ(results[0] != results[1], couldMultiplyFloatsOnTiles());
  for (size_t i = 0; i < results[0].size(); ++i)
    EXPECT_NEAR(results[0][i], results[1][i], 1e-4);
}

TEST(CpuDevice, MeasuresCalls) {
  tests::Workbench bench(makeCpuDevice({.threads = 1, .measureCalls = true}));
  plan::Template code = tests::copyTemplate(4);
  code.calls.resize(2, code.calls[0]);
  const plan::Command command = tests::copyCommand({0, 0, 16}, {0, 64, 16}, plan::BindingEffect::write);
  Result<Code> prepared = bench.device->prepare(4, code, {});
  ASSERT_TRUE(prepared.ok());
  for (int run = 0; run < 3; ++run)
    ASSERT_TRUE(bench.device->run(4, *prepared, command.arguments, command.workspace, {"copy", 1}).ok());
  bench.call(1, "not a kernel", [] {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return Status();
  });
  ASSERT_TRUE(bench.device->synchronize().ok());
  std::vector<CallTimes> times = bench.device->callTimes();
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(times[0].code, &code);
  EXPECT_EQ(times[0].stream, 4u);
  EXPECT_EQ(times[0].runs, 3u);
  EXPECT_EQ(times[0].seconds.size(), 2u);
  EXPECT_EQ(times[1].stream, 1u);
  EXPECT_EQ(times[1].runs, 1u);
  EXPECT_GE(times[1].seconds.at(0), 0.002);
  EXPECT_TRUE(bench.device->callTimes().empty());
  EXPECT_TRUE(bench.device->measured().empty());
}

TEST(MakeDevice, LaunchesGraphsOrMeasuresTheirCalls) {
  EXPECT_EQ(makeDevice("cuda", {.measure = true, .measureCalls = true, .graphs = true}).status().message(),
            "--calls: a CUDA graph is launched as one, and its calls have no times; leave out --cuda-graphs");
}

TEST(CpuDevice, CanBeReleasedWhileItMeasuresWork) {
  std::latch begun(1), released(1);
  tests::Workbench bench(makeCpuDevice({.threads = 1, .measure = true}));
  bench.call(0, "under way", [&] {
    begun.count_down();
    released.wait();
    return Status();
  });
  begun.wait();
  std::jthread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20)); // so that the device is being released by then
    released.count_down();
  });
  bench.device.reset(); // the command's times come after that
}

/// Runs one command on a compute stream that writes to `space` while host spaces are protected.
void writeFromCompute(uint32_t space) {
  std::vector<plan::Space> spaces = {{plan::SpaceKind::device, 0, 64, "device"},
                                     {plan::SpaceKind::staging, 0, 64, "staging"}};
  std::vector<plan::Stream> streams = {{plan::StreamKind::compute, 0, "compute"}};
  plan::Template code = tests::copyTemplate(4);
  code.calls[0].signature.kernel = "feed";
  HostFunctions functions;
  functions.instead["feed"] = [](const kernels::Signature &, std::span<void *const> operands) {
    *static_cast<float *>(operands[1]) = 1;
    return Status();
  };
  std::unique_ptr<Device> device = makeCpuDevice({.threads = 1, .protectHost = true});
  ASSERT_TRUE(device->reserve(spaces, streams).ok());
  plan::Command command = tests::copyCommand({0, 0, 16}, {space, 16, 16}, plan::BindingEffect::write);
  Code prepared = *device->prepare(0, code, functions);
  ASSERT_TRUE(device->run(0, prepared, command.arguments, command.workspace, {"compute", 0}).ok());
  ASSERT_TRUE(device->synchronize().ok());
}

TEST(CpuDeviceDeathTest, KeepsComputeAwayFromProtectedHostSpaces) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  writeFromCompute(0);
  EXPECT_DEATH(writeFromCompute(1), "");
}

TEST(Numerics, NameTheInstructionsAndTheLibrary) {
  Result<std::string> cpu = processorsOf("cpu");
  ASSERT_TRUE(cpu.ok());
  EXPECT_TRUE(std::regex_match(*cpu, std::regex(R"(\w+, oneDNN \d+\.\d+\.\d+ [0-9a-f]+(, (tiles|vectors))?)"))) << *cpu;
}

TEST(MachineMemory, TakesTheSmallestLimit) {
  std::string root = testing::TempDir() + std::to_string(::getpid()) + "machine";
  std::filesystem::remove_all(root);
  std::filesystem::create_directories(root + "/proc/self");
  std::filesystem::create_directories(root + "/groups/jobs/one");
  auto write = [&](const std::string &file, const std::string &text) { std::ofstream(root + file) << text; };
  EXPECT_EQ(host::machineMemory(root + "/proc", root + "/groups").available, UINT64_MAX);
  write("/proc/meminfo", "MemTotal: 100 kB\nMemAvailable:    8000 kB\n");
  EXPECT_EQ(host::machineMemory(root + "/proc", root + "/groups").available, 8000u * 1024);
  write("/proc/self/statm", fmt::format("{} 3 2 1\n", 1000000 / ::sysconf(_SC_PAGESIZE)));
  write("/proc/self/limits", "Max cpu time              unlimited            unlimited            seconds\n"
                             "Max address space         unlimited            unlimited            bytes\n");
  EXPECT_EQ(host::machineMemory(root + "/proc", root + "/groups").limit, "MemAvailable of /proc/meminfo");
  write("/proc/self/limits", "Max address space         7000000              unlimited            bytes\n");
  EXPECT_NEAR(static_cast<double>(host::machineMemory(root + "/proc", root + "/groups").available), 6e6, 1e5);
  EXPECT_EQ(host::machineMemory(root + "/proc", root + "/groups").limit, "ulimit -v");
  EXPECT_EQ(host::memoryOfMapped(root + "/proc", root + "/groups").available, 8000u * 1024)
      << "its addresses are counted";
  write("/proc/self/cgroup", "0::/jobs/one\n");
  write("/groups/jobs/one/memory.max", "max\n");
  write("/groups/jobs/memory.max", "5000000\n");
  write("/groups/jobs/memory.current", "3000000\n");
  write("/groups/jobs/memory.stat", "anon 5\ninactive_file 1000000\nactive_file 600000\nslab_reclaimable 50000\n");
  host::MachineMemory memory = host::machineMemory(root + "/proc", root + "/groups");
  EXPECT_EQ(memory.available, 3650000u) << "pages of files go when memory is wanted, those lately used too";
  EXPECT_NE(memory.limit.find("/groups/jobs/memory.max"), std::string::npos);
}

TEST(CoreCount, IsOfCoresAndOfTheTimeThatGroupsGive) {
  const std::string root = testing::TempDir() + std::to_string(::getpid()) + "cores";
  std::filesystem::remove_all(root);
  auto write = [&](const std::string &file, const std::string &text) {
    std::filesystem::create_directories(std::filesystem::path(root + file).parent_path());
    std::ofstream(root + file) << text;
  };
  const std::vector<int> four = {0, 1, 4, 5};
  auto count = [&] { return coreCount(four, root + "/proc", root + "/sys"); };
  EXPECT_EQ(count(), 4U) << "nothing says that they share cores";
  for (int i : four)
    write(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", i), fmt::format("{}-{}\n", i / 2 * 2, i / 2 * 2 + 1));
  EXPECT_EQ(count(), 2U) << "two threads a core";
  for (int i : four)
    write(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", i), fmt::format("{}\n", i));
  write("/proc/self/cgroup", "0::/jobs/one\n");
  write("/sys/fs/cgroup/jobs/one/cpu.max", "max 100000\n");
  EXPECT_EQ(count(), 4U);
  write("/sys/fs/cgroup/jobs/cpu.max", "250000 100000\n");
  EXPECT_EQ(count(), 3U) << "two and a half";
  write("/sys/fs/cgroup/jobs/one/cpu.max", "50000 100000\n");
  EXPECT_EQ(count(), 1U) << "at least one";
  write("/proc/self/cgroup", "3:cpuset:/\n1:cpu,cpuacct:/box\n");
  EXPECT_EQ(count(), 4U);
  write("/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(count(), 4U) << "no limit";
  write("/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "200000\n");
  EXPECT_EQ(count(), 2U);
}

/// Pages of [begin, begin + bytes) that have memory.
uint64_t residentPages(std::byte *begin, uint64_t bytes) {
  std::vector<unsigned char> pages((bytes + 4095) / 4096);
  EXPECT_EQ(::mincore(begin, bytes, pages.data()), 0);
  return static_cast<uint64_t>(std::ranges::count_if(pages, [](unsigned char page) { return page & 1; }));
}

TEST(Arena, HasAllItsMemoryFromTheStart) {
  constexpr uint64_t kBytes = 150 << 20; // several pieces
  Result<host::Arena> arena = host::Arena::reserve(kBytes, "state", false);
  ASSERT_TRUE(arena.ok()) << arena.status().message();
  EXPECT_EQ(residentPages(arena->data(), kBytes), kBytes / 4096);
  EXPECT_TRUE(std::all_of(arena->data(), arena->data() + kBytes, [](std::byte one) { return one == std::byte{0}; }));
}

TEST(Arena, IsRefusedWhenMemoryRunsShortWhileItIsTaken) {
  constexpr uint64_t kBytes = 300 << 20;
  void *memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::atomic<int> asked = 0;
  auto available = [&] { return host::MachineMemory{asked++ < 2 ? kBytes : 10 << 20, "MemAvailable"}; };
  Status status = host::commit({static_cast<std::byte *>(memory), kBytes}, "state", available);
  for (const char *part : {"space \"state\": of its 300.0 MiB (314,572,800 bytes), 128.0 MiB are taken",
                           "only 10.0 MiB left, limited by MemAvailable", "smaller --device-memory or --host-memory"})
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  EXPECT_LE(residentPages(static_cast<std::byte *>(memory), kBytes), (uint64_t{128} << 20) / 4096);
  ::munmap(memory, kBytes);
}

TEST(MemoryCheck, RefusesWithBothNumbersAndTheRemedy) {
  std::vector<plan::Space> spaces = {{plan::SpaceKind::device, 0, 3 << 20, "device"},
                                     {plan::SpaceKind::state, 0, 5 << 20, "state"}};
  EXPECT_TRUE(host::checkMemory(spaces, 0, {8 << 20, "MemAvailable"}).ok());
  EXPECT_FALSE(host::checkMemory(spaces, 1, {8 << 20, "MemAvailable"}).ok());
  EXPECT_TRUE(host::checkHostMemory(spaces, 0, {5 << 20, "MemAvailable"}).ok());
  EXPECT_FALSE(host::checkHostMemory(spaces, 0, {4 << 20, "MemAvailable"}).ok());
  std::string message = host::checkMemory(spaces, 2 << 20, {6 << 20, "MemAvailable"}).message();
  for (const char *part :
       {"needs 10.0 MiB (10,485,760 bytes)", "2.00 MiB for the scratch of kernels", "has 6.00 MiB (6,291,456 bytes)",
        "free 4.00 MiB", "--host-memory that add up to at most 4194304 B", "limited by MemAvailable",
        "--host-memory-check off"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  message = host::checkMemory(spaces, 2 << 20, {1 << 20, "MemAvailable"}).message();
  EXPECT_NE(message.find("free 9.00 MiB; where the machine's memory grows"), std::string::npos)
      << "no budget helps where the scratch alone does not fit: " << message;
}

TEST(ThreadPool, GivesEveryThreadItsPartOfWhatIsLent) {
  constexpr size_t kEach = 4096, kShared = 8192;
  constexpr int kThreads = 3, kCallers = 2;
  constexpr size_t kParts = kEach * (kThreads - 1 + kCallers);
  alignas(64) static std::byte lent[kParts + kCallers * kShared];
  kernels::cpu::ThreadPool pool(kThreads);
  pool.lendScratch(lent, kEach, kCallers, kShared);
  std::mutex mutex;
  std::map<std::thread::id, std::byte *> parts;
  std::set<std::byte *> shared;
  auto loop = [&] {
    std::byte *ofLoop = pool.sharedScratch(kShared);
    {
      std::lock_guard lock(mutex);
      shared.insert(ofLoop);
    }
    EXPECT_EQ(pool.sharedScratch(kShared), ofLoop);
    pool.parallelFor(200, [&](int64_t) {
      std::byte *part = kernels::cpu::ThreadPool::scratch(kEach);
      std::lock_guard lock(mutex);
      auto [at, fresh] = parts.try_emplace(std::this_thread::get_id(), part);
      EXPECT_EQ(at->second, part);
    });
  };
  std::jthread other(loop);
  loop();
  other.join();
  std::set<std::byte *> distinct;
  for (const auto &[thread, part] : parts) {
    EXPECT_GE(part, lent);
    EXPECT_LT(part, lent + kParts);
    EXPECT_EQ((part - lent) % kEach, 0u);
    distinct.insert(part);
  }
  EXPECT_EQ(distinct.size(), parts.size());
  EXPECT_EQ(shared, (std::set<std::byte *>{lent + kParts, lent + kParts + kShared}));
  for (std::byte *larger : {kernels::cpu::ThreadPool::scratch(kEach + 1), pool.sharedScratch(kShared + 1)})
    EXPECT_TRUE(larger < lent || larger >= lent + sizeof(lent));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(OutOfMemoryDeathTest, EndsWithAMessageFromAnyThread) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto take = [] { return std::vector<char>(size_t{1} << 46).size(); };
  EXPECT_EXIT((explainOutOfMemory("buy more"), take()), testing::ExitedWithCode(1), "^error: out of memory: buy more\n$");
  EXPECT_EXIT((explainOutOfMemory("buy more"), std::jthread(take).join()), testing::ExitedWithCode(1),
              "^error: out of memory: buy more\n$");
}
#endif

TEST(CpuDevice, RefusesPlansTheMachineHasNoMemoryFor) {
  std::vector<plan::Space> spaces = {{plan::SpaceKind::state, 0, uint64_t{1} << 50, "state"}};
  std::vector<plan::Stream> streams = {{plan::StreamKind::host, 0, "host"}};
  Status status = makeCpuDevice({.threads = 1})->reserve(spaces, streams);
  EXPECT_NE(status.message().find("the plan needs 1024.0 TiB"), std::string::npos) << status.message();
}

} // namespace
} // namespace mt::device
