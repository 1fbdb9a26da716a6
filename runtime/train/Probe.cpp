// Each measurement is a plan of one command, run by the executor: what is measured is what plans get.
#include "runtime/train/Probe.h"

#include "runtime/base/AtomicFile.h"
#include "runtime/base/Sizes.h"
#include "runtime/device/MakeDevice.h"
#include "runtime/executor/Executor.h"
#include "runtime/host/MachineMemory.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>

namespace mt::train {
namespace {

using kernels::DType;
using kernels::Effect;
using kernels::OperandType;
using kernels::Scalars;
using kernels::Signature;

constexpr int kTries = 3;

/// Large enough that what is measured dwarfs what starting it costs.
struct Sizes {
  int64_t product;        ///< rows, columns and depth of the matrix product
  int64_t deviceElements; ///< of elementwise work on the device
  int64_t hostElements;   ///< of updates
  uint64_t copyBytes;
  int repeats; ///< of each but the smallest pieces of work, in one measurement
};
constexpr Sizes kCpuSizes = {2048, int64_t(1) << 24, int64_t(1) << 24, uint64_t(1) << 27, 3};
constexpr Sizes kGpuSizes = {8192, int64_t(1) << 28, int64_t(1) << 26, uint64_t(1) << 30, 8};

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

/// A plan whose step copies `bytes` to the device, from it, or both at once.
plan::Plan copyPlan(uint64_t bytes, bool upload, bool download) {
  plan::Plan plan = emptyPlan(2 * bytes, 2 * bytes);
  for (uint32_t stream : {kUpload, kDownload}) {
    if (stream == kUpload ? !upload : !download)
      continue;
    uint64_t offset = stream == kUpload ? 0 : bytes;
    plan::Span device{kDevice, offset, bytes}, staging{kStaging, offset, bytes};
    plan::Command command;
    command.stream = stream;
    command.label = "copy";
    command.isCopy = true;
    command.from = stream == kUpload ? staging : device;
    command.to = stream == kUpload ? device : staging;
    plan.programs[0].commands.push_back(command);
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

/// A plan whose step is one kernel call on a stream, each operand a slot of its own, in order; scratch comes last.
plan::Plan kernelPlan(const Signature &call, uint32_t stream) {
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
  code.calls = {placed};
  plan::Plan plan = emptyPlan(stream == kHost ? 64 : offset, stream == kHost ? offset : 64);
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

Signature update(int64_t elements) {
  kernels::Dims dims = {elements};
  OperandType state{DType::f32, dims, Effect::update};
  return {"adamw",
          {{"parameter", int64_t(0)}},
          {{DType::f32, dims}, {DType::f64, {1}}, {DType::f64, {Scalars::kCount}}, state, state, state}};
}

/// Scalars of a first step, so that the update does its work.
void fillScalars(const plan::Plan &plan, executor::Executor &executor) {
  double scalars[Scalars::kCount] = {};
  scalars[Scalars::kStep] = scalars[Scalars::kBiasCorrection1] = scalars[Scalars::kBiasCorrection2] = 1;
  scalars[Scalars::kClipScale] = scalars[Scalars::kEpsilon] = 1;
  std::span<std::byte> place = executor.host(plan.programs[0].commands[0].arguments[2].span);
  std::memcpy(place.data(), scalars, sizeof(scalars));
}

/// Measures one device.
class Probe {
public:
  explicit Probe(const ProbeOptions &options) : options(options) {}

  /// Bytes per second of copies to the device, from it, or both at once.
  Result<double> copyBandwidth(bool upload, bool download) const {
    MT_ASSIGN(double seconds, secondsOf(copyPlan(sizes.copyBytes, upload, download), sizes.repeats));
    return static_cast<double>(sizes.copyBytes) * (upload && download ? 2 : 1) / seconds;
  }
  Result<double> hostBandwidth() const { return bandwidthOf(update(sizes.hostElements), kHost); }
  Result<double> deviceBandwidth() const { return bandwidthOf(sum(sizes.deviceElements), kCompute); }

  /// Flops per second; an error where the machine has no product of that type.
  Result<double> productRate(DType type) const {
    Signature call = product(type, sizes.product);
    MT_ASSIGN(double seconds, secondsOf(kernelPlan(withScratch(call, kCompute, gpu), kCompute), sizes.repeats));
    return kernels::flops(call) / seconds;
  }
  /// Seconds of the smallest pieces of work, one after the other.
  Result<double> kernelOverhead() const { return secondsOf(kernelPlan(sum(16), kCompute), 1000); }
  Result<double> copyOverhead() const { return secondsOf(copyPlan(64, true, false), 1000); }

private:
  const ProbeOptions &options;
  bool gpu = options.device.starts_with("cuda");
  Sizes sizes = gpu ? kGpuSizes : kCpuSizes;

  Result<double> bandwidthOf(const Signature &call, uint32_t stream) const {
    MT_ASSIGN(double seconds,
              secondsOf(kernelPlan(withScratch(call, stream, gpu), stream), sizes.repeats, stream == kHost));
    return kernels::traffic(call) / seconds;
  }

  /// Of one iteration of the plan's step: the best of a few tries of `repeats`, after a warm-up.
  Result<double> secondsOf(const plan::Plan &plan, int repeats, bool updates = false) const {
    executor::ExecutorOptions wanted;
    wanted.device = options.device;
    wanted.threads = options.threads;
    executor::Callbacks none;
    MT_ASSIGN(std::unique_ptr<executor::Executor> executor, executor::Executor::create(plan, wanted, none));
    if (updates)
      fillScalars(plan, *executor);
    double best = 0;
    for (int attempt = 0; attempt <= kTries; ++attempt) {
      auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < repeats; ++i)
        MT_TRY(executor->run(plan::ProgramKind::step));
      MT_TRY(executor->drain());
      double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / repeats;
      if (attempt == 1 || (attempt > 1 && seconds < best))
        best = seconds;
    }
    return best;
  }
};

/// The machine as a target, in the words of compiler/target.
Result<nlohmann::ordered_json> measure(const Probe &probe, const std::string &device) {
  bool gpu = device.starts_with("cuda");
  uint64_t machine = host::machineMemory().available / 8 * 7; // the rest is the system's
  MT_ASSIGN(uint64_t available, device::availableMemory(device));
  MT_ASSIGN(double upload, probe.copyBandwidth(true, false));
  MT_ASSIGN(double download, probe.copyBandwidth(false, true));
  MT_ASSIGN(double host, probe.hostBandwidth());
  MT_ASSIGN(double memory, probe.deviceBandwidth());
  MT_ASSIGN(double single, probe.productRate(DType::f32));
  MT_ASSIGN(double smallKernel, probe.kernelOverhead());
  MT_ASSIGN(double smallCopy, probe.copyOverhead());
  Result<double> half = probe.productRate(DType::bf16);
  nlohmann::ordered_json target;
  target["name"] = "probed";
  target["device"] = gpu ? "cuda" : "cpu";
  target["unified"] = !gpu;
  target["device_memory"] = gpu ? available / 100 * 98 : machine; // 2 % for what a driver loads later
  target["host_memory"] = machine;
  target["upload_bandwidth"] = upload;
  target["download_bandwidth"] = download;
  target["host_bandwidth"] = host;
  target["device_bandwidth"] = memory;
  target["fp32_flops"] = single;
  target["bf16_flops"] = half.ok() ? *half : single;
  target["kernel_overhead_seconds"] = smallKernel;
  target["copy_overhead_seconds"] = smallCopy;
  return target;
}

} // namespace

Status probeMachine(const ProbeOptions &options) {
  Probe probe(options);
  Result<nlohmann::ordered_json> target = measure(probe, options.device);
  if (!target)
    return target.status().within("probe");
  std::string text = target->dump(2) + "\n";
  if (options.output.empty()) {
    fmt::print("{}", text);
    return Status();
  }
  MT_ASSIGN(double both, probe.copyBandwidth(true, true));
  MT_TRY(writeFileAtomically(options.output, text));
  auto number = [&](const char *field) { return (*target)[field].get<double>(); };
  fmt::print(
      "{}: fp32 {:.0f}, bf16 {:.0f} GFLOP/s; copies {} up, {} down, {} both at once; updates {}; device memory {}\n",
      options.output, number("fp32_flops") / 1e9, number("bf16_flops") / 1e9,
      formatBandwidth(number("upload_bandwidth")), formatBandwidth(number("download_bandwidth")), formatBandwidth(both),
      formatBandwidth(number("host_bandwidth")), formatBandwidth(number("device_bandwidth")));
  return Status();
}

} // namespace mt::train
