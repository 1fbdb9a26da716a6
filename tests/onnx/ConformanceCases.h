// The node cases of the package onnx as conformance_cases.py wrote them: a model, what goes in, what must come out; and
// the list of those in which mt does something else, each with its reason (conformance.exceptions).
#ifndef MT_TESTS_ONNX_CONFORMANCECASES_H
#define MT_TESTS_ONNX_CONFORMANCECASES_H

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace mt::onnx::test {

struct CaseTensor {
  std::string name, type; ///< NumPy's name of the type
  std::vector<int64_t> dims;
  std::vector<double> values; ///< none of strings and complex numbers
};

struct ConformanceCase {
  std::string name;
  std::string model;                 ///< path
  std::set<std::string> operators;   ///< "domain.Operator"; of the default domain without it
  double relative = 0, absolute = 0; ///< what results may differ by
  std::vector<CaseTensor> inputs, outputs;
};

/// All cases, or none where they are not there.
const std::vector<ConformanceCase> &conformanceCases();

/// Whether mt converts the operators that a case is made of.
bool isSupported(const ConformanceCase &one);

/// How far a case comes. What stands in the list of exceptions must stop exactly there.
enum class Stage : uint8_t { refused, values, kernels, slopes, passed };
std::string nameOf(Stage stage);

/// A line of the list, `STAGE PATTERN[/INPUT,INPUT] REASON`: cases by a pattern, where they stop, and why; of slopes,
/// those of these inputs only.
struct Exception {
  Stage stage = Stage::passed;
  std::string pattern, reason;
  std::set<std::string> inputs;
  bool matches(const std::string &name) const;
};
const std::vector<Exception> &exceptions();
/// The first one that names the case; null: it must pass.
const Exception *exceptionOf(const std::string &name);

} // namespace mt::onnx::test
#endif
