#include "kernels/cpu/CodedRuns.h"

#include "kernels/cpu/Elements.h"
#include "kernels/cpu/ElementwiseOps.h"

#include <algorithm>

namespace mt::kernels::cpu {
namespace {

bool reads(const Instruction &one, size_t value) {
  return std::ranges::find(one.operands, value) != one.operands.end();
}

class Finder {
public:
  Finder(const Expression &expression, const std::vector<DType> &types, size_t operands,
         const std::vector<bool> &isResult)
      : instructions(expression.instructions), summed(expression.summed()), types(types), isResult(isResult) {
    for (size_t operand = 0; operand < operands; ++operand)
      arithmetics.push_back(arithmeticOf(types[operand]));
    for (const Instruction &one : instructions) {
      results.push_back(arithmetics.size());
      const bool isOwn = one.kernel == kConstant || one.kernel == "cast";
      arithmetics.insert(arithmetics.end(), one.results(), arithmeticOf(isOwn ? one.type : types[one.operands.back()]));
    }
  }

  std::vector<CodedRun> find() const {
    std::vector<CodedRun> runs;
    for (size_t begin = 0, end; begin < instructions.size(); begin = std::max(end, begin + 1)) {
      size_t simple = 0;
      for (end = begin; end < instructions.size() && (isSimple(end) || isConstant(end)); ++end)
        simple += isSimple(end);
      if (simple > 0)
        runs.push_back({begin, end, nullptr, {}, {}});
    }
    return runs;
  }

  /// Whether every instruction that reads an operand is part of a run.
  bool isReadByRuns(size_t operand, const std::vector<CodedRun> &runs) const {
    for (size_t i = 0; i < instructions.size(); ++i)
      if (mt::kernels::cpu::reads(instructions[i], operand) &&
          std::ranges::none_of(runs, [&](const CodedRun &run) { return run.begin <= i && i < run.end; }))
        return false;
    return true;
  }

  void write(CodedRun &run, const std::vector<bool> &readsAsStored) const {
    Chain chain;
    std::vector<size_t> numbers(types.size(), SIZE_MAX); // in the chain
    for (size_t i = run.begin; i < run.end; ++i)
      for (size_t value : instructions[i].operands)
        if (!isMade(run, value) && numbers[value] == SIZE_MAX) {
          numbers[value] = run.reads.size();
          run.reads.push_back(value);
          chain.readsBf16.push_back(value < readsAsStored.size() && readsAsStored[value]);
        }
    size_t next = run.reads.size();
    for (size_t i = run.begin; i < run.end; ++i)
      if (!isConstant(i)) {
        for (size_t result = 0; result < instructions[i].results(); ++result)
          numbers[results[i] + result] = next++;
        addOperation(run, chain, i, numbers);
      }
    run.code = ChainCode::make(chain);
  }

private:
  const std::vector<Instruction> &instructions;
  const std::span<const size_t> summed; ///< values that are read behind all instructions
  const std::vector<DType> &types;
  const std::vector<bool> &isResult;
  std::vector<Arithmetic> arithmetics; ///< in which values come: booleans in that of what was compared
  std::vector<size_t> results;         ///< by instruction: its first value

  bool isConstant(size_t instruction) const { return instructions[instruction].kernel == kConstant; }
  std::string functionOf(const Instruction &one) const {
    return one.kernel == "cast" ? one.kernel : functionName(callOf(one, types));
  }
  bool isFloat(size_t value) const { return arithmetics[value] == Arithmetic::real32; }

  bool isSimple(size_t instruction) const {
    const Instruction &one = instructions[instruction];
    const size_t result = results[instruction]; // another is of the same type
    if (isConstant(instruction) || !ChainCode::knows(functionOf(one)))
      return false;
    const bool isTest = one.type == DType::boolean && one.kernel != "cast" && !isResult[result];
    return (one.type == DType::f32 || one.type == DType::bf16 || isTest) && isFloat(result) &&
           std::ranges::all_of(one.operands, [&](size_t value) { return isFloat(value); });
  }

  bool isMade(const CodedRun &run, size_t value) const {
    for (size_t i = run.begin; i < run.end; ++i)
      if (results[i] <= value && value < results[i] + instructions[i].results())
        return !isConstant(i);
    return false;
  }

  void addOperation(CodedRun &run, Chain &chain, size_t instruction, const std::vector<size_t> &numbers) const {
    const Instruction &one = instructions[instruction];
    Chain::Operation operation{functionOf(one), {}, false};
    operation.isRounded = one.type == DType::bf16 && !keepsType(operation.function);
    for (size_t value : one.operands)
      operation.operands.push_back(numbers[value]);
    chain.operations.push_back(std::move(operation));
    for (size_t i = 0; i < one.results(); ++i)
      addWrites(run, chain, results[instruction] + i, one.type, numbers);
  }

  void addWrites(CodedRun &run, Chain &chain, size_t result, DType type, const std::vector<size_t> &numbers) const {
    const bool isReadLater =
        std::ranges::find(summed, result) != summed.end() ||
        std::any_of(instructions.begin() + static_cast<std::ptrdiff_t>(run.end), instructions.end(),
                    [&](const Instruction &later) { return mt::kernels::cpu::reads(later, result); });
    for (const bool stored : {true, false})
      if (stored ? isResult[result] : isReadLater) {
        chain.writes.push_back({numbers[result], stored && type == DType::bf16});
        run.outputs.push_back({result, stored});
      }
  }
};

} // namespace

CodedRuns codedRuns(const Expression &expression, const std::vector<DType> &types, size_t reads,
                    const std::vector<bool> &isResult, const std::vector<bool> &liesTogether) {
  const Finder finder(expression, types, reads, isResult);
  CodedRuns found{finder.find(), std::vector<bool>(reads, false)};
  for (size_t operand = 0; operand < reads; ++operand)
    found.readsAsStored[operand] =
        types[operand] == DType::bf16 && liesTogether[operand] && finder.isReadByRuns(operand, found.runs);
  for (CodedRun &run : found.runs)
    finder.write(run, found.readsAsStored);
  if (std::ranges::any_of(found.runs, [](const CodedRun &run) { return !run.code; }))
    return {};
  return found;
}

} // namespace mt::kernels::cpu
