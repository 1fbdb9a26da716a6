// `elementwise`: the calls of an expression one after another on a block of elements that stays in the first cache. A value
// lies as its type stores it, in memory where it is read from or written to there and else in a row; so each call is done
// as it would be alone, and gives the same bits.
#include "kernels/Expression.h"

#include "kernels/Blocks.h"
#include "kernels/cpu/ElementwiseOps.h"
#include "kernels/cpu/Family.h"
#include "kernels/cpu/View.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

namespace mt::kernels::cpu {
namespace {

constexpr int64_t kBlock = 1024;        ///< elements of a row
constexpr int64_t kChunk = 32 * kBlock; ///< elements that one call works on in parallel, divided by the number of calls
constexpr size_t kMostIn = 3, kMostOut = 2;
constexpr uint64_t kConverted = (kMostIn + kMostOut) * kBlock * sizeof(double); ///< rows between storage and arithmetic

/// Where a value lies: in an operand, seen in the order of the results, or in a row; or both, where more than one use it.
struct Place {
  static constexpr size_t kNone = Slots::kNone;
  size_t operand = kNone, row = kNone;
  View view;
};

/// What a thread works with: the elements from `begin` on.
struct Block {
  const Launch &launch;
  std::byte *rows, *converted;
  uint64_t rowBytes;
  int64_t begin, count;

  void *row(size_t index) const { return rows + index * rowBytes; }
  template <typename C> C *buffer(size_t index) const { return reinterpret_cast<C *>(converted) + index * kBlock; }
};

/// One instruction.
class Step {
public:
  virtual ~Step() = default;
  virtual void run(const Block &block) const = 0;
};

template <typename C> class StepOf : public Step {
public:
  struct Input {
    Place place;
    LoadRow<C> load;
    bool native;
  };
  struct Output {
    Place place; ///< neither operand nor row: nothing uses it
    StoreRow<C> store;
    bool native;
  };

  RowFunction<C> function = nullptr; ///< null: the result is the operand
  std::vector<Input> inputs;
  std::vector<Output> outputs;

  void run(const Block &block) const override {
    std::array<const C *, kMostIn> in{};
    std::array<C *, kMostOut> out{};
    for (size_t i = 0; i < inputs.size(); ++i)
      in[i] = bring(block, inputs[i], block.buffer<C>(i));
    for (size_t i = 0; i < outputs.size(); ++i)
      out[i] = own(block, outputs[i], block.buffer<C>(kMostIn + i));
    if (function)
      function(in.data(), out.data(), block.count);
    for (size_t i = 0; i < outputs.size(); ++i)
      put(block, outputs[i], function ? out[i] : in[i]);
  }

private:
  static const C *bring(const Block &block, const Input &input, C *buffer) {
    if (input.place.operand == Place::kNone) {
      const void *row = block.row(input.place.row);
      if (input.native)
        return static_cast<const C *>(row);
      input.load(row, 0, 1, block.count, buffer);
      return buffer;
    }
    const void *base = block.launch.operands[input.place.operand];
    if (input.native && input.place.view.contiguous())
      return static_cast<const C *>(base) + input.place.view.first() + block.begin;
    input.place.view.read(input.load, base, block.begin, block.count, buffer);
    return buffer;
  }

  static bool replaces(const Block &block, const Output &output) {
    return output.place.operand != Place::kNone && !block.launch.accumulates(output.place.operand);
  }

  /// Where the function may write: to the value's own place, if only one has it and it is stored there as it is computed.
  static C *own(const Block &block, const Output &output, C *buffer) {
    if (output.native && output.place.row != Place::kNone)
      return static_cast<C *>(block.row(output.place.row));
    if (output.native && output.place.row == Place::kNone && replaces(block, output))
      return block.launch.at<C>(output.place.operand) + block.begin;
    return buffer;
  }

  static void put(const Block &block, const Output &output, const C *values) {
    if (output.place.row != Place::kNone && values != block.row(output.place.row))
      output.store(values, block.row(output.place.row), 0, block.count, false);
    if (output.place.operand == Place::kNone)
      return;
    void *base = block.launch.operands[output.place.operand];
    const bool there = replaces(block, output) && output.native && values == static_cast<const C *>(base) + block.begin;
    if (!there)
      output.store(values, base, block.begin, block.count, block.launch.accumulates(output.place.operand));
  }
};

/// A number in a row of its own.
struct Filled {
  size_t row;
  DType type;
  double number;

