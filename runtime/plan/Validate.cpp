#include "runtime/plan/Validate.h"

#include "kernels/InstructionSets.h"
#include "kernels/Optimizers.h"
#include "runtime/base/Utf8.h"
#include "runtime/plan/Dump.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace mt::plan {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 60;
constexpr int64_t kMostPackedRow = int64_t{1} << 28; // two rows are packed at once
constexpr size_t kMaxStreams = 256; // each is a thread on some devices

Status checkSpaces(const Plan &plan) {
  uint64_t total = 0;
  for (size_t i = 0; i < plan.spaces.size(); ++i)
    if (uint64_t bytes = plan.spaces[i].bytes; bytes > kMaxBytes || (total += bytes) > kMaxBytes)
      return fail("space {} \"{}\": {} bytes are more than any machine has", i, plan.spaces[i].name, bytes);
  if (plan.spaces.empty() || plan.streams.empty() || plan.programs.empty())
    return fail("the plan has {} spaces, {} streams and {} programs: it needs at least one of each", plan.spaces.size(),
                plan.streams.size(), plan.programs.size());
  if (plan.streams.size() > kMaxStreams)
    return fail("the plan has {} streams, at most {} are possible", plan.streams.size(), kMaxStreams);
  return {};
}

/// An entry for so many elements of a parameter of the optimizer's.
const kernels::StatePart *statePart(const Parameter &parameter, const Part &part) {
  const kernels::OptimizerSpec *optimizer = kernels::findOptimizer(parameter.optimizer);
  if (!optimizer)
    return nullptr;
  auto found = std::ranges::find(optimizer->state, part.name, &kernels::StatePart::name);
  return found == optimizer->state.end() ? nullptr : &*found;
}

Status checkPart(const Plan &plan, const Parameter &parameter, const Part &part) {
  MT_TRY(checkSpan(plan, part.span));
  MT_ASSIGN(uint64_t values, checkedBytes(parameter.dims, DType::u8));
  if (part.name != kWeight)
    values = static_cast<uint64_t>(sharesOf(plan, parameter).elements());
  if (part.elements < 1)
    return fail("one value for {} elements is not possible", part.elements);
  const uint64_t bytes = (values / part.elements + (values % part.elements != 0)) * byteSize(part.type);
  if (part.span.bytes != bytes)
    return fail("its span has {} bytes, {} values of {} need {}", part.span.bytes, bytes / byteSize(part.type),
                kernels::name(part.type), bytes);
  if (part.span.offset % byteSize(part.type) != 0)
    return fail("its offset {} is no multiple of {}", part.span.offset, byteSize(part.type));
  const Space &space = plan.spaces[part.span.space];
  if (space.kind == SpaceKind::device && !plan.target.unified)
    return fail("it lies in space {} \"{}\", which the host cannot reach", part.span.space, space.name);
  if (part.name == kRemainder && part.type != DType::i16)
    return fail("a remainder must be i16, not {}", kernels::name(part.type));
  if ((part.name == kWeight || part.name == kRemainder) && part.elements != 1)
    return fail("it has one value for {} elements", part.elements);
  if (part.name == kWeight || part.name == kRemainder)
    return {};
  const kernels::StatePart *known = statePart(parameter, part);
  if (!known)
    return fail("optimizer \"{}\" keeps no such part", parameter.optimizer);
  if (part.type != known->type || part.elements != known->elements)
    return fail("it is of {}, one for {} elements, and must be of {}, one for {}", kernels::name(part.type), part.elements,
                kernels::name(known->type), known->elements);
  return {};
}

