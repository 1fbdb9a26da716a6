#include "kernels/Expression.h"

#include "kernels/TextParts.h"
#include "kernels/catalogue/Checker.h"
#include "kernels/catalogue/Entry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace mt::kernels {
namespace {

constexpr std::string_view kArrow = " -> ", kBetween = ", ";

bool readNumbers(std::string_view text, std::vector<size_t> &into) {
  while (!text.empty())
    if (into.size() == Expression::kMostInstructions || !readNumber(upTo(" ", text), into.emplace_back()))
      return false;
  return true;
}

std::string readInstruction(std::string_view text, Instruction &into) {
  const std::string_view whole = text;
  std::string_view call = upTo(":", text);
  const std::optional<DType> type = dtypeFromName(text);
  std::string_view choice = upTo(" ", call);
  into.kernel = std::string(upTo(".", choice));
  into.choice = std::string(choice);
  if (!type || into.kernel.empty())
    return fmt::format("'{}' is no instruction; one is written as mul 0 1:f32", whole);
  into.type = *type;
  const bool read = into.kernel == kConstant ? readNumber(call, into.constant) : readNumbers(call, into.operands);
  return read ? "" : fmt::format("'{}' has operands that are no numbers", whole);
}

/// The attribute by which a kernel chooses a function; empty: it has none.
std::string_view choiceOf(const Kernel &kernel) {
  for (const AttributeSpec &spec : kernel.attributes)
    if (std::ranges::find(kChoices, spec.name) != std::end(kChoices))
      return spec.name;
  return "";
}

/// Whether a type has a number, up to rounding.
bool holds(DType type, double number) {
  if (type == DType::f64)
    return true;
  if (isFloat(type))
    return !std::isfinite(number) || std::abs(number) <= std::numeric_limits<float>::max();
  const bool isSigned = type != DType::u8 && type != DType::boolean;
  const double range = type == DType::boolean ? 2 : std::exp2(8.0 * static_cast<double>(byteSize(type)) - isSigned);
  return number == std::trunc(number) && number <= std::min(0x1p53, range - 1) &&
         number >= (isSigned ? -std::min(0x1p53, range) : 0);
}

std::string checkInstruction(const Instruction &one, std::span<const DType> types) {
  if (one.kernel == kConstant)
    return holds(one.type, one.constant) && one.choice.empty()
               ? ""
               : fmt::format("a constant of type {} cannot be {}", name(one.type), one.constant);
  if (!isInstruction(one.kernel))
    return fmt::format("\"{}\" is no elementwise kernel", one.kernel);
  for (size_t operand : one.operands)
    if (operand >= types.size())
      return fmt::format("{} takes value {}, of {} before it", one.kernel, operand, types.size());
  if (!one.choice.empty() && choiceOf(*find(one.kernel)).empty())
    return fmt::format("{} has no choice of functions", one.kernel);
  return check(callOf(one, types));
}

} // namespace

size_t Instruction::results() const { return kernel == kConstant ? 1 : static_cast<size_t>(find(kernel)->writes); }

bool isInstruction(std::string_view kernel) {
  const std::span<const Kernel> family = elementwiseKernels();
  return kernel == "cast" || std::ranges::find(family, kernel, &Kernel::name) != family.end();
}

std::string print(const Expression &expression) {
  std::vector<std::string> instructions;
  for (const Instruction &one : expression.instructions) {
    std::string text = one.kernel + (one.choice.empty() ? "" : "." + one.choice);
    text += one.kernel == kConstant ? fmt::format(" {}", one.constant) : fmt::format(" {}", fmt::join(one.operands, " "));
    instructions.push_back(fmt::format("{}:{}", text, name(one.type)));
  }
  return fmt::format("{}{}{}", fmt::join(instructions, kBetween), kArrow, fmt::join(expression.results, " "));
}

std::string parse(std::string_view text, Expression &into) {
  into = {};
  if (text.find(kArrow) == text.npos)
    return "the expression has no results: they follow an arrow ->";
  for (std::string_view left = upTo(kArrow, text); !left.empty();) {
    if (into.instructions.size() == Expression::kMostInstructions)
      return fmt::format("the expression has more than {} instructions", Expression::kMostInstructions);
    if (std::string problem = readInstruction(upTo(kBetween, left), into.instructions.emplace_back()); !problem.empty())
      return problem;
  }
  if (!readNumbers(text, into.results) || into.results.empty() || into.instructions.empty())
    return "the expression's results are no values";
  return "";
}

