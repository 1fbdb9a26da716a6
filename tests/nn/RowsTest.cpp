// Where operations say the rows of a batch are (compiler/nn/Rows.h) against brute force: small functions are run by the
// CPU's kernels, an element of one row of an input is changed, and only that row of the result may change; two rows of
// all inputs are swapped, and those of the result must swap, or a sum stay. What is said to mix must be seen to mix.
#include "compiler/nn/KernelCall.h"
#include "kernels/cpu/CpuKernels.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

namespace mt::nn {
namespace {
using namespace mlir;
using kernels::DType;
using kernels::Effect;

constexpr int64_t kRows = 3;

/// A tensor; `values` are what its elements hold, exactly.
struct Tensor {
  DType type = DType::f32;
  kernels::Dims dims;
  std::vector<double> values;

  std::vector<std::byte> bytes() const {
    std::vector<std::byte> out(values.size() * kernels::byteSize(type));
    for (size_t i = 0; i < values.size(); ++i) {
      auto whole = static_cast<int64_t>(values[i]);
      auto real = static_cast<float>(values[i]);
      std::memcpy(out.data() + i * kernels::byteSize(type),
                  type == DType::f32 ? static_cast<const void *>(&real) : type == DType::f64 ? static_cast<const void *>(&values[i]) : &whole,
                  kernels::byteSize(type));
    }
    return out;
  }
  static Tensor of(const kernels::OperandType &operand, const std::vector<std::byte> &bytes) {
    Tensor tensor{operand.type, operand.dims, {}};
    for (size_t at = 0; at < bytes.size(); at += kernels::byteSize(operand.type)) {
      int64_t whole = 0;
      float real = 0;
      std::memcpy(operand.type == DType::f32 ? static_cast<void *>(&real) : &whole, bytes.data() + at, kernels::byteSize(operand.type));
      tensor.values.push_back(operand.type == DType::f32 ? real : static_cast<double>(whole));
    }
    return tensor;
  }
};
using Values = llvm::DenseMap<Value, Tensor>;

/// Runs one operation by its kernel, or as a view.
void run(Operation *op, Values &values) {
  if (isa<StepSumOp>(op) || !hasKernel(op)) {
    Tensor view = values.lookup(op->getOperand(0));
    view.dims.assign(shapeOf(op->getResult(0)).begin(), shapeOf(op->getResult(0)).end());
    values[op->getResult(0)] = view;
    return;
  }
  KernelCall call = kernelCallOf(op);
  if (uint64_t bytes = kernels::workspaceBytes(call.signature, kernels::Backend::cpu))
    call.signature.operands.push_back({DType::u8, {static_cast<int64_t>(bytes)}, Effect::scratch, true});
  auto prepared = kernels::cpu::prepare(call.signature);
  ASSERT_TRUE(prepared.ok()) << prepared.status().message();
  std::vector<std::vector<std::byte>> storage;
  std::vector<void *> addresses;
  for (size_t i = 0; i < call.signature.operands.size(); ++i) {
    const kernels::OperandType &operand = call.signature.operands[i];
    bool read = operand.present && operand.effect == Effect::read;
    storage.push_back(read ? values.lookup(call.values[i]).bytes() : std::vector<std::byte>(operand.bytes()));
  }
  for (size_t i = 0; i < storage.size(); ++i)
    addresses.push_back(call.signature.operands[i].present ? storage[i].data() : nullptr);
  kernels::cpu::ThreadPool pool(1);
  Status status = (*prepared)({.operands = addresses, .pool = pool});
  ASSERT_TRUE(status.ok()) << status.message();
  for (size_t i = 0; i < call.values.size(); ++i)
    if (call.signature.operands[i].present && call.signature.operands[i].effect == Effect::write)
      values[call.values[i]] = Tensor::of(call.signature.operands[i], storage[i]);
}

/// The elements of row `row`, by place: row i is elements (o, i, k) of a dimension.
bool isInRow(int64_t element, ArrayRef<int64_t> shape, const Rows &rows, int64_t row) {
  int64_t behind = 1;
  for (int64_t size : shape.drop_front(rows.dim + 1))
    behind *= size;
  return element / behind % shape[rows.dim] / rows.inner % kRows == row;
}

/// The tensor with rows 0 and 1 exchanged.
Tensor swapped(const Tensor &tensor, const Rows &rows) {
  Tensor out = tensor;
  int64_t stride = rows.inner;
  for (size_t d = static_cast<size_t>(rows.dim) + 1; d < tensor.dims.size(); ++d)
    stride *= tensor.dims[d];
  for (int64_t i = 0; i < static_cast<int64_t>(tensor.values.size()); ++i)
    if (isInRow(i, tensor.dims, rows, 0))
      std::swap(out.values[i], out.values[i + stride]);
  return out;
}

bool near(double a, double b) { return std::isnan(a) ? std::isnan(b) : std::abs(a - b) <= 1e-5 * std::max(1.0, std::abs(b)); }

/// A function with its analysis: arguments with `rows = d` hold rows in dimension d.
struct Case {
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
  std::vector<Rows> arguments;
  Rows result;

