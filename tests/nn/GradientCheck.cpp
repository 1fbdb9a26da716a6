// From a case to its module, and to what must hold for it.
#include "tests/nn/GradientCheck.h"

#include "compiler/nn/KernelCall.h"
#include "passes/Passes.h"
#include "tests/kernels/Harness.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace mlir;

namespace mt::nn::test {
namespace {

constexpr double kStep = 1e-5;        ///< of central differences
constexpr double kDifferences = 1e-6; ///< of the gradient's norm: what the differences lose, and a hundred times more
constexpr double kKernels = 1e-5;     ///< of a kernel's largest result
constexpr double kVanishing = 1e-6;   ///< a gradient of a smaller norm is as good as zero
constexpr size_t kDirections = 6;

struct Program {
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;         ///< the operation and the loss
  std::vector<Tensor> arguments; ///< its inputs, then the coefficients of the loss

  func::FuncOp backward() { return module->lookupSymbol<func::FuncOp>("f.backward.input"); }
};

MLIRContext &context() { return caseContext(); }

uint64_t seedOf(const std::string &name) {
  uint64_t seed = 0xcbf29ce484222325u;
  for (char letter : name)
    seed = (seed ^ static_cast<unsigned char>(letter)) * 0x100000001b3u;
  return seed;
}

Tensor drawn(const Index &dims, const std::function<double(Random &, size_t, size_t)> &draw, Random &random) {
  Tensor made = zeros(dims);
  for (size_t i = 0; i < made.values.size(); ++i)
    made.values[i] = draw(random, i, made.values.size());
  return made;
}

Type typeOf(const Input &input, Type element) {
  if (input.element)
    return tensorOf(input.dims, input.element);
  switch (input.kind) {
  case Input::real:
  case Input::fixed:
    return tensorOf(input.dims, element);
  case Input::integer:
    return tensorOf(input.dims, IntegerType::get(&context(), 64));
  case Input::boolean:
    return tensorOf(input.dims, IntegerType::get(&context(), 1));
  case Input::scalars:
    return tensorOf(input.dims, Float64Type::get(&context()));
  }
  return {};
}

/// Appends `value` times coefficients of its shape, summed, to what is returned.
Value weighted(OpBuilder &builder, func::FuncOp function, Value value, Program &program, Random &random) {
  Location where = builder.getUnknownLoc();
  unsigned index = function.getNumArguments();
  (void)function.insertArgument(index, value.getType(), {}, where);
  program.arguments.push_back(drawn(shapeOf(value).vec(), real({}).draw, random));
  Value product = MulOp::create(builder, where, value, function.getArgument(index));
  auto axes = llvm::to_vector(llvm::seq<int64_t>(0, shapeOf(value).size()));
  return axes.empty() ? product : ReduceOp::create(builder, where, product, "sum", axes, false).getResult();
}

void makeMain(Program &program, const Case &checked, const std::vector<bool> &wanted) {
  OpBuilder builder(&context());
  Location where = builder.getUnknownLoc();
  auto main = func::FuncOp::create(builder, where, kMainName, program.function.getFunctionType());
  program.module->push_back(main);
  builder.setInsertionPointToStart(main.addEntryBlock());
  for (unsigned i = 0; i < wanted.size(); ++i)
    if (checked.inputs[i].differentiable() && wanted[i])
      for (StringRef attribute : {kParameterAttr, kTrainableAttr})
        main.setArgAttr(i, attribute, builder.getUnitAttr());
  auto call = func::CallOp::create(builder, where, program.function, main.getArguments());
  func::ReturnOp::create(builder, where, call.getResults());
}

/// The case in one floating-point type; the gradient is wanted of those inputs whose bit is set.
Program build(const Case &checked, Type element, const std::vector<bool> &wanted) {
  Program program;
  Random random(seedOf(checked.name));
  OpBuilder builder(&context());
  Location where = builder.getUnknownLoc();
  program.module = ModuleOp::create(where);
  SmallVector<Type> types;
  for (const Input &input : checked.inputs) {
    types.push_back(typeOf(input, element));
    program.arguments.push_back(drawn(input.dims, input.draw, random));
  }
  auto function = func::FuncOp::create(builder, where, "f", builder.getFunctionType(types, {}));
  function.setPrivate();
  program.module->push_back(function);
  builder.setInsertionPointToStart(function.addEntryBlock());
  SmallVector<Value> values = checked.body(Graph{builder, function.getArguments()});
  Value loss;
  for (Value value : values) {
    Value term = checked.isLoss ? value : weighted(builder, function, value, program, random);
    loss =
        loss ? AddOp::create(builder, where, loss, castTo(builder, term, getElementTypeOrSelf(loss.getType()))) : term;
  }
  func::ReturnOp::create(builder, where, loss);
  function.setType(builder.getFunctionType(function.getArgumentTypes(), loss.getType()));
  program.function = function;
  makeMain(program, checked, wanted);
  return program;
}

std::vector<bool> all(const Case &checked) { return std::vector<bool>(checked.inputs.size(), true); }
std::vector<bool> only(const Case &checked, size_t index) {
  std::vector<bool> wanted(checked.inputs.size(), false);
  wanted[index] = true;
  return wanted;
}

/// Runs passes; on failure the test fails with the reason and the module, for mtc-opt.
bool run(Program &program, llvm::function_ref<void(PassManager &)> add) {
  std::string before = textOf(*program.module), reason;
  ScopedDiagnosticHandler handler(&context(), [&](Diagnostic &diagnostic) {
    reason += diagnostic.str() + "\n";
    return success();
  });
  PassManager manager(&context());
  add(manager);
  bool good = succeeded(manager.run(*program.module));
  if (!good)
    ADD_FAILURE() << reason << before;
  return good;
}
void addDifferentiate(PassManager &manager) { manager.addPass(createDifferentiate()); }
void addKernels(PassManager &manager) {
  manager.addPass(createDifferentiate());
  manager.addNestedPass<func::FuncOp>(createCSEPass());
  manager.addPass(createFuseEpilogues());
  manager.addPass(createSelectKernels());
}

/// The gradients that a backward template returns, by input.
std::map<size_t, Tensor> evaluateGradients(Program &program, Visit visit = nullptr) {
  func::FuncOp backward = program.backward();
  if (!backward) // nothing reaches the loss by reals
    return {};
  std::vector<Tensor> arguments, results;
  for (unsigned i = 0; i < backward.getNumArguments(); ++i)
    arguments.push_back(program.arguments[backward.getArgAttrOfType<IntegerAttr>(i, "nn.argument").getInt()]);
  results = evaluate(backward, arguments, visit);
  std::map<size_t, Tensor> gradients;
  for (unsigned k = 0; k < backward.getNumResults(); ++k)
    if (auto input = backward.getResultAttrOfType<IntegerAttr>(k, "nn.gradient"))
      gradients[input.getInt()] = results[k];
  return gradients;
}

double norm(const Tensor &tensor) {
  double sum = 0;
  for (double value : tensor.values)
    sum += value * value;
  return std::sqrt(sum);
}
double along(const Tensor &tensor, const Tensor &direction) {
  double sum = 0;
  for (size_t i = 0; i < tensor.values.size(); ++i)
    sum += tensor.values[i] * direction.values[i];
  return sum;
}

//===-- differences -----------------------------------------------------------------------------------------===//

/// Directions that together see every element: single elements where they are few, else signs at random.
std::vector<Tensor> directionsOf(const Tensor &input, Random &random) {
  std::vector<Tensor> directions;
  size_t count = input.values.size();
  for (size_t k = 0; k < std::min(count, kDirections); ++k) {
    Tensor direction = zeros(input.dims);
    for (size_t i = 0; i < count; ++i)
      direction.values[i] = count <= kDirections ? double(i == k) : (random() & 1 ? 1.0 : -1.0) / std::sqrt(count);
    directions.push_back(direction);
  }
  return directions;
}

double lossAt(Program &program, size_t input, const Tensor &direction, double distance) {
  std::vector<Tensor> moved = program.arguments;
  for (size_t i = 0; i < direction.values.size(); ++i)
    moved[input].values[i] += distance * direction.values[i];
  return evaluate(program.function, moved)[0].values[0];
}

/// The gradient of one input against central differences of the loss.
void compareWithDifferences(Program &program, size_t input, const Tensor &gradient, const Case &checked) {
  Random random(seedOf(checked.name) + input);
  ASSERT_EQ(gradient.dims, program.arguments[input].dims) << "the gradient of input " << input << " has another shape";
  EXPECT_TRUE(checked.mayVanish || gradient.values.empty() || norm(gradient) > kVanishing)
      << "the gradient of input " << input << " vanishes";
  for (const Tensor &direction : directionsOf(gradient, random)) {
    double expected =
        (lossAt(program, input, direction, kStep) - lossAt(program, input, direction, -kStep)) / (2 * kStep);
    ASSERT_NEAR(along(gradient, direction), expected, kDifferences * (norm(gradient) + 1e-3))
        << "the gradient of input " << input << " is not the slope of\n"
        << textOf(*program.module);
  }
}

void checkDifferences(const Case &checked) {
  Type f64 = Float64Type::get(&context());
  Program together = build(checked, f64, all(checked));
  if (!run(together, addDifferentiate))
    return;
  std::map<size_t, Tensor> gradients = evaluateGradients(together);
  for (size_t i = 0; i < checked.inputs.size(); ++i) {
    if (!checked.inputs[i].differentiable())
      continue;
    ASSERT_TRUE(checked.mayVanish || gradients.contains(i)) << "input " << i << " has no gradient";
    gradients.try_emplace(i, zeros(checked.inputs[i].dims));
    compareWithDifferences(together, i, gradients[i], checked);
    Program alone = build(checked, f64, only(checked, i));
    if (gradients.size() > 1 && run(alone, addDifferentiate)) {
      std::map<size_t, Tensor> again = evaluateGradients(alone);
      again.try_emplace(i, zeros(checked.inputs[i].dims));
      EXPECT_EQ(again[i].values, gradients[i].values) << "input " << i << " alone has another gradient";
    }
  }
}

//===-- kernels ---------------------------------------------------------------------------------------------===//

double roundedTo(kernels::DType type, double value) {
  APFloat number(value);
  bool loses = false;
  if (type == kernels::DType::f32)
    number.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &loses);
  if (type == kernels::DType::f16)
    number.convert(APFloat::IEEEhalf(), APFloat::rmNearestTiesToEven, &loses);
  if (type == kernels::DType::bf16)
    number.convert(APFloat::BFloat(), APFloat::rmNearestTiesToEven, &loses);
  return number.convertToDouble();
}

double toleranceOf(kernels::DType type) {
  return type == kernels::DType::bf16 ? 0x1p-8 : type == kernels::DType::f16 ? 0x1p-11 : kKernels;
}

void compareResult(const Tensor &expected, const kernels::test::Values &got, double tolerance, Operation *op) {
  double largest = 1;
  for (double value : expected.values)
    largest = std::isfinite(value) ? std::max(largest, std::abs(value)) : largest;
  ASSERT_EQ(got.size(), expected.values.size());
  for (size_t i = 0; i < got.size(); ++i) {
    double want = expected.values[i];
    ASSERT_TRUE(got[i] == want || (std::isnan(got[i]) && std::isnan(want)) ||
                std::abs(got[i] - want) <= tolerance * largest)
        << "the kernel gives " << got[i] << " where the definition gives " << want << " (element " << i << ")\n"
        << textOf(op);
  }
}

/// The kernel of one operation on the operands that the evaluator found, against the evaluator on the same.
void compareWithKernel(Operation *op, const Environment &environment) {
  if (!hasKernel(op))
    return;
  KernelCall call = kernelCallOf(op);
  kernels::test::Call launched{call.signature.kernel, call.signature.attributes, {}, {}};
  Environment rounded;
  uint64_t unused = 0;
  for (auto [value, operand] : llvm::zip(call.values, call.signature.operands)) {
    if (operand.effect != kernels::Effect::read) {
      unused |= operand.present ? 0 : uint64_t{1} << launched.outputs.size();
      launched.outputs.push_back({operand.type, operand.dims});
      continue;
    }
    kernels::test::Tensor tensor{operand.type, operand.dims, {}, operand.present};
    if (value) {
      tensor.values = environment.find(value)->second.values;
      for (double &element : tensor.values)
        element = roundedTo(operand.type, element);
      rounded[value] = {environment.find(value)->second.dims, tensor.values};
    }
    launched.inputs.push_back(tensor);
  }
  kernels::test::Outcome outcome = kernels::test::run(launched, 1, 0, unused);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.message() << "\n" << textOf(op);
  std::vector<Tensor> expected = evaluate(op, rounded);
  for (size_t i = 0; i < expected.size(); ++i)
    if (!(unused >> i & 1))
      compareResult(expected[i], outcome.outputs[i], toleranceOf(launched.outputs[i].type), op);
}

/// Whether the catalogue takes the operations in the types they have; no kernel takes a tensor without elements.
bool haveKernels(func::FuncOp function) {
  return llvm::all_of(function.front().without_terminator(), [](Operation &op) {
    auto loss = dyn_cast<LinearCrossEntropyOp>(op);
    if (loss && loss.getChunk() == 0)
      loss.setChunk(1);
    return !hasKernel(&op) || kernels::check(kernelCallOf(&op).signature).empty();
  });
}

void compareVisited(Operation *op, const Environment &environment, const std::vector<Tensor> &) {
  compareWithKernel(op, environment);
}

void checkGradientKernels(const Case &checked, const std::map<size_t, Tensor> &gradients) {
  Program program = build(checked, Float32Type::get(&context()), all(checked));
  if (!haveKernels(program.function) || !run(program, addKernels))
    return;
  evaluate(program.function, program.arguments, compareVisited);
  for (auto &[input, gradient] : evaluateGradients(program, compareVisited))
    compareResult(gradients.at(input), gradient.values, kKernels, program.backward());
}

//===-- types -----------------------------------------------------------------------------------------------===//

/// The case as mt-lower-precision types it: the pass sees a model, whose body then becomes the function again.
Program lowered(const Case &checked) {
  Program program = build(checked, Float32Type::get(&context()), all(checked));
  auto main = program.module->lookupSymbol<func::FuncOp>(kMainName);
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    program.function.setArgAttrs(i, main.getArgAttrDict(i));
  main.erase();
  program.function.setName(kMainName);
  program.function.setPublic();
  run(program, [](PassManager &manager) { manager.addPass(createLowerPrecision()); });
  program.function.setName("f");
  program.function.setPrivate();
  makeMain(program, checked, all(checked));
  return program;
}

/// Where the operation has kernels in some types, its gradient has them too, and all its wanted results.
void checkTypes(Program program) {
  if (haveKernels(program.function))
    run(program, addKernels);
}

} // namespace

