// `elementwise`: the calls of an expression one after another on a block of elements that stays in the first cache. A
// value is kept as it is computed, rounded to its type: what each call reads, and so its bits, are as if it stood
// alone. Runs of calls for which there is machine code (CodedRuns.h) are one step of their own. `elementwise_sums` goes
// through the blocks in the order of `reduce`, and adds values up while they are there.
#include "kernels/Expression.h"

#include "kernels/Blocks.h"
#include "kernels/cpu/CodedRuns.h"
#include "kernels/cpu/ElementwiseOps.h"
#include "kernels/cpu/Family.h"
#include "kernels/cpu/ReduceOrder.h"
#include "kernels/cpu/Vector.h"
#include "kernels/cpu/View.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

namespace mt::kernels::cpu {
namespace {

constexpr int64_t kRow = 384;   ///< elements of a block at most
constexpr int64_t kLongRow = 1024; ///< where they need no rows
constexpr int64_t kRun = 64;    ///< elements of a run that blocks are cut at
/// Blocks that a thread works on at a time, divided by the number of calls: so few, and so many where that leaves
/// enough for the threads of a large machine. Memory comes faster in long runs.
constexpr int64_t kFewBlocks = 64, kManyBlocks = 512, kChunks = 256;
constexpr int64_t kAsked = 16; ///< lines of the cache, before each call
constexpr size_t kMostValues = Expression::kMostReads + kMostOut * Expression::kMostInstructions;
constexpr uint64_t kConverted = kMostIn * kRow * sizeof(double); ///< operands in another arithmetic

/// Memory that a thread will need, asked for little by little: what waits for it and what computes then overlap.
class Fetching {
public:
  void add(const void *from, int64_t bytes, bool toWrite) {
    if (count < parts.size())
      parts[count++] = {static_cast<const std::byte *>(from), bytes, toWrite};
  }
  void ask(int64_t lines) {
    for (; count > 0 && lines > 0; --lines) {
      Part &part = parts[count - 1];
      part.toWrite ? __builtin_prefetch(part.from, 1) : __builtin_prefetch(part.from, 0);
      part.from += kLine, part.bytes -= kLine;
      count -= part.bytes <= 0;
    }
  }
  static constexpr int64_t kLine = 64;

private:
  struct Part {
    const std::byte *from;
    int64_t bytes;
    bool toWrite;
  };
  std::array<Part, Expression::kMostReads + Expression::kMostResults> parts;
  size_t count = 0;
};

/// What a thread works with: a block of elements from `begin` on, and where each value lies.
struct Block {
  /// What an input's row has: `count` elements from this place of the operand on.
  struct Brought {
    int64_t offset = -1, count = 0;
  };
  const Launch &launch;
  std::byte *rows, *converted;
  uint64_t rowBytes;
  bool asks;
  int64_t begin = 0, count = 0;
  std::array<void *, kMostValues> values = {};
  std::array<Brought, Expression::kMostReads> brought = {};
  Fetching fetching = {}; ///< of the next block