  Case(MLIRContext &context, const std::string &text) : module(parseSourceString<ModuleOp>(text, &context)) {
    if (!module)
      return;
    function = *module->getOps<func::FuncOp>().begin();
    llvm::DenseMap<Value, Rows> known;
    for (BlockArgument argument : function.getArguments()) {
      auto dim = function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), "test.rows");
      arguments.push_back(dim ? Rows::at(dim.getInt()) : Rows());
      known[argument] = arguments.back();
    }
    for (Operation &op : function.front().without_terminator()) {
      SmallVector<Rows> rows;
      for (Value operand : op.getOperands())
        rows.push_back(known.lookup(operand));
      OperandRows operands(&op, rows);
      result = rowsOfResults(&op, operands);
      for (Value value : op.getResults())
        known[value] = result;
    }
    result = known.lookup(function.front().getTerminator()->getOperand(0));
  }

  Tensor evaluate(const std::vector<Tensor> &inputs) {
    Values values;
    for (auto [argument, tensor] : llvm::zip(function.getArguments(), inputs))
      values[argument] = tensor;
    for (Operation &op : function.front().without_terminator())
      run(&op, values);
    return values.lookup(function.front().getTerminator()->getOperand(0));
  }
};

class RowsTest : public ::testing::Test {
protected:
  RowsTest() { context.loadDialect<NnDialect, func::FuncDialect>(); }
  MLIRContext context;
  std::mt19937 random{7};

  std::vector<Tensor> inputsOf(Case &test) {
    std::vector<Tensor> inputs;
    for (BlockArgument argument : test.function.getArguments()) {
      kernels::OperandType type = operandType(argument.getType(), Effect::read);
      Tensor tensor{type.type, type.dims, {}};
      for (int64_t i = 0; i < type.elements(); ++i)
        tensor.values.push_back(type.type == DType::f32 ? std::uniform_real_distribution<float>(0.2F, 1.4F)(random)
                                : type.type == DType::f64 ? 1.0 : static_cast<double>(random() % (type.type == DType::boolean ? 2 : 3)));
      inputs.push_back(std::move(tensor));
    }
    return inputs;
  }

  static void change(Tensor &tensor, size_t i) {
    double &value = tensor.values[i];
    value = tensor.type == DType::f32 ? value + 0.37 : tensor.type == DType::boolean ? 1 - value : std::fmod(value + 1, 3);
  }

  /// Whether rows stay apart in one run with random inputs.
  bool rowsStayApart(Case &test, const Rows &claim) {
    std::vector<Tensor> inputs = inputsOf(test);
    Tensor before = test.evaluate(inputs);
    bool apart = true;
    std::vector<Tensor> exchanged = inputs;
    for (size_t n = 0; n < inputs.size(); ++n)
      if (test.arguments[n].isEach())
        exchanged[n] = swapped(inputs[n], test.arguments[n]);
    Tensor after = test.evaluate(exchanged), wanted = claim.isEach() ? swapped(before, claim) : before;
    for (size_t i = 0; i < wanted.values.size(); ++i)
      apart &= near(after.values[i], wanted.values[i]);
    for (size_t n = 0; n < inputs.size() && claim.isEach(); ++n)
      for (size_t i = 0; i < inputs[n].values.size() && test.arguments[n].isEach(); ++i) {
        std::vector<Tensor> changed = inputs;
        change(changed[n], i);
        Tensor result = test.evaluate(changed);
        for (size_t k = 0; k < result.values.size(); ++k)
          for (int64_t row = 0; row < kRows; ++row)
            if (isInRow(k, before.dims, claim, row) && !isInRow(i, inputs[n].dims, test.arguments[n], row))
              apart &= near(result.values[k], before.values[k]);
      }
    return apart && (claim.isEach() || isAdditive(test, inputs));
  }

  /// Of a sum over rows: what changing rows 0 and 1 adds is what changing each of them alone adds.
  bool isAdditive(Case &test, const std::vector<Tensor> &inputs) {
    auto with = [&](bool first, bool second) {
      std::vector<Tensor> changed = inputs;
      for (size_t n = 0; n < inputs.size(); ++n)
        for (size_t i = 0; i < inputs[n].values.size(); ++i)
          if (test.arguments[n].isEach() && ((first && isInRow(i, inputs[n].dims, test.arguments[n], 0)) ||
                                             (second && isInRow(i, inputs[n].dims, test.arguments[n], 1))))
            change(changed[n], i);
      return test.evaluate(changed).values;
    };
    std::vector<double> none = with(false, false), one = with(true, false), two = with(false, true), both = with(true, true);
    bool additive = true;
    for (size_t i = 0; i < none.size(); ++i)
      additive &= near(both[i] - none[i], (one[i] - none[i]) + (two[i] - none[i]));
    return additive;
  }

