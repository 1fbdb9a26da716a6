#include "runtime/device/cpu/CpuDevice.h"

#include "kernels/cpu/CpuKernels.h"
#include "runtime/base/Threads.h"
#include "runtime/device/common/Disturbance.h"
#include "runtime/device/common/HostTemplate.h"
#include "runtime/device/common/SpaceFiles.h"
#include "runtime/device/common/Worker.h"
#include "runtime/host/Arena.h"
#include "runtime/host/MemoryCheck.h"

#include <chrono>
#include <cstring>
#include <deque>
#include <shared_mutex>
#include <thread>

namespace mt::device {
namespace {

using Clock = std::chrono::steady_clock;

class CpuDevice final : public Device {
public:
  explicit CpuDevice(CpuOptions options) : options(options) {}
  ~CpuDevice() override {
    if (progress)
      progress->stop(Status::error("the device is being released"));
  }

  std::string_view name() const override { return "cpu"; }
  Status supports(const plan::Plan &plan) const override;
  Status reserve(std::span<const plan::Space> spaces, std::span<const plan::Stream> streams) override;
  uint64_t reserved(uint32_t space) const override { return files[space] ? files[space]->bytes() : arenas[space].bytes(); }
  std::span<std::byte> host(plan::Span span) override {
    return files[span.space] ? std::span<std::byte>() : std::span(address(span), span.bytes);
  }
  host::FileSpace *file(uint32_t space) override { return files[space].get(); }
  Result<Code> prepare(uint32_t stream, const plan::Template &code, const HostFunctions &functions) override;
  Status copy(uint32_t stream, plan::Span from, plan::Span to, Tag tag) override;
  Status run(uint32_t stream, Code code, std::span<const plan::Binding> arguments, plan::Span workspace,
             Tag tag) override;
  Result<Event> record(uint32_t stream) override;
  Status wait(uint32_t stream, Event event) override;
  Status synchronize(Event event) override;
  Status synchronize() override;
  std::vector<Measured> measured() override;
  std::vector<CallTimes> callTimes() override;

private:
  struct Lane {
    Disturbance disturbance;
    bool exclusive = false; ///< protected commands: alone, without host spaces
    std::vector<Measured> times;
    std::unique_ptr<Worker> worker; ///< last: its thread uses everything above
  };
  struct Prepared {
    HostTemplate code;
    CallTimes times; ///< of the stream's thread
  };

  const CpuOptions options;
  const Clock::time_point origin = Clock::now();
  std::optional<host::Arena> scratch; ///< of the pool's threads
  std::optional<kernels::cpu::ThreadPool> pool;
  std::vector<plan::Space> spaces;
  std::vector<host::Arena> arenas;
  SpaceFiles files; ///< by space
  std::deque<Prepared> templates;
  KernelCache kernels;
  std::shared_mutex beside; ///< held alone by protected commands
  std::unique_ptr<Progress> progress;
  std::deque<Lane> lanes; ///< last: their threads use everything above