Expression expressionOf(const Signature &call) {
  Expression expression;
  parse(call.text("expression"), expression);
  expression.sums = static_cast<size_t>(std::clamp<int64_t>(call.integer("sums"), 0, std::ssize(expression.results)));
  return expression;
}

Signature callOf(const Instruction &instruction, std::span<const DType> types) {
  Signature call{instruction.kernel, {}, {}};
  if (!instruction.choice.empty())
    call.attributes[std::string(choiceOf(*find(instruction.kernel)))] = instruction.choice;
  for (size_t operand : instruction.operands)
    call.operands.push_back({types[operand], {1}, Effect::read});
  for (size_t i = 0; i < instruction.results(); ++i)
    call.operands.push_back({instruction.type, {1}, Effect::write});
  return call;
}

std::vector<DType> Expression::types(const Signature &call) const {
  std::vector<DType> found;
  for (size_t i = 0; i < readsOf(call); ++i)
    found.push_back(call.operands[i].type);
  for (const Instruction &one : instructions)
    found.insert(found.end(), one.results(), one.type);
  return found;
}

namespace {
class SlotPool {
public:
  size_t take() {
    if (unused.empty())
      return count++;
    const size_t slot = unused.back();
    unused.pop_back();
    return slot;
  }
  void give(size_t slot) { unused.push_back(slot); }
  size_t count = 0;

private:
  std::vector<size_t> unused;
};
} // namespace

Slots slotsOf(const Expression &expression, size_t reads, Backend backend) {
  const bool onGpu = backend == Backend::cuda;
  std::vector<size_t> lastRead(reads, Slots::kNone), made; // the instruction; the first result of each
  for (const Instruction &one : expression.instructions) {
    made.push_back(lastRead.size());
    lastRead.insert(lastRead.end(), one.results(), Slots::kNone);
  }
  for (size_t i = 0; i < expression.instructions.size(); ++i)
    for (size_t value : expression.instructions[i].operands)
      lastRead[value] = i;
  for (size_t value : expression.summed())
    lastRead[value] = expression.instructions.size();
  Slots slots{std::vector<size_t>(lastRead.size(), Slots::kNone)};
  std::set<size_t> kept; // slots that are never free again
  SlotPool pool;
  for (size_t value = 0; value < reads; ++value)
    if (!onGpu || lastRead[value] != Slots::kNone)
      slots.of[value] = pool.take();
  for (size_t i = 0; !onGpu && i < made.size(); ++i)
    if (expression.instructions[i].kernel == kConstant)
      slots.of[made[i]] = pool.take();
  for (size_t slot = 0; !onGpu && slot < pool.count; ++slot)
    kept.insert(slot);
  for (size_t i = 0; i < made.size(); ++i) {
    const Instruction &one = expression.instructions[i];
    if (!onGpu && one.kernel == kConstant)
      continue;
    auto takeResults = [&] {
      for (size_t value = made[i]; value < made[i] + one.results(); ++value)
        if (!onGpu || lastRead[value] != Slots::kNone)
          slots.of[value] = pool.take();
    };
    auto give = [&](size_t value, bool isRead) {
      if (slots.of[value] != Slots::kNone && lastRead[value] == (isRead ? i : Slots::kNone) && !kept.contains(slots.of[value]))
        pool.give(slots.of[value]);
    };
    if (!onGpu)
      takeResults();
    for (size_t value : std::set<size_t>(one.operands.begin(), one.operands.end()))
      give(value, true);
    if (onGpu)
      takeResults();
    for (size_t value = made[i]; value < made[i] + one.results(); ++value)
      give(value, false);
  }
  slots.count = pool.count;
  return slots;
}

size_t readsOf(const Signature &call) {
  return static_cast<size_t>(std::ranges::count(call.operands, Effect::read, &OperandType::effect));
}

Dims domainOf(const Signature &call) {
  if (call.kernel != kSums) {
    const auto isWritten = [](const OperandType &operand) {
      return operand.effect == Effect::write && operand.present;
    };
    const auto first = std::ranges::find_if(call.operands, isWritten);
    return first == call.operands.end() ? Dims() : first->dims;
  }
  Dims all;
  for (const OperandType &operand : call.operands)
    if (operand.effect == Effect::read)
      all = broadcast(all, operand.dims).value_or(all);
  return all;
}