  /// `want`: "none", "each D", "total" or "mixed".
  void check(const std::string &text, const std::string &want) {
    SCOPED_TRACE(text);
    Case test(context, text);
    ASSERT_TRUE(test.module);
    const Rows &rows = test.result;
    std::string found = rows.isNone() ? "none" : rows.isEach() ? "each " + std::to_string(rows.dim)
                        : rows.kind == Rows::total ? "total" : "mixed";
    EXPECT_EQ(found, want) << rows.reason;
    if (rows.kind == Rows::mixed) {
      ArrayRef<int64_t> shape = shapeOf(test.function.front().getTerminator()->getOperand(0));
      for (int64_t dim = 0; dim < static_cast<int64_t>(shape.size()); ++dim)
        if (shape[dim] == kRows) {
          EXPECT_FALSE(rowsStayApart(test, Rows::at(dim)) && rowsStayApart(test, Rows::at(dim)) && rowsStayApart(test, Rows::at(dim)))
              << "said to mix, and dimension " << dim << " holds rows";
        }
      return;
    }
    for (int round = 0; round < 3; ++round)
      EXPECT_TRUE(rowsStayApart(test, rows)) << "rows see each other, and the operation says otherwise";
  }

  /// One operation of operands "type" or "type@dim", that gives `result`.
  void checkOp(const std::string &name, const std::vector<std::string> &operands, const std::string &attributes, const std::string &result,
               const std::string &want, const std::string &more = "") {
    std::string arguments, uses, types;
    for (size_t i = 0; i < operands.size(); ++i) {
      size_t at = operands[i].find('@');
      std::string type = "tensor<" + operands[i].substr(0, at) + ">", comma = i ? ", " : "";
      arguments += comma + "%a" + std::to_string(i) + ": " + type + (at == std::string::npos ? "" : " {test.rows = " + operands[i].substr(at + 1) + " : i64}");
      uses += comma + "%a" + std::to_string(i);
      types += comma + type;
    }
    std::string type = "tensor<" + result + ">";
    check("func.func @f(" + arguments + ") -> " + type + " {\n  %r" + more + " = nn." + name + " " + uses + " {" + attributes + "} : (" + types +
              ") -> " + (more.empty() ? type : "(" + type + moreTypes + ")") + "\n  return %r" + (more.empty() ? "" : "#0") + " : " + type + "\n}\n", want);
  }
  std::string moreTypes;
};

