#include "runtime/probe/Bench.h"

#include "runtime/device/MakeDevice.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>

namespace mt::probe {
namespace {

using kernels::DType;
using kernels::Effect;
using kernels::OperandType;
using kernels::Signature;

enum : uint32_t { kDevice, kStaging }; ///< spaces
constexpr uint64_t kFilling = uint64_t(1) << 25; ///< bytes that device memory is filled with at a time
constexpr double kLongEnough = 1e-3;             ///< seconds of a command beside which issuing it is nothing
constexpr double kMostPieces = 2000;

uint64_t aligned(uint64_t bytes) { return (bytes + 255) / 256 * 256; }

} // namespace

Result<std::unique_ptr<Bench>> Bench::create(std::string device, int threads, std::vector<Work> works) {
  std::unique_ptr<Bench> bench(new Bench(std::move(device), threads, std::move(works)));
  bench->layOut();
  MT_TRY(bench->open());
  return bench;
}

Bench::Bench(std::string name, int threads, std::vector<Work> works)
    : name(std::move(name)), threads(threads), gpu(this->name.starts_with("cuda")), works(std::move(works)), ready(this->works.size()) {}

Bench::Content Bench::contentOf(const OperandType &operand) {
  if (operand.effect == Effect::scratch)
    return scratch;
  if (operand.effect == Effect::write)
    return results;
  if (operand.type == DType::f64)
    return scalars;
  if (operand.type != DType::f32 && operand.type != DType::bf16 && operand.type != DType::f16)
    return integers;
  return operand.effect == Effect::update ? positive : numbers;
}

/// Numbers are random: a GPU that multiplies zeros, or what it had before, may run faster than one that works.
void Bench::fill(Content content, std::span<std::byte> memory) {
  uint64_t random = 0x9E3779B97F4A7C15;
  const uint64_t varied = content == positive ? 0x007F007F007F007F : 0x807F807F807F807F;
  for (size_t i = 0; i < memory.size(); i += sizeof(random)) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17; // Marsaglia, Xorshift RNGs, 2003
    const uint64_t word = content == integers  ? i / sizeof(random) * 37 % 64
                          : content == scalars ? std::bit_cast<uint64_t>(0.5)
                                               : (random & varied) | 0x3F003F003F003F00;
    std::memcpy(memory.data() + i, &word, std::min(sizeof(word), memory.size() - i));
  }
}

Signature Bench::withScratch(const Work &work) const {
  Signature call = work.call;
  const bool onGpu = gpu && work.lane != Lane::host;
  if (uint64_t bytes = kernels::workspaceBytes(call, onGpu ? kernels::Backend::cuda : kernels::Backend::cpu))
    call.operands.push_back({DType::u8, {static_cast<int64_t>(bytes)}, Effect::scratch, true});
  return call;
}

uint32_t Bench::spaceOf(const Work &work) const { return work.lane == Lane::host ? kStaging : kDevice; }

/// Every kind of content has a part of each space, as large as any work needs it. Copies have halves of their part: up to the
/// first of the device's, down from the second.
void Bench::layOut() {
  layouts[kStaging].bytes[copied] = 2 * kFilling;
  for (const Work &work : works) {
    if (work.isCopy()) {
      for (Layout &layout : layouts)
        layout.bytes[copied] = std::max(layout.bytes[copied], 2 * aligned(work.bytes));
      continue;
    }
    uint64_t needed[contents] = {};
    for (const OperandType &operand : withScratch(work).operands)
      needed[contentOf(operand)] += aligned(operand.bytes());
    for (size_t i = 0; i < contents; ++i)
      layouts[spaceOf(work)].bytes[i] = std::max(layouts[spaceOf(work)].bytes[i], needed[i]);
  }
  for (Layout &layout : layouts) {
    for (size_t i = 0; i < contents; ++i) {
      layout.offset[i] = layout.total;
      layout.total += layout.bytes[i];
    }
    layout.total = std::max<uint64_t>(layout.total, 256);
  }
}

Status Bench::open() {
  for (std::optional<Ready> &made : ready)
    made.reset();
  device.reset();
  retired.clear();
  MT_ASSIGN(device, device::makeDevice(name, {.threads = threads}));
  const plan::Space spaces[] = {{.kind = plan::SpaceKind::device, .bytes = layouts[kDevice].total, .name = "device"},
                                {.kind = plan::SpaceKind::staging, .bytes = layouts[kStaging].total, .name = "staging"}};
  const plan::Stream streams[kLanes] = {{.kind = plan::StreamKind::upload, .name = "upload"},
                                        {.kind = plan::StreamKind::compute, .name = "compute"},
                                        {.kind = plan::StreamKind::download, .name = "download"},
                                        {.kind = plan::StreamKind::host, .name = "host"}};
  MT_TRY(device->reserve(spaces, streams));
  return fillMemory();
}

Status Bench::fillMemory() {
  for (uint32_t space : {kDevice, kStaging})
    for (uint8_t i = 0; i < contents; ++i)
      MT_TRY(fill(Content{i}, {space, layouts[space].offset[i], layouts[space].bytes[i]}));
  return {};
}

/// What a GPU gets comes from the place of copies.
Status Bench::fill(Content content, plan::Span span) {
  if (content == results || content == scratch || span.bytes == 0)
    return {};
  if (span.space == kStaging) {
    fill(content, device->host(span));
    return {};
  }
  const uint64_t from = layouts[kStaging].offset[copied];
  fill(content, device->host({kStaging, from, std::min(kFilling, span.bytes)}));
  for (uint64_t done = 0; done < span.bytes; done += kFilling) {
    const uint64_t piece = std::min(kFilling, span.bytes - done);
    MT_TRY(device->copy(static_cast<uint32_t>(Lane::upload), {kStaging, from, piece}, {kDevice, span.offset + done, piece}, {"fill"}));
  }
  return device->synchronize();
}

