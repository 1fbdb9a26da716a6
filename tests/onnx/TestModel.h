// Builds small ONNX models for tests, writes them to a scratch folder of the test, and imports them.
#ifndef MT_TESTS_ONNX_TESTMODEL_H
#define MT_TESTS_ONNX_TESTMODEL_H

#include "compiler/onnx/ImportOnnx.h"

#include "third_party/onnx/onnx-ml.pb.h"

#include <initializer_list>
#include <string>
#include <vector>

namespace mt::onnx::test {

using Type = ::onnx::TensorProto::DataType;
inline constexpr Type kFloat = ::onnx::TensorProto::FLOAT, kInt64 = ::onnx::TensorProto::INT64,
                      kBool = ::onnx::TensorProto::BOOL;

/// A fresh folder for the running test.
std::string scratchFolder();

class TestModel {
public:
  explicit TestModel(int64_t opset = 20);

  /// Dimensions are numbers or symbols: {"batch", "16"}.
  TestModel &input(const std::string &name, Type type, std::initializer_list<std::string> dims);
  TestModel &output(const std::string &name);
  ::onnx::NodeProto &node(const std::string &op, std::initializer_list<std::string> inputs,
                          std::initializer_list<std::string> outputs, const std::string &domain = "");
  ::onnx::TensorProto &weights(const std::string &name, std::initializer_list<int64_t> dims,
                               const std::vector<float> &values = {}); ///< default: as if random
  ::onnx::TensorProto &integers(const std::string &name, std::initializer_list<int64_t> dims,
                                const std::vector<int64_t> &values);
  ::onnx::TensorProto &scalar(const std::string &name, float value);
  ::onnx::GraphProto &graph() { return *model.mutable_graph(); }

  /// Writes the model to the scratch folder and returns its path.
  std::string save(const std::string &file = "model.onnx") const;

  ::onnx::ModelProto model;
};

void setInt(::onnx::NodeProto &node, const std::string &name, int64_t value);
void setInts(::onnx::NodeProto &node, const std::string &name, std::initializer_list<int64_t> values);
void setFloat(::onnx::NodeProto &node, const std::string &name, float value);
void setText(::onnx::NodeProto &node, const std::string &name, const std::string &value);

struct Imported {
  std::string text; ///< the printed module; empty on failure
  Problems problems;
  std::vector<std::string> warnings;
  std::vector<ImportedParameter> parameters;
  std::vector<BoundInput> inputs;
  int64_t sequence = 0;
  uint64_t digest = 0;

  bool has(const std::string &snippet) const { return text.find(snippet) != std::string::npos; }
  /// Whether some problem contains all the snippets.
  bool complains(std::initializer_list<std::string> snippets) const;
  std::vector<std::string> trained() const; ///< names, sorted
  std::string everything() const;           ///< for failure messages
};

Imported import(const std::string &path, const ImportOptions &options = {});
Imported import(const TestModel &model, int64_t batch = 2, ImportOptions options = {});

} // namespace mt::onnx::test
#endif