TEST_F(RowsTest, OfEveryOperation) {
  for (const char *name : {"add", "sub", "mul", "div", "pow", "maximum", "minimum"}) {
    checkOp(name, {"3x4xf32@0", "3x4xf32@0"}, "", "3x4xf32", "each 0");
    checkOp(name, {"2x3x4xf32@1", "3x1xf32@0"}, "", "2x3x4xf32", "each 1");
    checkOp(name, {"4xf32", "3x4xf32@0"}, "", "3x4xf32", "each 0");
    checkOp(name, {"3x1xf32", "3x4xf32@0"}, "", "3x4xf32", "mixed");
    checkOp(name, {"3x1xf32@0", "3xf32@0"}, "", "3x3xf32", "mixed");
  }
  checkOp("mod", {"3x4xi64@0", "4xi64"}, "", "3x4xi64", "each 0");
  for (const char *name : {"and", "or", "xor"})
    checkOp(name, {"3x4xi1@0", "4xi1"}, "", "3x4xi1", "each 0");
  for (const char *name :
       {"neg", "abs", "sign", "exp",   "log",  "sqrt",  "rsqrt", "reciprocal", "tanh", "sigmoid", "softplus", "erf",
        "sin", "cos", "atan", "floor", "ceil", "round", "relu",  "silu",       "copy", "gelu",    "detach"})
    checkOp(name, {"2x3xf32@1"}, "", "2x3xf32", "each 1");
  checkOp("not", {"3x2xi1@0"}, "", "3x2xi1", "each 0");
  checkOp("is_nan", {"3x2xf32@0"}, "", "3x2xi1", "each 0");
  checkOp("cast", {"3x2xi64@0"}, "", "3x2xf32", "each 0");
  checkOp("compare", {"3x2xf32@0", "2xf32"}, "predicate = \"lt\"", "3x2xi1", "each 0");
  checkOp("select", {"3x2xi1@0", "3x2xf32@0", "2xf32"}, "", "3x2xf32", "each 0");
  checkOp("elementwise", {"3x2xf32@0", "2xf32"}, "expression = \"mul 0 1:f32 -> 2\"", "3x2xf32", "each 0");
  checkOp("gated_product", {"3x2xf32@0", "3x2xf32@0"}, "activation = \"silu\"", "3x2xf32", "each 0");

  checkOp("reshape", {"3x4x2xf32@0"}, "", "3x8xf32", "each 0");
  checkOp("reshape", {"3x4x2xf32@0"}, "", "12x2xf32", "each 0");
  checkOp("reshape", {"4x3x2xf32@1"}, "", "12x2xf32", "each 0");
  checkOp("reshape", {"4x3x2xf32@1"}, "", "24xf32", "each 0");
  checkOp("reshape", {"3x4xf32@0"}, "", "2x6xf32", "mixed");
  checkOp("transpose", {"3x4x2xf32@0"}, "permutation = array<i64: 2, 1, 0>", "2x4x3xf32", "each 2");
  checkOp("broadcast", {"3x1xf32@0"}, "", "2x3x4xf32", "each 1");
  checkOp("slice", {"3x4xf32@0"}, "starts = array<i64: 0, 1>, sizes = array<i64: 3, 2>, strides = array<i64: 1, 1>", "3x2xf32", "each 0");
  checkOp("slice", {"4x4xf32"}, "starts = array<i64: 0, 1>, sizes = array<i64: 3, 2>, strides = array<i64: 1, 1>", "3x2xf32", "none");
  checkOp("slice", {"3x4xf32@0"}, "starts = array<i64: 2, 0>, sizes = array<i64: 3, 4>, strides = array<i64: -1, 1>", "3x4xf32", "mixed");
  checkOp("pad", {"3x4xf32@0"}, "low = array<i64: 0, 1>, high = array<i64: 0, 1>, interior = array<i64: 0, 0>", "3x6xf32", "each 0");
  checkOp("pad", {"3x2xf32@0"}, "low = array<i64: 1, 0>, high = array<i64: 0, 0>, interior = array<i64: 0, 0>", "4x2xf32", "mixed");
  checkOp("concat", {"3x2xf32@0", "3x1xf32@0"}, "axis = 1 : i64", "3x3xf32", "each 0");
  checkOp("concat", {"3x2xf32@0", "3x1xf32"}, "axis = 1 : i64", "3x3xf32", "mixed");
  checkOp("concat", {"3x2xf32@0", "3x2xf32@0"}, "axis = 0 : i64", "6x2xf32", "mixed");
  for (const char *kind : {"sum", "mean"})
    checkOp("reduce", {"2x3x4xf32@1"}, std::string("kind = \"") + kind + "\", axes = array<i64: 1>, keepDims = false", "2x4xf32", "total");
  for (const char *kind : {"max", "min", "prod"})
    checkOp("reduce", {"3x3x4xf32@1"}, std::string("kind = \"") + kind + "\", axes = array<i64: 1>, keepDims = false", "3x4xf32", "mixed");
  for (const char *kind : {"sum", "mean", "max", "min", "prod"})
    checkOp("reduce", {"2x3x4xf32@1"}, std::string("kind = \"") + kind + "\", axes = array<i64: 0, 2>, keepDims = false", "3xf32", "each 0");
  checkOp("cumsum", {"3x4xf32@0"}, "axis = 1 : i64", "3x4xf32", "each 0");
  for (const char *scales : {"3x2xf32@0", "2xf32", "f32"})
    checkOp("dequantize", {"3x4xui8@0", scales}, "bits = 4 : i64, axis = 1 : i64, block = 4 : i64", "3x8xf32",
            "each 0");
  checkOp("dequantize", {"3x6xi8@0", "3xf32@0"}, "bits = 8 : i64, isSigned = true, axis = 0 : i64", "3x6xf32",
          "each 0");
  checkOp("dequantize", {"3x6xi8@0", "3xf32"}, "bits = 8 : i64, isSigned = true, axis = 0 : i64", "3x6xf32", "mixed");
  checkOp("dequantize", {"3x6xi8@0", "3x2xf32"}, "bits = 8 : i64, axis = 1 : i64, block = 3 : i64", "3x6xf32", "mixed");
  checkOp("cumsum", {"3x4xf32@0"}, "axis = 0 : i64", "3x4xf32", "mixed");
}