  void *row(size_t slot) const { return rows + slot * rowBytes; }
  /// What is behind `bytes` bytes, as much again.
  void askBehind(const void *from, int64_t bytes, bool toWrite) {
    if (asks)
      fetching.add(static_cast<const std::byte *>(from) + bytes, bytes, toWrite);
  }
};

template <typename From, typename To> void convertRow(const void *from, int64_t count, void *to) {
  const auto *in = static_cast<const From *>(from);
  std::transform(in, in + count, static_cast<To *>(to), [](From value) { return static_cast<To>(value); });
}
using ConvertRow = void (*)(const void *from, int64_t count, void *to);

template <typename To> ConvertRow converterTo(Arithmetic from) {
  return from == Arithmetic::real32   ? convertRow<float, To>
         : from == Arithmetic::real64 ? convertRow<double, To>
                                      : convertRow<int64_t, To>;
}
template <typename C> Arithmetic arithmeticAs() {
  return std::is_same_v<C, float> ? Arithmetic::real32 : std::is_same_v<C, double> ? Arithmetic::real64 : Arithmetic::integer;
}

/// Values rounded to a type that is stored otherwise than it is computed; `to` may be `from`.
template <typename C> void roundRow(DType type, const C *from, int64_t count, C *to) {
  if constexpr (std::is_same_v<C, float>)
    if (type == DType::bf16)
      return vec::roundToBf16(from, count, to);
  std::array<C, kRow> stored; // of elements that are no larger
  storer<C>(type)(from, stored.data(), 0, count, false);
  loader<C>(type)(stored.data(), 0, 1, count, to);
}

/// An operand that is read, in the order of the results.
template <typename C> struct Input {
  size_t operand;
  View view;
  LoadRow<C> load;
  uint64_t bytes;
  bool isStored; ///< as it is computed with

  Input(const Signature &call, size_t operand, const View &view)
      : operand(operand), view(view), load(loader<C>(call.operands[operand].type)),
        bytes(byteSize(call.operands[operand].type)), isStored(isNative<C>(call.operands[operand].type)) {}

  /// Where the block's elements are: in memory, or in the operand's row, which may have them already.
  void *operator()(Block &block) const {
    auto *base = block.launch.at<std::byte>(operand);
    const int64_t first = view.offset(block.begin);
    const bool inOneRun = view.contiguous() || block.begin % view.inner() + block.count <= view.inner();
    if (inOneRun && (view.contiguous() || view.step() == 1)) {
      std::byte *from = base + static_cast<uint64_t>(first) * bytes;
      block.askBehind(from, block.count * static_cast<int64_t>(bytes), false);
      if (isStored)
        return from;
    }
    auto *row = static_cast<C *>(block.row(operand));
    Block::Brought &brought = block.brought[operand];
    const bool isConstant = inOneRun && view.step() == 0 && !view.contiguous(), isKnown = isConstant || view.repeatsOneRun();
    if (isKnown && brought.offset == first && block.count <= brought.count)
      return row;
    brought = isKnown ? Block::Brought{first, block.count} : Block::Brought();
    if (!isConstant) {
      view.read(load, base, block.begin, block.count, row);
      return row;
    }
    load(base, first, 0, 1, row);
    std::fill_n(row + 1, block.count - 1, *row);
    return row;
  }
};

/// One whose elements of each block lie in memory one behind the other, as they are stored.
struct StoredInput {
  size_t operand;
  View view;
  uint64_t bytes;

  void *operator()(Block &block) const {
    std::byte *from = block.launch.at<std::byte>(operand) + static_cast<uint64_t>(view.offset(block.begin)) * bytes;
    block.askBehind(from, block.count * static_cast<int64_t>(bytes), false);
    return from;
  }
};

/// A run of instructions by machine code.
struct Coded {
  struct Out {
    size_t value, row, operand; ///< operand kNone: into the row
    uint64_t bytes;             ///< of an element of the operand
  };
  std::shared_ptr<const ChainCode> code;
  std::vector<size_t> reads; ///< values
  std::vector<Out> outputs;

