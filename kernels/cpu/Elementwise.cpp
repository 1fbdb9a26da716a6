// Elementwise kernels of any type and broadcast: blocks of the result, operands brought into rows, one row function.
// Where there is machine code they are expressions (Expression.cpp).
#include "kernels/Blocks.h"
#include "kernels/Expression.h"
#include "kernels/cpu/ChainCode.h"
#include "kernels/cpu/ElementwiseOps.h"
#include "kernels/cpu/Family.h"
#include "kernels/cpu/View.h"

#include <algorithm>
#include <array>

namespace mt::kernels::cpu {
namespace {

constexpr int64_t kBlock = 1024;        // elements: a handful of rows stays in the first cache
constexpr int64_t kChunk = 32 * kBlock; // elements of a parallel chunk

template <typename C> struct Elementwise {
  struct Input {
    View view;
    LoadRow<C> load;
    bool direct;
    int64_t first() const { return view.first(); }
  };
  struct Output {
    size_t operand;
    StoreRow<C> store;
    bool native, present;
  };

  RowFunction<C> function = nullptr;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  int64_t total = 1;

  /// Blocks [begin, end) of the result; `rows` has room for all operands.
  void compute(const Launch &launch, int64_t begin, int64_t end, C *rows) const {
    std::array<const C *, kMostIn> in{};
    std::array<C *, kMostOut> out{};
    for (int64_t at = begin; at < end; at += kBlock) {
      int64_t count = std::min(kBlock, end - at);
      C *row = rows;
      for (size_t i = 0; i < inputs.size(); ++i, row += kBlock)
        in[i] = bring(launch, i, at, count, row);
      for (size_t i = 0; i < outputs.size(); ++i, row += kBlock)
        out[i] = place(launch, outputs[i], at, row);
      function(in.data(), out.data(), count);
      for (size_t i = 0; i < outputs.size(); ++i)
        if (outputs[i].present && out[i] != place(launch, outputs[i], at, nullptr))
          outputs[i].store(out[i], launch.operands[outputs[i].operand], at, count,
                           launch.accumulates(outputs[i].operand));
    }
  }

  const C *bring(const Launch &launch, size_t i, int64_t at, int64_t count, C *row) const {
    if (inputs[i].direct)
      return launch.at<const C>(i) + inputs[i].first() + at;
    inputs[i].view.read(inputs[i].load, launch.operands[i], at, count, row);
    return row;
  }

  /// Where the function may write: into the result itself, or into a row that is stored afterwards.
  C *place(const Launch &launch, const Output &output, int64_t at, C *row) const {
    bool direct = output.present && output.native && !launch.accumulates(output.operand);
    return direct ? launch.at<C>(output.operand) + at : row;
  }

  static constexpr int64_t kRows = kBlock * static_cast<int64_t>(kMostIn + kMostOut);
  Scratch scratch() const { return {.own = sizeof(C) * static_cast<uint64_t>(kRows)}; }

  Status operator()(const Launch &launch) const {
    launch.pool.parallelFor(ceilDivide(total, kChunk), [&](int64_t chunk) {
      C *rows = ThreadPool::scratchOf<C>(kRows);
      compute(launch, chunk * kChunk, std::min(total, (chunk + 1) * kChunk), rows);
    });
    return {};
  }
};

template <typename C> Result<Run> build(const Signature &call, size_t reads) {
  Elementwise<C> kernel;
  kernel.function = rowFunction<C>(functionName(call));
  if (!kernel.function)
    return fail("{}: the CPU has no code for {}", call.kernel, name(call.operands[reads - 1].type));
  Dims dims = call.operands[0].dims;
  for (size_t i = 1; i < reads; ++i)
    for (size_t j = 0, rank = call.operands[i].dims.size(); j < rank; ++j) {
      if (rank > dims.size())
        dims.insert(dims.begin(), rank - dims.size(), 1);
      int64_t &dim = dims[dims.size() - rank + j];
      dim = std::max(dim, call.operands[i].dims[j]);
    }
  for (size_t i = 0; i < reads; ++i) {
    const OperandType &operand = call.operands[i];
    View view = View::broadcast(operand.dims, dims);
    kernel.inputs.push_back({view, loader<C>(operand.type), view.contiguous() && isNative<C>(operand.type)});
  }
  for (size_t i = reads; i < call.operands.size(); ++i)
    kernel.outputs.push_back(
        {i, storer<C>(call.operands[i].type), isNative<C>(call.operands[i].type), call.operands[i].present});
  for (int64_t dim : dims)
    kernel.total *= dim;
  return Run(std::move(kernel));
}

/// Whether there is machine code for a call.
bool isCoded(const Signature &call, size_t reads) {
  return ChainCode::knows(functionName(call)) && std::ranges::all_of(call.operands, [&](const OperandType &operand) {
           const bool isRead = &operand < &call.operands[reads];
           return operand.present && (operand.type == DType::f32 || operand.type == DType::bf16) &&
                  (isRead || operand.type == call.operands[reads].type);
         });
}

/// By which attribute's value a call chooses its function; empty: by none.
std::string choiceIn(const Signature &call) {
  for (const std::string_view attribute : kChoices)
    if (std::string value = call.text(attribute); !value.empty())
      return value;
  return "";
}

/// A call as an expression of it alone.
Signature expressionOfOne(const Signature &call, size_t reads) {
  Instruction one{call.kernel, choiceIn(call), {}, call.operands[reads].type};
  Expression expression;
  for (size_t i = 0; i < call.operands.size(); ++i)
    (i < reads ? one.operands : expression.results).push_back(i);
  expression.instructions = {std::move(one)};
  return {"elementwise", {{"expression", print(expression)}}, call.operands};
}

} // namespace

bool keepsType(std::string_view function) {
  constexpr std::string_view kKeep[] = {
      "neg", "abs", "sign", "maximum", "minimum", "select", "relu", "floor", "ceil", "round", "activation_grad.relu"};
  return std::ranges::find(kKeep, function) != std::end(kKeep);
}

std::string functionName(const Signature &call) {
  if (const std::string choice = choiceIn(call); !choice.empty())
    return call.kernel + "." + choice;
  return call.kernel == "gelu" ? "gelu.erf" : call.kernel;
}

bool isElementwise(std::string_view kernel) {
  std::string name(kernel);
  for (std::string_view suffix : {"", ".eq", ".silu", ".erf"})
    if (rowFunction<float>(name + std::string(suffix)) || rowFunction<int64_t>(name + std::string(suffix)))
      return true;
  return false;
}

Result<Run> prepareElementwise(const Signature &call) {
  size_t reads = static_cast<size_t>(find(call.kernel)->reads);
  if (isCoded(call, reads))
    return prepareExpression(expressionOfOne(call, reads));
  return withArithmetic(call.operands[reads - 1].type, [&](auto type) { return build<decltype(type)>(call, reads); });
}

} // namespace mt::kernels::cpu
