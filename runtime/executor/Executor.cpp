#include "runtime/executor/Executor.h"

#include "kernels/Optimizers.h"

#include "runtime/base/AtomicFile.h"
#include "runtime/base/Log.h"
#include "runtime/device/MakeDevice.h"
#include "runtime/executor/Trace.h"
#include "runtime/host/WeightLoader.h"
#include "runtime/network/Collectives.h"
#include "runtime/plan/Dump.h"

#include <deque>
#include <map>
#include <mutex>

namespace mt::executor {

using device::Event;

namespace {

constexpr size_t kIterationsUnderWay = 2;

/// A program made ready: what to run, and which commands something awaits.
struct Prepared {
  const plan::Program *program = nullptr;
  std::vector<device::Code> codes; ///< by command; of runs
  std::vector<char> awaited;       ///< by command, from another stream
  std::vector<Event> events;       ///< by command, of the iteration being issued: those awaited
  std::vector<Event> previous;     ///< of the iteration before it, if any since the last drain
};

std::vector<char> awaitedBy(const plan::Program &program) {
  std::vector<char> awaited(program.commands.size());
  for (const plan::Command &command : program.commands)
    for (const plan::Await &await : command.awaits)
      awaited[await.command] |= program.commands[await.command].stream != command.stream;
  return awaited;
}

const std::string &deviceOf(const plan::Plan &plan, const std::string &wanted) {
  return wanted.empty() ? plan.target.device : wanted;
}

} // namespace

struct Executor::State {
  const plan::Plan &plan;
  ExecutorOptions options;
  Callbacks callbacks;
  std::mutex gradientMutex;
  Trace trace;
  std::map<network::Channel, device::HostFunctions> functions; ///< by the channel of the exchanges among them
  std::map<plan::ProgramKind, Prepared> programs;
  std::optional<plan::ProgramKind> last;   ///< since the last drain
  std::deque<std::vector<Event>> underWay; ///< ends of iterations, by stream
  std::unique_ptr<device::Device> device;  ///< released first: its threads use the rest

  State(const plan::Plan &plan, ExecutorOptions options, Callbacks callbacks)
      : plan(plan), options(std::move(options)), callbacks(std::move(callbacks)), trace(plan) {}