  void operator()(Block &block) const {
    std::array<const void *, kMostValues> from;
    std::array<void *, kMostValues> to;
    for (size_t i = 0; i < reads.size(); ++i)
      from[i] = block.values[reads[i]];
    for (size_t i = 0; i < outputs.size(); ++i)
      to[i] = place(block, outputs[i]);
    code->run(from.data(), to.data(), block.count);
  }

private:
  static void *place(Block &block, const Out &output) {
    if (output.operand == Slots::kNone)
      return block.values[output.value] = block.row(output.row);
    std::byte *at = block.launch.at<std::byte>(output.operand) + static_cast<uint64_t>(block.begin) * output.bytes;
    block.askBehind(at, block.count * static_cast<int64_t>(output.bytes), true);
    return at;
  }
};

/// One instruction, computed as C.
template <typename C> struct Step {
  struct In {
    size_t value;
    ConvertRow convert; ///< null: it is there as C
  };
  struct Out {
    size_t value, row, operand; ///< operand kNone: it is no result
    DType type;
    StoreRow<C> store;
    bool isStored, isRead, isRounded; ///< stored as it is computed; by a later instruction; for that, to its type
  };

  RowFunction<C> function;
  RowFunction<C> rounded = nullptr; ///< the same, of one result that it rounds to its type, if there is one
  std::vector<In> inputs;
  std::vector<Out> outputs;

  void operator()(Block &block) const {
    std::array<const C *, kMostIn> in{};
    std::array<C *, kMostOut> out{};
    for (size_t i = 0; i < inputs.size(); ++i)
      in[i] = bring(block, inputs[i], i);
    for (size_t i = 0; i < outputs.size(); ++i)
      block.values[outputs[i].value] = out[i] = place(block, outputs[i]);
    const bool roundsAtOnce = rounded && !accumulates(block, outputs[0]); // what is added is not rounded before
    (roundsAtOnce ? rounded : function)(in.data(), out.data(), block.count);
    for (size_t i = 0; i < outputs.size(); ++i)
      finish(block, outputs[i], out[i], roundsAtOnce);
  }

  static const C *bring(Block &block, const In &input, size_t place) {
    const void *there = block.values[input.value];
    if (!input.convert)
      return static_cast<const C *>(there);
    auto *converted = reinterpret_cast<C *>(block.converted) + static_cast<int64_t>(place) * kRow;
    input.convert(there, block.count, converted);
    return converted;
  }

private:
  static bool accumulates(const Block &block, const Out &output) {
    return output.operand != Slots::kNone && block.launch.accumulates(output.operand);
  }
  /// In the result itself, where nothing has to be done to the value.
  static C *place(Block &block, const Out &output) {
    if (output.operand == Slots::kNone || !output.isStored || accumulates(block, output))
      return static_cast<C *>(block.row(output.row));
    C *to = block.launch.at<C>(output.operand) + block.begin;
    block.askBehind(to, block.count * static_cast<int64_t>(sizeof(C)), true);
    return to;
  }
  static void finish(Block &block, const Out &output, C *values, bool isDone) {
    const bool inRow = values == block.row(output.row);
    if (output.operand != Slots::kNone && inRow)
      output.store(values, block.launch.operands[output.operand], block.begin, block.count, accumulates(block, output));
    if (output.isRead && output.isRounded && !isDone)
      roundRow(output.type, values, block.count, values);
  }
};

/// A conversion within an arithmetic: the value itself, rounded.
template <typename C> struct Rounding {
  typename Step<C>::In input;
  typename Step<C>::Out output;

  void operator()(Block &block) const {
    const C *in = Step<C>::bring(block, input, 0);
    if (output.operand != Slots::kNone)
      output.store(in, block.launch.operands[output.operand], block.begin, block.count,
                   block.launch.accumulates(output.operand));
    if (!output.isRead)
      return;
    auto *row = static_cast<C *>(block.row(output.row));
    block.values[output.value] = row;
    output.isRounded ? roundRow(output.type, in, block.count, row) : (void)std::copy_n(in, block.count, row);
  }
};

/// What is read, as it is computed with: its row is its own until the end.
struct Renaming {
  size_t from, to;
  void operator()(Block &block) const { block.values[to] = block.values[from]; }
};

/// A conversion to a type of another arithmetic, by way of how it is stored.
template <typename From, typename To> struct Conversion {
  typename Step<From>::In input;
  typename Step<From>::Out output;
  LoadRow<To> load;

  void operator()(Block &block) const {
    const From *in = Step<From>::bring(block, input, 0);
    block.values[output.value] = block.row(output.row);
    if (output.operand != Slots::kNone)
      output.store(in, block.launch.operands[output.operand], block.begin, block.count, block.launch.accumulates(output.operand));
    if (!output.isRead)
      return;
    std::array<double, kRow> stored; // of elements that are no larger
    output.store(in, stored.data(), 0, block.count, false);
    load(stored.data(), 0, 1, block.count, static_cast<To *>(block.row(output.row)));
  }
};

/// How blocks are cut: within runs of `run` elements, all but a run's last of `width`.
struct Cuts {
  int64_t total = 1, run = 1, width = kRow;

