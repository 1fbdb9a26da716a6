// launches PLAN...: issues the commands of each plan's step to streams of a simulated GPU, with the launches of its kernels
// and nothing behind them, at the plan's true size. Prints for each stream how many launches there were, and the most that
// were under way; exit 1 if those were ever more than the device allows.
#include "kernels/cuda/CudaKernels.h"
#include "kernels/cuda/Library.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/device/cuda/GpuStream.h"
#include "runtime/plan/PlanFile.h"
#include "tests/device/SimulatedDriver.h"
#include "tests/simt/Simt.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <thread>

namespace mt {
namespace tests {
void simulationFailed(const std::string &what) { fmt::print(stderr, "{}\n", what); }
} // namespace tests

namespace {

struct Counts {
  std::mutex mutex;
  int64_t launched = 0, underWay = 0, most = 0;
};

/// One stream's commands, as CudaDevice issues them.
Status issue(const plan::Plan &plan, uint32_t stream, device::Driver &driver, Counts &counts) {
  const device::CudaOptions options;
  MT_ASSIGN(std::unique_ptr<device::GpuStream> gpu, device::GpuStream::make(driver, options.window, options.mostLaunches, nullptr, 0));
  device::GpuKernelCache cache;
  std::map<uint32_t, device::GpuTemplate> templates;
  simt::instead = [&counts](void *on) {
    {
      std::scoped_lock lock(counts.mutex);
      ++counts.launched;
      counts.most = std::max(counts.most, ++counts.underWay);
    }
    tests::enqueue(static_cast<cudaStream_t>(on), [&counts] {
      std::this_thread::sleep_for(std::chrono::microseconds(20)); // the GPU is slower than who issues: launches pile up
      std::scoped_lock lock(counts.mutex);
      --counts.underWay;
    });
  };
  // Addresses that nobody looks at, far from null and aligned as those of spaces are.
  auto address = [](const plan::Span &span) { return reinterpret_cast<std::byte *>((uint64_t{span.space} + 1) << 44 | span.offset); };
  std::vector<void *> operands;
  uint64_t count = 0;
  for (const plan::Command &command : plan.program(plan::ProgramKind::step)->commands) {
    if (command.stream != stream)
      continue;
    ++count;
    if (command.isCopy) {
      MT_TRY(gpu->begin(count, {command.label, count}, nullptr, nullptr).status());
      MT_TRY(gpu->end());
      continue;
    }
    if (!templates.contains(command.templateIndex)) {
      MT_ASSIGN(device::GpuTemplate made,
                device::GpuTemplate::prepare(plan.templates[command.templateIndex], {}, driver, cache, nullptr));
      MT_TRY(gpu->reserveCalls(made.calls(), false));
      templates.emplace(command.templateIndex, std::move(made));
    }
    const device::GpuTemplate &code = templates.at(command.templateIndex);
    MT_ASSIGN(uint32_t * faults, gpu->begin(count, {command.label, count}, &code, nullptr));
    MT_TRY(code.launch(command.arguments, command.workspace, address, gpu->paced(), faults, {}, operands)
               .within(command.label));
    MT_TRY(gpu->end());
  }
  return gpu->drain();
}

Result<bool> look(const char *file) {
  MT_ASSIGN(plan::Plan plan, plan::load(file));
  tests::Simulation simulation;
  simulation.atIssue = true;
  MT_ASSIGN(std::unique_ptr<kernels::cuda::Library> library, kernels::cuda::Library::open());
  simulation.prepare = [&](const kernels::Signature &call) { return kernels::cuda::prepare(call, *library); };
  std::unique_ptr<device::Driver> driver = tests::simulatedDriver(simulation);
  MT_TRY(driver->bind());
  const auto allowed = static_cast<int64_t>(device::CudaOptions().mostLaunches);
  bool within = true;
  for (uint32_t stream = 0; stream < plan.streams.size(); ++stream) {
    if (plan.streams[stream].kind == plan::StreamKind::host)
      continue;
    Counts counts;
    MT_TRY(issue(plan, stream, *driver, counts));
    fmt::print("{}: stream {}: {} launches a step, at most {} of {} under way\n", file, plan.streams[stream].name,
               counts.launched, counts.most, allowed);
    within = within && counts.most <= allowed;
  }
  return within;
}

int main(int argc, char **argv) {
  bool within = argc > 1;
  for (int i = 1; i < argc; ++i) {
    Result<bool> looked = look(argv[i]);
    if (!looked.ok())
      fmt::print(stderr, "error: {}: {}\n", argv[i], looked.status().message());
    within = looked.ok() && *looked && within;
  }
  return within ? 0 : 1;
}

} // namespace
} // namespace mt

int main(int argc, char **argv) { return mt::main(argc, argv); }