  bool traced() const { return !options.tracePath.empty(); }
  network::Channel channelOf(uint32_t stream) const;
  void makeFunctions(network::Channel channel);
  Status prepare();
  Status issue(Prepared &prepared, size_t index, uint64_t number);
  Status waitForRoom();
  Status endIteration();
  Status drain();
};

network::Channel Executor::State::channelOf(uint32_t stream) const {
  const plan::Stream &of = plan.streams[stream];
  return of.kind == plan::StreamKind::deviceNetwork ? network::channelOfDevice(of.device) : network::Channel::step;
}

void Executor::State::makeFunctions(network::Channel channel) {
  if (functions.contains(channel))
    return;
  device::HostFunctions &made = functions[channel];
  made.instead["feed"] = [this](const kernels::Signature &, std::span<void *const> operands) {
    return callbacks.feed(operands);
  };
  made.instead["report"] = [this](const kernels::Signature &call, std::span<void *const> operands) {
    std::span scalars(static_cast<const double *>(operands[1]), kernels::Scalars::kCount);
    std::span<const float> predictions;
    if (operands.size() > 2)
      predictions = {static_cast<const float *>(operands[2]), static_cast<size_t>(call.operands[2].elements())};
    return callbacks.report(*static_cast<const float *>(operands[0]), scalars, predictions);
  };
  if (options.network) {
    for (const char *kernel : {"all_to_all", "all_gather"})
      made.instead[kernel] = [this, channel](const kernels::Signature &call, std::span<void *const> operands) {
        return network::exchange(*options.network, channel, call, operands);
      };
  }
  if (!callbacks.gradient)
    return;
  for (const kernels::Kernel &kernel : kernels::all())
    if (kernels::isUpdate(kernel.name))
      made.before[std::string(kernel.name)] = [this](const kernels::Signature &call, std::span<void *const> operands) {
        if (kernels::speculationOf(call) == kernels::Speculation::begins)
          return Status(); // it is told when that ends: until then the step may be skipped
        if (static_cast<const double *>(operands[kernels::kUpdateScalars])[kernels::Scalars::kStep] == 0)
          return Status(); // nothing is pending: the kernel does nothing either
        std::lock_guard lock(gradientMutex);
        callbacks.gradient(call.integer("parameter"), call.integer("first"),
                           {static_cast<const float *>(operands[kernels::kUpdateGradient]),
                            static_cast<size_t>(call.operands[kernels::kUpdateGradient].elements())});
        return Status();
      };
}

Status Executor::State::prepare() {
  std::map<std::pair<uint32_t, uint32_t>, device::Code> codes;
  for (const plan::Program &program : plan.programs) {
    Prepared &prepared = programs[program.kind];
    prepared = {.program = &program, .codes = {}, .awaited = awaitedBy(program), .events = {}, .previous = {}};
    prepared.codes.resize(program.commands.size());
    for (size_t i = 0; i < program.commands.size(); ++i) {
      const plan::Command &command = program.commands[i];
      if (command.isCopy)
        continue;
      auto [found, fresh] = codes.try_emplace({command.templateIndex, command.stream});
      if (fresh) {
        MT_ASSIGN(found->second, device->prepare(command.stream, plan.templates[command.templateIndex],
                                                 functions.at(channelOf(command.stream))));
      }
      prepared.codes[i] = found->second;
    }
  }
  return {};
}

Status Executor::State::issue(Prepared &prepared, size_t index, uint64_t number) {
  const plan::Command &command = prepared.program->commands[index];
  for (const plan::Await &await : command.awaits) {
    const std::vector<Event> &events = await.back == 0 ? prepared.events : prepared.previous;
    if (!events.empty() && prepared.awaited[await.command] &&
        prepared.program->commands[await.command].stream != command.stream)
      MT_TRY(device->wait(command.stream, events[await.command]));
  }
  device::Tag tag = {command.label, number + index, command.predictedSeconds};
  if (command.isCopy)
    MT_TRY(device->copy(command.stream, command.from, command.to, tag));
  else
    MT_TRY(device->run(command.stream, prepared.codes[index], command.arguments, command.workspace, tag));
  if (prepared.awaited[index]) {
    MT_ASSIGN(prepared.events[index], device->record(command.stream));
  }
  return {};
}

/// Returns once fewer than kIterationsUnderWay iterations are.
Status Executor::State::waitForRoom() {
  while (underWay.size() >= kIterationsUnderWay) {
    for (const Event &end : underWay.front())
      MT_TRY(device->synchronize(end));
    underWay.pop_front();
  }
  return {};
}

Status Executor::State::endIteration() {
  std::vector<Event> ends;
  for (uint32_t i = 0; i < plan.streams.size(); ++i) {
    MT_ASSIGN(Event end, device->record(i));
    ends.push_back(end);
  }
  underWay.push_back(std::move(ends));
  return {};
}

Status Executor::State::drain() {
  Status status = device->synchronize();
  underWay.clear();
  last.reset();
  for (auto &[kind, prepared] : programs) {
    prepared.events.clear();
    prepared.previous.clear();
  }
  if (traced()) {
    trace.add(device->measured());
    trace.add(device->callTimes());
  }
  return status;
}

Executor::Executor(std::unique_ptr<State> state) : state(std::move(state)) {}
Executor::~Executor() = default;

Result<std::unique_ptr<Executor>> Executor::create(const plan::Plan &plan, ExecutorOptions options,
                                                   Callbacks callbacks) {
  if (options.protectHost && plan.target.unified)
    return fail("host spaces cannot be protected while a unified plan runs: its compute uses them");
  const std::string &name = deviceOf(plan, options.device);
  MT_ASSIGN(device::HostScratch scratch, device::scratchOf(name, plan, options.threads));
  device::DeviceOptions wanted{.threads = device::kernelThreads(name, options.threads),
                               .scratch = scratch,
                               .measure = !options.tracePath.empty(),
                               .measureCalls = !options.tracePath.empty() && options.traceCalls,
                               .jitterSeed = options.jitterSeed,
                               .poison = options.poison,
                               .slowCopyBytesPerSecond = options.slowCopyBytesPerSecond,
                               .protectHost = options.protectHost,
                               .graphs = options.cudaGraphs,
                               .stateFolder = options.stateFolder,
                               .network = options.network,
                               .devices =
                                   static_cast<uint32_t>(std::min<uint64_t>(plan::deviceCount(plan), UINT32_MAX))};
  MT_ASSIGN(std::unique_ptr<device::Device> device, device::makeDevice(name, wanted));
  return create(plan, std::move(device), std::move(options), std::move(callbacks));
}

Result<std::unique_ptr<Executor>> Executor::create(const plan::Plan &plan, std::unique_ptr<device::Device> device,
                                                   ExecutorOptions options, Callbacks callbacks) {
  if (plan.ranks != (options.network ? options.network->ranks() : 1))
    return fail("the plan is for {} ranks, and there are {}", plan.ranks,
                options.network ? options.network->ranks() : 1);
  auto state = std::make_unique<State>(plan, std::move(options), std::move(callbacks));
  state->device = std::move(device);
  MT_TRY(state->device->supports(plan));
  MT_TRY(state->device->reserve(plan.spaces, plan.streams));
  for (uint32_t stream = 0; stream < plan.streams.size(); ++stream)
    state->makeFunctions(state->channelOf(stream));
  MT_TRY(state->prepare());
  return std::unique_ptr<Executor>(new Executor(std::move(state)));
}

Result<uint64_t> Executor::loadWeights(bool frozenAlone) {
  return host::loadWeights(
      state->plan, [this](const plan::Span &span) { return bytes(span); },
      device::kernelThreads(deviceOf(state->plan, state->options.device), state->options.threads),
      state->options.network ? state->options.network->rank() : 0, frozenAlone);
}

Status Executor::run(plan::ProgramKind kind) {
  auto found = state->programs.find(kind);
  if (found == state->programs.end())
    return fail("the plan has no program {}; compile the model again with this version of mtc", plan::name(kind));
  // Awaits order a program's own commands, and those of consecutive steps; nothing else.
  if (state->last && (*state->last != kind || !plan::isCyclic(kind)))
    MT_TRY(state->drain());
  MT_TRY(state->waitForRoom());
  Prepared &prepared = found->second;
  prepared.previous = std::move(prepared.events);
  prepared.events.assign(prepared.program->commands.size(), Event());
  uint64_t number = state->traced() ? state->trace.begin(kind, !state->last) : 0;
  state->last = kind;
  for (size_t i = 0; i < prepared.program->commands.size(); ++i)
    MT_TRY(state->issue(prepared, i, number));
  return state->endIteration();
}

Status Executor::drain() { return state->drain(); }

std::span<std::byte> Executor::host(plan::Span span) { return state->device->host(span); }

host::HostBytes Executor::bytes(plan::Span span) {
  host::FileSpace *file = state->device->file(span.space);
  return file ? host::HostBytes(*file, span.offset, span.bytes) : host::HostBytes(host(span));
}

uint64_t Executor::reservedBytes(plan::SpaceKind kind) const {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < state->plan.spaces.size(); ++i)
    bytes += state->plan.spaces[i].kind == kind ? state->device->reserved(i) : 0;
  return bytes;
}

double Executor::busySeconds(plan::StreamKind kind) const {
  double seconds = 0;
  for (uint32_t i = 0; i < state->plan.streams.size(); ++i)
    seconds += state->plan.streams[i].kind == kind ? state->trace.busySeconds(i) : 0;
  return seconds;
}

Status Executor::writeTrace() {
  if (!state->traced())
    return {};
  MT_TRY(writeFileAtomically(state->options.tracePath, state->trace.json()));
  if (Shares shares = state->trace.overlap(); shares.seconds > 0)
    log().info("{}: {}", state->options.tracePath, describe(shares));
  if (state->options.traceCalls)
    log().info("{}: {}", state->options.tracePath, state->trace.callTable().text());
  return {};
}

Status checkMachine(const plan::Plan &plan, const std::string &device, int threads, uint32_t processes) {
  return device::checkMachine(deviceOf(plan, device), plan, threads, processes);
}

Result<KernelScratch> scratchOf(const plan::Plan &plan, const std::string &device, int threads) {
  MT_ASSIGN(device::HostScratch scratch, device::scratchOf(deviceOf(plan, device), plan, threads));
  return KernelScratch{scratch.bytes(), scratch.threads};
}

} // namespace mt::executor