Status checkParts(const Plan &plan, const Parameter &parameter) {
  if (parameter.trainable && !kernels::findOptimizer(parameter.optimizer))
    return fail("it is trainable, and its optimizer is \"{}\": must be {}", parameter.optimizer, kernels::optimizerList());
  std::set<std::string_view> names;
  for (const Part &part : parameter.parts) {
    MT_TRY(checkPart(plan, parameter, part).within(part.name));
    if (!names.insert(part.name).second)
      return fail("{} appears twice", part.name);
  }
  if (!names.contains(kWeight))
    return fail("it has no weight");
  if (!parameter.trainable && names.size() > 1)
    return fail("it is frozen and must have a weight only");
  const Part &weight = *parameter.part(kWeight);
  if (parameter.trainable && weight.type != DType::f32 && weight.type != DType::bf16)
    return fail("it is trainable, but its weight is {}, not f32 or bf16", kernels::name(weight.type));
  if (names.contains(kRemainder) && weight.type != DType::bf16)
    return fail("it has a remainder, but its weight is {}, not bf16", kernels::name(weight.type));
  if (parameter.trainable && weight.type == DType::bf16 && !names.contains(kRemainder))
    return fail("it is trainable and its weight is bf16, but it has no remainder");
  if (const kernels::OptimizerSpec *optimizer = kernels::findOptimizer(parameter.optimizer); optimizer && parameter.trainable)
    for (const kernels::StatePart &part : optimizer->state)
      if (!names.contains(part.name))
        return fail("it is trained with {} and has no {}", optimizer->name, part.name);
  return {};
}

std::vector<const Initial *> sourcesOf(const Initial &initial) {
  if (initial.pieces.empty())
    return {&initial};
  std::vector<const Initial *> sources;
  for (const Piece &piece : initial.pieces)
    sources.push_back(&piece.initial);
  return sources;
}

/// Of a packed parameter: codes, or scales, of numbers that floats become.
Status checkPacking(const Parameter &parameter, const Packing &packing) {
  MT_ASSIGN(const uint64_t numbers, checkedBytes(packing.dims, DType::u8));
  if (parameter.trainable)
    return fail("it is packed, and cannot be trainable");
  if (packing.dims.empty() || packing.block < 1 || packing.dims.back() > kMostPackedRow)
    return fail("[{}] in blocks of {} cannot be packed", fmt::join(packing.dims, ", "), packing.block);
  for (const Initial *source : sourcesOf(parameter.initial))
    if (const DType stored = source->type; !source->path.empty() && !isFloat(stored))
      return fail("{} in {} cannot be packed: only floats can", kernels::name(stored), source->path);
  const bool isCodes = packing.codes.empty();
  const DType type = isCodes ? DType::u8 : DType::bf16;
  MT_ASSIGN(const uint64_t held, checkedBytes(parameter.dims, DType::u8));
  MT_ASSIGN(const uint64_t wanted, checkedBytes(packing.scaleDims(), DType::u8));
  if (parameter.part(kWeight)->type != type || held != (isCodes ? (numbers + 1) / 2 : wanted))
    return fail("{} of {} do not hold the {} of [{}]", held, kernels::name(parameter.part(kWeight)->type),
                isCodes ? "codes" : "scales", fmt::join(packing.dims, ", "));
  return {};
}

/// Bytes or a generator, of a tensor of such dimensions.
Status checkSource(const Initial &initial, const kernels::Dims &dims) {
  if (initial.path.empty()) {
    static const std::set<std::string, std::less<>> kinds = {"normal", "uniform", "zeros", "ones", "constant"};
    if (!kinds.contains(initial.generator))
      return fail("unknown generator \"{}\"", initial.generator);
    if (!std::isfinite(initial.value) || !std::isfinite(initial.deviation) || initial.deviation < 0)
      return fail("its generator has value {} and deviation {}: they must be finite", initial.value, initial.deviation);
    return {};
  }
  MT_ASSIGN(uint64_t bytes, checkedBytes(dims, initial.type));
  if (initial.length != bytes)
    return fail("{} bytes of {} as {} do not fill it: want {}", initial.length, initial.path,
                kernels::name(initial.type), bytes);
  if (initial.offset > kMaxBytes)
    return fail("offset {} of {} is beyond any file", initial.offset, initial.path);
  return {};
}