  /// At runs that inputs repeat or have side by side: their elements then lie in memory, or are one for a whole block.
  static Cuts of(int64_t total, std::span<const View> views) {
    int64_t inner = total;
    for (const View &view : views)
      if (!view.contiguous() && view.inner() >= kRun)
        inner = std::min(inner, view.inner());
    if (inner == total)
      return {total, total, kRow};
    if (inner <= kRow)
      return {total, total, kRow / inner * inner};
    const int64_t parts = ceilDivide(inner, kRow);
    return {total, inner, std::min(kRow, ceilDivide(ceilDivide(inner, parts), int64_t{16}) * 16)};
  }
  /// Those that an order of sums goes through.
  static Cuts of(int64_t total, const ReduceOrder &order) { return {total, order.run, std::min(kRow, order.run)}; }
  /// Whether each block's elements of a view lie one behind the other.
  bool keepTogether(const View &view) const {
    return view.contiguous() || (view.step() == 1 && run < total && view.inner() % run == 0);
  }
  int64_t perRun() const { return ceilDivide(run, width); }
  int64_t count() const { return total / run * perRun(); }
  void place(int64_t index, Block &block) const {
    const int64_t within = index % perRun() * width;
    block.begin = index / perRun() * run + within;
    block.count = std::min(width, run - within);
  }
};

/// A number in a row of its own.
struct Filled {
  size_t value, row;
  DType type;
  double number;

  void operator()(Block &block) const {
    block.values[value] = block.row(row);
    withArithmetic(type, [&](auto arithmetic) {
      using C = decltype(arithmetic);
      auto *values = static_cast<C *>(block.row(row));
      std::fill_n(values, kRow, static_cast<C>(number));
      if (!isNative<C>(type))
        roundRow(type, values, kRow, values);
    });
  }
};

struct Program {
  std::vector<Filled> constants;
  std::vector<std::pair<size_t, std::function<void *(Block &)>>> inputs; ///< by value
  std::vector<std::function<void(Block &)>> steps;
  Cuts cuts;
  uint64_t rowBytes = kRow * sizeof(float);
  size_t rows = 0;
  bool asks = true; ///< for memory: what comes by itself is as fast as code alone

  uint64_t bytes() const { return kConverted + rows * rowBytes; }

  /// What a thread begins with.
  Block start(const Launch &launch) const {
    std::byte *own = ThreadPool::scratchOf<std::byte>(static_cast<int64_t>(bytes()));
    Block block{launch, own + kConverted, own, rowBytes, asks};
    for (const Filled &constant : constants)
      constant(block);
    return block;
  }
  /// Elements [block.begin, block.begin + block.count).
  void compute(Block &block) const {
    for (const auto &[value, bring] : inputs)
      block.values[value] = bring(block);
    for (const auto &step : steps) {
      block.fetching.ask(kAsked);
      step(block);
    }
    block.fetching.ask(INT64_MAX);
  }

  Status operator()(const Launch &launch) const {
    const auto calls = static_cast<int64_t>(steps.size());
    const int64_t count = cuts.count();
    const int64_t size = calls * ceilDivide(cuts.width, kRow); // of a block
    const int64_t each = std::max<int64_t>(1, std::clamp(count / kChunks, kFewBlocks / size, kManyBlocks / size));
    launch.pool.parallelFor(ceilDivide(count, each), [&](int64_t chunk) {
      Block block = start(launch);
      for (int64_t index = chunk * each; index < std::min(count, (chunk + 1) * each); ++index) {
        cuts.place(index, block);
        compute(block);
      }
    });
    return {};
  }
};

/// Values that are summed where they are computed, as `reduce` sums what is stored.
struct Sums {
  struct One {
    size_t value, operand;
  };
  ReduceOrder order;
  bool isMean;
  std::vector<One> all;
  StoreRow<double> store;

  Status operator()(const Program &program, const Launch &launch) const {
    const int64_t results = order.results(), parts = order.parts.count;
    auto *partial = parts > 1 ? static_cast<double *>(launch.operands.back()) : nullptr; // [sums, parts, results]
    const auto start = [&] { return Own(program.start(launch)); };
    order.each(launch.pool, kRow, start, [&](Own &own, int64_t part, int64_t group, int64_t first, int64_t width) {
      const int64_t base = order.base(group, first), at = group * order.inner + first;
      order.inner > 1 ? rows(program, own, base, part, width) : single(program, own, base, part);
      for (size_t i = 0; i < all.size(); ++i)
        if (partial)
          std::copy_n(own.sums[i], width, partial + (static_cast<int64_t>(i) * parts + part) * results + at);
        else
          finish(launch, all[i], at, width, own.sums[i]);
    });
    for (size_t i = 0; i < all.size() && partial; ++i) {
      double *sum = partial + static_cast<int64_t>(i) * parts * results;
      for (int64_t part = 1; part < parts; ++part)
        std::transform(sum, sum + results, sum + part * results, sum, std::plus<>());
      finish(launch, all[i], 0, results, sum);
    }
    return {};
  }

private:
  struct Own {
    Block block;
    double sums[Expression::kMostResults][kRow];
    explicit Own(const Block &begun) : block(begun) {}
  };