TEST_F(RowsTest, OfLookupsAndProducts) {
  checkOp("gather", {"4x3x2xf32", "3xi64@0"}, "axis = 1 : i64", "4x3x2xf32", "each 1");
  checkOp("gather", {"3x4x2xf32@0", "5xi64"}, "axis = 1 : i64", "3x5x2xf32", "each 0");
  checkOp("gather", {"4x3x2xf32@1", "3x5xi64"}, "axis = 0 : i64", "3x5x3x2xf32", "each 2");
  checkOp("gather", {"3x4xf32@0", "3xi64"}, "axis = 0 : i64", "3x4xf32", "mixed");
  checkOp("gather", {"3x4xf32@0", "3xi64@0"}, "axis = 1 : i64", "3x3xf32", "mixed");
  checkOp("embedding", {"4x2xf32", "3x2xi64@0"}, "", "3x2x2xf32", "each 0");
  checkOp("gather_nd", {"3x4xf32", "3x1xi64@0"}, "batchDims = 0 : i64", "3x4xf32", "each 0");
  checkOp("gather_nd", {"3x4x2xf32@0", "3x1xi64@0"}, "batchDims = 1 : i64", "3x2xf32", "each 0");
  checkOp("gather_nd", {"3x4xf32@0", "3x1xi64"}, "batchDims = 0 : i64", "3x4xf32", "mixed");
  checkOp("gather_nd", {"4x5x3x2xf32@2", "6x2xi64"}, "batchDims = 0 : i64", "6x3x2xf32", "each 1");
  checkOp("gather_nd", {"4x5x3x2xf32@3", "4x6x1xi64"}, "batchDims = 1 : i64", "4x6x3x2xf32", "each 3");
  checkOp("gather_elements", {"3x4xf32@0", "3x2xi64@0"}, "axis = 1 : i64", "3x2xf32", "each 0");
  checkOp("gather_elements", {"3x4xf32@0", "3x4xi64@0"}, "axis = 0 : i64", "3x4xf32", "mixed");
  checkOp("scatter", {"3x4x2xf32@0", "5xi64", "3x5x2xf32@0"}, "axis = 1 : i64", "3x4x2xf32", "each 0");
  checkOp("scatter", {"4x3x2xf32", "5x6xi64", "5x6x3x2xf32@2"}, "axis = 0 : i64", "4x3x2xf32", "mixed");
  checkOp("scatter", {"4x3x2xf32@1", "5x6xi64", "5x6x3x2xf32@2"}, "axis = 0 : i64", "4x3x2xf32", "each 1");
  checkOp("scatter", {"3x4xf32@0", "3xi64", "3x4xf32@0"}, "axis = 0 : i64", "3x4xf32", "mixed");
  checkOp("scatter", {"3x4xf32@0", "5xi64@0", "3x5xf32@0"}, "axis = 1 : i64", "3x4xf32", "mixed");
  checkOp("scatter_elements", {"3x4xf32@0", "3x2xi64@0", "3x2xf32@0"}, "axis = 1 : i64", "3x4xf32", "each 0");
  checkOp("scatter_elements", {"3x4xf32@0", "3x4xi64@0", "3x4xf32@0"}, "axis = 0 : i64", "3x4xf32", "mixed");
  checkOp("top_k", {"3x4xf32@0"}, "k = 2 : i64", "3x2xi64", "each 0");
  checkOp("top_k", {"4x3xf32@1"}, "k = 3 : i64", "4x3xi64", "mixed");
  checkOp("expert_matmul", {"3x4xf32@0", "5x4x2xf32", "3xi64@0"}, "", "3x2xf32", "each 0");
  checkOp("expert_matmul", {"4x3xf32@1", "5x3x2xf32", "4xi64"}, "", "4x2xf32", "mixed");
  std::string window = "strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>";
  checkOp("conv", {"3x4x6xf32@0", "5x4x2xf32"}, window, "3x5x5xf32", "each 0");
  checkOp("conv", {"2x3x6xf32@1", "5x3x2xf32"}, window, "2x5x5xf32", "mixed");
  checkOp("conv_data_grad", {"3x5x5xf32@0", "5x4x2xf32"}, window, "3x4x6xf32", "each 0");
  checkOp("pool", {"2x3x6xf32@1"}, window + ", kind = \"max\", size = array<i64: 2>", "2x3x5xf32", "each 1");
  checkOp("pool", {"2x4x3xf32@2"}, window + ", kind = \"max\", size = array<i64: 2>", "2x4x2xf32", "mixed");
  checkOp("matmul", {"3x4x2xf32@0", "2x5xf32"}, "", "3x4x5xf32", "each 0");
  checkOp("matmul", {"4x3x2xf32@1", "2x5xf32", "5xf32"}, "", "4x3x5xf32", "each 1");
  checkOp("matmul", {"2x3xf32@1", "2x5xf32"}, "transposeLhs = true", "3x5xf32", "each 0");
  checkOp("matmul", {"5x2xf32", "3x2xf32@0"}, "transposeRhs = true", "5x3xf32", "each 1");
  checkOp("matmul", {"3x4x2xf32@0", "3x2x5xf32@0"}, "", "3x4x5xf32", "each 0");
  checkOp("matmul", {"3x4x2xf32@0", "3x2x5xf32"}, "", "3x4x5xf32", "mixed");
  checkOp("matmul", {"3x2xf32@0", "3x2xf32@0"}, "transposeRhs = true", "3x3xf32", "mixed");
  checkOp("matmul", {"4x3xf32@1", "3x3xf32@0"}, "", "4x3xf32", "mixed");
  checkOp("matmul", {"5x2xf32", "3x2xf32@0", "3xf32"}, "transposeRhs = true", "5x3xf32", "mixed");
}

