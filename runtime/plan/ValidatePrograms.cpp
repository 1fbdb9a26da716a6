#include "runtime/plan/Validate.h"

#include "kernels/Alignment.h"
#include "runtime/plan/Dump.h"
#include "runtime/plan/Ranks.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace mt::plan {
namespace {

using kernels::Effect;

/// What the calls of a template demand of whatever an argument (or the workspace) is bound to.
struct Demand {
  uint64_t alignment = 1;
  bool accumulates = true; ///< whether every call that writes it can add, and none reads it
};

struct Demands {
  std::vector<Demand> arguments;
  Demand workspace;
  bool hostOnly = false;                ///< holds calls of the program itself
  size_t exchanges = 0;                 ///< calls with other ranks
  std::array<std::string, 2> noScratch; ///< by Backend: what a call lacks to be run by it
};

bool isHostCall(const kernels::Signature &call) { return call.kernel == "feed" || call.kernel == "report"; }

/// Whether written operand `index` of a call may add to what is there.
bool mayAccumulate(const kernels::Signature &call, size_t index) {
  const kernels::Kernel *kernel = kernels::find(call.kernel);
  auto isRead = [](const kernels::OperandType &operand) { return operand.effect == Effect::read; };
  size_t reads = static_cast<size_t>(std::ranges::count_if(call.operands, isRead));
  return call.operands[index].effect == Effect::write && index - reads < 32 && kernel &&
         (kernel->accumulates >> (index - reads) & 1) != 0;
}

Demands demandsOf(const Template &code) {
  Demands demands;
  demands.arguments.resize(code.arguments.size());
  for (const Call &call : code.calls) {
    demands.hostOnly |= isHostCall(call.signature);
    demands.exchanges += isExchange(call.signature);
    for (kernels::Backend backend : {kernels::Backend::cpu, kernels::Backend::cuda})
      if (std::string &problem = demands.noScratch[static_cast<size_t>(backend)]; problem.empty())
        problem = kernels::checkWorkspace(call.signature, backend);
    for (size_t i = 0; i < call.operands.size(); ++i) {
      const kernels::OperandType &type = call.signature.operands[i];
      if (!type.present)
        continue;
      int32_t argument = call.operands[i].argument;
      Demand &demand = argument < 0 ? demands.workspace : demands.arguments[static_cast<size_t>(argument)];
      demand.alignment = std::max(demand.alignment, kernels::alignmentOf(type));
      demand.accumulates &= mayAccumulate(call.signature, i);
    }
  }
  return demands;
}

bool overlap(const Span &a, const Span &b) {
  return a.space == b.space && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

class CommandChecker {
public:
  CommandChecker(const Plan &plan, const Program &program) : plan(plan), program(program) {
    for (const Template &code : plan.templates)
      demands.push_back(demandsOf(code));
  }

  Status check(size_t index) const {
    const Command &command = program.commands[index];
    if (command.stream >= plan.streams.size())
      return fail("stream {} does not exist, the plan has {}", command.stream, plan.streams.size());
    if (!std::isfinite(command.predictedSeconds) || command.predictedSeconds < 0)
      return fail("it is predicted to take {} seconds", command.predictedSeconds);
    MT_TRY(checkAwaits(index));
    return command.isCopy ? checkCopy(command) : checkRun(command);
  }

private:
  const Plan &plan;
  const Program &program;
  std::vector<Demands> demands;

  const Stream &streamOf(const Command &command) const { return plan.streams[command.stream]; }
  /// Whose kernels run a command.
  kernels::Backend backendOf(const Command &command) const {
    return isOfHost(streamOf(command).kind) || plan.target.device != "cuda" ? kernels::Backend::cpu
                                                                            : kernels::Backend::cuda;
  }
  /// Whether bytes of the device that a stream is on.
  bool onDevice(const Span &span, const Stream &stream) const {
    const Space &space = plan.spaces[span.space];
    return space.kind == SpaceKind::device && space.device == stream.device;
  }
  bool onHost(const Span &span) const { return isHostMemory(plan.spaces[span.space].kind); }
  bool inFile(const Span &span) const { return plan.spaces[span.space].kind == SpaceKind::file; }

  Status checkAwaits(size_t index) const {
    for (const Await &await : program.commands[index].awaits) {
      if (await.back > 1 || (await.back == 1 && !isCyclic(program.kind)))
        return fail("it awaits a command {} iterations back, which program {} cannot", await.back, name(program.kind));
      if (await.command >= (await.back == 0 ? index : program.commands.size()))
        return fail("it awaits command {}, which is not before it", await.command);
    }
    return {};
  }

  Status checkCopy(const Command &command) const {
    MT_TRY(checkSpan(plan, command.from).within("source"));
    MT_TRY(checkSpan(plan, command.to).within("destination"));
    if (command.from.bytes != command.to.bytes)
      return fail("it copies {} bytes to a place of {}", command.from.bytes, command.to.bytes);
    if (overlap(command.from, command.to))
      return fail("its source and its destination overlap");
    if (command.role == Role::compute)
      return fail("a copy cannot have the role compute");
    const bool touchesFile = inFile(command.from) || inFile(command.to);
    return plan.target.unified && !touchesFile ? Status() : checkCopyKinds(command);
  }

  Status checkCopyKinds(const Command &command) const {
    const Stream &stream = streamOf(command);
    bool from = onDevice(command.from, stream), to = onDevice(command.to, stream);
    bool fits = stream.kind == StreamKind::upload     ? onHost(command.from) && to
                : stream.kind == StreamKind::download ? from && onHost(command.to)
                : stream.kind == StreamKind::compute  ? from && to
                : stream.kind == StreamKind::peer     ? from && plan.spaces[command.to.space].kind == SpaceKind::device
                : stream.kind == StreamKind::read     ? inFile(command.from) && onHost(command.to)
                : stream.kind == StreamKind::write    ? onHost(command.from) && inFile(command.to)
                                                      : onHost(command.from) && onHost(command.to);
    if (!fits)
      return fail("{} stream {} \"{}\" of device {} cannot copy from space {} to space {}", name(stream.kind),
                  command.stream, stream.name, stream.device, command.from.space, command.to.space);
    const bool isRead = inFile(command.from), isWrite = inFile(command.to);
    if ((command.role == Role::prefetch && onHost(command.to) && !isRead) ||
        (command.role == Role::offload && ((onHost(command.from) && !isWrite) || isRead)))
      return fail("its role is {}, but it copies the other way", name(command.role));
    return {};
  }

  Status checkRun(const Command &command) const {
    if (command.templateIndex >= plan.templates.size())
      return fail("template {} does not exist, the plan has {}", command.templateIndex, plan.templates.size());
    const Template &code = plan.templates[command.templateIndex];
    if (command.arguments.size() != code.arguments.size())
      return fail("it binds {} arguments, template \"{}\" has {}", command.arguments.size(), code.name,
                  code.arguments.size());
    for (size_t i = 0; i < command.arguments.size(); ++i)
      MT_TRY(checkBinding(command, code, i).within(fmt::format("argument {}", i)));
    MT_TRY(checkWorkspace(command, code).within("workspace"));
    const Demands &demand = demands[command.templateIndex];
    if (const std::string &problem = demand.noScratch[static_cast<size_t>(backendOf(command))]; !problem.empty())
      return fail("template \"{}\": {}", code.name, problem);
    MT_TRY(checkDisjoint(command));
    return checkHostCalls(command, code);
  }

  Status checkPlace(const Command &command, const Span &span, const Demand &demand) const {
    MT_TRY(checkSpan(plan, span));
    if (span.offset % demand.alignment != 0)
      return fail("its offset {} is no multiple of {}", span.offset, demand.alignment);
    const Stream &stream = streamOf(command);
    bool fits = stream.kind == StreamKind::compute || stream.kind == StreamKind::deviceNetwork
                    ? onDevice(span, stream)
                    : (stream.kind == StreamKind::host || stream.kind == StreamKind::network) && onHost(span);
    if ((!fits && !plan.target.unified) || inFile(span))
      return fail("space {} \"{}\" cannot be used on {} stream {} \"{}\"", span.space, plan.spaces[span.space].name,
                  name(stream.kind), command.stream, stream.name);
    return {};
  }

  Status checkBinding(const Command &command, const Template &code, size_t index) const {
    const Binding &binding = command.arguments[index];
    const Argument &argument = code.arguments[index];
    const Demand &demand = demands[command.templateIndex].arguments[index];
    MT_TRY(checkPlace(command, binding.span, demand));
    MT_TRY(checkReach(binding, demand));
    if (binding.span.bytes != argument.bytes)
      return fail("{} bytes are bound, template \"{}\" wants {}", binding.span.bytes, code.name, argument.bytes);
    BindingEffect effect = binding.effect == BindingEffect::accumulate ? BindingEffect::write : binding.effect;
    BindingEffect declared = argument.effect == Effect::read    ? BindingEffect::read
                             : argument.effect == Effect::write ? BindingEffect::write
                                                                : BindingEffect::update;
    if (effect != declared)
      return fail("it is bound as {}, template \"{}\" declares it as {}", name(binding.effect), code.name,
                  name(declared));
    if (binding.effect == BindingEffect::accumulate && !demand.accumulates)
      return fail("it is bound as accumulate, but template \"{}\" has a call that cannot add to it", code.name);
    if (binding.fresh && binding.effect != BindingEffect::write)
      return fail("it is bound as fresh, but its effect is {}", name(binding.effect));
    return {};
  }

  /// The places of other ranks are in the space, too.
  Status checkReach(const Binding &binding, const Demand &demand) const {
    if (binding.rankStride == 0 && binding.rankReach == 0)
      return {};
    const Span &span = binding.span;
    if (binding.rankReach > plan.spaces[span.space].bytes || binding.rankStride > binding.rankReach)
      return fail("{} bytes from rank to rank, at most {}, are not possible", binding.rankStride, binding.rankReach);
    if (binding.rankStride % demand.alignment != 0 || binding.rankReach % demand.alignment != 0)
      return fail("{} bytes from rank to rank, at most {}, are no multiples of {}", binding.rankStride,
                  binding.rankReach, demand.alignment);
    return checkSpan(plan, everyRank(binding));
  }

  Status checkWorkspace(const Command &command, const Template &code) const {
    if (code.workspaceBytes == 0)
      return checkSpan(plan, command.workspace);
    MT_TRY(checkPlace(command, command.workspace, demands[command.templateIndex].workspace));
    if (command.workspace.bytes < code.workspaceBytes)
      return fail("it has {} bytes, template \"{}\" needs {}", command.workspace.bytes, code.name, code.workspaceBytes);
    return {};
  }

  /// A command's writes do not touch its other arguments: kernels assume it.
  Status checkDisjoint(const Command &command) const {
    for (size_t i = 0; i < command.arguments.size(); ++i) {
      const Binding &one = command.arguments[i];
      if (overlap(everyRank(one), command.workspace))
        return fail("argument {} and the workspace overlap", i);
      for (size_t j = i + 1; one.effect != BindingEffect::read && j < command.arguments.size(); ++j)
        if (overlap(everyRank(one), everyRank(command.arguments[j])))
          return fail("arguments {} and {} overlap, and one of them is written", i, j);
      for (size_t j = 0; one.effect != BindingEffect::read && j < i; ++j)
        if (overlap(everyRank(one), everyRank(command.arguments[j])))
          return fail("arguments {} and {} overlap, and one of them is written", j, i);
    }
    return {};
  }

  Status checkHostCalls(const Command &command, const Template &code) const {
    MT_TRY(checkExchanges(command, code));
    if (!demands[command.templateIndex].hostOnly)
      return {};
    if (streamOf(command).kind != StreamKind::host)
      return fail("template \"{}\" feeds or reports and must run on a host stream", code.name);
    for (const Call &call : code.calls) {
      if (call.signature.kernel == "feed")
        MT_TRY(checkFeed(command, call).within("feed"));
      if (call.signature.kernel == "report")
        MT_TRY(checkReport(call.signature).within("report"));
    }
    return {};
  }

  /// Streams of a network alone exchange, and that of the host does nothing else: all ranks then carry out the same
  /// exchanges in the same order, so that none waits for what another has behind it. Those of devices add up, too.
  Status checkExchanges(const Command &command, const Template &code) const {
    const size_t exchanges = demands[command.templateIndex].exchanges;
    if (streamOf(command).kind != StreamKind::network && exchanges == 0)
      return {};
    if (exchanges != code.calls.size() || !isNetwork(streamOf(command).kind))
      return fail("template \"{}\" has {} exchanges with other ranks among {} calls: they alone run on network streams",
                  code.name, exchanges, code.calls.size());
    for (const Call &call : code.calls)
      if (call.signature.integer("ranks") != plan.ranks)
        return fail("it is an exchange of {} ranks, and the plan is for {}", call.signature.integer("ranks"),
                    plan.ranks);
    return {};
  }

  /// The operands of a feed are the parts of the inputs, in order.
  Status checkFeed(const Command &command, const Call &call) const {
    std::vector<Span> parts;
    for (const Input &input : plan.inputs)
      parts.insert(parts.end(), input.parts.begin(), input.parts.end());
    if (parts.size() != call.operands.size())
      return fail("it has {} operands, the plan's inputs have {} parts", call.operands.size(), parts.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      const kernels::OperandType &type = call.signature.operands[i];
      if (!type.present || call.operands[i].argument < 0)
        return fail("operand {} is not an argument", i);
      const Span &bound = command.arguments[static_cast<size_t>(call.operands[i].argument)].span;
      if (Span{bound.space, bound.offset + call.operands[i].offset, type.bytes()} != parts[i])
        return fail("operand {} is not part {} of the plan's inputs", i, i);
    }
    return {};
  }

  Status checkReport(const kernels::Signature &call) const {
    const size_t count = call.operands.size();
    if (count == 3 && (call.operands[2].type != DType::f32 || call.operands[2].dims.size() != 2))
      return fail("predictions must be f32 of two dimensions");
    if (count < 2 || count > 3 || call.operands[0].type != DType::f32 || call.operands[0].bytes() != sizeof(float) ||
        call.operands[1].type != DType::f64 || call.operands[1].bytes() != kernels::Scalars::kCount * sizeof(double))
      return fail("it wants the loss, f32, and the scalars, f64 [{}]", static_cast<int>(kernels::Scalars::kCount));
    return {};
  }
};

} // namespace

Status validatePrograms(const Plan &plan) {
  for (size_t p = 0; p < plan.programs.size(); ++p) {
    const Program &program = plan.programs[p];
    if (plan.program(program.kind) != &program)
      return fail("program {}: there are two programs {}", p, name(program.kind));
    CommandChecker checker(plan, program);
    for (size_t i = 0; i < program.commands.size(); ++i)
      MT_TRY(checker.check(i).within(
          fmt::format("{} command {} \"{}\"", name(program.kind), i, program.commands[i].label)));
  }
  return {};
}

} // namespace mt::plan