  void add(Own &own, int64_t begin, int64_t count, const Program &program, bool intoLanes) const {
    own.block.begin = begin, own.block.count = count;
    program.compute(own.block);
    for (size_t i = 0; i < all.size(); ++i) {
      const auto *values = static_cast<const float *>(own.block.values[all[i].value]);
      intoLanes ? vec::foldLanes(vec::Fold::sum, values, count, own.sums[i])
                : vec::foldRows(vec::Fold::sum, values, 0, 1, count, own.sums[i]);
    }
  }

  void rows(const Program &program, Own &own, int64_t base, int64_t part, int64_t width) const {
    for (size_t i = 0; i < all.size(); ++i)
      std::fill_n(own.sums[i], width, 0.0);
    order.eachRun(order.parts.begin(part), order.parts.end(part), [&](int64_t offset, int64_t stride, int64_t many) {
      for (int64_t row = 0; row < many; ++row)
        add(own, base + offset + row * stride, width, program, false);
    });
  }

  void single(const Program &program, Own &own, int64_t base, int64_t part) const {
    const int64_t begin = order.parts.begin(part), end = order.parts.end(part),
                  used = ReduceOrder::lanesOf(end - begin);
    for (size_t i = 0; i < all.size(); ++i)
      std::fill_n(own.sums[i], used, 0.0);
    order.eachRun(begin, end, [&](int64_t offset, int64_t, int64_t many) {
      for (int64_t i = 0; i < many; i += kRow)
        add(own, base + offset + i, std::min(kRow, many - i), program, true);
    });
    for (size_t i = 0; i < all.size(); ++i)
      for (int64_t half = used / 2; half > 0; half /= 2)
        std::transform(own.sums[i], own.sums[i] + half, own.sums[i] + half, own.sums[i], std::plus<>());
  }

  void finish(const Launch &launch, const One &one, int64_t at, int64_t count, double *sums) const {
    for (int64_t i = 0; i < count && isMean; ++i)
      sums[i] /= static_cast<double>(order.count);
    store(sums, launch.operands[one.operand], at, count, launch.accumulates(one.operand));
  }
};

/// With machine code where there is some, and without: code only replaces what results hold.
struct Programs {
  Program plain;
  std::optional<Program> coded;
  std::optional<Sums> sums;
  std::vector<size_t> results; ///< operands

  Scratch scratch() const { return {.own = plain.bytes()}; }
  Status operator()(const Launch &launch) const {
    const auto accumulates = [&](size_t operand) { return launch.accumulates(operand); };
    const Program &program = coded && std::ranges::none_of(results, accumulates) ? *coded : plain;
    return sums ? (*sums)(program, launch) : program(launch);
  }
};

/// Prepares a call, value by value.
class Preparation {
public:
  explicit Preparation(const Signature &call)
      : call(call), expression(expressionOf(call)), types(expression.types(call)), reads(readsOf(call)),
        slots(slotsOf(expression, reads, Backend::cpu)), written(types.size(), Slots::kNone), readers(types.size(), 0) {
    for (size_t i = 0; i < expression.results.size() - expression.sums; ++i)
      if (call.operands[reads + i].present)
        written[expression.results[i]] = reads + i;
    for (size_t value : expression.summed())
      ++readers[value];
    for (const Instruction &one : expression.instructions)
      for (size_t value : one.operands)
        ++readers[value];
    makeViews();
  }

