#include "runtime/device/cuda/CudaDevice.h"

#include "kernels/cpu/CpuKernels.h"
#include "runtime/base/Log.h"
#include "runtime/base/Sizes.h"
#include "runtime/base/Threads.h"
#include "runtime/device/common/Disturbance.h"
#include "runtime/device/common/HostTemplate.h"
#include "runtime/device/common/SpaceFiles.h"
#include "runtime/device/common/Worker.h"
#include "runtime/device/cuda/CapturedRuns.h"
#include "runtime/device/cuda/CheckPlan.h"
#include "runtime/device/cuda/GpuNetwork.h"
#include "runtime/device/cuda/GpuStream.h"
#include "runtime/device/cuda/SpaceMemory.h"
#include "runtime/host/MemoryCheck.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>

namespace mt::device {
namespace {

using Clock = std::chrono::steady_clock;

class CudaDevice final : public Device {
public:
  CudaDevice(CudaOptions options, std::vector<std::unique_ptr<Driver>> drivers) : options(options) {
    for (std::unique_ptr<Driver> &driver : drivers)
      gpus.emplace_back().driver = std::move(driver);
  }
  ~CudaDevice() override;

  std::string_view name() const override { return "cuda"; }
  Status supports(const plan::Plan &plan) const override {
    return checkGpuPlan(plan, static_cast<uint32_t>(gpus.size()), [this](std::string_view kernel) { return gpus.front().driver->supports(kernel); });
  }
  Status reserve(std::span<const plan::Space> spaces, std::span<const plan::Stream> streams) override;
  uint64_t reserved(uint32_t space) const override { return files[space] ? files[space]->bytes() : spaces[space].bytes(); }
  std::span<std::byte> host(plan::Span span) override {
    return spaces[span.space].isHost() && !files[span.space] ? std::span(address(span), span.bytes) : std::span<std::byte>();
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
  struct Gpu {
    std::unique_ptr<Driver> driver;
    GpuKernelCache kernels = {};
    cudaStream_t side = {};    ///< for what is done before the first command
    cudaEvent_t origin = {};   ///< where measured times begin
    double originSeconds = 0;
    uint64_t freeAtStart = 0;  ///< of its memory
    std::unique_ptr<GpuNetwork> network = {}; ///< where it exchanges with those of other ranks
  };
  struct Lane {
    Disturbance disturbance;
    Gpu *of = nullptr; ///< whose stream it is; of a host stream, any
    std::vector<Measured> times; ///< of a host stream
    std::unique_ptr<CapturedRuns> graphs;
    std::unique_ptr<GpuStream> gpu; ///< null: a host stream; released before the graphs, which may be under way
    std::vector<void *> operands;
    std::unique_ptr<Worker> worker;
  };
  struct Prepared {
    std::optional<HostTemplate> host;
    std::optional<GpuTemplate> gpu;
    CallTimes times; ///< of the stream's thread, or its GpuStream
  };

  const CudaOptions options;
  const Clock::time_point begun = Clock::now();
  std::deque<Gpu> gpus; ///< by the plan's number of the device
  std::optional<host::Arena> scratch; ///< of the pool's threads
  std::optional<kernels::cpu::ThreadPool> pool;
  std::vector<SpaceMemory> spaces;
  SpaceFiles files; ///< by space
  std::deque<Prepared> templates;
  std::vector<uint32_t> owners; ///< by space: its GPU; of the host's, the first
  KernelCache hostKernels;
  bool started = false;               ///< a command has been issued
  std::unique_ptr<Progress> progress; ///< of what the workers have done: on streams of the GPU, enqueued
  std::deque<Lane> lanes;

  std::byte *address(const plan::Span &span) const { return spaces[span.space].data() + span.offset; }
  double now() const { return std::chrono::duration<double>(Clock::now() - begun).count(); }
  std::vector<plan::Space> spacesOf(const Gpu &gpu, std::span<const plan::Space> wanted) const;
  void *largestSpace(const Gpu &gpu) const;
  Status checkMemory(std::span<const plan::Space> wanted);
  Status letCopyToEachOther();
  void abortNetworks();
  Status beforeAll(std::span<const plan::Space> wanted);
  Status joinNetworks(std::span<const plan::Stream> streams, const Status &ready);
  Status reserveSpaces(std::span<const plan::Space> wanted);
  Status poisonSpaces();
  Status openGpu(Gpu &gpu);
  Status startStream(uint32_t index, const plan::Stream &stream);
  Status reportMemory(Gpu &gpu);
  Status beginCommand();
  void issue(Lane &lane, std::function<Status(uint64_t count)> task, bool mayWait);
  Status onHost(Lane &lane, Tag tag, const std::function<Status()> &body);
  Status onGpu(Lane &lane, uint64_t count, Tag tag, const GpuTemplate *code, CallTimes *times,
               const std::function<Status(uint32_t *faults)> &body);
  Status copyByGpu(Lane &lane, const plan::Span &from, const plan::Span &to);
  Status launch(Lane &lane, const GpuTemplate &code, std::span<const plan::Binding> arguments,
                const plan::Span &workspace, uint32_t *faults);
  template <typename Fill>
  Status poison(std::span<const plan::Binding> arguments, const plan::Span &workspace, const Fill &fill);
  Status awaitOn(Lane &lane, Event event);
  Status reach(Event event);
};

/// No thread may use a stream of another one that is gone, and no stream memory that is.
CudaDevice::~CudaDevice() {
  if (options.network)
    options.network->whenEnded(nullptr);
  if (progress &&
      !progress->failure()) // what is under way on a GPU may wait for ranks that have no part in it any more
    abortNetworks();
  if (progress)
    progress->stop(Status::error("the device is being released"));
  for (Lane &lane : lanes)
    lane.worker.reset();
  for (Lane &lane : lanes) {
    (void)lane.of->driver->bind();
    lane.gpu.reset();
    lane.graphs.reset();
  }
  lanes.clear();
  for (Gpu &gpu : gpus) {
    (void)gpu.driver->bind();
    gpu.network.reset();
    if (gpu.origin)
      gpu.driver->destroy(gpu.origin);
    if (gpu.side)
      gpu.driver->destroy(gpu.side);
  }
}

/// What of the spaces is its memory.
std::vector<plan::Space> CudaDevice::spacesOf(const Gpu &gpu, std::span<const plan::Space> wanted) const {
  std::vector<plan::Space> own;
  for (const plan::Space &space : wanted)
    if (space.kind == plan::SpaceKind::device && &gpus[space.device] == &gpu)
      own.push_back(space);
  return own;
}

Status CudaDevice::checkMemory(std::span<const plan::Space> wanted) {
  for (Gpu &gpu : gpus) {
    MT_TRY(gpu.driver->bind());
    MT_ASSIGN(DeviceMemory before, gpu.driver->memory());
    gpu.driver->openLibraries();
    MT_ASSIGN(DeviceMemory after, gpu.driver->memory());
    uint64_t libraries = before.free - std::min(before.free, after.free), taken = after.total - after.free;
    gpu.freeAtStart = before.free;
    log().info("{}: {} of {} free; its context and other programs take {}, libraries {}", gpu.driver->name(),
               formatSize(after.free), formatSize(after.total), formatSize(taken - std::min(taken, libraries)),
               formatSize(libraries));
    MT_TRY(checkGpuMemory(gpu.driver->name(), spacesOf(gpu, wanted), after));
  }
  return host::checkHostMemory(wanted, options.scratch.bytes(), host::machineMemory());
}

/// Copies between GPUs that cannot go by the host: the plan's times are of those that do not.
Status CudaDevice::letCopyToEachOther() {
  for (Gpu &gpu : gpus)
    for (Gpu &other : gpus)
      if (&gpu != &other) {
        MT_TRY(gpu.driver->bind());
        MT_ASSIGN(const bool direct, gpu.driver->enablePeer(*other.driver));
        if (!direct)
          log().warn("{} and {} do not copy to each other: the driver brings what goes between them through the host",
                     gpu.driver->name(), other.driver->name());
      }
  return {};
}

/// Memory of the GPU comes last: registering memory of the host takes some of it, for tables of its pages.
Status CudaDevice::reserveSpaces(std::span<const plan::Space> wanted) {
  MT_ASSIGN(files, makeFiles(wanted, options.stateFolder));
  spaces.reserve(wanted.size());
  for (plan::Space space : wanted) {
    if (space.kind == plan::SpaceKind::file)
      space.bytes = 0; // of memory
    owners.push_back(space.kind == plan::SpaceKind::device ? space.device : 0);
    Driver &driver = *gpus[owners.back()].driver;
    MT_TRY(driver.bind());
    MT_ASSIGN(SpaceMemory memory, SpaceMemory::reserve(space, driver, options.registerBytes));
    spaces.push_back(std::move(memory));
  }
  for (Gpu &gpu : gpus) {
    MT_TRY(gpu.driver->bind());
    MT_ASSIGN(DeviceMemory left, gpu.driver->memory());
    MT_TRY(checkGpuMemory(gpu.driver->name(), spacesOf(gpu, wanted), left));
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    MT_TRY(gpus[owners[i]].driver->bind());
    MT_TRY(spaces[i].allocate(wanted[i]));
  }
  return {};
}

Status CudaDevice::poisonSpaces() {
  for (size_t i = 0; i < spaces.size(); ++i) {
    Gpu &gpu = gpus[owners[i]];
    if (spaces[i].isHost()) {
      std::memset(spaces[i].data(), 0xFF, spaces[i].bytes());
    } else if (spaces[i].bytes() > 0) {
      MT_TRY(gpu.driver->bind());
      MT_TRY(gpu.driver->fill(spaces[i].data(), 0xFF, spaces[i].bytes(), gpu.side));
    }
  }
  return {};
}

/// Its side stream is empty then: what it did is done.
Status CudaDevice::openGpu(Gpu &gpu) {
  MT_TRY(gpu.driver->bind());
  if (options.measure) {
    MT_ASSIGN(gpu.origin, gpu.driver->createEvent(true));
    MT_TRY(gpu.driver->record(gpu.origin, gpu.side));
  }
  MT_TRY(gpu.driver->synchronize(gpu.side));
  gpu.originSeconds = now();
  return {};
}

Status CudaDevice::startStream(uint32_t index, const plan::Stream &stream) {
  Lane &lane = lanes.emplace_back();
  lane.disturbance = Disturbance(options.jitterSeed, index);
  lane.of = &gpus[plan::isOfHost(stream.kind) ? 0 : stream.device];
  Driver &driver = *lane.of->driver;
  if (!plan::isOfHost(stream.kind)) {
    MT_TRY(driver.bind());
    auto made = GpuStream::make(driver, std::max<size_t>(options.window, 1), options.mostLaunches, lane.of->origin, lane.of->originSeconds);
    if (!made.ok())
      return made.status().within(fmt::format("stream \"{}\"", stream.name));
    lane.gpu = std::move(*made);
    lane.graphs = std::make_unique<CapturedRuns>(driver);
  }
  MT_ASSIGN(lane.worker, Worker::start(index, *progress));
  lane.worker->issue([&driver] { return driver.bind(); }, false);
  return {};
}

Status CudaDevice::beforeAll(std::span<const plan::Space> wanted) {
  MT_TRY(checkMemory(wanted));
  MT_TRY(letCopyToEachOther());
  for (Gpu &gpu : gpus) {
    MT_TRY(gpu.driver->bind());
    MT_ASSIGN(gpu.side, gpu.driver->createStream());
  }
  return {};
}

/// All GPUs of one rank one after another, as all ranks do. `ready`: whether this one is.
Status CudaDevice::joinNetworks(std::span<const plan::Stream> streams, const Status &ready) {
  const bool joins = std::ranges::find(streams, plan::StreamKind::deviceNetwork, &plan::Stream::kind) != streams.end();
  if (!joins || !options.network)
    MT_TRY(ready);
  else
    MT_TRY(network::agree(*options.network, network::Channel::loop, ready)); // else the others would wait for this one
  for (const plan::Stream &stream : streams) {
    if (stream.kind != plan::StreamKind::deviceNetwork)
      continue;
    if (!options.network)
      return fail("stream \"{}\" exchanges with other ranks, and there are none", stream.name);
    Gpu &gpu = gpus[stream.device];
    MT_TRY(gpu.driver->bind());
    MT_ASSIGN(gpu.network, GpuNetwork::join(*gpu.driver, *options.network, gpu.side));
  }
  if (options.network)
    options.network->whenEnded([this] { abortNetworks(); });
  return {};
}

void CudaDevice::abortNetworks() {
  for (Gpu &gpu : gpus)
    if (gpu.network)
      gpu.network->abort();
}

Status CudaDevice::reserve(std::span<const plan::Space> wanted, std::span<const plan::Stream> streams) {
  MT_TRY(joinNetworks(streams, beforeAll(wanted))); // takes memory of the GPU
  MT_TRY(reserveSpaces(wanted));
  if (options.poison)
    MT_TRY(poisonSpaces());
  for (Gpu &gpu : gpus)
    MT_TRY(openGpu(gpu));
  progress = std::make_unique<Progress>(streams.size());
  for (uint32_t i = 0; i < streams.size(); ++i)
    MT_TRY(startStream(i, streams[i]));
  // After the streams: they need their threads, the pool makes do with what is left.
  pool.emplace(options.threads > 0 ? options.threads : static_cast<int>(coreCount()));
  return lendScratch(options.scratch, *pool, scratch);
}

/// Where the largest of a GPU's spaces begins; null: it has none.
void *CudaDevice::largestSpace(const Gpu &gpu) const {
  const SpaceMemory *largest = nullptr;
  for (size_t i = 0; i < spaces.size(); ++i)
    if (!spaces[i].isHost() && &gpus[owners[i]] == &gpu && (!largest || spaces[i].bytes() > largest->bytes()))
      largest = &spaces[i];
  return largest ? largest->data() : nullptr;
}

Result<Code> CudaDevice::prepare(uint32_t stream, const plan::Template &code, const HostFunctions &functions) {
  Prepared made{.host = {}, .gpu = {}, .times = {code, stream}};
  Gpu &of = *lanes[stream].of;
  MT_TRY(of.driver->bind());
  if (GpuStream *gpu = lanes[stream].gpu.get()) {
    MT_ASSIGN(made.gpu, GpuTemplate::prepare(code, functions, *of.driver, of.kernels, of.network.get()));
    MT_TRY(gpu->reserveCalls(code.calls.size(), options.measureCalls));
    if (void *place = largestSpace(of)) // a capture looks whether what is cleared and copied there lies in it
      MT_TRY(made.gpu->preload(*of.driver, of.side, place).within(fmt::format("template \"{}\"", code.name)));
  } else {
    MT_ASSIGN(made.host, HostTemplate::prepare(code, functions, hostKernels));
  }
  templates.push_back(std::move(made));
  return Code{static_cast<uint32_t>(templates.size() - 1)};
}

/// What has been taken of the GPU's memory since the start that is not the plan's.
Status CudaDevice::reportMemory(Gpu &gpu) {
  constexpr uint64_t kLittle = uint64_t{64} << 20;
  Driver *driver = gpu.driver.get();
  MT_TRY(driver->bind());
  MT_ASSIGN(DeviceMemory left, driver->memory());
  uint64_t known = left.free;
  for (size_t i = 0; i < spaces.size(); ++i)
    known += !spaces[i].isHost() && &gpus[owners[i]] == &gpu ? spaces[i].bytes() : 0;
  log().info("{}: kernels and libraries take {} beside the plan; {} are left", driver->name(),
             formatSize(gpu.freeAtStart - std::min(gpu.freeAtStart, known)), formatSize(left.free));
  if (left.free < kLittle)
    log().warn("{}: only {} of its memory are left, and the driver may need more while it runs; if it fails, stop what "
               "else uses the GPU, or compile the model again with a smaller --device-memory",
               driver->name(), formatSize(left.free));
  return {};
}

/// What comes before every command. At the first one everything has been prepared.
Status CudaDevice::beginCommand() {
  MT_TRY(progress->failure());
  if (std::exchange(started, true))
    return {};
  for (Gpu &gpu : gpus)
    MT_TRY(reportMemory(gpu));
  return {};
}

/// `count` is the task's own number.
void CudaDevice::issue(Lane &lane, std::function<Status(uint64_t count)> task, bool mayWait) {
  uint64_t count = lane.worker->next();
  lane.worker->issue([task = std::move(task), count] { return task(count); }, mayWait);
}

Status CudaDevice::onHost(Lane &lane, Tag tag, const std::function<Status()> &body) {
  lane.disturbance.delay();
  double begin = now();
  Status status = body();
  if (options.measure)
    lane.times.push_back({tag.number, begin, now()});
  return status ? status : status.within(fmt::format("\"{}\"", tag.label));
}

/// Errors of begin() may be those of earlier commands, and carry their names.
Status CudaDevice::onGpu(Lane &lane, uint64_t count, Tag tag, const GpuTemplate *code, CallTimes *times,
                         const std::function<Status(uint32_t *faults)> &body) {
  lane.disturbance.delay();
  MT_ASSIGN(uint32_t * faults, lane.gpu->begin(count, tag, code, times));
  Status status = body(faults);
  if (status.ok())
    status = lane.gpu->end();
  return status ? status : status.within(fmt::format("\"{}\"", tag.label));
}

/// The driver may read or write pageable memory when it is called rather than when the stream comes to it: then
/// everything before must be done first, and the copy itself before anything after.
Status CudaDevice::copyByGpu(Lane &lane, const plan::Span &from, const plan::Span &to) {
  const SpaceMemory &source = spaces[from.space], &target = spaces[to.space];
  cudaMemcpyKind kind = source.isHost()   ? cudaMemcpyHostToDevice
                        : target.isHost() ? cudaMemcpyDeviceToHost
                                          : cudaMemcpyDeviceToDevice;
  Driver *driver = lane.of->driver.get();
  bool direct = source.isDirect() && target.isDirect();
  if (!direct)
    MT_TRY(driver->synchronize(lane.gpu->stream()));
  for (uint64_t done = 0; done < to.bytes;) {
    uint64_t piece =
        std::min({to.bytes - done, source.copyable(from.offset + done), target.copyable(to.offset + done)});
    MT_TRY(driver->copy(address(to) + done, address(from) + done, piece, kind, lane.gpu->stream()));
    done += piece;
  }
  return direct ? Status() : driver->synchronize(lane.gpu->stream());
}

Status CudaDevice::copy(uint32_t stream, plan::Span from, plan::Span to, Tag tag) {
  MT_TRY(beginCommand());
  Lane &lane = lanes[stream];
  bool withinHost = spaces[from.space].isHost() && spaces[to.space].isHost();
  if ((lane.gpu != nullptr) == withinHost)
    return fail("\"{}\": {}; compile the model again with this version of mtc", tag.label,
                withinHost ? "a stream of the GPU cannot copy within the host"
                           : "a host stream cannot copy memory of the GPU");
  issue(
      lane,
      [this, &lane, from, to, tag](uint64_t count) {
        if (lane.gpu)
          return onGpu(lane, count, tag, nullptr, nullptr, [&](uint32_t *) { return copyByGpu(lane, from, to); });
        return onHost(lane, tag, [&] {
          if (files[from.space] || files[to.space])
            return copyFile(files, from, to, [this](const plan::Span &span) { return address(span); });
          std::memcpy(address(to), address(from), to.bytes);
          return Status();
        });
      },
      true);
  return {};
}

template <typename Fill>
Status CudaDevice::poison(std::span<const plan::Binding> arguments, const plan::Span &workspace, const Fill &fill) {
  for (const plan::Binding &binding : arguments)
    if (binding.fresh)
      MT_TRY(fill(address(binding.span), binding.span.bytes));
  return workspace.bytes > 0 ? fill(address(workspace), workspace.bytes) : Status();
}

Status CudaDevice::launch(Lane &lane, const GpuTemplate &code, std::span<const plan::Binding> arguments,
                          const plan::Span &workspace, uint32_t *faults) {
  cudaStream_t stream = lane.gpu->stream();
  auto address = [this](const plan::Span &span) { return this->address(span); };
  if (options.poison)
    MT_TRY(poison(arguments, workspace,
                  [&](std::byte *to, uint64_t bytes) { return lane.of->driver->fill(to, 0xFF, bytes, stream); }));
  if (!options.graphs || !code.canBeCaptured())
    return code.launch(arguments, workspace, address, lane.gpu->paced(), faults, lane.gpu->betweenCalls(),
                       lane.operands);
  MT_TRY(lane.gpu->paced().launching(1));
  MT_ASSIGN(const uint32_t *own, lane.graphs->run(code, arguments, workspace, address, stream, lane.operands));
  lane.gpu->faultsIn(own);
  return {};
}

Status CudaDevice::run(uint32_t stream, Code code, std::span<const plan::Binding> arguments, plan::Span workspace,
                       Tag tag) {
  MT_TRY(beginCommand());
  Lane &lane = lanes[stream];
  Prepared &prepared = templates[code.index];
  CallTimes *times = options.measureCalls ? &prepared.times : nullptr;
  issue(
      lane,
      [this, &lane, &prepared, arguments, workspace, tag, times](uint64_t count) {
        if (lane.gpu)
          return onGpu(lane, count, tag, &*prepared.gpu, times,
                       [&](uint32_t *faults) { return launch(lane, *prepared.gpu, arguments, workspace, faults); });
        return onHost(lane, tag, [&] {
          if (options.poison)
            MT_TRY(poison(arguments, workspace, [](std::byte *to, uint64_t bytes) {
              std::memset(to, 0xFF, bytes);
              return Status();
            }));
          return prepared.host->run(
              arguments, workspace, [this](const plan::Span &span) { return address(span); }, *pool, times);
        });
      },
      true);
  return {};
}

Result<Event> CudaDevice::record(uint32_t stream) {
  MT_TRY(progress->failure());
  Lane &lane = lanes[stream];
  if (lane.gpu)
    issue(
        lane, [&lane](uint64_t count) { return lane.gpu->mark(count); }, false);
  return lane.worker->last();
}

/// Returns when the event has happened; on a host stream, only if no command that is done has met a fault, so that
/// nothing is written from what a faulty one has computed.
Status CudaDevice::reach(Event event) {
  progress->await(event, false);
  if (progress->stopped() || !lanes[event.stream].gpu)
    return {};
  MT_TRY(lanes[event.stream].gpu->reach(event.count));
  if (options.network) // where the job has ended exchanges end, too, and have brought nothing
    MT_TRY(options.network->failure());
  for (Lane &lane : lanes)
    if (lane.gpu)
      MT_TRY(lane.gpu->sweep());
  return {};
}

Status CudaDevice::awaitOn(Lane &lane, Event event) {
  GpuStream *source = lanes[event.stream].gpu.get();
  if (!lane.gpu || !source)
    return reach(event);
  progress->await(event, false); // enqueued: the GPU can wait for it
  return progress->stopped() ? Status() : lane.gpu->waitFor(*source, event.count);
}

Status CudaDevice::wait(uint32_t stream, Event event) {
  MT_TRY(progress->failure());
  Lane &lane = lanes[stream];
  lane.worker->before([this, &lane, event] { return awaitOn(lane, event); });
  return {};
}

Status CudaDevice::synchronize(Event event) {
  MT_TRY(lanes[event.stream].of->driver->bind());
  if (Status status = reach(event); !status.ok())
    progress->stop(status);
  return progress->failure();
}

/// Also after an error: when this returns, nothing runs.
Status CudaDevice::synchronize() {
  for (Lane &lane : lanes)
    progress->await(lane.worker->last(), true);
  for (Lane &lane : lanes) {
    MT_TRY(lane.of->driver->bind());
    if (Status status = lane.gpu ? lane.gpu->drain() : Status(); !status.ok())
      progress->stop(status);
  }
  for (const SpaceMemory &space : spaces)
    if (Status intact = space.checkGuard(); !intact.ok())
      progress->stop(intact);
  return progress->failure();
}

std::vector<Measured> CudaDevice::measured() {
  std::vector<Measured> all;
  for (Lane &lane : lanes) {
    std::vector<Measured> times = lane.gpu ? lane.gpu->measured() : std::exchange(lane.times, {});
    all.insert(all.end(), times.begin(), times.end());
  }
  return all;
}

std::vector<CallTimes> CudaDevice::callTimes() {
  std::vector<CallTimes> all;
  for (Prepared &prepared : templates)
    prepared.times.moveTo(all);
  return all;
}

} // namespace

std::unique_ptr<Device> makeCudaDevice(CudaOptions options, std::vector<std::unique_ptr<Driver>> drivers) {
  return std::make_unique<CudaDevice>(options, std::move(drivers));
}
std::unique_ptr<Device> makeCudaDevice(CudaOptions options, std::unique_ptr<Driver> driver) {
  std::vector<std::unique_ptr<Driver>> one;
  one.push_back(std::move(driver));
  return makeCudaDevice(options, std::move(one));
}

/// What the driver still takes when kernels are loaded and graphs of cuDNN are built: an estimate.
constexpr uint64_t kLaterBytes = uint64_t{256} << 20;

uint64_t memoryForPlan(DeviceMemory memory) { return memory.free - std::min(memory.free, kLaterBytes); }

Status checkGpuMemory(std::string_view gpu, std::span<const plan::Space> spaces, DeviceMemory memory) {
  uint64_t needed = 0, there = memoryForPlan(memory);
  for (const plan::Space &space : spaces)
    needed += space.kind == plan::SpaceKind::device ? space.bytes : 0;
  if (needed <= there)
    return {};
  return fail("the plan needs {} of device memory, and {} has {} for it: of {}, {} are taken by the driver's context, "
              "libraries and other programs, and {} are kept for kernels; stop what else uses the GPU, or compile the "
              "model again with --device-memory {}B or less",
              formatExactSize(needed), gpu, formatExactSize(there), formatSize(memory.total),
              formatSize(memory.total - memory.free), formatSize(kLaterBytes), there);
}

} // namespace mt::device