Status checkInitial(const Parameter &parameter) {
  const Initial &initial = parameter.initial;
  if (initial.packing)
    MT_TRY(checkPacking(parameter, *initial.packing));
  if (initial.pieces.empty())
    return checkSource(initial, parameter.modelDims());
  kernels::Dims dims = parameter.modelDims();
  const auto count = static_cast<int64_t>(initial.pieces.size());
  MT_TRY(checkedBytes(dims, DType::u8).status());
  if (parameter.trainable || dims.size() < 2 || dims[0] % count != 0)
    return fail("{} [{}] cannot be of {} pieces", parameter.trainable ? "trained, it" : "it", fmt::join(dims, ", "), count);
  dims[0] /= count;
  MT_ASSIGN(const uint64_t elements, checkedBytes(dims, DType::u8));
  if (initial.packing && elements % 2 != 0)
    return fail("pieces of {} elements are packed in no whole bytes", elements);
  for (const Piece &piece : initial.pieces)
    MT_TRY(checkSource(piece.initial, dims).within(fmt::format("piece \"{}\"", piece.name)));
  return {};
}

/// No two parts share bytes.
Status checkDisjoint(const Plan &plan) {
  struct Owned {
    Span span;
    const Parameter *parameter;
  };
  std::vector<Owned> all;
  for (const Parameter &parameter : plan.parameters)
    for (const Part &part : parameter.parts)
      all.push_back({part.span, &parameter});
  std::ranges::sort(all, {}, [](const Owned &one) { return std::pair(one.span.space, one.span.offset); });
  for (size_t i = 1; i < all.size(); ++i)
    if (all[i - 1].span.space == all[i].span.space &&
        all[i - 1].span.offset + all[i - 1].span.bytes > all[i].span.offset)
      return fail("parameters \"{}\" and \"{}\" overlap in space {} at {}", all[i - 1].parameter->name,
                  all[i].parameter->name, all[i].span.space, all[i].span.offset);
  return {};
}

/// Every name is that of one tensor: files of weights hold them side by side.
Status checkNames(const Plan &plan) {
  std::map<std::string_view, const Parameter *> owners;
  auto add = [&](const std::string &name, const Parameter &parameter) -> Status {
    auto [at, isNew] = owners.try_emplace(name, &parameter);
    return isNew ? Status()
                 : fail("parameters \"{}\" and \"{}\" both have the name \"{}\"", at->second->name, parameter.name, name);
  };
  for (const Parameter &parameter : plan.parameters)
    MT_TRY(add(parameter.name, parameter));
  for (const Parameter &parameter : plan.parameters)
    for (const Alias &alias : parameter.aliases) {
      if (alias.name.empty() || !isUtf8(alias.name))
        return fail("parameter \"{}\": its alias \"{}\" is empty or not UTF-8 text", parameter.name, alias.name);
      if (alias.transposed && parameter.dims.size() != 2)
        return fail("parameter \"{}\": its alias \"{}\" is its transpose, and it has {} dimensions, not 2",
                    parameter.name, alias.name, parameter.dims.size());
      MT_TRY(add(alias.name, parameter));
    }
  return {};
}

Status checkAdapter(const Plan &plan, const Adapter &adapter) {
  const size_t count = plan.parameters.size();
  if (adapter.weight >= count || adapter.down >= count || adapter.up >= count)
    return fail("it is of parameters {}, {} and {}, and there are {}", adapter.weight, adapter.down, adapter.up, count);
  const Parameter &weight = plan.parameters[adapter.weight], &down = plan.parameters[adapter.down],
                  &up = plan.parameters[adapter.up];
  const kernels::Dims &of = weight.modelDims();
  if (of.size() != 2 || down.dims.size() != 2 || up.dims.size() != 2 || up.dims[1] != down.dims[0] ||
      up.dims[0] != of[adapter.transposed ? 1 : 0] || down.dims[1] != of[adapter.transposed ? 0 : 1])
    return fail("\"{}\" [{}] and \"{}\" [{}] do not make up \"{}\" [{}]", up.name, fmt::join(up.dims, ", "), down.name,
                fmt::join(down.dims, ", "), weight.name, fmt::join(of, ", "));
  if (!std::isfinite(adapter.scale) || !(adapter.dropout >= 0 && adapter.dropout < 1))
    return fail("a scale of {} and a dropout of {} cannot be", adapter.scale, adapter.dropout);
  return {};
}

