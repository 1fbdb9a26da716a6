// Each measurement is a small plan, run by the executor: what is measured is what plans get.
#include "runtime/train/Probe.h"

#include "runtime/base/AtomicFile.h"
#include "runtime/base/Sizes.h"
#include "runtime/device/MakeDevice.h"
#include "runtime/executor/Executor.h"
#include "runtime/host/MachineMemory.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>

namespace mt::train {
namespace {

using kernels::DType;
using kernels::Effect;
using kernels::OperandType;
using kernels::Scalars;
using kernels::Signature;

constexpr int kTries = 3;
constexpr int kSmallPieces = 1000; ///< of work, in one step, where it is measured what each costs at least

/// Large enough that what is measured dwarfs what starting it costs.
struct Sizes {
  int64_t product;        ///< rows, columns and depth of the matrix product
  int64_t deviceElements; ///< of elementwise work on the device
  int64_t hostElements;   ///< of updates and copies on the host
  uint64_t copyBytes;
  double seconds; ///< that a try takes at least: so long that a GPU's clocks settle
};
constexpr Sizes kCpuSizes = {2048, int64_t(1) << 24, int64_t(1) << 24, uint64_t(1) << 27, 0.05};
constexpr Sizes kGpuSizes = {8192, int64_t(1) << 28, int64_t(1) << 26, uint64_t(1) << 30, 0.3};
constexpr uint64_t kStagingBytes = uint64_t(1) << 26; ///< where device memory is filled from

enum : uint32_t { kDevice, kStaging };                   ///< spaces
enum : uint32_t { kUpload, kCompute, kDownload, kHost }; ///< streams

plan::Plan emptyPlan(uint64_t deviceBytes, uint64_t stagingBytes) {
  plan::Plan plan;
  plan.target = {.name = "probe", .device = "cpu", .unified = false}; // the executor is told which device it is
  plan.spaces = {{.kind = plan::SpaceKind::device, .bytes = deviceBytes, .name = "device"},
                 {.kind = plan::SpaceKind::staging, .bytes = stagingBytes, .name = "staging"}};
  plan.streams = {{.kind = plan::StreamKind::upload, .name = "upload"},
                  {.kind = plan::StreamKind::compute, .name = "compute"},
                  {.kind = plan::StreamKind::download, .name = "download"},
                  {.kind = plan::StreamKind::host, .name = "host"}};
  plan.programs = {{.kind = plan::ProgramKind::step, .commands = {}}};
  return plan;
}

plan::Command copyCommand(uint32_t stream, plan::Span from, plan::Span to) {
  plan::Command command;
  command.stream = stream;
  command.label = "copy";
  command.isCopy = true;
  command.from = from;
  command.to = to;
  return command;
}

/// A program that fills the device from staging, over and over.
plan::Program fillingProgram(const plan::Plan &plan) {
  plan::Program program{.kind = plan::ProgramKind::evaluate, .commands = {}};
  uint64_t bytes = plan.spaces[kDevice].bytes, most = plan.spaces[kStaging].bytes;
  for (uint64_t offset = 0; offset < bytes; offset += most) {
    uint64_t piece = std::min(most, bytes - offset);
    program.commands.push_back(copyCommand(kUpload, {kStaging, 0, piece}, {kDevice, offset, piece}));
  }
  return program;
}

/// A plan whose step copies `bytes` to the device, from it, or both at once, so many times.
plan::Plan copyPlan(uint64_t bytes, bool upload, bool download, int times = 1) {
  plan::Plan plan = emptyPlan(2 * bytes, 2 * bytes);
  std::vector<plan::Command> &commands = plan.programs[0].commands;
  for (int i = 0; i < times; ++i) {
    if (upload)
      commands.push_back(copyCommand(kUpload, {kStaging, 0, bytes}, {kDevice, 0, bytes}));
    if (download)
      commands.push_back(copyCommand(kDownload, {kDevice, bytes, bytes}, {kStaging, bytes, bytes}));
  }
  return plan;
}

/// The call with the scratch that whoever runs the stream needs for it.
Signature withScratch(Signature call, uint32_t stream, bool gpu) {
  bool onGpu = gpu && stream != kHost;
  if (uint64_t bytes = kernels::workspaceBytes(call, onGpu ? kernels::Backend::cuda : kernels::Backend::cpu))
    call.operands.push_back({DType::u8, {static_cast<int64_t>(bytes)}, Effect::scratch, true});
  return call;
}

/// A plan whose step is a kernel call on a stream, so many times in one command, each operand a slot of its own, in
/// order; scratch comes last.
plan::Plan kernelPlan(const Signature &call, uint32_t stream, int times = 1) {
  uint32_t space = stream == kHost ? kStaging : kDevice;
  plan::Template code;
  code.name = call.kernel;
  plan::Call placed{call, {}, "probe"};
  plan::Command command;
  command.stream = stream;
  command.label = call.kernel;
  uint64_t offset = 0;
  for (const OperandType &operand : call.operands) {
    if (operand.effect == Effect::scratch) {
      placed.operands.push_back({-1, 0});
      code.workspaceBytes = operand.bytes();
      command.workspace = {space, offset, operand.bytes()};
      offset += operand.bytes();
      continue;
    }
    placed.operands.push_back({operand.present ? static_cast<int32_t>(code.arguments.size()) : -1, 0});
    if (!operand.present)
      continue;
    bool reads = operand.effect == Effect::read, updates = operand.effect == Effect::update;
    code.arguments.push_back({operand.bytes(), operand.effect});
    command.arguments.push_back({{space, offset, operand.bytes()},
                                 reads     ? plan::BindingEffect::read
                                 : updates ? plan::BindingEffect::update
                                           : plan::BindingEffect::write,
                                 false});
    offset += (operand.bytes() + 63) / 64 * 64;
  }
  code.calls.assign(static_cast<size_t>(times), placed);
  plan::Plan plan = stream == kHost ? emptyPlan(64, std::max<uint64_t>(offset, 64))
                                    : emptyPlan(offset, std::min(offset, kStagingBytes));
  plan.templates = {code};
  plan.programs[0].commands = {command};
  return plan;
}

Signature product(DType type, int64_t size) {
  kernels::Dims dims = {size, size};
  return {"matmul", {}, {{type, dims}, {type, dims}, {type, {size}, Effect::read, false}, {type, dims, Effect::write}}};
}

Signature sum(int64_t elements) {
  kernels::Dims dims = {elements};
  return {"add", {}, {{DType::f32, dims}, {DType::f32, dims}, {DType::f32, dims, Effect::write}}};
}

Signature copyOf(int64_t elements) {
  kernels::Dims dims = {elements};
  return {"copy", {}, {{DType::f32, dims}, {DType::f32, dims, Effect::write}}};
}

/// Of a weight in 32 bits, or of one that is split in two halves.
Signature update(int64_t elements, bool split) {
  kernels::Dims dims = {elements};
  auto state = [&](DType type) { return OperandType{type, dims, Effect::update}; };
  std::vector<OperandType> operands = {{DType::f32, dims}, {DType::f64, {1}}, {DType::f64, {Scalars::kCount}}};
  for (DType type : split ? std::vector{DType::bf16, DType::i16} : std::vector{DType::f32})
    operands.push_back(state(type));
  for (int moment = 0; moment < 2; ++moment)
    operands.push_back(state(DType::f32));
  return {split ? "adamw_split" : "adamw", {{"parameter", int64_t(0)}}, operands};
}

bool isUpdate(const Signature &call) { return call.kernel.starts_with("adamw"); }

/// Fills memory with numbers of either sign from 0.5 up to 1, be it read as bf16 or in 32 bits. A GPU that multiplies
/// zeros, or what it had before, may run faster than one that works.
void fillWithNumbers(std::span<std::byte> memory) {
  uint64_t random = 0x9E3779B97F4A7C15;
  for (size_t i = 0; i < memory.size(); i += sizeof(random)) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17; // Marsaglia, Xorshift RNGs, 2003
    uint64_t numbers = (random & 0x807F807F807F807F) | 0x3F003F003F003F00;
    std::memcpy(memory.data() + i, &numbers, std::min(sizeof(numbers), memory.size() - i));
  }
}

/// Norm and scalars of a first step, so that the update does its work.
void fillScalars(const plan::Plan &plan, executor::Executor &executor) {
  double squaredNorm = 1, scalars[Scalars::kCount] = {};
  scalars[Scalars::kStep] = scalars[Scalars::kBiasCorrection1] = scalars[Scalars::kBiasCorrection2] = 1;
  scalars[Scalars::kClipScale] = scalars[Scalars::kEpsilon] = 1;
  const std::vector<plan::Binding> &arguments = plan.programs[0].commands[0].arguments;
  std::memcpy(executor.host(arguments[1].span).data(), &squaredNorm, sizeof(squaredNorm));
  std::memcpy(executor.host(arguments[2].span).data(), scalars, sizeof(scalars));
}

/// Numbers everywhere on the device and in staging.
Status fillMemory(const plan::Plan &plan, executor::Executor &executor) {
  fillWithNumbers(executor.host({kStaging, 0, plan.spaces[kStaging].bytes}));
  if (!plan.templates.empty() && isUpdate(plan.templates[0].calls[0].signature))
    fillScalars(plan, executor);
  MT_TRY(executor.run(plan::ProgramKind::evaluate));
  return executor.drain();
}

/// Of one iteration of the step, when it is run so many times.
Result<double> timeSteps(executor::Executor &executor, int repeats) {
  auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i)
    MT_TRY(executor.run(plan::ProgramKind::step));
  MT_TRY(executor.drain());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / repeats;
}