TEST_F(RowsTest, OfNormsAttentionAndLosses) {
  moreTypes = ", tensor<3x4xf32>, tensor<3x4xf32>";
  checkOp("layer_norm", {"3x4x2xf32@0", "2xf32", "2xf32"}, "epsilon = 1.0e-5 : f64, operandSegmentSizes = array<i32: 1, 1, 1>", "3x4x2xf32", "each 0", ":3");
  moreTypes = ", tensor<4xf32>, tensor<4xf32>";
  checkOp("layer_norm", {"4x3xf32@1"}, "epsilon = 1.0e-5 : f64, operandSegmentSizes = array<i32: 1, 0, 0>", "4x3xf32", "mixed", ":3");
  moreTypes = ", tensor<3x4xf32>";
  checkOp("rms_norm", {"3x4x2xf32@0", "2xf32"}, "epsilon = 1.0e-5 : f64", "3x4x2xf32", "each 0", ":2");
  for (const char *name : {"softmax", "log_softmax"}) {
    checkOp(name, {"4x3x2xf32@1"}, "", "4x3x2xf32", "each 1");
    checkOp(name, {"4x3xf32@1"}, "", "4x3xf32", "mixed");
  }
  const std::string ofRnn = "kind = \"rnn\", operandSegmentSizes = array<i32: 1, 1, 0, ";
  moreTypes = "";
  checkOp("recurrence", {"4x3x2xf32@1", "2x2xf32"}, ofRnn + "0, 0, 0, 0>", "4x3x2xf32", "each 1");
  checkOp("recurrence", {"4x3x2xf32@1", "2x2xf32", "3x2xf32@0", "3xi64@0"}, ofRnn + "1, 0, 1, 0>", "4x3x2xf32",
          "each 1");
  checkOp("recurrence", {"4x3x2xf32", "2x2xf32", "3x2xf32@0"}, ofRnn + "1, 0, 0, 0>", "4x3x2xf32", "mixed");
  checkOp("recurrence", {"4x3x2xf32@1", "2x2xf32", "3x2xf32"}, ofRnn + "1, 0, 0, 0>", "4x3x2xf32", "mixed");
  checkOp("recurrence", {"3x4x2xf32@0", "2x2xf32"}, ofRnn + "0, 0, 0, 0>", "3x4x2xf32", "mixed");
  const std::string scale = "scale = 0.5 : f64, operandSegmentSizes = array<i32: 1, 1, 1, ";
  moreTypes = ", tensor<3x2x4xf32>";
  checkOp("attention", {"3x4x2x2xf32@0", "3x4x1x2xf32@0", "3x4x1x2xf32@0"}, scale + "0, 0, 0, 0, 0, 0, 0>",
          "3x4x2x2xf32", "each 0", ":2");
  checkOp("attention", {"3x4x2x2xf32@0", "3x4x2x2xf32@0", "3x4x2x2xf32@0", "1x2x4x4xf32"},
          scale + "1, 0, 0, 0, 0, 0, 0>", "3x4x2x2xf32", "each 0", ":2");
  checkOp("attention", {"3x4x2x2xf32@0", "3x4x2x2xf32@0", "3x4x2x2xf32@0", "3x4xi1@0"}, scale + "0, 1, 0, 0, 0, 0, 0>",
          "3x4x2x2xf32", "each 0", ":2");
  checkOp("attention", {"3x4x2x2xf32@0", "3x4x2x2xf32@0", "3x4x2x2xf32@0", "3x2x4x4xf32"},
          scale + "1, 0, 0, 0, 0, 0, 0>", "3x4x2x2xf32", "mixed", ":2");
  checkOp("attention", {"3x4x2x2xf32@0", "3x4x2x2xf32@0", "3x4x2x2xf32@0", "2xf32"}, scale + "0, 0, 0, 0, 0, 0, 1>",
          "3x4x2x2xf32", "each 0", ":2");
  moreTypes = ", tensor<2x2x4xf32>";
  checkOp("attention", {"2x4x2x2xf32@0", "2x4x2x2xf32@0", "2x4x2x2xf32@0", "2xf32@0"}, scale + "0, 0, 0, 0, 0, 0, 1>",
          "2x4x2x2xf32", "mixed", ":2");
  moreTypes = ", tensor<2x3x4xf32>";
  checkOp("attention", {"2x4x3x2xf32@2", "2x4x3x2xf32@2", "2x4x3x2xf32@2"}, scale + "0, 0, 0, 0, 0, 0, 0>",
          "2x4x3x2xf32", "each 2", ":2");
  moreTypes = ", tensor<2x2x3xf32>";
  checkOp("attention", {"2x3x2x2xf32@1", "2x3x2x2xf32@1", "2x3x2x2xf32@1"}, scale + "0, 0, 0, 0, 0, 0, 0>",
          "2x3x2x2xf32", "mixed", ":2");
  checkOp("rotary", {"3x4x2x2xf32@0", "1x4x1xf32", "1x4x1xf32"}, "", "3x4x2x2xf32", "each 0");
  checkOp("rotary", {"3x4x2x2xf32@0", "3x4x1xf32@0", "3x4x1xf32@0"}, "", "3x4x2x2xf32", "each 0");
  checkOp("rotary", {"3x4x2x2xf32@0", "3x4x1xf32", "3x4x1xf32"}, "", "3x4x2x2xf32", "mixed");
  checkOp("dropout", {"3x4xf32@0", "3xi64@0", "16xf64", "i64"}, "ratio = 0.5 : f64", "3x4xf32", "each 0");
  checkOp("dropout", {"2x3x4xf32@1", "3xi64@0", "16xf64", "i64"}, "ratio = 0.5 : f64, outer = 2 : i64", "2x3x4xf32",
          "each 1");
  checkOp("dropout", {"2x3x4xf32", "16xf64", "i64"}, "ratio = 0.5 : f64", "2x3x4xf32", "none");
  checkOp("random", {"3xi64@0", "16xf64", "i64"}, "kind = \"normal\"", "3x4xf32", "each 0");
  checkOp("random", {"3xi64@0", "16xf64", "i64"}, "kind = \"uniform\", outer = 2 : i64", "2x3x4xf32", "each 1");
  checkOp("random", {"16xf64", "i64"}, "kind = \"uniform\"", "3x4xf32", "none");
  checkOp("cross_entropy", {"3x4xf32@0", "3xi64@0", "16xf64"}, "", "f32", "total");
  checkOp("linear_cross_entropy", {"3x2xf32@0", "4x2xf32", "3xi64@0", "16xf64"}, "chunk = 3 : i64", "f32", "total");
  checkOp("squared_error", {"3x4xf32@0", "3x4xf32@0", "16xf64"}, "", "f32", "total");
}