bool isSameSource(const Initial &a, const Initial &b) {
  const auto key = [](const Initial &of) {
    return std::tie(of.path, of.offset, of.length, of.type, of.generator, of.seed, of.deviation, of.value);
  };
  return key(a) == key(b) && std::ranges::equal(a.pieces, b.pieces, [&](const Piece &one, const Piece &other) {
           return one.name == other.name && key(one.initial) == key(other.initial);
         });
}

/// Scales are of a parameter that holds codes, of the same numbers.
Status checkScales(const Plan &plan) {
  std::map<std::string_view, const Parameter *> codes;
  for (const Parameter &parameter : plan.parameters)
    if (parameter.initial.packing && !parameter.holdsScales())
      codes.emplace(parameter.name, &parameter);
  for (const Parameter &parameter : plan.parameters) {
    if (!parameter.holdsScales())
      continue;
    const Packing &packing = *parameter.initial.packing;
    const auto found = codes.find(packing.codes);
    const Initial *other = found == codes.end() ? nullptr : &found->second->initial;
    if (!other || other->packing->dims != packing.dims || other->packing->block != packing.block ||
        !isSameSource(parameter.initial, *other))
      return fail("parameter \"{}\": it holds scales of \"{}\", which holds no codes of the same numbers", parameter.name,
                  packing.codes);
  }
  return {};
}

Status checkParameters(const Plan &plan) {
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const Parameter &parameter = plan.parameters[i];
    std::string place = fmt::format("parameter {} \"{}\"", i, parameter.name);
    if (!isUtf8(parameter.name))
      return fail("{}: its name is not UTF-8 text, as the files of weights need it; rename it in the model", place);
    MT_TRY(checkParts(plan, parameter).within(place));
    MT_TRY(checkInitial(parameter).within(place));
  }
  MT_TRY(checkScales(plan));
  for (size_t i = 0; i < plan.adapters.size(); ++i)
    MT_TRY(checkAdapter(plan, plan.adapters[i]).within(fmt::format("adapter {}", i)));
  MT_TRY(checkNames(plan));
  return checkDisjoint(plan);
}

Status checkTargets(const Input &input) {
  if (input.targets.empty())
    return {};
  if (input.targets.size() != 2 * (input.dims.size() - 1))
    return fail("targets need a begin and an end for each of {} dimensions, and there are {} numbers",
                input.dims.size() - 1, input.targets.size());
  for (size_t i = 0; i < input.targets.size(); i += 2)
    if (input.targets[i] < 0 || input.targets[i] >= input.targets[i + 1] || input.targets[i + 1] > input.dims[i / 2 + 1])
      return fail("targets from {} to {} do not lie in a dimension of {}", input.targets[i], input.targets[i + 1],
                  input.dims[i / 2 + 1]);
  return {};
}

Status checkInputDims(const Plan &plan, const Input &input) {
  if (input.kind == InputKind::scalars) {
    const kernels::Dims rows = {kernels::scalarRow(static_cast<int64_t>(plan.parameters.size())), kernels::Scalars::kCount};
    if (input.type != DType::f64 || input.dims != rows)
      return fail("scalars must be f64 [{}, {}]: a row for the step and one for each parameter", rows[0], rows[1]);
  } else if (input.dims.empty() || input.dims[0] != plan.settings.batch / plan.ranks) {
    return fail("dimension 0 must be a rank's share of the batch, {}", plan.settings.batch / plan.ranks);
  }
  if (input.kind == InputKind::rows && (input.type != DType::i64 || input.dims.size() != 1))
    return fail("numbers of rows must be i64 [{}]", plan.settings.batch / plan.ranks);
  if (input.vocabulary < 0)
    return fail("a vocabulary of {} is not possible", input.vocabulary);
  if (input.kind == InputKind::labels && input.ignored && !holds(input.type, *input.ignored))
    return fail("labels of type {} cannot be {}, which is said not to count: compile the model again with this version of "
                "mtc",
                kernels::name(input.type), *input.ignored);
  return checkTargets(input);
}

