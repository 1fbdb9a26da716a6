// Each measurement is a plan of one command, run by the executor: what is measured is what plans get.
#include "runtime/train/Probe.h"

#include "runtime/base/AtomicFile.h"
#include "runtime/base/Sizes.h"
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

constexpr int64_t kProduct = 2048;              ///< rows, columns and depth of the matrix product
constexpr int64_t kElements = int64_t(1) << 24; ///< of elementwise work and updates
constexpr uint64_t kCopyBytes = uint64_t(1) << 27;
constexpr int kTries = 3;

enum : uint32_t { kDevice, kStaging };                     ///< spaces
enum : uint32_t { kUpload, kCompute, kDownload, kHost };   ///< streams

plan::Plan emptyPlan(uint64_t deviceBytes, uint64_t stagingBytes) {
  plan::Plan plan;
  plan.target = {.name = "probe", .device = "cpu", .unified = false};
  plan.spaces = {{.kind = plan::SpaceKind::device, .bytes = deviceBytes, .name = "device"},
                 {.kind = plan::SpaceKind::staging, .bytes = stagingBytes, .name = "staging"}};
  plan.streams = {{.kind = plan::StreamKind::upload, .name = "upload"},
                  {.kind = plan::StreamKind::compute, .name = "compute"},
                  {.kind = plan::StreamKind::download, .name = "download"},
                  {.kind = plan::StreamKind::host, .name = "host"}};
  plan.programs = {{.kind = plan::ProgramKind::step, .commands = {}}};
  return plan;
}

/// A plan whose step copies `bytes` to or from the device.
plan::Plan copyPlan(uint64_t bytes, bool upload) {
  plan::Plan plan = emptyPlan(bytes, bytes);
  plan::Span device{kDevice, 0, bytes}, staging{kStaging, 0, bytes};
  plan::Command command;
  command.stream = upload ? kUpload : kDownload;
  command.label = "copy";
  command.isCopy = true;
  command.from = upload ? staging : device;
  command.to = upload ? device : staging;
  plan.programs[0].commands = {command};
  return plan;
}

/// A plan whose step is one kernel call on a stream, each operand a slot of its own, in order.
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

Signature product(DType type) {
  kernels::Dims dims = {kProduct, kProduct};
  return {"matmul", {}, {{type, dims}, {type, dims}, {type, {kProduct}, Effect::read, false}, {type, dims, Effect::write}}};
}

Signature sum(int64_t elements) {
  kernels::Dims dims = {elements};
  return {"add", {}, {{DType::f32, dims}, {DType::f32, dims}, {DType::f32, dims, Effect::write}}};
}

Signature update() {
  kernels::Dims dims = {kElements};
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

/// Seconds of one iteration of the plan's step: the best of a few tries of `repeats`, after a warm-up.
Result<double> secondsOf(const plan::Plan &plan, int threads, int repeats, bool updates = false) {
  executor::ExecutorOptions options;
  options.threads = threads;
  executor::Callbacks none;
  MT_ASSIGN(std::unique_ptr<executor::Executor> executor, executor::Executor::create(plan, options, none));
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

/// Flops per second of a product; nothing where the machine has no kernel of that type.
std::optional<double> productRate(DType type, int threads) {
  Signature call = product(type);
  Result<double> seconds = secondsOf(kernelPlan(call, kCompute), threads, 2);
  if (!seconds)
    return std::nullopt;
  return kernels::flops(call) / *seconds;
}

Result<double> bandwidthOf(const Signature &call, uint32_t stream, int threads) {
  MT_ASSIGN(double seconds, secondsOf(kernelPlan(call, stream), threads, 4, stream == kHost));
  return kernels::traffic(call) / seconds;
}

} // namespace

Status probeMachine(const ProbeOptions &options) {
  int threads = options.threads;
  nlohmann::ordered_json target;
  uint64_t memory = host::machineMemory().available / 8 * 7;
  target["name"] = "probed";
  target["device"] = "cpu";
  target["unified"] = true;
  target["device_memory"] = memory;
  target["host_memory"] = memory;
  MT_ASSIGN(double upload, secondsOf(copyPlan(kCopyBytes, true), threads, 2));
  MT_ASSIGN(double download, secondsOf(copyPlan(kCopyBytes, false), threads, 2));
  target["upload_bandwidth"] = static_cast<double>(kCopyBytes) / upload;
  target["download_bandwidth"] = static_cast<double>(kCopyBytes) / download;
  MT_ASSIGN(double host, bandwidthOf(update(), kHost, threads));
  MT_ASSIGN(double device, bandwidthOf(sum(kElements), kCompute, threads));
  target["host_bandwidth"] = host;
  target["device_bandwidth"] = device;
  std::optional<double> single = productRate(DType::f32, threads);
  if (!single)
    return fail("probe: this machine has no 32-bit matrix product");
  target["fp32_flops"] = *single;
  target["bf16_flops"] = productRate(DType::bf16, threads).value_or(*single);
  MT_ASSIGN(double smallKernel, secondsOf(kernelPlan(sum(16), kCompute), threads, 1000));
  MT_ASSIGN(double smallCopy, secondsOf(copyPlan(64, true), threads, 1000));
  target["kernel_overhead_seconds"] = smallKernel;
  target["copy_overhead_seconds"] = smallCopy;

  std::string text = target.dump(2) + "\n";
  if (options.output.empty()) {
    fmt::print("{}", text);
    return Status();
  }
  MT_TRY(writeFileAtomically(options.output, text));
  fmt::print("{}: fp32 {:.0f} GFLOP/s, copies {}, updates {}\n", options.output, *single / 1e9,
             formatBandwidth(static_cast<double>(kCopyBytes) / upload), formatBandwidth(host));
  return Status();
}

} // namespace mt::train