/// Measures one device.
class Probe {
public:
  explicit Probe(const ProbeOptions &options) : options(options) {}

  /// Bytes per second of copies to the device, from it, or both at once.
  Result<double> copyBandwidth(bool upload, bool download) const {
    MT_ASSIGN(double seconds, secondsOf(copyPlan(sizes.copyBytes, upload, download)));
    return static_cast<double>(sizes.copyBytes) * (upload && download ? 2 : 1) / seconds;
  }
  Result<double> hostCopyBandwidth() const { return bandwidthOf(copyOf(sizes.hostElements), kHost); }
  /// Of updates on the host: bytes per second, and parameters.
  struct Updates {
    double bandwidth, rate;
  };
  Result<Updates> updates(bool split) const {
    Signature call = update(sizes.hostElements, split);
    MT_ASSIGN(double seconds, secondsOf(kernelPlan(call, kHost)));
    return Updates{kernels::traffic(call) / seconds, static_cast<double>(sizes.hostElements) / seconds};
  }
  Result<double> deviceBandwidth() const { return bandwidthOf(sum(sizes.deviceElements), kCompute); }

  /// Flops per second; an error where the machine has no product of that type.
  Result<double> productRate(DType type) const {
    Signature call = product(type, sizes.product);
    MT_ASSIGN(double seconds, secondsOf(kernelPlan(withScratch(call, kCompute, gpu), kCompute)));
    return kernels::flops(call) / seconds;
  }
  /// Seconds of the smallest pieces of work, one after the other, as within a command or a stream: what it costs to
  /// begin a step is shared by all of them.
  Result<double> kernelOverhead() const {
    MT_ASSIGN(double seconds, secondsOf(kernelPlan(sum(16), kCompute, kSmallPieces)));
    return seconds / kSmallPieces;
  }
  Result<double> copyOverhead() const {
    MT_ASSIGN(double seconds, secondsOf(copyPlan(64, true, false, kSmallPieces)));
    return seconds / kSmallPieces;
  }

private:
  const ProbeOptions &options;
  bool gpu = options.device.starts_with("cuda");
  Sizes sizes = gpu ? kGpuSizes : kCpuSizes;