Status Bench::prepare(size_t index, int pieces) {
  const Work &work = works[index];
  if (ready[index])
    retired.push_back(std::move(ready[index]->code));
  Ready &made = ready[index].emplace();
  made.pieces = pieces;
  if (work.isCopy()) {
    const bool up = work.lane == Lane::upload;
    const uint64_t behind = up ? 0 : 1;
    const plan::Span here = {kStaging, layouts[kStaging].offset[copied] + behind * layouts[kStaging].bytes[copied] / 2, work.bytes};
    const plan::Span there = {kDevice, layouts[kDevice].offset[copied] + behind * layouts[kDevice].bytes[copied] / 2, work.bytes};
    made.from = up ? here : there;
    made.to = up ? there : here;
    return {};
  }
  const Signature call = withScratch(work);
  const uint32_t space = spaceOf(work);
  made.code->name = call.kernel;
  plan::Call placed{call, {}, "probe"};
  uint64_t used[contents] = {};
  for (const OperandType &operand : call.operands) {
    const Content content = contentOf(operand);
    const plan::Span span = {space, layouts[space].offset[content] + used[content], operand.bytes()};
    used[content] += aligned(operand.bytes());
    placed.operands.push_back({operand.present && content != scratch ? static_cast<int32_t>(made.code->arguments.size()) : -1, 0});
    if (content == scratch) {
      made.code->workspaceBytes = operand.bytes();
      made.workspace = span;
    } else if (operand.present) {
      made.code->arguments.push_back({operand.bytes(), operand.effect});
      made.arguments.push_back({span,
                                operand.effect == Effect::read     ? plan::BindingEffect::read
                                : operand.effect == Effect::update ? plan::BindingEffect::update
                                                                   : plan::BindingEffect::write,
                                false});
    }
  }
  made.code->calls.assign(static_cast<size_t>(pieces), placed);
  const device::HostFunctions none;
  MT_ASSIGN(made.prepared, device->prepare(static_cast<uint32_t>(work.lane), *made.code, none));
  return {};
}

Status Bench::issue(size_t index) {
  const Work &work = works[index];
  const Ready &made = *ready[index];
  const auto stream = static_cast<uint32_t>(work.lane);
  for (int i = 0; i < (work.isCopy() ? made.pieces : 1); ++i)
    MT_TRY(work.isCopy() ? device->copy(stream, made.from, made.to, {"copy"})
                         : device->run(stream, made.prepared, made.arguments, made.workspace, {made.code->name}));
  return {};
}

/// Seconds until so many repetitions of each are done.
Result<double> Bench::timed(const std::vector<std::pair<size_t, int>> &jobs) {
  const auto begin = std::chrono::steady_clock::now();
  Status status;
  int most = 0;
  for (auto [index, repeats] : jobs)
    most = std::max(most, repeats);
  for (int i = 0; i < most; ++i) // in turns: a stream takes only so many commands ahead
    for (auto [index, repeats] : jobs)
      if (status && i < repeats)
        status = issue(index);
  if (Status done = device->synchronize(); status)
    status = done;
  if (!status) { // a device that has failed once does nothing more
    MT_TRY(open());
    return status;
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Status Bench::makeReady(size_t index) {
  if (!ready[index])
    MT_TRY(prepare(index, 1));
  if (ready[index]->isWarm)
    return {};
  MT_TRY(renew(index));
  MT_ASSIGN(double once, timed({{index, 1}}));
  if (once < 10 * kLongEnough) { // the first time is one of cold caches
    MT_ASSIGN(once, timed({{index, 1}}));
  }
  if (once < kLongEnough)
    MT_TRY(prepare(index, static_cast<int>(std::min(kMostPieces, std::ceil(kLongEnough / std::max(once, 1e-7))))));
  ready[index]->isWarm = true;
  return {};
}

/// What is updated changes, and another update takes moments for weights that may be negative.
Status Bench::renew(size_t index) {
  if (!ready[index])
    return {};
  for (const plan::Binding &argument : ready[index]->arguments)
    if (argument.effect == plan::BindingEffect::update)
      MT_TRY(fill(positive, argument.span));
  return {};
}

Result<double> Bench::time(size_t index, double seconds) {
  MT_TRY(makeReady(index));
  MT_TRY(renew(index));
  MT_ASSIGN(const double once, timed({{index, 1}}));
  const int repeats = static_cast<int>(std::ceil(seconds / once));
  double total = once;
  if (repeats > 1) {
    MT_ASSIGN(total, timed({{index, repeats}}));
  }
  return total / std::max(repeats, 1) / ready[index]->pieces;
}

Result<double> Bench::slowdown(const std::vector<size_t> &together, double seconds) {
  std::vector<std::pair<size_t, int>> jobs;
  double alone = 0;
  for (size_t index : together) {
    MT_ASSIGN(double each, time(index, seconds));
    each *= ready[index]->pieces;
    const int repeats = static_cast<int>(std::ceil(seconds / each));
    jobs.push_back({index, repeats});
    alone = std::max(alone, repeats * each);
  }
  MT_ASSIGN(const double all, timed(jobs));
  return std::max(1.0, all / alone);
}

} // namespace mt::probe
