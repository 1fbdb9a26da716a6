#include "tests/device/SimulatedDriver.h"

#include "kernels/cpu/CpuKernels.h"
#include "runtime/base/Log.h"
#include "tests/device/FakeNccl.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace mt::tests {

using kernels::cuda::Launch;

void Simulation::failAt(std::string call, int nth) {
  std::lock_guard lock(mutex);
  failures[std::move(call)] = nth;
}

int Simulation::count(const std::string &call) {
  std::lock_guard lock(mutex);
  return static_cast<int>(std::ranges::count(log, call));
}

std::vector<std::string> Simulation::calls() {
  std::lock_guard lock(mutex);
  return log;
}

Status Simulation::enter(const std::string &call) {
  std::lock_guard lock(mutex);
  log.push_back(call);
  auto found = failures.find(call);
  return found != failures.end() && --found->second == 0 ? fail("{}: injected", call) : Status();
}

namespace {

using Work = std::function<void()>;

/// A stream: a thread that does its work in order.
class Queue {
public:
  void push(Work work) {
    if (captured) {
      captured->push_back(std::move(work));
      return;
    }
    std::lock_guard lock(mutex);
    waiting.push_back(std::move(work));
    changed.notify_all();
  }
  void drain() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return waiting.empty() && idle; });
  }
  ~Queue() {
    drain();
    thread.request_stop();
    changed.notify_all();
  }
  std::optional<std::vector<Work>> captured;
  bool preloading = false; ///< what is captured will be thrown away

private:
  std::mutex mutex;
  std::condition_variable_any changed;
  std::deque<Work> waiting;
  bool idle = true;
  std::jthread thread{[this](const std::stop_token &stop) {
    std::unique_lock lock(mutex);
    while (changed.wait(lock, stop, [&] { return !waiting.empty(); })) {
      Work work = std::move(waiting.front());
      waiting.pop_front();
      idle = false;
      lock.unlock();
      work();
      lock.lock();
      idle = true;
      changed.notify_all();
    }
  }};
};

Queue *queue(cudaStream_t stream) { return reinterpret_cast<Queue *>(stream); }

/// An event: how often it was recorded, and how many of those have happened.
struct Mark {
  bool timed = false;
  std::atomic<uint64_t> recorded = 0, happened = 0;
  std::atomic<double> milliseconds = 0;
  bool isPending() const { return happened < recorded; }
};

struct Graph {
  std::vector<Work> work;
  std::atomic<int> underWay = 0; ///< pieces of work on streams
};

class SimulatedDriver final : public device::Driver {
public:
  explicit SimulatedDriver(Simulation &simulation) : simulation(simulation) {}

  std::string name() const override { return "GPU 0, simulated"; }
  Status bind() override {
    MT_TRY(simulation.enter("bind"));
    boundTo = this;
    return {};
  }
  Result<device::DeviceMemory> memory() override {
    MT_TRY(enter("memory"));
    return simulation.memory;
  }

  Result<bool> enablePeer(device::Driver &) override {
    MT_TRY(enter("enablePeer"));
    return simulation.peers;
  }

  Result<void *> allocate(uint64_t bytes) override {
    MT_ASSIGN(void *memory, make("allocate", bytes));
    simulation.memory.free -= bytes;
    return memory;
  }
  void release(void *memory) override { free(memory); }
  Result<void *> allocatePinned(uint64_t bytes) override {
    MT_ASSIGN(void *memory, make("allocatePinned", bytes));
    std::lock_guard lock(mutex);
    pinned[static_cast<std::byte *>(memory)] = bytes;
    return std::memset(memory, 0, bytes);
  }
  void releasePinned(void *memory) override {
    auto *begin = static_cast<std::byte *>(memory);
    std::unique_lock lock(mutex);
    auto used = faults.lower_bound(begin);
    if (used != faults.end() && *used < begin + pinned[begin])
      simulationFailed("words for faults are released while a kernel that may write to them is under way");
    lock.unlock();
    free(memory);
  }
  Status registerHost(void *memory, uint64_t bytes) override {
    MT_TRY(enter("registerHost"));
    simulation.memory.free -= simulation.registrationBytes;
    auto *begin = static_cast<std::byte *>(memory);
    simulation.registered[begin] = begin + bytes;
    ++simulation.alive;
    return {};
  }
  void unregisterHost(void *memory) override {
    (void)simulation.enter("unregisterHost");
    if (simulation.registered.erase(static_cast<std::byte *>(memory)) == 0)
      simulationFailed("memory that is not registered is unregistered");
    --simulation.alive;
  }

