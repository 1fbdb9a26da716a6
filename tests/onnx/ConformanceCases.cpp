#include "tests/onnx/ConformanceCases.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fnmatch.h>
#include <fstream>
#include <numeric>
#include <sstream>
#include <stdexcept>

namespace mt::onnx::test {
namespace {

std::vector<CaseTensor> tensorsOf(const nlohmann::json &entries, std::istream &values) {
  std::vector<CaseTensor> tensors;
  for (const auto &entry : entries) {
    CaseTensor tensor{entry["name"], entry["type"], entry["dims"], {}};
    int64_t count = std::accumulate(tensor.dims.begin(), tensor.dims.end(), int64_t{1}, std::multiplies<>());
    if (entry["values"]) {
      tensor.values.resize(static_cast<size_t>(count));
      values.read(reinterpret_cast<char *>(tensor.values.data()), count * static_cast<int64_t>(sizeof(double)));
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

std::vector<ConformanceCase> readCases(const std::string &folder) {
  std::ifstream list(folder + "/cases.json"), values(folder + "/values.f64", std::ios::binary);
  std::vector<ConformanceCase> cases;
  if (!list || !values) {
    std::puts("skipped: the cases of onnx are not there; tools/setup.sh --onnx-cases fetches them");
    return cases;
  }
  for (const auto &entry : nlohmann::json::parse(list)) {
    ConformanceCase read;
    read.name = entry["name"];
    read.model = folder + "/" + read.name + ".onnx";
    read.operators = entry["operators"].get<std::set<std::string>>();
    read.relative = entry["rtol"];
    read.absolute = entry["atol"];
    read.inputs = tensorsOf(entry["inputs"], values);
    read.outputs = tensorsOf(entry["outputs"], values);
    cases.push_back(std::move(read));
  }
  return cases;
}

constexpr Stage kStages[] = {Stage::refused, Stage::values, Stage::kernels, Stage::slopes, Stage::passed};

Exception parse(const std::string &line) {
  std::istringstream words(line);
  std::string stage, reason;
  Exception read;
  words >> stage >> read.pattern;
  std::getline(words >> std::ws, read.reason);
  size_t slash = std::min(read.pattern.find('/'), read.pattern.size());
  std::istringstream inputs(read.pattern.substr(std::min(slash + 1, read.pattern.size())));
  read.pattern.resize(slash);
  for (std::string input; std::getline(inputs, input, ',');)
    read.inputs.insert(input);
  const Stage *known = std::ranges::find(kStages, stage, nameOf);
  if (known != std::end(kStages))
    read.stage = *known;
  if (known == std::end(kStages) || read.reason.empty())
    throw std::runtime_error("conformance.exceptions: '" + line + "' is not STAGE PATTERN REASON");
  return read;
}

} // namespace

std::string nameOf(Stage stage) {
  constexpr const char *names[] = {"refused", "values", "kernels", "slopes", "passed"};
  return names[static_cast<int>(stage)];
}

bool Exception::matches(const std::string &name) const { return fnmatch(pattern.c_str(), name.c_str(), 0) == 0; }

const std::vector<ConformanceCase> &conformanceCases() {
  static const std::vector<ConformanceCase> cases = readCases(MT_CONFORMANCE_CASES);
  return cases;
}

const std::vector<Exception> &exceptions() {
  static const std::vector<Exception> list = [] {
    std::ifstream file(MT_CONFORMANCE_EXCEPTIONS);
    std::vector<Exception> read;
    for (std::string line; std::getline(file, line);)
      if (!line.empty() && line[0] != '#')
        read.push_back(parse(line));
    return read;
  }();
  return list;
}

const Exception *exceptionOf(const std::string &name) {
  for (const Exception &exception : exceptions())
    if (exception.matches(name))
      return &exception;
  return nullptr;
}

} // namespace mt::onnx::test
