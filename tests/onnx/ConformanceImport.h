// A conformance case imported: the function that mt makes of its model, with what goes in.
#ifndef MT_TESTS_ONNX_CONFORMANCEIMPORT_H
#define MT_TESTS_ONNX_CONFORMANCEIMPORT_H

#include "compiler/onnx/ImportOnnx.h"
#include "tests/nn/Evaluate.h"
#include "tests/onnx/ConformanceCases.h"

namespace mt::onnx::test {

using nn::test::Tensor;

struct Prepared {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp function;
  std::vector<Tensor> arguments;
  Problems problems; ///< why the importer refused it; empty: it did not
};

/// In the context of tests/nn/GradientCheck.h.
Prepared prepare(const ConformanceCase &one);

} // namespace mt::onnx::test
#endif