  Result<cudaStream_t> createStream() override {
    MT_TRY(enter("createStream"));
    ++simulation.alive;
    return reinterpret_cast<cudaStream_t>(new Queue);
  }
  void destroy(cudaStream_t stream) override {
    delete queue(stream);
    --simulation.alive;
  }
  Status synchronize(cudaStream_t stream) override {
    MT_TRY(enter("synchronizeStream"));
    queue(stream)->drain();
    return {};
  }
  Result<cudaEvent_t> createEvent(bool timed) override {
    MT_TRY(enter(timed ? "createTimedEvent" : "createEvent"));
    ++simulation.alive;
    return reinterpret_cast<cudaEvent_t>(new Mark{timed});
  }
  void destroy(cudaEvent_t event) override {
    delete mark(event);
    --simulation.alive;
  }
  Status record(cudaEvent_t event, cudaStream_t stream) override {
    MT_TRY(enter("record"));
    Mark *made = mark(event);
    uint64_t turn = ++made->recorded;
    queue(stream)->push([this, made, turn] {
      int before = clock++;
      made->milliseconds = before == 0 ? 0 : simulation.idleMilliseconds + before;
      made->happened = turn;
      std::lock_guard lock(mutex);
      changed.notify_all();
    });
    return {};
  }
  Status wait(cudaStream_t stream, cudaEvent_t event) override {
    MT_TRY(enterFromAny("wait"));
    queue(stream)->push([this, made = mark(event), turn = mark(event)->recorded.load()] { await(made, turn); });
    return {};
  }
  Status synchronize(cudaEvent_t event) override {
    MT_TRY(enterFromAny("synchronizeEvent"));
    await(mark(event), mark(event)->recorded);
    return {};
  }
  Result<bool> isDone(cudaEvent_t event) override {
    MT_TRY(enterFromAny("isDone"));
    return !mark(event)->isPending();
  }
  Result<double> seconds(cudaEvent_t from, cudaEvent_t to) override {
    MT_TRY(enterFromAny("seconds"));
    for (const Mark *one : {mark(from), mark(to)})
      if (!one->timed || one->recorded == 0 || one->isPending())
        return fail("seconds: an event {}", one->timed ? "has not happened" : "is not timed");
    return static_cast<double>(static_cast<float>(mark(to)->milliseconds - mark(from)->milliseconds)) * 1e-3;
  }

  Status copy(void *to, const void *from, uint64_t bytes, cudaMemcpyKind kind, cudaStream_t stream) override {
    MT_TRY(enter("copy"));
    const void *host = kind == cudaMemcpyHostToDevice ? from : kind == cudaMemcpyDeviceToHost ? to : nullptr;
    const std::byte *end = host ? registeredUpTo(host) : nullptr;
    if (end && static_cast<const std::byte *>(host) + bytes > end)
      return fail("copy: it leaves the registration that it begins in");
    if (host == to && !end) {
      queue(stream)->drain();
      std::memcpy(to, from, bytes);
    } else if (host && !end) {
      const auto *begin = static_cast<const std::byte *>(from);
      queue(stream)->push(
          [to, read = std::vector<std::byte>(begin, begin + bytes)] { std::memcpy(to, read.data(), read.size()); });
    } else {
      queue(stream)->push([=] { std::memcpy(to, from, bytes); });
    }
    return {};
  }
  Status fill(void *memory, int byte, uint64_t bytes, cudaStream_t stream) override {
    MT_TRY(enter("fill"));
    queue(stream)->push([=] { std::memset(memory, byte, bytes); });
    return {};
  }

  bool supports(std::string_view kernel) const override {
    return simulation.prepare ? kernels::cuda::supports(kernel) : kernels::cpu::supports(kernel);
  }
  void openLibraries() override {
    (void)enter("openLibraries");
    simulation.memory.free -= simulation.libraryBytes;
  }
  Result<kernels::cuda::Run> prepare(const kernels::Signature &call) override {
    MT_TRY(enter("prepare"));
    std::function<void(const Launch &)> body;
    if (auto found = simulation.kernels.find(call.kernel); found != simulation.kernels.end()) {
      body = found->second;
    } else if (simulation.prepare) {
      MT_ASSIGN(kernels::cuda::Run kernel, simulation.prepare(call));
      if (simulation.atIssue)
        return kernel;
      body = [this, kernel = std::move(kernel)](const Launch &launch) {
        if (Status status = kernel(launch); !status.ok())
          simulationFailed(status.message());
      };
    } else {
      MT_ASSIGN(kernels::cpu::Run kernel, kernels::cpu::prepare(call));
      body = [this, kernel = std::move(kernel)](const Launch &launch) {
        (void)kernel({.operands = launch.operands, .accumulate = launch.accumulate, .pool = pool});
      };
    }
    return kernels::cuda::Run([this, body = std::move(body)](const Launch &launch) {
      if (queue(launch.stream)->preloading) {
        simulation.memory.free -= simulation.kernelBytes;
        return enter("preloadKernel");
      }
      MT_TRY(launch.stream.launching(1));
      MT_TRY(enter("launchKernel"));
      std::vector<void *> operands(launch.operands.begin(), launch.operands.end());
      bool now = !queue(launch.stream)->captured; // words of graphs are used when those are launched
      if (now)
        usesFaults(launch, true);
      queue(launch.stream)->push([this, now, body, operands, launch] {
        Launch later = launch;
        later.operands = operands, later.stream = launch.stream.cuda; // its launches have been told of
        body(later);
        if (now)
          usesFaults(launch, false);
      });
      return Status();
    });
  }
  Result<const kernels::cuda::Nccl *> nccl() override {
    MT_TRY(enter("nccl"));
    return &fakeNccl();
  }
  Status preload(cudaStream_t stream, const std::function<Status()> &launches) override {
    MT_TRY(enter("preload"));
    queue(stream)->preloading = true;
    Status status = launches();
    queue(stream)->preloading = false;
    return status;
  }

