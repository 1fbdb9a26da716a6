#include "tests/fuzz/OnnxMutator.h"

#include "compiler/onnx/Converters.h"

#include <algorithm>
#include <cstring>

namespace mt::fuzz {
namespace {

using ::onnx::AttributeProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;

constexpr const char *kAttributes[] = {
    "alpha",       "axes",       "axis",         "auto_pad",   "batch_dims",  "beta",         "blocksize", "ceil_mode",
    "dilations",   "direction",  "epsilon",      "equation",   "exclusive",   "group",        "interleaved", "is_causal",
    "keepdims",    "kernel_shape", "kv_num_heads", "largest",  "mode",        "momentum",     "num_heads", "num_outputs",
    "output_padding", "pads",    "perm",         "q_num_heads", "reduction",  "reverse",      "rotary_embedding_dim",
    "scale",       "softcap",    "sorted",       "split",      "stash_type",  "strides",      "to",        "training_mode",
    "transA",      "transB",     "upper",        "value",      "value_int",   "value_ints",   "allowzero", "num_groups",
    "count_include_pad", "ignore_index", "noop_with_empty_axes", "qk_matmul_output_mode", "approximate", "value_float"};
constexpr const char *kTexts[] = {"", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "mean", "sum", "none", "tanh", "reflect",
                                  "edge", "constant", "linear", "nearest", "ij,jk->ik", "bhqd,bhkd->bhqk", "bij,bjk", "...i,ij->...j", "\xff", "DCR"};
constexpr int kTypes[] = {TensorProto::FLOAT, TensorProto::INT64, TensorProto::INT32, TensorProto::BOOL, TensorProto::DOUBLE,
                          TensorProto::FLOAT16, TensorProto::BFLOAT16, TensorProto::UINT8, TensorProto::STRING, TensorProto::UNDEFINED,
                          TensorProto::INT8, TensorProto::COMPLEX64, TensorProto::INT4};

/// Element types that raw_data may hold, with bytes of one; 0: cannot.
size_t byteSize(int type) {
  switch (type) {
  case TensorProto::FLOAT:
  case TensorProto::INT32:
    return 4;
  case TensorProto::INT64:
  case TensorProto::DOUBLE:
    return 8;
  case TensorProto::FLOAT16:
  case TensorProto::BFLOAT16:
    return 2;
  case TensorProto::BOOL:
  case TensorProto::UINT8:
  case TensorProto::INT8:
    return 1;
  default:
    return 0;
  }
}

} // namespace

OnnxMutator::OnnxMutator(::onnx::ModelProto &model, uint32_t seed)
    : model(model), graph(*model.mutable_graph()), random(seed) {}

int64_t OnnxMutator::number() {
  constexpr int64_t kNumbers[] = {0, 1, -1, 2, 3, 4, -2, 5, 8, 16, 64, 1000, 65537, INT32_MAX, INT64_MAX, INT64_MIN, int64_t(1) << 40};
  return random() % 4 == 0 ? kNumbers[below(std::size(kNumbers))] : kNumbers[below(8)];
}

float OnnxMutator::real() {
  constexpr float kReals[] = {0, 1, -1, 0.5f, 1e-5f, 2, 1e30f, -1e30f, __builtin_inff(), __builtin_nanf("")};
  return kReals[below(std::size(kReals))];
}

/// The name of any value of the graph, or of none.
std::string OnnxMutator::value() {
  std::vector<const std::string *> names;
  for (const auto &input : graph.input())
    names.push_back(&input.name());
  for (const auto &tensor : graph.initializer())
    names.push_back(&tensor.name());
  for (const NodeProto &node : graph.node())
    for (const std::string &output : node.output())
      names.push_back(&output);
  if (names.empty() || below(40) == 0)
    return below(2) ? "" : "nothing";
  return *names[below(names.size())];
}

void OnnxMutator::mutate() {
  for (size_t left = 1 + below(4); left > 0; --left)
    editOnce();
}

void OnnxMutator::editOnce() {
  size_t kind = below(20);
  if (kind < 12 && graph.node_size() > 0)
    return editNode(any(*graph.mutable_node()));
  if (kind < 14)
    return editNodes();
  if (kind < 17)
    return graph.initializer_size() > 0 ? editInitializer() : addInitializer();
  if (kind == 17)
    return addInitializer();
  if (kind == 18 && graph.input_size() > 0)
    return editType(any(*graph.mutable_input()));
  editModel();
}

void OnnxMutator::editNode(NodeProto &node) {
  switch (below(4)) {
  case 0: {
    const auto &all = onnx::Converters::table().all();
    auto chosen = std::next(all.begin(), static_cast<ptrdiff_t>(below(all.size())));
    node.set_domain(chosen->first.first);
    node.set_op_type(chosen->first.second);
    return;
  }
  case 1:
    return editAttribute(node);
  default:
    return editWires(node);
  }
}

void OnnxMutator::editWires(NodeProto &node) {
  auto &inputs = *node.mutable_input();
  auto &outputs = *node.mutable_output();
  switch (below(8)) {
  case 0:
    *inputs.Add() = value();
    return;
  case 1:
    if (inputs.size() > 0)
      inputs.RemoveLast();
    return;
  case 2:
    if (inputs.size() > 0)
      any(inputs).clear();
    return;
  case 3:
    if (inputs.size() > 1)
      inputs.SwapElements(0, static_cast<int>(below(inputs.size())));
    return;
  case 4:
    if (outputs.size() > 1 && below(2))
      outputs.RemoveLast();
    else
      *outputs.Add() = "more" + std::to_string(below(1000));
    return;
  case 5:
    if (outputs.size() > 0 && below(8) == 0)
      any(outputs) = value();
    return;
  default:
    if (inputs.size() > 0)
      any(inputs) = value();
  }
}

void OnnxMutator::editNodes() {
  auto &nodes = *graph.mutable_node();
  int at = static_cast<int>(below(nodes.size()));
  switch (below(4)) {
  case 0:
    if (nodes.size() > 1)
      nodes.DeleteSubrange(at, 1);
    return;
  case 1:
    if (nodes.size() > 0)
      nodes.SwapElements(at, static_cast<int>(below(nodes.size())));
    return;
  case 2: // a node between a value and what reads it
    if (nodes.size() > 0 && nodes.Get(at).input_size() > 0) {
      std::string name = "between" + std::to_string(below(1000000)), read = nodes.Get(at).input(0);
      nodes.Mutable(at)->set_input(0, name);
      NodeProto &fresh = *nodes.Add();
      fresh.set_op_type("Identity");
      fresh.add_input(read);
      fresh.add_output(name);
      if (below(2))
        editNode(fresh);
    }
    return;
  default: // a copy, whose results may become the graph's
    if (nodes.size() > 0) {
      NodeProto copy = nodes.Get(at);
      for (std::string &output : *copy.mutable_output())
        output += "'";
      if (graph.output_size() > 0 && copy.output_size() > 0 && below(4) == 0)
        graph.mutable_output(0)->set_name(copy.output(0));
      *nodes.Add() = copy;
    }
  }
}

void OnnxMutator::editAttribute(NodeProto &node) {
  auto &attributes = *node.mutable_attribute();
  size_t kind = below(4);
  if (kind == 0 && attributes.size() > 0)
    return attributes.RemoveLast();
  if (kind == 1 || attributes.size() == 0) {
    AttributeProto &fresh = *attributes.Add();
    fresh.set_name(kAttributes[below(std::size(kAttributes))]);
    constexpr AttributeProto::AttributeType kKinds[] = {AttributeProto::INT, AttributeProto::INTS, AttributeProto::FLOAT, AttributeProto::STRING};
    fresh.set_type(kKinds[below(std::size(kKinds))]);
    return setAttribute(fresh);
  }
  setAttribute(any(attributes));
}

void OnnxMutator::setAttribute(AttributeProto &attribute) {
  switch (attribute.type()) {
  case AttributeProto::INT:
    return attribute.set_i(number());
  case AttributeProto::FLOAT:
    return attribute.set_f(real());
  case AttributeProto::STRING:
    return attribute.set_s(kTexts[below(std::size(kTexts))]);
  case AttributeProto::INTS:
    if (attribute.ints_size() > 0 && below(3))
      attribute.set_ints(static_cast<int>(below(attribute.ints_size())), number());
    else if (attribute.ints_size() > 0 && below(2))
      attribute.mutable_ints()->RemoveLast();
    else
      attribute.add_ints(number());
    return;
  case AttributeProto::TENSOR:
    return editContent(*attribute.mutable_t());
  default:
    attribute.set_type(AttributeProto::INT);
    attribute.set_i(number());
  }
}

void OnnxMutator::editInitializer() {
  TensorProto &tensor = any(*graph.mutable_initializer());
  if (below(12) == 0)
    graph.mutable_initializer()->DeleteSubrange(static_cast<int>(below(graph.initializer_size())), 1);
  else
    editContent(tensor);
}

void OnnxMutator::editContent(TensorProto &tensor) {
  switch (below(7)) {
  case 0:
    if (tensor.dims_size() > 0)
      tensor.set_dims(static_cast<int>(below(tensor.dims_size())), number());
    return;
  case 1:
    return tensor.add_dims(1);
  case 2:
    if (tensor.dims_size() > 0)
      tensor.mutable_dims()->RemoveLast();
    return;
  case 3:
    return tensor.set_data_type(kTypes[below(std::size(kTypes))]);
  case 4:
    if (!tensor.raw_data().empty())
      tensor.mutable_raw_data()->pop_back();
    return;
  case 5:
    return tensor.add_int64_data(number());
  default: {
    std::string &raw = *tensor.mutable_raw_data();
    size_t size = byteSize(tensor.data_type());
    if (size == 0 || raw.size() < size)
      return;
    char *place = raw.data() + below(raw.size() / size) * size;
    int64_t whole = number();
    float broken = real();
    tensor.data_type() == TensorProto::FLOAT ? std::memcpy(place, &broken, 4) : std::memcpy(place, &whole, size);
  }
  }
}

void OnnxMutator::addInitializer() {
  TensorProto &tensor = *graph.add_initializer();
  tensor.set_name("constant" + std::to_string(below(1000000)));
  bool whole = below(3) != 0;
  size_t count = below(5);
  tensor.set_data_type(whole ? TensorProto::INT64 : TensorProto::FLOAT);
  if (count != 1 || below(2))
    tensor.add_dims(static_cast<int64_t>(count));
  for (size_t i = 0; i < count; ++i)
    whole ? tensor.add_int64_data(number()) : tensor.add_float_data(real());
  if (graph.node_size() > 0)
    *any(*graph.mutable_node()).add_input() = tensor.name();
}

void OnnxMutator::editType(::onnx::ValueInfoProto &info) {
  auto &type = *info.mutable_type()->mutable_tensor_type();
  auto &dims = *type.mutable_shape()->mutable_dim();
  switch (below(5)) {
  case 0:
    return type.set_elem_type(kTypes[below(std::size(kTypes))]);
  case 1:
    return dims.Add()->set_dim_value(number());
  case 2:
    if (dims.size() > 0)
      dims.RemoveLast();
    return;
  case 3:
    if (dims.size() > 0)
      any(dims).set_dim_param(below(2) ? "batch" : "n");
    return;
  default:
    if (dims.size() > 0)
      any(dims).set_dim_value(number());
  }
}

void OnnxMutator::editModel() {
  switch (below(4)) {
  case 0: // the target reads its options there
    return model.set_model_version(static_cast<int64_t>(random()));
  case 1:
    if (model.opset_import_size() > 0)
      model.mutable_opset_import(0)->set_version(static_cast<int64_t>(1 + below(26)));
    return;
  case 2:
    if (graph.output_size() > 0)
      any(*graph.mutable_output()).set_name(value());
    return;
  default:
    if (graph.input_size() > 1)
      graph.mutable_input()->RemoveLast();
  }
}

void OnnxMutator::graft(const ::onnx::ModelProto &other) {
  const auto &nodes = other.graph().node();
  if (nodes.size() == 0)
    return;
  int first = static_cast<int>(below(nodes.size()));
  int count = static_cast<int>(1 + below(std::min<size_t>(8, static_cast<size_t>(nodes.size() - first))));
  std::string prefix = "graft" + std::to_string(below(1000)) + "/";
  std::string feed = value();
  for (int i = first; i < first + count; ++i) {
    NodeProto node = nodes.Get(i);
    for (std::string &input : *node.mutable_input()) {
      auto is = [&](const auto &named) { return named.name() == input; };
      auto made = [&](const NodeProto &maker) { return std::ranges::find(maker.output(), input) != maker.output().end(); };
      auto tensor = std::ranges::find_if(other.graph().initializer(), is);
      if (tensor != other.graph().initializer().end()) {
        TensorProto &copy = *graph.add_initializer();
        copy = *tensor;
        copy.set_name(prefix + input);
        input = prefix + input;
      } else if (!input.empty()) {
        bool inside = std::any_of(nodes.begin() + first, nodes.begin() + i, made);
        input = inside ? prefix + input : feed;
      }
    }
    for (std::string &output : *node.mutable_output())
      output = prefix + output;
    if (i + 1 == first + count && node.output_size() > 0 && graph.node_size() > 0 && below(2))
      *any(*graph.mutable_node()).add_input() = node.output(0);
    *graph.add_node() = node;
  }
}

} // namespace mt::fuzz
