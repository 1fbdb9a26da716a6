#include "runtime/device/MakeDevice.h"

#include "kernels/cpu/InstructionSet.h"
#include "runtime/base/Threads.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/host/MachineMemory.h"
#include "runtime/host/MemoryCheck.h"

#ifdef MT_HAS_CUDA
#include "runtime/device/cuda/CheckPlan.h"
#include "runtime/device/cuda/CudaDevice.h"
#endif

#include <charconv>

namespace mt::device {
namespace {

struct Choice {
  bool cuda = false;
  int index = 0; ///< of the GPU
};

Result<Choice> parse(std::string_view name) {
  Choice choice{name.starts_with("cuda"), 0};
  std::string_view rest = name.substr(choice.cuda ? 4 : 0);
  if (choice.cuda && rest.starts_with(':')) {
    auto [end, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), choice.index);
    if (error == std::errc() && choice.index >= 0)
      rest.remove_prefix(static_cast<size_t>(end - rest.data()));
  }
  if (rest != (choice.cuda ? "" : "cpu"))
    return fail("--device {}: there are cpu, cuda and cuda:N, N being a GPU's number from 0", name);
  return choice;
}

#ifdef MT_HAS_CUDA

Result<std::unique_ptr<Device>> makeCuda(const Choice &choice, const DeviceOptions &options) {
  if (options.slowCopyBytesPerSecond > 0)
    return fail("--slow-copies: only copies of the CPU can be slowed down; leave it out, or use --device cpu");
  if (options.protectHost)
    return fail("host spaces can be protected from the CPU's compute only");
  MT_ASSIGN(std::unique_ptr<Driver> driver, openDriver(choice.index));
  return makeCudaDevice({.threads = options.threads,
                         .scratch = options.scratch,
                         .measure = options.measure,
                         .measureCalls = options.measureCalls,
                         .graphs = options.graphs,
                         .jitterSeed = options.jitterSeed,
                         .poison = options.poison},
                        std::move(driver));
}

Status checkCuda(const Choice &choice, const plan::Plan &plan) {
  MT_ASSIGN(std::unique_ptr<Driver> driver, openDriver(choice.index));
  MT_TRY(checkGpuPlan(plan, [&](std::string_view kernel) { return driver->supports(kernel); }));
  MT_ASSIGN(DeviceMemory memory, driver->memory());
  return checkGpuMemory(driver->name(), plan.spaces, memory);
}

Result<uint64_t> availableOnGpu(const Choice &choice) {
  MT_ASSIGN(std::unique_ptr<Driver> driver, openDriver(choice.index));
  driver->openLibraries();
  MT_ASSIGN(DeviceMemory memory, driver->memory());
  return memoryForPlan(memory);
}

Result<std::string> nameOfGpu(const Choice &choice) {
  MT_ASSIGN(std::unique_ptr<Driver> driver, openDriver(choice.index));
  return driver->name();
}

#else

Status withoutCuda() {
  return fail("this mtrun was built without CUDA; build it where nvcc is found (see CONTRIBUTING.md), or use "
              "--device cpu");
}
Result<std::unique_ptr<Device>> makeCuda(const Choice &, const DeviceOptions &) { return withoutCuda(); }
Status checkCuda(const Choice &, const plan::Plan &) { return withoutCuda(); }
Result<uint64_t> availableOnGpu(const Choice &) { return withoutCuda(); }
Result<std::string> nameOfGpu(const Choice &) { return withoutCuda(); }

#endif

} // namespace

Result<std::unique_ptr<Device>> makeDevice(const std::string &name, const DeviceOptions &options) {
  MT_ASSIGN(Choice choice, parse(name));
  if (options.graphs && options.measureCalls)
    return fail("--calls: a CUDA graph is launched as one, and its calls have no times; leave out --cuda-graphs");
  if (choice.cuda) {
    auto made = makeCuda(choice, options);
    return made.ok() ? std::move(made) : made.status().within("--device " + name);
  }
  if (options.graphs)
    return fail("--cuda-graphs: the CPU has none; leave it out, or use --device cuda");
  return makeCpuDevice({.threads = options.threads,
                        .scratch = options.scratch,
                        .measure = options.measure,
                        .measureCalls = options.measureCalls,
                        .jitterSeed = options.jitterSeed,
                        .poison = options.poison,
                        .slowCopyBytesPerSecond = options.slowCopyBytesPerSecond,
                        .protectHost = options.protectHost});
}

int kernelThreads(const std::string &name, int wanted) {
  if (wanted > 0)
    return wanted;
  const int cores = static_cast<int>(coreCount());
  const Result<Choice> choice = parse(name);
  return choice.ok() && choice->cuda ? cores - issuingCores(cores) : cores;
}

Result<HostScratch> scratchOf(const std::string &name, const plan::Plan &plan, int threads) {
  MT_ASSIGN(Choice choice, parse(name));
  return hostScratch(plan, kernelThreads(name, threads), choice.cuda);
}

Status checkMachine(const std::string &name, const plan::Plan &plan, int threads) {
  MT_ASSIGN(Choice choice, parse(name));
  MT_ASSIGN(HostScratch scratch, scratchOf(name, plan, threads));
  if (!choice.cuda)
    return host::checkMemory(plan.spaces, scratch.bytes(), host::machineMemory());
  if (plan.target.unified)
    return fail(
        "--device {}: the plan is compiled for {}, whose device shares the host's memory, and a GPU has its own; "
        "compile the model again for a GPU, for example with --target h100",
        name, plan.target.name);
  MT_TRY(checkCuda(choice, plan).within("--device " + name));
  return host::checkHostMemory(plan.spaces, scratch.bytes(), host::machineMemory());
}

Result<uint64_t> availableMemory(const std::string &name) {
  MT_ASSIGN(Choice choice, parse(name));
  if (!choice.cuda)
    return host::machineMemory().available;
  Result<uint64_t> bytes = availableOnGpu(choice);
  return bytes.ok() ? bytes : bytes.status().within("--device " + name);
}

Result<std::string> processorsOf(const std::string &name) {
  MT_ASSIGN(Choice choice, parse(name));
  if (!choice.cuda)
    return kernels::cpu::instructionSet();
  Result<std::string> gpu = nameOfGpu(choice);
  return gpu.ok() ? Result<std::string>(*gpu + ", " + kernels::cpu::instructionSet()) : gpu.status().within("--device " + name);
}

std::string builtWithCuda() {
#ifdef MT_HAS_CUDA
  return cudaVersion();
#else
  return "";
#endif
}

} // namespace mt::device
