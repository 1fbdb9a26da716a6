#include "runtime/device/MakeDevice.h"

#include "kernels/cpu/Bf16Units.h"
#include "kernels/cpu/InstructionSet.h"
#include "runtime/base/Log.h"
#include "runtime/base/Threads.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/host/MachineMemory.h"
#include "runtime/host/MemoryCheck.h"

#ifdef MT_HAS_CUDA
#include "runtime/device/cuda/CheckPlan.h"
#include "runtime/device/cuda/CudaDevice.h"
#endif

#include <algorithm>
#include <charconv>
#include <vector>

namespace mt::device {
namespace {

struct Choice {
  bool cuda = false;
  std::vector<int> gpus = {}; ///< that are named
};

Result<Choice> parse(std::string_view name) {
  Choice choice{name.starts_with("cuda")};
  std::string_view rest = name.substr(choice.cuda ? 4 : 0);
  for (char mark = ':'; choice.cuda && rest.starts_with(mark); mark = ',') {
    int index = -1;
    auto [end, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), index);
    if (error != std::errc() || index < 0 || std::ranges::count(choice.gpus, index) > 0)
      break;
    choice.gpus.push_back(index);
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
  }
  if (rest != (choice.cuda ? "" : "cpu"))
    return fail("--device {}: there are cpu, cuda and cuda:N or cuda:N,N,..., N being a GPU's number from 0", name);
  return choice;
}

#ifdef MT_HAS_CUDA

/// Those that are named, else the first ones.
Result<std::vector<std::unique_ptr<Driver>>> openGpus(const Choice &choice, uint64_t devices) {
  std::vector<std::unique_ptr<Driver>> gpus;
  for (uint64_t i = 0; i < (choice.gpus.empty() ? devices : choice.gpus.size()); ++i) {
    MT_ASSIGN(std::unique_ptr<Driver> gpu, openDriver(choice.gpus.empty() ? static_cast<int>(i) : choice.gpus[i]));
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

Result<std::unique_ptr<Device>> makeCuda(const Choice &choice, const DeviceOptions &options) {
  if (options.slowCopyBytesPerSecond > 0)
    return fail("--slow-copies: only copies of the CPU can be slowed down; leave it out, or use --device cpu");
  if (options.protectHost)
    return fail("host spaces can be protected from the CPU's compute only");
  MT_ASSIGN(std::vector<std::unique_ptr<Driver>> gpus, openGpus(choice, options.devices));
  return makeCudaDevice({.threads = options.threads,
                         .scratch = options.scratch,
                         .measure = options.measure,
                         .measureCalls = options.measureCalls,
                         .graphs = options.graphs,
                         .jitterSeed = options.jitterSeed,
                         .poison = options.poison,
                         .stateFolder = options.stateFolder,
                         .network = options.network},
                        std::move(gpus));
}

Status checkCuda(const Choice &choice, const plan::Plan &plan) {
  MT_ASSIGN(std::vector<std::unique_ptr<Driver>> gpus, openGpus(choice, plan::deviceCount(plan)));
  MT_TRY(checkGpuPlan(plan, static_cast<uint32_t>(gpus.size()), [&](std::string_view kernel) { return gpus.front()->supports(kernel); }));
  for (uint32_t i = 0; i < gpus.size(); ++i) {
    std::vector<plan::Space> own;
    for (const plan::Space &space : plan.spaces)
      if (space.kind == plan::SpaceKind::device && space.device == i)
        own.push_back(space);
    MT_TRY(gpus[i]->bind());
    MT_ASSIGN(DeviceMemory memory, gpus[i]->memory());
    MT_TRY(checkGpuMemory(gpus[i]->name(), own, memory));
  }
  return {};
}

Result<uint64_t> availableOnGpu(const Choice &choice) {
  MT_ASSIGN(std::vector<std::unique_ptr<Driver>> gpus, openGpus(choice, 1));
  Driver &driver = *gpus.front();
  MT_TRY(driver.bind());
  driver.openLibraries();
  MT_ASSIGN(DeviceMemory memory, driver.memory());
  return memoryForPlan(memory);
}

Result<std::string> nameOfGpu(const Choice &choice) {
  MT_ASSIGN(std::vector<std::unique_ptr<Driver>> gpus, openGpus(choice, 1));
  return gpus.front()->name();
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
                        .protectHost = options.protectHost,
                        .stateFolder = options.stateFolder});
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

Status checkMachine(const std::string &name, const plan::Plan &plan, int threads, uint32_t processes) {
  MT_ASSIGN(Choice choice, parse(name));
  MT_ASSIGN(HostScratch scratch, scratchOf(name, plan, threads));
  if (!choice.cuda)
    return host::checkMemory(plan.spaces, scratch.bytes(), host::sharedBy(host::machineMemory(), processes));
  if (plan.target.unified)
    return fail(
        "--device {}: the plan is compiled for {}, whose device shares the host's memory, and a GPU has its own; "
        "compile the model again for a GPU, for example with --target h100",
        name, plan.target.name);
  MT_TRY(checkCuda(choice, plan).within("--device " + name));
  return host::checkHostMemory(plan.spaces, scratch.bytes(), host::sharedBy(host::machineMemory(), processes));
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

Status useInstructionSet(const std::string &name, const plan::Target &target) {
  if (!name.empty())
    return kernels::cpu::useInstructionSet(name).within("--isa");
  if (target.isa.empty())
    return {};
  if (const Status used = kernels::cpu::useInstructionSet(target.isa); !used)
    log().warn("the plan's target: isa {}; kernels use the best instructions there are, and results differ in their "
               "last bits from those of its machine: probe this one, and compile the plan for it, or say --isa",
               used.message());
  return {};
}

bool couldMultiplyFloatsOnTiles() { return kernels::cpu::bf16Units() == kernels::cpu::Units::tiles; }
void multiplyFloatsOnTiles(bool does) { kernels::cpu::multiplyFloatsOnTiles(does); }

std::string builtWithCuda() {
#ifdef MT_HAS_CUDA
  return cudaVersion();
#else
  return "";
#endif
}

} // namespace mt::device