  void fill(const Block &block) const {
    withArithmetic(type, [&](auto arithmetic) {
      using C = decltype(arithmetic);
      std::fill_n(block.buffer<C>(0), kBlock, static_cast<C>(number));
      storer<C>(type)(block.buffer<C>(0), block.row(row), 0, kBlock, false);
    });
  }
};

struct Program {
  std::vector<Filled> constants;
  std::vector<std::shared_ptr<const Step>> steps;
  uint64_t rowBytes = 0;
  size_t rows = 0;
  int64_t total = 1;

  int64_t chunk() const { return std::max<int64_t>(kBlock, kChunk / static_cast<int64_t>(steps.size()) / kBlock * kBlock); }
  uint64_t bytes() const { return kConverted + rows * rowBytes; }
  Scratch scratch() const { return {.own = bytes()}; }

  Status operator()(const Launch &launch) const {
    const int64_t size = chunk();
    launch.pool.parallelFor(ceilDivide(total, size), [&](int64_t index) {
      std::byte *own = ThreadPool::scratchOf<std::byte>(static_cast<int64_t>(bytes()));
      const int64_t end = std::min(total, (index + 1) * size);
      Block block{launch, own + kConverted, own, rowBytes, index * size, 0};
      for (const Filled &constant : constants)
        constant.fill(block);
      for (; block.begin < end; block.begin += kBlock) {
        block.count = std::min(kBlock, end - block.begin);
        for (const auto &step : steps)
          step->run(block);
      }
    });
    return {};
  }
};

/// The types of all values, and where each lies.
struct Values {
  std::vector<DType> types;
  std::vector<Place> places;
  std::vector<size_t> made; ///< the first of each instruction
  size_t rows = 0;

  Values(const Signature &call, const Expression &expression) : types(expression.types(call)), places(types.size()) {
    size_t reads = 0;
    for (; call.operands[reads].effect == Effect::read; ++reads)
      places[reads] = {reads, Place::kNone, View::broadcast(call.operands[reads].dims, domainOf(call))};
    for (size_t i = 0; i < expression.results.size(); ++i)
      if (call.operands[reads + i].present)
        places[expression.results[i]].operand = reads + i;
    const Slots slots = slotsOf(expression, reads, Backend::cpu);
    rows = slots.count;
    for (size_t value = reads; value < types.size(); ++value)
      places[value].row = slots.of[value];
    size_t next = reads;
    for (const Instruction &one : expression.instructions)
      made.push_back(std::exchange(next, next + one.results()));
  }
};

/// An instruction whose last operand is read as C, as its kernel does alone.
template <typename C> Result<std::shared_ptr<const Step>> makeStep(const Instruction &one, const Values &values, size_t first) {
  StepOf<C> step;
  const Signature call = callOf(one, values.types);
  if (one.kernel != "cast" && !(step.function = rowFunction<C>(functionName(call))))
    return fail("{}: the CPU has no code for {}", one.kernel, name(values.types[one.operands.back()]));
  for (size_t value : one.operands) {
    Place place = values.places[value];
    if (place.row != Place::kNone)
      place.operand = Place::kNone; // as it was computed, wherever else it was added
    step.inputs.push_back({place, loader<C>(values.types[value]), isNative<C>(values.types[value])});
  }
  for (size_t i = 0; i < one.results(); ++i)
    step.outputs.push_back({values.places[first + i], storer<C>(one.type), isNative<C>(one.type)});
  return std::shared_ptr<const Step>(std::make_shared<StepOf<C>>(std::move(step)));
}

Result<Run> prepareExpression(const Signature &call) {
  const Expression expression = expressionOf(call);
  const Values values(call, expression);
  Program program;
  program.rows = values.rows;
  for (DType type : values.types)
    program.rowBytes = std::max(program.rowBytes, kBlock * byteSize(type));
  for (int64_t dim : domainOf(call))
    program.total *= dim;
  for (size_t i = 0; i < expression.instructions.size(); ++i) {
    const Instruction &one = expression.instructions[i];
    const size_t first = values.made[i];
    if (one.kernel == kConstant) {
      program.constants.push_back({values.places[first].row, one.type, one.constant});
      continue;
    }
    MT_ASSIGN(auto step, withArithmetic(values.types[one.operands.back()],
                                        [&](auto type) { return makeStep<decltype(type)>(one, values, first); }));
    program.steps.push_back(std::move(step));
  }
  return Run(std::move(program));
}

constexpr Entry kEntries[] = {{"elementwise", prepareExpression}};

} // namespace

std::span<const Entry> expressionEntries() { return kEntries; }

} // namespace mt::kernels::cpu
