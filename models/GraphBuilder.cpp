#include "models/GraphBuilder.h"

#include <cstring>

namespace mt::models {
namespace {

/// IR version 10 is the first that carries opset 23's types; every opset written here may use it.
constexpr int64_t kIrVersion = 10;

void setAxes(onnx::ValueInfoProto &info, const std::string &name, int type, const Axes &axes) {
  info.set_name(name);
  auto *tensor = info.mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  auto *shape = tensor->mutable_shape();
  for (const auto &axis : axes) {
    auto *dim = shape->add_dim();
    if (const auto *size = std::get_if<int64_t>(&axis))
      dim->set_dim_value(*size);
    else
      dim->set_dim_param(std::get<std::string>(axis));
  }
}

void setAttribute(onnx::AttributeProto &to, const Attribute &from) {
  to.set_name(from.name);
  if (const auto *integer = std::get_if<int64_t>(&from.value)) {
    to.set_type(onnx::AttributeProto::INT);
    to.set_i(*integer);
  } else if (const auto *real = std::get_if<double>(&from.value)) {
    to.set_type(onnx::AttributeProto::FLOAT);
    to.set_f(static_cast<float>(*real));
  } else if (const auto *text = std::get_if<std::string>(&from.value)) {
    to.set_type(onnx::AttributeProto::STRING);
    to.set_s(*text);
  } else {
    to.set_type(onnx::AttributeProto::INTS);
    for (int64_t value : std::get<Dims>(from.value))
      to.add_ints(value);
  }
}

template <typename T> onnx::TensorProto rawTensor(int type, const Dims &dims, const std::vector<T> &values) {
  onnx::TensorProto tensor;
  tensor.set_data_type(type);
  for (int64_t dim : dims)
    tensor.add_dims(dim);
  tensor.set_raw_data(values.data(), values.size() * sizeof(T));
  return tensor;
}

} // namespace

GraphBuilder::GraphBuilder(std::string name, int64_t opset, Weights &weights, bool packed)
    : weights(weights), version(opset), packed(packed) {
  model.set_ir_version(kIrVersion);
  model.set_producer_name("mtmodel");
  model.add_opset_import()->set_version(opset);
  model.mutable_graph()->set_name(std::move(name));
}

Value GraphBuilder::tokens(const std::string &name) {
  setAxes(*model.mutable_graph()->add_input(), name, onnx::TensorProto::INT64, {"batch", "seq"});
  return name;
}

Value GraphBuilder::features(const std::string &name, int64_t width) {
  setAxes(*model.mutable_graph()->add_input(), name, onnx::TensorProto::FLOAT, {"batch", width});
  return name;
}

void GraphBuilder::output(const Value &value, const Axes &axes) {
  setAxes(*model.mutable_graph()->add_output(), value, onnx::TensorProto::FLOAT, axes);
}

Value GraphBuilder::parameter(const std::string &name, const Dims &dims, const Generator &fresh) {
  if (auto known = parameters.find(name); known != parameters.end())
    return known->second;
  onnx::TensorProto &tensor = *model.mutable_graph()->add_initializer();
  tensor.set_name(name);
  for (int64_t dim : dims)
    tensor.add_dims(dim);
  if (Status status = weights.locate(tensor, fresh); !status && failure)
    failure = status;
  const bool narrow = tensor.data_type() != onnx::TensorProto::FLOAT;
  Value value = narrow ? node("Cast", {name}, {{"to", int64_t(onnx::TensorProto::FLOAT)}}) : name;
  return parameters[name] = value;
}

Value GraphBuilder::ints(const Dims &values) {
  return constant("ints", rawTensor(onnx::TensorProto::INT64, {int64_t(values.size())}, values));
}
Value GraphBuilder::integer(int64_t value) {
  return constant("integer", rawTensor<int64_t>(onnx::TensorProto::INT64, {}, {value}));
}
Value GraphBuilder::real(double value) {
  return constant("real", rawTensor<float>(onnx::TensorProto::FLOAT, {}, {static_cast<float>(value)}));
}
Value GraphBuilder::reals(const std::string &hint, const std::vector<float> &values) {
  return constant(hint, rawTensor(onnx::TensorProto::FLOAT, {int64_t(values.size())}, values));
}

Value GraphBuilder::constant(const std::string &key, const onnx::TensorProto &tensor) {
  const std::string identity = key + tensor.raw_data();
  if (auto known = constants.find(identity); known != constants.end())
    return known->second;
  onnx::NodeProto *node = model.mutable_graph()->add_node();
  node->set_op_type("Constant");
  node->set_name(fresh("/" + key));
  node->add_output(node->name());
  onnx::AttributeProto *attribute = node->add_attribute();
  attribute->set_name("value");
  attribute->set_type(onnx::AttributeProto::TENSOR);
  *attribute->mutable_t() = tensor;
  return constants[identity] = node->output(0);
}

std::string GraphBuilder::fresh(const std::string &stem) {
  const int count = used[stem]++;
  return count == 0 ? stem : fmt::format("{}_{}", stem, count);
}

onnx::NodeProto *GraphBuilder::append(const std::string &op, const std::vector<Value> &inputs,
                                      const std::vector<Attribute> &attributes) {
  onnx::NodeProto *node = model.mutable_graph()->add_node();
  node->set_op_type(op);
  node->set_name(fresh(prefix + "/" + op));
  for (const Value &input : inputs)
    node->add_input(input);
  for (const Attribute &attribute : attributes)
    setAttribute(*node->add_attribute(), attribute);
  return node;
}

Value GraphBuilder::node(const std::string &op, const std::vector<Value> &inputs,
                         const std::vector<Attribute> &attributes, const std::string &result) {
  onnx::NodeProto *node = append(op, inputs, attributes);
  node->add_output(result.empty() ? node->name() : result);
  return node->output(0);
}

std::vector<Value> GraphBuilder::nodes(const std::string &op, const std::vector<Value> &inputs,
                                       const std::vector<Attribute> &attributes, int results) {
  onnx::NodeProto *node = append(op, inputs, attributes);
  for (int i = 0; i < results; ++i)
    node->add_output(fmt::format("{}.{}", node->name(), i));
  return {node->output().begin(), node->output().end()};
}

Result<onnx::ModelProto> GraphBuilder::finish() {
  MT_TRY(failure);
  return std::move(model);
}

} // namespace mt::models