  Result<double> bandwidthOf(const Signature &call, uint32_t stream) const {
    MT_ASSIGN(double seconds, secondsOf(kernelPlan(withScratch(call, stream, gpu), stream)));
    return kernels::traffic(call) / seconds;
  }

  /// Of one iteration of the plan's step: the median of a few tries, after a warm-up. A GPU is fastest before it is
  /// warm: the best try would promise too much.
  Result<double> secondsOf(plan::Plan plan) const {
    plan.programs.push_back(fillingProgram(plan));
    executor::ExecutorOptions wanted;
    wanted.device = options.device;
    wanted.threads = options.threads;
    executor::Callbacks none;
    MT_ASSIGN(std::unique_ptr<executor::Executor> executor, executor::Executor::create(plan, wanted, none));
    MT_TRY(fillMemory(plan, *executor));
    MT_TRY(timeSteps(*executor, 1).status());
    MT_ASSIGN(double once, timeSteps(*executor, 1));
    int repeats = static_cast<int>(std::ceil(sizes.seconds / std::max(once, 1e-6)));
    std::array<double, kTries> tries;
    for (double &seconds : tries) {
      MT_ASSIGN(seconds, timeSteps(*executor, repeats));
    }
    std::ranges::nth_element(tries, tries.begin() + kTries / 2);
    return tries[kTries / 2];
  }
};