/// Functions of several operations: rows that lie within merged dimensions, sums that stay sums, positions.
TEST_F(RowsTest, OfSequencesOfOperations) {
  const std::string sum = "%s = nn.reduce %x {kind = \"sum\", axes = array<i64: 0, 1>, keepDims = false} : (tensor<3x4xf32>) -> tensor<f32>\n";
  auto scalar = [&](const std::string &body, const std::string &want) {
    check("func.func @f(%x: tensor<3x4xf32> {test.rows = 0 : i64}, %c: tensor<f32>) -> tensor<f32> {\n" + sum + body + "return %r : tensor<f32>\n}", want);
  };
  scalar("%r = nn.mul %s, %c : (tensor<f32>, tensor<f32>) -> tensor<f32>\n", "total");
  scalar("%r = nn.div %s, %c : (tensor<f32>, tensor<f32>) -> tensor<f32>\n", "total");
  scalar("%n = nn.neg %s : (tensor<f32>) -> tensor<f32>\n%r = nn.sub %n, %c : (tensor<f32>, tensor<f32>) -> tensor<f32>\n", "total");
  for (const char *nonlinear : {"%r = nn.mul %s, %s", "%r = nn.div %c, %s", "%r = nn.maximum %s, %c"}) {
    Case test(context, "func.func @f(%x: tensor<3x4xf32> {test.rows = 0 : i64}, %c: tensor<f32>) -> tensor<f32> {\n" + sum + nonlinear +
                           " : (tensor<f32>, tensor<f32>) -> tensor<f32>\nreturn %r : tensor<f32>\n}");
    EXPECT_EQ(test.result.kind, Rows::mixed) << nonlinear;
  }
  check(R"(func.func @f(%x: tensor<3x4x2xf32> {test.rows = 0 : i64}) -> tensor<3x2x4xf32> {
    %t = nn.transpose %x {permutation = array<i64: 1, 0, 2>} : (tensor<3x4x2xf32>) -> tensor<4x3x2xf32>
    %m = nn.reshape %t : (tensor<4x3x2xf32>) -> tensor<12x2xf32>
    %e = nn.exp %m : (tensor<12x2xf32>) -> tensor<12x2xf32>
    %b = nn.reshape %e : (tensor<12x2xf32>) -> tensor<4x6xf32>
    %u = nn.transpose %b {permutation = array<i64: 1, 0>} : (tensor<4x6xf32>) -> tensor<6x4xf32>
    %r = nn.reshape %u : (tensor<6x4xf32>) -> tensor<3x2x4xf32>
    return %r : tensor<3x2x4xf32>
  })", "each 0");
  check(R"(func.func @f(%x: tensor<3x4xf32> {test.rows = 0 : i64}) -> tensor<3x4xf32> {
    %p = nn.iota {dimension = 1 : i64} : () -> tensor<1x4xf32>
    %q = nn.broadcast %p : (tensor<1x4xf32>) -> tensor<3x4xf32>
    %r = nn.add %x, %q : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    return %r : tensor<3x4xf32>
  })", "each 0");
  check(R"(func.func @f(%x: tensor<3x4xf32> {test.rows = 0 : i64}) -> tensor<3x4xf32> {
    %p = nn.iota {dimension = 0 : i64} : () -> tensor<3x4xf32>
    %r = nn.add %x, %p : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    return %r : tensor<3x4xf32>
  })", "mixed");
}

