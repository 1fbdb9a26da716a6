#include "tests/onnx/TestModel.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace mt::onnx::test {

std::string scratchFolder() {
  const auto *test = testing::UnitTest::GetInstance()->current_test_info();
  std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "mt-onnx" / test->test_suite_name() / test->name();
  std::filesystem::create_directories(folder);
  return folder.string();
}

TestModel::TestModel(int64_t opset) {
  model.set_ir_version(8);
  model.add_opset_import()->set_version(opset);
  graph().set_name("test");
}

TestModel &TestModel::input(const std::string &name, Type type, std::initializer_list<std::string> dims) {
  auto *value = graph().add_input();
  value->set_name(name);
  auto *tensor = value->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  tensor->mutable_shape();
  for (const std::string &dim : dims) {
    auto *entry = tensor->mutable_shape()->add_dim();
    if (!dim.empty() && (std::isdigit(static_cast<unsigned char>(dim[0])) || dim[0] == '-'))
      entry->set_dim_value(std::stoll(dim));
    else if (!dim.empty())
      entry->set_dim_param(dim);
  }
  return *this;
}

TestModel &TestModel::output(const std::string &name) {
  graph().add_output()->set_name(name);
  return *this;
}

::onnx::NodeProto &TestModel::node(const std::string &op, std::initializer_list<std::string> inputs,
                                   std::initializer_list<std::string> outputs, const std::string &domain) {
  auto *node = graph().add_node();
  node->set_op_type(op);
  node->set_name("n_" + *outputs.begin());
  node->set_domain(domain);
  for (const std::string &name : inputs)
    node->add_input(name);
  for (const std::string &name : outputs)
    node->add_output(name);
  return *node;
}

::onnx::TensorProto &TestModel::weights(const std::string &name, std::initializer_list<int64_t> dims,
                                        const std::vector<float> &values) {
  auto *tensor = graph().add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(kFloat);
  int64_t count = 1;
  for (int64_t dim : dims) {
    tensor->add_dims(dim);
    count *= dim;
  }
  std::vector<float> filled = values;
  for (int64_t i = 0; values.empty() && i < count; ++i)
    filled.push_back(0.01F * static_cast<float>(i * 7919 % 101 - 50)); // in no order
  tensor->set_raw_data(filled.data(), filled.size() * sizeof(float));
  return *tensor;
}

::onnx::TensorProto &TestModel::integers(const std::string &name, std::initializer_list<int64_t> dims,
                                         const std::vector<int64_t> &values) {
  auto *tensor = graph().add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(kInt64);
  for (int64_t dim : dims)
    tensor->add_dims(dim);
  for (int64_t value : values)
    tensor->add_int64_data(value);
  return *tensor;
}

::onnx::TensorProto &TestModel::scalar(const std::string &name, float value) { return weights(name, {}, {value}); }

std::string TestModel::save(const std::string &file) const {
  std::string path = scratchFolder() + "/" + file;
  std::ofstream out(path, std::ios::binary);
  out << model.SerializeAsString();
  return path;
}

void setInt(::onnx::NodeProto &node, const std::string &name, int64_t value) {
  auto *attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(::onnx::AttributeProto::INT);
  attribute->set_i(value);
}

void setInts(::onnx::NodeProto &node, const std::string &name, std::initializer_list<int64_t> values) {
  auto *attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(::onnx::AttributeProto::INTS);
  for (int64_t value : values)
    attribute->add_ints(value);
}

void setFloat(::onnx::NodeProto &node, const std::string &name, float value) {
  auto *attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(::onnx::AttributeProto::FLOAT);
  attribute->set_f(value);
}

void setText(::onnx::NodeProto &node, const std::string &name, const std::string &value) {
  auto *attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(::onnx::AttributeProto::STRING);
  attribute->set_s(value);
}

bool Imported::complains(std::initializer_list<std::string> snippets) const {
  return std::any_of(problems.begin(), problems.end(), [&](const std::string &problem) {
    return std::all_of(snippets.begin(), snippets.end(),
                       [&](const std::string &snippet) { return problem.find(snippet) != std::string::npos; });
  });
}

std::vector<std::string> Imported::trained() const {
  std::vector<std::string> names;
  for (const ImportedParameter &parameter : parameters)
    if (parameter.trainable)
      names.push_back(parameter.name);
  std::sort(names.begin(), names.end());
  return names;
}

std::string Imported::everything() const {
  std::string all = text;
  for (const std::string &problem : problems)
    all += "\nerror: " + problem;
  for (const std::string &warning : warnings)
    all += "\nwarning: " + warning;
  return all;
}

Imported import(const std::string &path, const ImportOptions &options) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  Imported result;
  auto model = importOnnx(context, path, options, result.problems);
  if (failed(model))
    return result;
  llvm::raw_string_ostream stream(result.text);
  model->module->print(stream);
  result.warnings = model->warnings;
  result.parameters = model->parameters;
  result.inputs = model->inputs;
  result.sequence = model->sequence;
  result.digest = model->digest;
  return result;
}

Imported import(const TestModel &model, int64_t batch, ImportOptions options) {
  options.batch = batch;
  return import(model.save(), options);
}

} // namespace mt::onnx::test
