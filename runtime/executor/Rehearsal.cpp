#include "runtime/executor/Rehearsal.h"

#include "runtime/device/rehearsal/RehearsalDevice.h"
#include "runtime/executor/Executor.h"
#include "runtime/host/Arena.h"
#include "runtime/network/Collectives.h"
#include "runtime/plan/Ranks.h"
#include "runtime/plan/Timeline.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>

namespace mt::executor {
namespace {

/// Steps before the steady state.
constexpr int64_t kFirst = 2;
/// Commands that take nothing: enough of them that what they take can be told.
constexpr int64_t kEmptyCommands = 100'000;

Result<double> secondsOf(Executor &executor, int64_t steps) {
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < steps; ++i)
    MT_TRY(executor.run(plan::ProgramKind::step));
  MT_TRY(executor.drain());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// What ranks send each other: messages of the plan's sizes, of no content, in memory that all of a stream share.
class Messages {
public:
  static Result<Messages> make(const plan::Plan &plan, network::Network &network) {
    std::map<uint32_t, uint64_t> most; // bytes of a call, by stream
    for (const plan::Program &program : plan.programs)
      for (const plan::Command &command : program.commands)
        if (!command.isCopy && plan::isNetwork(plan.streams[command.stream].kind))
          for (const plan::Call &call : plan.templates[command.templateIndex].calls)
            most[command.stream] = std::max(most[command.stream], bytesOf(call.signature));
    Messages made(network);
    for (const auto &[stream, bytes] : most) {
      MT_ASSIGN(host::Arena memory, host::Arena::reserve(bytes, "messages of a rehearsal", true));
      const plan::Stream &of = plan.streams[stream];
      made.streams[stream] = {std::make_shared<host::Arena>(std::move(memory)),
                              plan::isOfHost(of.kind) ? network::Channel::step : network::channelOfDevice(of.device)};
    }
    return made;
  }

  Status send(const plan::Template &code, uint32_t stream) const {
    const auto &[memory, channel] = streams.at(stream);
    for (const plan::Call &call : code.calls) {
      if (!plan::isExchange(call.signature))
        continue;
      std::vector<void *> operands;
      uint64_t at = 0;
      for (const kernels::OperandType &operand : call.signature.operands) {
        operands.push_back(memory->data() + at);
        at += aligned(operand.bytes());
      }
      MT_TRY(network::exchange(*network, channel, call.signature, operands));
    }
    return {};
  }

private:
  network::Network *network;
  struct Stream {
    std::shared_ptr<host::Arena> memory;
    network::Channel channel = network::Channel::step;
  };
  std::map<uint32_t, Stream> streams; ///< by number

  explicit Messages(network::Network &network) : network(&network) {}
  static uint64_t aligned(uint64_t bytes) { return (bytes + 63) / 64 * 64; }
  static uint64_t bytesOf(const kernels::Signature &call) {
    uint64_t bytes = 0;
    for (const kernels::OperandType &operand : call.operands)
      bytes += aligned(operand.bytes());
    return bytes;
  }
};

/// Seconds of a step among others: without those that it takes to fill the streams and to empty them.
Result<double> periodOf(const plan::Plan &plan, double pace, int64_t steps, const std::string &tracePath,
                        network::Network *network) {
  ExecutorOptions options;
  options.tracePath = tracePath;
  options.network = network;
  device::RehearsalOptions wanted{pace, !tracePath.empty()};
  if (network && pace > 0) {
    MT_ASSIGN(Messages messages, Messages::make(plan, *network));
    wanted.exchange = [messages](const plan::Template &code, uint32_t stream) { return messages.send(code, stream); };
  }
  MT_ASSIGN(auto executor, Executor::create(plan, device::makeRehearsalDevice(std::move(wanted)), options, {}));
  MT_ASSIGN(double few, secondsOf(*executor, kFirst));
  MT_ASSIGN(double all, secondsOf(*executor, kFirst + steps));
  if (!tracePath.empty())
    MT_TRY(executor->writeTrace());
  return (all - few) / static_cast<double>(steps);
}

/// The same plan, in which every command takes as long as it is predicted to beside the others.
plan::Plan besideOthers(plan::Plan plan) {
  for (plan::Program &program : plan.programs) {
    const plan::Timeline timeline = plan::simulate(plan, program);
    for (size_t i = 0; i < program.commands.size(); ++i)
      program.commands[i].predictedSeconds = timeline.took(i);
  }
  plan.target.contention = {};
  return plan;
}
} // namespace

Result<Rehearsed> rehearse(const plan::Plan &compiled, int64_t steps, const std::string &tracePath,
                           network::Network *network) {
  plan::Plan plan = besideOthers(compiled);
  plan.ranks = network ? plan.ranks : 1;
  const plan::Program *step = plan.program(plan::ProgramKind::step);
  if (!step || step->commands.empty())
    return fail("the plan has no step: compile the model again with this version of mtc");
  Rehearsed result;
  result.commands = step->commands.size();
  MT_ASSIGN(result.stepSeconds, periodOf(plan, 1, steps, tracePath, network));
  std::array<double, 3> tries;
  for (double &empty : tries) {
    MT_ASSIGN(empty, periodOf(plan, 0, kEmptyCommands / static_cast<int64_t>(result.commands) + 1, "", network));
  }
  std::ranges::sort(tries);
  result.overheadSeconds = tries[1] / static_cast<double>(result.commands);
  return result;
}

} // namespace mt::executor
