#include "tests/device/SimulatedDriver.h"

#include "kernels/cpu/CpuKernels.h"
#include "runtime/base/Log.h"

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

/// An event: how often it was recorded, and how many of those have happened.
struct Mark {
  std::atomic<uint64_t> recorded = 0, happened = 0;
  std::atomic<double> seconds = 0;
};

struct Graph {
  std::vector<Work> work;
};

class SimulatedDriver final : public device::Driver {
public:
  explicit SimulatedDriver(Simulation &simulation) : simulation(simulation) {}

  std::string name() const override { return "GPU 0, simulated"; }
  Status bind() override { return simulation.enter("bind"); }
  Result<device::DeviceMemory> memory() override {
    MT_TRY(simulation.enter("memory"));
    return simulation.memory;
  }

  Result<void *> allocate(uint64_t bytes) override { return make("allocate", bytes); }
  void release(void *memory) override { free(memory); }
  Result<void *> allocatePinned(uint64_t bytes) override {
    MT_ASSIGN(void *memory, make("allocatePinned", bytes));
    return std::memset(memory, 0, bytes);
  }
  void releasePinned(void *memory) override { free(memory); }
  Status registerHost(void *memory, uint64_t bytes) override {
    MT_TRY(simulation.enter("registerHost"));
    auto *begin = static_cast<std::byte *>(memory);
    registered[begin] = begin + bytes;
    ++simulation.alive;
    return {};
  }
  void unregisterHost(void *memory) override {
    registered.erase(static_cast<std::byte *>(memory));
    --simulation.alive;
  }

  Result<cudaStream_t> createStream() override {
    MT_TRY(simulation.enter("createStream"));
    ++simulation.alive;
    return reinterpret_cast<cudaStream_t>(new Queue);
  }
  void destroy(cudaStream_t stream) override {
    delete queue(stream);
    --simulation.alive;
  }
  Status synchronize(cudaStream_t stream) override {
    MT_TRY(simulation.enter("synchronizeStream"));
    queue(stream)->drain();
    return {};
  }
  Result<cudaEvent_t> createEvent(bool timed) override {
    MT_TRY(simulation.enter(timed ? "createTimedEvent" : "createEvent"));
    ++simulation.alive;
    return reinterpret_cast<cudaEvent_t>(new Mark);
  }
  void destroy(cudaEvent_t event) override {
    delete mark(event);
    --simulation.alive;
  }
  Status record(cudaEvent_t event, cudaStream_t stream) override {
    MT_TRY(simulation.enter("record"));
    Mark *made = mark(event);
    uint64_t turn = ++made->recorded;
    queue(stream)->push([this, made, turn] {
      made->seconds = clock.fetch_add(1) * 1e-3;
      made->happened = turn;
      std::lock_guard lock(mutex);
      changed.notify_all();
    });
    return {};
  }
  Status wait(cudaStream_t stream, cudaEvent_t event) override {
    MT_TRY(simulation.enter("wait"));
    queue(stream)->push([this, made = mark(event), turn = mark(event)->recorded.load()] { await(made, turn); });
    return {};
  }
  Status synchronize(cudaEvent_t event) override {
    MT_TRY(simulation.enter("synchronizeEvent"));
    await(mark(event), mark(event)->recorded);
    return {};
  }
  Result<bool> isDone(cudaEvent_t event) override {
    MT_TRY(simulation.enter("isDone"));
    return mark(event)->happened >= mark(event)->recorded;
  }
  Result<double> seconds(cudaEvent_t from, cudaEvent_t to) override {
    MT_TRY(simulation.enter("seconds"));
    return mark(to)->seconds - mark(from)->seconds;
  }