  std::byte *address(const plan::Span &span) const { return arenas[span.space].data() + span.offset; }
  double now() const { return std::chrono::duration<double>(Clock::now() - origin).count(); }
  Status issue(uint32_t stream, Tag tag, std::function<Status()> body);
  Status execute(Lane &lane, Tag tag, const std::function<Status()> &body);
  void protectHost(bool forbidden);
  void poison(std::span<const plan::Binding> arguments, const plan::Span &workspace);
  void poison(const plan::Span &span) { std::memset(address(span), 0xFF, span.bytes); }
};

Status CpuDevice::supports(const plan::Plan &plan) const {
  for (const plan::Template &code : plan.templates)
    for (const plan::Call &call : code.calls)
      if (!kernels::find(call.signature.kernel))
        return fail("template \"{}\": the cpu has no kernel \"{}\"; compile the model again with this version of mtc",
                    code.name, call.signature.kernel);
  return {};
}

Status CpuDevice::reserve(std::span<const plan::Space> wanted, std::span<const plan::Stream> streams) {
  MT_TRY(host::checkMemory(wanted, options.scratch.bytes(), host::machineMemory()));
  spaces.assign(wanted.begin(), wanted.end());
  MT_ASSIGN(files, makeFiles(wanted, options.stateFolder));
  for (const plan::Space &space : spaces) {
    const uint64_t bytes = space.kind == plan::SpaceKind::file ? 0 : space.bytes;
    MT_ASSIGN(host::Arena arena, host::Arena::reserve(bytes, space.name, true));
    arenas.push_back(std::move(arena));
    if (options.poison)
      std::memset(arenas.back().data(), 0xFF, bytes);
  }
  progress = std::make_unique<Progress>(streams.size());
  for (uint32_t i = 0; i < streams.size(); ++i) {
    Lane &lane = lanes.emplace_back();
    lane.disturbance = Disturbance(options.jitterSeed, i);
    lane.exclusive = options.protectHost && streams[i].kind == plan::StreamKind::compute;
    MT_ASSIGN(lane.worker, Worker::start(i, *progress));
  }
  // After the streams: they need their threads, the pool makes do with what is left.
  pool.emplace(options.threads > 0 ? options.threads : static_cast<int>(coreCount()));
  return lendScratch(options.scratch, *pool, scratch);
}

Result<Code> CpuDevice::prepare(uint32_t stream, const plan::Template &code, const HostFunctions &functions) {
  MT_ASSIGN(HostTemplate made, HostTemplate::prepare(code, functions, kernels));
  templates.push_back({std::move(made), {code, stream}});
  return Code{static_cast<uint32_t>(templates.size() - 1)};
}

Status CpuDevice::issue(uint32_t stream, Tag tag, std::function<Status()> body) {
  MT_TRY(progress->failure());
  Lane &lane = lanes[stream];
  lane.worker->issue(
      [this, &lane, tag, body = std::move(body)] {
        Status status = execute(lane, tag, body);
        return status ? status : status.within(fmt::format("\"{}\"", tag.label));
      },
      true);
  return {};
}

Status CpuDevice::execute(Lane &lane, Tag tag, const std::function<Status()> &body) {
  lane.disturbance.delay();
  std::shared_lock shared(beside, std::defer_lock);
  std::unique_lock alone(beside, std::defer_lock);
  if (lane.exclusive) {
    alone.lock();
    protectHost(true);
  } else if (options.protectHost) {
    shared.lock();
  }
  double begin = now();
  Status status = body();
  if (options.measure)
    lane.times.push_back({tag.number, begin, now()});
  if (lane.exclusive)
    protectHost(false);
  return status;
}

void CpuDevice::protectHost(bool forbidden) {
  for (size_t i = 0; i < spaces.size(); ++i)
    if (spaces[i].kind != plan::SpaceKind::device)
      arenas[i].protect(forbidden);
}

Status CpuDevice::copy(uint32_t stream, plan::Span from, plan::Span to, Tag tag) {
  return issue(stream, tag, [this, from, to] {
    auto end = Clock::now();
    if (options.slowCopyBytesPerSecond > 0)
      end += std::chrono::duration_cast<Clock::duration>(
          std::chrono::duration<double>(static_cast<double>(to.bytes) / options.slowCopyBytesPerSecond));
    Status done;
    if (files[from.space] || files[to.space])
      done = copyFile(files, from, to, [this](const plan::Span &span) { return address(span); });
    else
      std::memcpy(address(to), address(from), to.bytes);
    std::this_thread::sleep_until(end);
    return done;
  });
}

void CpuDevice::poison(std::span<const plan::Binding> arguments, const plan::Span &workspace) {
  for (const plan::Binding &binding : arguments)
    if (binding.fresh)
      poison(binding.span);
  poison(workspace);
}

Status CpuDevice::run(uint32_t stream, Code code, std::span<const plan::Binding> arguments, plan::Span workspace,
                      Tag tag) {
  Prepared &prepared = templates[code.index];
  return issue(stream, tag, [this, &prepared, arguments, workspace] {
    if (options.poison)
      poison(arguments, workspace);
    return prepared.code.run(
        arguments, workspace, [this](const plan::Span &span) { return address(span); }, *pool,
        options.measureCalls ? &prepared.times : nullptr);
  });
}

Result<Event> CpuDevice::record(uint32_t stream) {
  MT_TRY(progress->failure());
  return lanes[stream].worker->last();
}

Status CpuDevice::wait(uint32_t stream, Event event) {
  MT_TRY(progress->failure());
  lanes[stream].worker->before([this, event] {
    progress->await(event, false);
    return Status();
  });
  return {};
}

Status CpuDevice::synchronize(Event event) {
  progress->await(event, false);
  return progress->failure();
}

Status CpuDevice::synchronize() {
  for (Lane &lane : lanes)
    progress->await(lane.worker->last(), true);
  MT_TRY(progress->failure());
  for (const host::Arena &arena : arenas)
    if (Status intact = arena.checkGuard(); !intact.ok()) {
      progress->stop(intact);
      return intact;
    }
  return {};
}

std::vector<Measured> CpuDevice::measured() {
  std::vector<Measured> all;
  for (Lane &lane : lanes) {
    all.insert(all.end(), lane.times.begin(), lane.times.end());
    lane.times.clear();
  }
  return all;
}

std::vector<CallTimes> CpuDevice::callTimes() {
  std::vector<CallTimes> all;
  for (Prepared &prepared : templates)
    prepared.times.moveTo(all);
  return all;
}

} // namespace

std::unique_ptr<Device> makeCpuDevice(CpuOptions options) { return std::make_unique<CpuDevice>(options); }

} // namespace mt::device