/// The machine as a target, in the words of compiler/target.
Result<nlohmann::ordered_json> measure(const Probe &probe, const std::string &device) {
  bool gpu = device.starts_with("cuda");
  uint64_t machine = host::machineMemory().available / 8 * 7; // the rest is the system's
  MT_ASSIGN(uint64_t available, device::availableMemory(device));
  MT_ASSIGN(double upload, probe.copyBandwidth(true, false));
  MT_ASSIGN(double download, probe.copyBandwidth(false, true));
  MT_ASSIGN(Probe::Updates updates, probe.updates(false));
  MT_ASSIGN(double memory, probe.deviceBandwidth());
  MT_ASSIGN(double single, probe.productRate(DType::f32));
  MT_ASSIGN(double smallKernel, probe.kernelOverhead());
  MT_ASSIGN(double smallCopy, probe.copyOverhead());
  Result<double> half = probe.productRate(DType::bf16);
  if (gpu)
    MT_TRY(half.status().within("the product of bf16"));
  MT_ASSIGN(double both, probe.copyBandwidth(true, true));
  MT_ASSIGN(Probe::Updates splitUpdates, probe.updates(true));
  MT_ASSIGN(double hostCopy, probe.hostCopyBandwidth());
  nlohmann::ordered_json target;
  target["name"] = "probed";
  target["device"] = gpu ? "cuda" : "cpu";
  target["unified"] = !gpu;
  target["device_memory"] = gpu ? available / 100 * 98 : machine; // 2 % for tables of registered memory and others
  target["host_memory"] = machine;
  target["upload_bandwidth"] = upload;
  target["download_bandwidth"] = download;
  target["host_bandwidth"] = updates.bandwidth;
  target["device_bandwidth"] = memory;
  target["fp32_flops"] = single;
  target["bf16_flops"] = half.ok() ? *half : single;
  target["kernel_overhead_seconds"] = smallKernel;
  target["copy_overhead_seconds"] = smallCopy;
  target["measured"] = {{"copy_both_ways_bandwidth", both},
                        {"updates_per_second", updates.rate},
                        {"split_updates_per_second", splitUpdates.rate},
                        {"host_copy_bandwidth", hostCopy}};
  return target;
}

} // namespace

Status probeMachine(const ProbeOptions &options) {
  Probe probe(options);
  Result<nlohmann::ordered_json> target = measure(probe, options.device);
  if (!target)
    return target.status().within("probe");
  std::string text = target->dump(2) + "\n";
  if (options.output.empty())
    return writeOut(text);
  MT_TRY(writeFileAtomically(options.output, text));
  auto number = [&](const char *field) { return (*target)[field].get<double>(); };
  auto measured = [&](const char *field) { return (*target)["measured"][field].get<double>(); };
  return writeAbout(options.output, fmt::format(
      "{}: fp32 {:.0f}, bf16 {:.0f} GFLOP/s; copies {} up, {} down, {} both at once; updates {}; device memory {}; "
      "{:.2f} G updates/s, {:.2f} of split weights; copies within the host {}\n",
      options.output, number("fp32_flops") / 1e9, number("bf16_flops") / 1e9,
      formatBandwidth(number("upload_bandwidth")), formatBandwidth(number("download_bandwidth")),
      formatBandwidth(measured("copy_both_ways_bandwidth")), formatBandwidth(number("host_bandwidth")),
      formatBandwidth(number("device_bandwidth")), measured("updates_per_second") / 1e9,
      measured("split_updates_per_second") / 1e9, formatBandwidth(measured("host_copy_bandwidth"))));
}

} // namespace mt::train
