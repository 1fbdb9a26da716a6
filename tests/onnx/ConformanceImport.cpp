#include "tests/onnx/ConformanceImport.h"

#include "kernels/Types.h"

#include "compiler/onnx/Converters.h"
#include "compiler/onnx/GraphImporter.h"
#include "tests/nn/GradientCheck.h"

#include <gtest/gtest.h>

#include <fstream>

using namespace mlir;

namespace mt::onnx::test {
namespace {

bool isConverted(const std::string &qualified) {
  size_t dot = qualified.rfind('.');
  std::string domain = dot == std::string::npos ? "" : qualified.substr(0, dot);
  return (domain.empty() && GraphImporter::inlines(qualified)) ||
         Converters::table().find(domain, qualified.substr(dot + 1));
}

template <typename Stored> std::vector<double> widened(const std::string &bytes) {
  std::vector<double> values(bytes.size() / sizeof(Stored));
  for (size_t i = 0; i < values.size(); ++i) {
    Stored element;
    std::memcpy(&element, bytes.data() + i * sizeof(Stored), sizeof(Stored));
    values[i] = static_cast<double>(element);
  }
  return values;
}

/// A tensor that the model holds; the cases have none of them in 16 bits.
Tensor stored(const ImportedParameter &parameter) {
  std::string bytes(parameter.length, '\0');
  std::ifstream file(parameter.path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(parameter.offset));
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  Tensor tensor{parameter.dims, {}};
  switch (parameter.storedType) {
  case DType::f32:
    tensor.values = widened<float>(bytes);
    break;
  case DType::f64:
    tensor.values = widened<double>(bytes);
    break;
  case DType::i64:
    tensor.values = widened<int64_t>(bytes);
    break;
  case DType::i32:
    tensor.values = widened<int32_t>(bytes);
    break;
  case DType::i8:
    tensor.values = widened<int8_t>(bytes);
    break;
  case DType::u8:
    tensor.values = widened<uint8_t>(bytes);
    break;
  default:
    ADD_FAILURE() << "'" << parameter.name << "' has a type that this test does not read";
    tensor.values.resize(static_cast<size_t>(elementCount(parameter.dims).value_or(0)));
  }
  return tensor;
}

/// What a model's argument holds: stored, or the number of a node that draws.
Tensor valueOf(const ImportedParameter &parameter) {
  return parameter.generator.empty() ? stored(parameter) : Tensor{{}, {parameter.value}};
}

/// The scalars of a step that trains.
Tensor firstStep() {
  Tensor scalars = nn::test::zeros({kernels::Scalars::kCount});
  scalars.values[kernels::Scalars::kDraw] = 1;
  return scalars;
}

} // namespace

bool isSupported(const ConformanceCase &one) { return llvm::all_of(one.operators, isConverted); }

Prepared prepare(const ConformanceCase &one) {
  Prepared prepared;
  ImportOptions options;
  options.asFixed = true;
  ScopedDiagnosticHandler quiet(&nn::test::caseContext(), [](Diagnostic &) { return success(); });
  auto model = importOnnx(nn::test::caseContext(), one.model, options, prepared.problems);
  if (failed(model))
    return prepared;
  for (const CaseTensor &input : one.inputs)
    prepared.arguments.push_back({input.dims, input.values});
  prepared.module = std::move(model->module);
  prepared.function = prepared.module->lookupSymbol<func::FuncOp>(nn::kMainName);
  auto parameter = model->parameters.begin();
  for (auto i = static_cast<unsigned>(one.inputs.size()); i < prepared.function.getNumArguments(); ++i)
    prepared.arguments.push_back(prepared.function.getArgAttr(i, nn::kScalarsAttr) ? firstStep()
                                                                                   : valueOf(*parameter++));
  return prepared;
}

} // namespace mt::onnx::test