  /// With machine code, if there is some: whether that is so.
  bool findRuns() {
    std::vector<bool> isResult, liesTogether;
    for (size_t operand : written)
      isResult.push_back(operand != Slots::kNone);
    for (const View &view : views)
      liesTogether.push_back(program.cuts.keepTogether(view));
    coded = codedRuns(expression, types, reads, isResult, liesTogether);
    return !coded.runs.empty();
  }

  Result<Program> run() {
    addInputs();
    for (auto run = coded.runs.begin(); next < expression.instructions.size();)
      if (run != coded.runs.end() && run->begin == next)
        add(*run++);
      else
        MT_TRY(add(expression.instructions[next++]));
    if (usesNoRows())
      program.cuts.width = kLongRow;
    program.rows = slots.count;
    program.asks = coded.runs.empty() || program.steps.size() > coded.runs.size();
    if (std::ranges::any_of(arithmetics, [](Arithmetic one) { return one != Arithmetic::real32; }))
      program.rowBytes = kRow * sizeof(double);
    return std::move(program);
  }
  /// None of `elementwise`.
  std::optional<Sums> sums() const {
    if (expression.sums == 0)
      return std::nullopt;
    Sums sums{orderOf(), call.text("kind") == "mean", {}, storer<double>(DType::f32)};
    for (size_t i = expression.results.size() - expression.sums; i < expression.results.size(); ++i)
      if (call.operands[reads + i].present)
        sums.all.push_back({expression.results[i], reads + i});
    return sums;
  }
  std::vector<size_t> results() const {
    std::vector<size_t> operands;
    for (size_t operand : written)
      if (operand != Slots::kNone)
        operands.push_back(operand);
    return operands;
  }

private:
  const Signature &call;
  const Expression expression;
  const std::vector<DType> types;
  const size_t reads;
  const Slots slots;
  std::vector<size_t> written; ///< which operand a value is
  std::vector<size_t> readers; ///< of each value, by instructions
  std::vector<Arithmetic> arithmetics; ///< of the values so far: booleans come in that of what was compared
  size_t next = 0;                     ///< instruction
  std::vector<View> views;             ///< of what is read
  Program program;
  CodedRuns coded; ///< none where there is to be no code

  void makeViews() {
    const Dims domain = domainOf(call);
    for (size_t i = 0; i < reads; ++i)
      views.push_back(View::broadcast(call.operands[i].dims, domain));
    const int64_t total = OperandType{.dims = domain}.elements();
    program.cuts = expression.sums > 0 ? Cuts::of(total, orderOf()) : Cuts::of(total, views);
  }
  ReduceOrder orderOf() const { return ReduceOrder::of(domainOf(call), call.integers("axes")); }

  void addInputs() {
    for (size_t i = 0; i < reads; ++i) {
      arithmetics.push_back(arithmeticOf(types[i]));
      if (readers[i] > 0 && comesAsStored(i))
        program.inputs.emplace_back(i, StoredInput{i, views[i], byteSize(types[i])});
      else if (readers[i] > 0)
        withArithmetic(types[i], [&](auto arithmetic) {
          program.inputs.emplace_back(i, Input<decltype(arithmetic)>(call, i, views[i]));
        });
    }
  }

  /// Whether code does all, from where operands lie to where results do.
  bool usesNoRows() const {
    bool fromMemory =
        coded.runs.size() == 1 && program.steps.size() == 1 && program.constants.empty() && expression.sums == 0;
    for (size_t i = 0; i < reads; ++i)
      fromMemory = fromMemory && views[i].contiguous() && (comesAsStored(i) || types[i] == DType::f32);
    return fromMemory;
  }

  bool comesAsStored(size_t operand) const { return !coded.runs.empty() && coded.readsAsStored[operand]; }

  void add(const CodedRun &run) {
    Coded step{run.code, run.reads, {}};
    for (const auto [value, isResult] : run.outputs)
      step.outputs.push_back(
          {value, slots.of[value], isResult ? written[value] : Slots::kNone, byteSize(types[value])});
    for (; next < run.end; ++next)
      if (const Instruction &one = expression.instructions[next]; one.kernel == kConstant)
        (void)add(one);
      else
        arithmetics.insert(arithmetics.end(), one.results(), Arithmetic::real32);
    program.steps.push_back(std::move(step));
  }