/// What has no rows, and is the same for all of them: along a dimension that holds more than rows, behind lookups,
/// products, norms and sums; and what only seems to be.
TEST_F(RowsTest, OfWhatIsTheSameForAllRows) {
  auto added = [&](const std::string &made, const std::string &want) { // %v: [6, 4], of three rows twice over
    check("func.func @f(%x: tensor<3x2x4xf32> {test.rows = 0 : i64}, %p: tensor<2x4xf32>, %w: tensor<4x4xf32>, %i: "
          "tensor<2xi64>) -> "
          "tensor<6x4xf32> {\n%m = nn.reshape %x : (tensor<3x2x4xf32>) -> tensor<6x4xf32>\n" +
              made +
              "%r = nn.add %m, %v : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>\nreturn %r : "
              "tensor<6x4xf32>\n}",
          want);
  };
  const std::string repeated = "%b = nn.broadcast %p : (tensor<2x4xf32>) -> tensor<3x2x4xf32>\n"
                               "%u = nn.reshape %b : (tensor<3x2x4xf32>) -> tensor<6x4xf32>\n";
  added(repeated + "%v = nn.exp %u : (tensor<6x4xf32>) -> tensor<6x4xf32>\n", "each 0");
  added(repeated + "%v = nn.matmul %u, %w : (tensor<6x4xf32>, tensor<4x4xf32>) -> tensor<6x4xf32>\n", "each 0");
  added(repeated + "%v = nn.softmax %u : (tensor<6x4xf32>) -> tensor<6x4xf32>\n", "each 0");
  added(repeated + "%s = nn.reduce %u {kind = \"sum\", axes = array<i64: 1>, keepDims = false} : (tensor<6x4xf32>) -> "
                   "tensor<6xf32>\n"
                   "%k = nn.reshape %s : (tensor<6xf32>) -> tensor<6x1xf32>\n%v = nn.broadcast %k : (tensor<6x1xf32>) "
                   "-> tensor<6x4xf32>\n",
        "each 0");
  added("%j = nn.broadcast %i : (tensor<2xi64>) -> tensor<3x2xi64>\n%n = nn.reshape %j : (tensor<3x2xi64>) -> "
        "tensor<6xi64>\n"
        "%v = nn.gather %w, %n {axis = 0 : i64} : (tensor<4x4xf32>, tensor<6xi64>) -> tensor<6x4xf32>\n",
        "each 0");
  // Each entry three times beside itself: two of them, not three, lie in the place of a row.
  added("%o = nn.reshape %p : (tensor<2x4xf32>) -> tensor<2x1x4xf32>\n%b = nn.broadcast %o : (tensor<2x1x4xf32>) -> "
        "tensor<2x3x4xf32>\n"
        "%v = nn.reshape %b : (tensor<2x3x4xf32>) -> tensor<6x4xf32>\n",
        "mixed");
  added("%c = nn.constant dense<[[0.0], [1.0], [0.0], [1.0], [0.0], [1.0]]> : tensor<6x1xf32>\n"
        "%v = nn.broadcast %c : (tensor<6x1xf32>) -> tensor<6x4xf32>\n",
        "each 0");
  added("%c = nn.constant dense<[[0.0], [1.0], [0.0], [1.0], [1.0], [1.0]]> : tensor<6x1xf32>\n"
        "%v = nn.broadcast %c : (tensor<6x1xf32>) -> tensor<6x4xf32>\n",
        "mixed");
}

} // namespace
} // namespace mt::nn
