// The tests of kernels on a GPU: operands go there between guards and come back. Without a GPU every test is skipped,
// by name and reason; MT_REQUIRE_CUDA=1 makes that a failure. Calls that only the CPU makes - those of host streams,
// and element types that the GPU refuses by name - run on the CPU, and are listed at the end.
#include "tests/kernels/CudaHarness.h"
#include "kernels/Coverage.h"
#include "kernels/cpu/CpuKernels.h"
#include "runtime/device/cuda/Driver.h"
#include "tests/device/DeviceCases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <deque>
#include <set>
#include <thread>

namespace mt::kernels::test {

const Backend kBackend = Backend::cuda;

namespace {

constexpr uint64_t kGuard = 256;
uint64_t displacement = 0;
constexpr int kGuardByte = 0xA5;

/// The GPU of these tests, or why there is none.
Result<std::unique_ptr<device::Driver>> &gpu() {
  static auto &driver = *new auto(device::openDriver(0)); // never destroyed: at exit the vendor's libraries go first
  return driver;
}

std::set<std::string> &onCpu() {
  static std::set<std::string> calls;
  return calls;
}

/// Skips each test where there is no GPU, so that each is reported; lists what ran on the CPU.
class NeedsGpu : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo &) override { MT_SKIP_WITHOUT(gpu()); }
  void OnTestProgramEnd(const testing::UnitTest &) override {
    for (const std::string &call : onCpu())
      std::printf("ran on the CPU: %s\n", call.c_str());
  }
};
const bool kListens = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new NeedsGpu);
  return true;
}();

/// Memory of the GPU between two guards.
class Guarded {
public:
  Guarded(device::Driver &driver, uint64_t bytes) : driver(driver), bytes(bytes) {}
  Guarded(const Guarded &) = delete;
  ~Guarded() {
    if (base)
      driver.release(base);
  }
  Status make(const void *content, cudaStream_t stream) {
    MT_ASSIGN(void *memory, driver.allocate(all()));
    base = static_cast<std::byte *>(memory);
    MT_TRY(driver.fill(base, kGuardByte, all(), stream));
    return bytes == 0 ? Status() : driver.copy(data(), content, bytes, cudaMemcpyHostToDevice, stream);
  }
  Status fetch(void *content, cudaStream_t stream) const {
    std::vector<std::byte> there(all());
    MT_TRY(driver.copy(there.data(), base, there.size(), cudaMemcpyDeviceToHost, stream));
    MT_TRY(driver.synchronize(stream));
    auto isGuard = [](std::byte one) { return one == std::byte{kGuardByte}; };
    EXPECT_TRUE(std::all_of(there.begin(), there.begin() + before, isGuard)) << "wrote before an operand";
    EXPECT_TRUE(std::all_of(there.end() - kGuard, there.end(), isGuard)) << "wrote behind an operand";
    std::memcpy(content, there.data() + before, bytes);
    return {};
  }
  void *data() const { return base + before; }

private:
  uint64_t all() const { return static_cast<uint64_t>(before) + bytes + kGuard; }

  device::Driver &driver;
  uint64_t bytes = 0;
  const int64_t before = static_cast<int64_t>(kGuard + displacement);
  std::byte *base = nullptr;
};

/// A stream and a word for faults, as a device has them.
struct Lane {
  device::Driver &driver;
  cudaStream_t stream = {};
  uint32_t *fault = nullptr;
  ~Lane() {
    if (stream)
      driver.destroy(stream);
    if (fault)
      driver.releasePinned(fault);
  }
  Status make() {
    MT_TRY(driver.bind());
    MT_ASSIGN(stream, driver.createStream());
    MT_ASSIGN(void *word, driver.allocatePinned(sizeof(uint32_t)));
    fault = static_cast<uint32_t *>(word);
    return {};
  }
};

/// A fault says what kind it is, and the CPU which value: its words, if it meets the same kind.
Status worded(cuda::Fault fault, const Signature &call, std::span<void *const> operands) {
  MT_ASSIGN(Execute onCpu, prepareOnCpu(call, 1));
  Status status = onCpu(operands, 0);
  std::string_view kind = fault == cuda::Fault::indexOutOfRange   ? "index"
                          : fault == cuda::Fault::labelOutOfRange ? "label"
                                                                  : "";
  EXPECT_EQ(status.message().find(kind), 0u) << cuda::message(fault) << "; on the CPU: " << status.message();
  return status;
}