namespace {
/// What is wrong with how values are summed, or empty; into `dims`, those of each sum.
std::string checkSums(const Signature &call, const Dims &domain, const Expression &expression, Dims &dims) {
  const std::vector<int64_t> axes = call.integers("axes");
  if (call.integer("sums") < 1 || call.integer("sums") > std::ssize(expression.results))
    return fmt::format("attribute sums must be at least 1 and at most the number of results, {}",
                       expression.results.size());
  const bool ascends = std::ranges::adjacent_find(axes, std::greater_equal<>()) == axes.end();
  if (axes.empty() || !ascends || axes.front() < 0 || axes.back() >= std::ssize(domain))
    return fmt::format("attribute axes must name dimensions of {} in ascending order", text(domain));
  const auto isWhole = [&](const OperandType &operand) {
    return operand.effect == Effect::read && operand.dims == domain;
  };
  if (std::ranges::none_of(call.operands, isWhole))
    return fmt::format("no operand has all elements that are summed, {}: sums of what is repeated have no bound",
                       text(domain));
  for (int64_t i = 0; i < std::ssize(domain); ++i)
    if (!std::ranges::binary_search(axes, i))
      dims.push_back(domain[static_cast<size_t>(i)]);
  return "";
}
} // namespace

std::string checkExpression(const Signature &call) {
  Expression expression;
  if (std::string problem = parse(call.text("expression"), expression); !problem.empty())
    return problem;
  const Dims domain = domainOf(call);
  Dims sumDims;
  const bool sums = call.kernel == kSums;
  if (std::string problem = sums ? checkSums(call, domain, expression, sumDims) : ""; !problem.empty())
    return problem;
  std::vector<DType> types;
  std::vector<const OperandType *> written;
  for (const OperandType &operand : call.operands) {
    if (operand.effect == Effect::read)
      types.push_back(operand.type);
    else if (operand.effect == Effect::write)
      written.push_back(&operand);
  }
  const size_t reads = types.size();
  std::set<size_t> computed;
  if (reads > Expression::kMostReads || written.size() > Expression::kMostResults)
    return fmt::format("{} operands and {} results; {} and {} are the most", reads, written.size(), Expression::kMostReads,
                       Expression::kMostResults);
  for (const Instruction &one : expression.instructions) {
    if (std::string problem = checkInstruction(one, types); !problem.empty())
      return problem;
    for (size_t i = 0; i < one.results(); ++i, types.push_back(one.type))
      if (one.kernel != kConstant)
        computed.insert(types.size());
  }
  const size_t firstSum = expression.results.size() - (sums ? static_cast<size_t>(call.integer("sums")) : 0);
  const auto isDistinct = [&](std::span<const size_t> values) {
    const std::set<size_t> distinct(values.begin(), values.end());
    return distinct.size() == values.size() && std::ranges::includes(computed, distinct);
  };
  const std::span<const size_t> results = expression.results;
  if (results.size() != written.size() || !isDistinct(results.first(firstSum)) ||
      !isDistinct(results.subspan(firstSum)))
    return fmt::format("the expression names {} results, for {} operands: each another value that it computes",
                       expression.results.size(), written.size());
  for (size_t i = 0; i < written.size(); ++i) {
    const DType type = types[expression.results[i]];
    if (i >= firstSum && type != DType::f32 && type != DType::bf16)
      return fmt::format("a sum of {}: values that are summed are f32 or bf16", name(type));
    const OperandType wanted = {i < firstSum ? type : DType::f32, i < firstSum ? domain : sumDims};
    if (written[i]->present && (written[i]->type != wanted.type || written[i]->dims != wanted.dims))
      return fmt::format("result {} must be {}{}", i, name(wanted.type), text(wanted.dims));
  }
  for (size_t i = 0; i < reads; ++i)
    if (broadcast(call.operands[i].dims, domain) != domain)
      return fmt::format("{} is {}, which does not broadcast to {}", operandName(call, static_cast<int>(i)),
                         text(call.operands[i].dims), text(domain));
  return "";
}

} // namespace mt::kernels