  Status beginCapture(cudaStream_t stream) override {
    MT_TRY(enter("beginCapture"));
    queue(stream)->captured.emplace();
    return {};
  }
  Result<cudaGraphExec_t> endCapture(cudaStream_t stream) override {
    auto made = std::make_unique<Graph>();
    made->work = *std::exchange(queue(stream)->captured, std::nullopt);
    MT_TRY(enter("endCapture"));
    ++simulation.alive;
    return reinterpret_cast<cudaGraphExec_t>(made.release());
  }
  Status launch(cudaGraphExec_t graph, cudaStream_t stream) override {
    MT_TRY(enter("launchGraph"));
    auto *launched = reinterpret_cast<Graph *>(graph);
    for (const Work &work : launched->work) {
      ++launched->underWay;
      queue(stream)->push([launched, &work] {
        work();
        --launched->underWay;
      });
    }
    return {};
  }
  void destroy(cudaGraphExec_t graph) override {
    if (reinterpret_cast<Graph *>(graph)->underWay > 0)
      simulationFailed("a graph is released while it is under way");
    delete reinterpret_cast<Graph *>(graph);
    --simulation.alive;
  }

private:
  Simulation &simulation;
  kernels::cpu::ThreadPool pool{1};
  std::map<const std::byte *, uint64_t> pinned;              ///< begin, bytes
  std::atomic<int> clock = 0;                                ///< milliseconds, one for each event that happens
  inline static thread_local const SimulatedDriver *boundTo = nullptr;
  std::multiset<const std::byte *> faults; ///< words that kernels under way may write to
  // Of all drivers: events are waited for by streams of other GPUs, too.
  inline static std::mutex mutex; ///< of the words, and for events
  inline static std::condition_variable changed;

  static Mark *mark(cudaEvent_t event) { return reinterpret_cast<Mark *>(event); }
  void await(const Mark *made, uint64_t turn) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return made->happened >= turn; });
  }
  /// Notes a call of a thread that must have chosen the GPU.
  Status enter(const char *call) const {
    return boundTo == this ? simulation.enter(call) : fail("{}: this thread has not chosen the GPU", call);
  }
  /// Of one that may have chosen another: events can be asked for and waited for from any (CUDA programming guide, multi-device).
  Status enterFromAny(const char *call) const {
    return boundTo ? simulation.enter(call) : fail("{}: this thread has not chosen a GPU", call);
  }
  void usesFaults(const Launch &launch, bool begins) {
    auto *word = reinterpret_cast<const std::byte *>(launch.fault);
    std::lock_guard lock(mutex);
    if (begins)
      faults.insert(word);
    else
      faults.erase(faults.find(word));
  }
  /// The end of the registration that an address is in; null: it is in none.
  const std::byte *registeredUpTo(const void *memory) const {
    auto after = simulation.registered.upper_bound(static_cast<const std::byte *>(memory));
    return after != simulation.registered.begin() && memory < std::prev(after)->second ? std::prev(after)->second : nullptr;
  }
  Result<void *> make(const char *call, uint64_t bytes) {
    MT_TRY(enter(call));
    ++simulation.alive;
    return ::operator new(bytes, std::align_val_t(256));
  }
  void free(void *memory) {
    ::operator delete(memory, std::align_val_t(256));
    --simulation.alive;
  }
};

} // namespace

void enqueue(cudaStream_t stream, std::function<void()> work) { queue(stream)->push(std::move(work)); }

std::unique_ptr<device::Driver> simulatedDriver(Simulation &simulation) {
  log().set_level(spdlog::level::warn); // not what each of the tests' devices says of its memory
  return std::make_unique<SimulatedDriver>(simulation);
}

} // namespace mt::tests