Status checkInput(const Plan &plan, const Input &input) {
  MT_ASSIGN(uint64_t bytes, checkedBytes(input.dims, input.type));
  MT_TRY(checkInputDims(plan, input));
  if (input.parts.empty())
    return fail("it has no parts");
  if (input.dims[0] % static_cast<int64_t>(input.parts.size()) != 0)
    return fail("{} rows do not divide into {} parts", input.dims[0], input.parts.size());
  for (size_t i = 0; i < input.parts.size(); ++i) {
    MT_TRY(checkSpan(plan, input.parts[i]).within(fmt::format("part {}", i)));
    if (input.parts[i].bytes != bytes / input.parts.size())
      return fail("part {} has {} bytes, want {}", i, input.parts[i].bytes, bytes / input.parts.size());
    const SpaceKind kind = plan.spaces[input.parts[i].space].kind;
    if ((kind == SpaceKind::device && !plan.target.unified) || kind == SpaceKind::file)
      return fail("part {} lies in space {}, which the host cannot reach", i, input.parts[i].space);
  }
  return {};
}

} // namespace

Status checkSpan(const Plan &plan, const Span &span) {
  if (span.space >= plan.spaces.size())
    return fail("space {} does not exist, the plan has {}", span.space, plan.spaces.size());
  const Space &space = plan.spaces[span.space];
  if (span.offset > space.bytes || span.bytes > space.bytes - span.offset)
    return fail("{} bytes at {} leave space {} \"{}\" of {} bytes", span.bytes, span.offset, span.space, space.name,
                space.bytes);
  return {};
}

Result<uint64_t> checkedBytes(const kernels::Dims &dims, DType type) {
  uint64_t bytes = byteSize(type);
  for (int64_t dim : dims) {
    if (dim < 1)
      return fail("a dimension of {} is not possible", dim);
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(dim), &bytes) || bytes > kMaxBytes)
      return fail("its dimensions give too many elements");
  }
  return bytes;
}

bool holds(DType type, int64_t value) {
  auto within = [&](int64_t least, int64_t most) { return value >= least && value <= most; };
  switch (type) {
  case DType::i32:
    return within(INT32_MIN, INT32_MAX);
  case DType::i16:
    return within(INT16_MIN, INT16_MAX);
  case DType::i8:
    return within(INT8_MIN, INT8_MAX);
  case DType::u8:
    return within(0, UINT8_MAX);
  case DType::boolean:
    return within(0, 1);
  default:
    return true;
  }
}

Status validateTables(const Plan &plan) {
  MT_TRY(checkSpaces(plan));
  MT_TRY(checkParameters(plan));
  for (size_t i = 0; i < plan.inputs.size(); ++i)
    MT_TRY(checkInput(plan, plan.inputs[i]).within(fmt::format("input {} \"{}\"", i, plan.inputs[i].name)));
  return {};
}

Status checkRanks(const Plan &plan) {
  constexpr uint32_t kMostRanks = 1 << 16;
  if (plan.ranks < 1 || plan.ranks > kMostRanks || plan.settings.batch % plan.ranks != 0)
    return fail("{} ranks cannot share a batch of {}", plan.ranks, plan.settings.batch);
  std::map<std::pair<StreamKind, uint32_t>, int64_t> networks;
  for (const Stream &stream : plan.streams)
    if (isNetwork(stream.kind) && ++networks[{stream.kind, isOfHost(stream.kind) ? 0 : stream.device}] > 1)
      return fail("there are two {} streams \"{}\": ranks that carry out exchanges in different orders wait for each "
                  "other",
                  name(stream.kind), stream.name);
  return {};
}

Status checkTarget(const Plan &plan) {
  if (const std::string &isa = plan.target.isa;
      !isa.empty() && std::ranges::find(kernels::kInstructionSets, isa) == kernels::kInstructionSets.end())
    return fail("the target's instruction set is '{}'; it must be one of {}", isa,
                fmt::join(kernels::kInstructionSets, ", "));
  for (const auto &row : plan.target.contention)
    for (double share : row)
      if (!(share >= 0 && share <= 100))
        return fail("streams are said to slow each other down {} times; compile the model again with this version of mtc", share);
  return {};
}

Status validate(const Plan &plan) {
  MT_TRY(checkTarget(plan));
  MT_TRY(checkRanks(plan));
  MT_TRY(validateTables(plan));
  MT_TRY(validateTemplates(plan));
  return validatePrograms(plan);
}

} // namespace mt::plan