  Status add(const Instruction &one) {
    const size_t first = arithmetics.size();
    if (one.kernel == kConstant) {
      program.constants.push_back({first, slots.of[first], one.type, one.constant});
      arithmetics.push_back(arithmeticOf(one.type));
      return {};
    }
    return withArithmetic(types[one.operands.back()], [&](auto arithmetic) {
      using C = decltype(arithmetic);
      return one.kernel == "cast" ? addCast<C>(one, first) : addStep<C>(one, first);
    });
  }

  /// Whether the next instruction does nothing but round a result to bf16, which nothing else reads.
  bool isRoundedNext(const Instruction &one, size_t result) const {
    if (next == expression.instructions.size() || one.results() > 1 || one.type != DType::f32)
      return false;
    const Instruction &rounding = expression.instructions[next];
    return rounding.kernel == "cast" && rounding.type == DType::bf16 && rounding.operands[0] == result &&
           readers[result] == 1 && written[result] == Slots::kNone;
  }

  template <typename C> Step<C> stepOf(const Instruction &one) const {
    Step<C> step;
    for (size_t value : one.operands)
      step.inputs.push_back({value, arithmetics[value] == arithmeticAs<C>() ? nullptr : converterTo<C>(arithmetics[value])});
    return step;
  }

  template <typename C> typename Step<C>::Out outOf(size_t value, DType type, bool isRounded) const {
    return {value,           slots.of[value],   written[value],     type,
            storer<C>(type), isNative<C>(type), readers[value] > 0, isRounded};
  }

  template <typename C> Status addStep(const Instruction &one, size_t first) {
    Step<C> step = stepOf<C>(one);
    const std::string function = functionName(callOf(one, types));
    if (!(step.function = rowFunction<C>(function)))
      return fail("{}: the CPU has no code for {}", one.kernel, name(types[one.operands.back()]));
    DType type = one.type;
    bool isRounded = !isNative<C>(type) && type != DType::boolean; // comparisons give 0 and 1
    arithmetics.insert(arithmetics.end(), one.results(), arithmeticAs<C>());
    if constexpr (std::is_same_v<C, float>) {
      if (isRoundedNext(one, first)) {
        ++next, ++first;
        type = DType::bf16, isRounded = true;
        arithmetics.push_back(arithmeticAs<C>());
      } else if (keepsType(function)) {
        isRounded = false;
      }
      if (isRounded && type == DType::bf16 && readers[first] > 0)
        step.rounded = roundedRowFunction(function);
    }
    for (size_t i = 0; i < one.results(); ++i)
      step.outputs.push_back(outOf<C>(first + i, type, isRounded));
    program.steps.push_back(std::move(step));
    return {};
  }

  template <typename C> Status addCast(const Instruction &one, size_t result) {
    const bool isRounded = !isNative<C>(one.type);
    const typename Step<C>::In input = stepOf<C>(one).inputs[0];
    const typename Step<C>::Out output = outOf<C>(result, one.type, isRounded);
    const bool converts = arithmeticOf(one.type) != arithmeticAs<C>();
    arithmetics.push_back(converts ? arithmeticOf(one.type) : arithmeticAs<C>());
    if (converts)
      withArithmetic(one.type, [&](auto arithmetic) {
        using To = decltype(arithmetic);
        program.steps.push_back(Conversion<C, To>{input, output, loader<To>(one.type)});
      });
    else if (!isRounded && input.value < reads && !input.convert && written[result] == Slots::kNone)
      program.steps.push_back(Renaming{input.value, result});
    else
      program.steps.push_back(Rounding<C>{input, output});
    return {};
  }
};

constexpr Entry kEntries[] = {{"elementwise", prepareExpression}, {kSums, prepareExpression}};

} // namespace

Result<Run> prepareExpression(const Signature &call) {
  Preparation plain(call), coded(call);
  Programs programs;
  programs.results = plain.results();
  programs.sums = plain.sums();
  MT_ASSIGN(programs.plain, plain.run());
  if (coded.findRuns()) {
    MT_ASSIGN(programs.coded, coded.run());
  }
  return Run(std::move(programs));
}

std::span<const Entry> expressionEntries() { return kEntries; }

} // namespace mt::kernels::cpu