Status launch(const Signature &call, const cuda::Run &run, std::span<void *const> operands, uint64_t accumulate) {
  Lane lane{**gpu()};
  MT_TRY(lane.make());
  std::deque<Guarded> memories;
  std::vector<void *> addresses;
  for (size_t i = 0; i < operands.size(); ++i) {
    Guarded &memory = memories.emplace_back(lane.driver, call.operands[i].bytes());
    if (operands[i])
      MT_TRY(memory.make(operands[i], lane.stream));
    addresses.push_back(operands[i] ? memory.data() : nullptr);
  }
  MT_TRY(run({.operands = addresses, .accumulate = accumulate, .stream = lane.stream, .fault = lane.fault}));
  MT_TRY(lane.driver.synchronize(lane.stream));
  for (size_t i = 0; i < operands.size(); ++i)
    if (operands[i])
      MT_TRY(memories[i].fetch(operands[i], lane.stream));
  auto fault = static_cast<cuda::Fault>(*lane.fault);
  return fault == cuda::Fault::none ? Status() : worded(fault, call, operands);
}

Result<Execute> listed(const Signature &call, int threads, const std::string &why) {
  onCpu().insert(why);
  return prepareOnCpu(call, threads);
}

} // namespace

Displaced::Displaced(uint64_t bytes) { displacement = bytes; }
Displaced::~Displaced() { displacement = 0; }

Result<Execute> prepareOnCpu(const Signature &call, int threads) {
  Signature own = call; // scratch of the CPU's size, wherever it comes from
  if (!own.operands.empty() && own.operands.back().effect == Effect::scratch)
    own.operands.pop_back();
  uint64_t bytes = workspaceBytes(own, Backend::cpu);
  if (bytes > 0)
    own.operands.push_back({DType::u8, {static_cast<int64_t>(bytes)}, Effect::scratch, true});
  MT_ASSIGN(cpu::Run run, cpu::prepare(own));
  return Execute([run = std::move(run), own, bytes, threads](std::span<void *const> operands, uint64_t accumulate) {
    std::vector<double> scratch(bytes / sizeof(double) + 1);
    std::vector<void *> addresses(operands.begin(), operands.end());
    addresses.resize(own.operands.size());
    if (bytes > 0)
      addresses.back() = scratch.data();
    cpu::ThreadPool pool(threads);
    return run({.operands = addresses, .accumulate = accumulate, .pool = pool});
  });
}

Result<Execute> prepareCall(const Signature &call, int threads) {
  if (!hasCode(call.kernel, Backend::cuda))
    return listed(call, threads, call.kernel + ": runs on host streams");
  MT_TRY((*gpu())->bind());
  Result<cuda::Run> run = (*gpu())->prepare(call);
  if (run.ok())
    return Execute([call, run = *run](std::span<void *const> operands, uint64_t accumulate) {
      return launch(call, run, operands, accumulate);
    });
  const std::string &message = run.status().message();
  if (cuda::supports(call.kernel) && message.find(": the GPU ") != std::string::npos)
    return listed(call, threads, message);
  return run.status();
}

std::vector<Values> expectAsOnCpu(const Call &call, double tolerance) {
  SCOPED_TRACE(call.kernel);
  auto onAllCores = [](const Signature &own) {
    return prepareOnCpu(own, static_cast<int>(std::thread::hardware_concurrency()));
  };
  uint64_t unused = 0;
  for (size_t i = 0; i < call.outputs.size(); ++i)
    unused |= call.outputs[i].type == DType::u8 ? uint64_t{1} << i : 0;
  Outcome once = run(call, 1, 0, unused), again = run(call, 1, 0, unused), other = runWith(onAllCores, call, 0, unused);
  EXPECT_TRUE(once.status.ok()) << once.status.message();
  EXPECT_TRUE(other.status.ok()) << other.status.message();
  EXPECT_TRUE(once.guardsIntact) << "wrote outside an operand";
  EXPECT_TRUE(once.outputs == again.outputs) << "two runs differ";
  for (size_t i = 0; once.outputs.size() == other.outputs.size() && i < other.outputs.size(); ++i) {
    double most = 0, worst = 0;
    for (size_t j = 0; j < other.outputs[i].size() && (unused >> i & 1) == 0; ++j) {
      most = std::max(most, std::abs(other.outputs[i][j]));
      double error = std::abs(once.outputs[i][j] - other.outputs[i][j]);
      worst = std::isnan(error) ? INFINITY : std::max(worst, error);
    }
    EXPECT_LE(worst, tolerance * most) << "result " << i;
  }
  return once.outputs;
}

} // namespace mt::kernels::test