  Status copy(void *to, const void *from, uint64_t bytes, cudaMemcpyKind kind, cudaStream_t stream) override {
    MT_TRY(simulation.enter("copy"));
    bool fromHost = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost;
    bool toHost = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost;
    if ((fromHost && !isRegistered(from)) || (toHost && !isRegistered(to)))
      std::memcpy(to, from, bytes);
    else
      queue(stream)->push([=] { std::memcpy(to, from, bytes); });
    return {};
  }
  Status fill(void *memory, int byte, uint64_t bytes, cudaStream_t stream) override {
    MT_TRY(simulation.enter("fill"));
    queue(stream)->push([=] { std::memset(memory, byte, bytes); });
    return {};
  }

  bool supports(std::string_view kernel) const override { return kernels::cpu::supports(kernel); }
  void openLibraries() override {
    (void)simulation.enter("openLibraries");
    simulation.memory.free -= simulation.libraryBytes;
  }
  Result<kernels::cuda::Run> prepare(const kernels::Signature &call) override {
    MT_TRY(simulation.enter("prepare"));
    std::function<void(const Launch &)> body;
    if (auto found = simulation.kernels.find(call.kernel); found != simulation.kernels.end()) {
      body = found->second;
    } else {
      MT_ASSIGN(kernels::cpu::Run kernel, kernels::cpu::prepare(call));
      body = [this, kernel = std::move(kernel)](const Launch &launch) {
        (void)kernel({.operands = launch.operands, .accumulate = launch.accumulate, .pool = pool});
      };
    }
    return kernels::cuda::Run([this, body = std::move(body)](const Launch &launch) {
      MT_TRY(simulation.enter("launchKernel"));
      std::vector<void *> operands(launch.operands.begin(), launch.operands.end());
      queue(launch.stream)->push([body, operands, launch] {
        Launch later = launch;
        later.operands = operands;
        body(later);
      });
      return Status();
    });
  }

  Status beginCapture(cudaStream_t stream) override {
    MT_TRY(simulation.enter("beginCapture"));
    queue(stream)->captured.emplace();
    return {};
  }
  Result<cudaGraphExec_t> endCapture(cudaStream_t stream) override {
    auto made = std::make_unique<Graph>(Graph{*std::exchange(queue(stream)->captured, std::nullopt)});
    MT_TRY(simulation.enter("endCapture"));
    ++simulation.alive;
    return reinterpret_cast<cudaGraphExec_t>(made.release());
  }
  Status launch(cudaGraphExec_t graph, cudaStream_t stream) override {
    MT_TRY(simulation.enter("launchGraph"));
    for (const Work &work : reinterpret_cast<Graph *>(graph)->work)
      queue(stream)->push(work);
    return {};
  }
  void destroy(cudaGraphExec_t graph) override {
    delete reinterpret_cast<Graph *>(graph);
    --simulation.alive;
  }

private:
  Simulation &simulation;
  kernels::cpu::ThreadPool pool{1};
  std::map<const std::byte *, const std::byte *> registered; ///< begin, end
  std::atomic<int> clock = 0;                                ///< milliseconds, one for each event that happens
  std::mutex mutex;
  std::condition_variable changed;

  static Queue *queue(cudaStream_t stream) { return reinterpret_cast<Queue *>(stream); }
  static Mark *mark(cudaEvent_t event) { return reinterpret_cast<Mark *>(event); }
  void await(const Mark *made, uint64_t turn) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return made->happened >= turn; });
  }
  bool isRegistered(const void *memory) const {
    auto after = registered.upper_bound(static_cast<const std::byte *>(memory));
    return after != registered.begin() && memory < std::prev(after)->second;
  }
  Result<void *> make(const char *call, uint64_t bytes) {
    MT_TRY(simulation.enter(call));
    ++simulation.alive;
    return ::operator new(bytes, std::align_val_t(256));
  }
  void free(void *memory) {
    ::operator delete(memory, std::align_val_t(256));
    --simulation.alive;
  }
};

} // namespace

std::unique_ptr<device::Driver> simulatedDriver(Simulation &simulation) {
  log().set_level(spdlog::level::warn); // not what each of the tests' devices says of its memory
  return std::make_unique<SimulatedDriver>(simulation);
}

} // namespace mt::tests