std::string textOf(Operation *op) {
  std::string text;
  llvm::raw_string_ostream(text) << *op;
  return text;
}

MLIRContext &caseContext() {
  static MLIRContext made(MLIRContext::Threading::DISABLED);
  made.loadDialect<func::FuncDialect, NnDialect>();
  return made;
}

std::vector<Tensor> gradientsOf(const Case &checked) {
  Program program = build(checked, Float64Type::get(&context()), all(checked));
  std::vector<Tensor> gradients;
  if (run(program, addDifferentiate))
    for (auto &[input, gradient] : evaluateGradients(program))
      gradients.push_back(gradient);
  return gradients;
}

std::set<std::string> operationsOf(const Case &checked) {
  Program program = build(checked, Float32Type::get(&context()), all(checked));
  std::set<std::string> names;
  if (run(program, addKernels))
    program.module->walk([&](Operation *op) { names.insert(op->getName().getStringRef().str()); });
  return names;
}

void checkKernels(const Case &checked) {
  Program program = build(checked, Float32Type::get(&context()), all(checked));
  ASSERT_TRUE(haveKernels(program.function)) << textOf(program.function);
  evaluate(program.function, program.arguments, compareVisited);
}

void checkSlopes(const Case &checked) {
  checkDifferences(checked);
  Program program = build(checked, Float64Type::get(&context()), all(checked));
  if (!testing::Test::HasFailure() && run(program, addDifferentiate))
    checkGradientKernels(checked, evaluateGradients(program));
}

void check(const std::string &operation, const Case &checked) {
  SCOPED_TRACE(operation + ": " + checked.name);
  Program program = build(checked, Float64Type::get(&context()), all(checked));
  bool contained = false;
  program.function.walk([&](Operation *op) { contained |= op->getName().getStringRef() == operation; });
  ASSERT_TRUE(contained) << "no case of " << operation;
  if (llvm::none_of(checked.inputs, [](const Input &input) { return input.differentiable(); }))
    return checkKernels(checked);
  checkSlopes(checked);
  if (testing::Test::HasFailure())
    return;
  checkTypes(build(checked, BFloat16Type::get(&context()), all(checked)));
  checkTypes(build(checked, Float16Type::get(&context()), all(checked)));
  checkTypes(lowered(checked));
}

} // namespace mt::nn::test
