// The attributes of a node, with references to the attributes of an enclosing function's call resolved. Views into the
// model's messages, which must outlive it.
#ifndef MT_COMPILER_ONNX_NODEATTRIBUTES_H
#define MT_COMPILER_ONNX_NODEATTRIBUTES_H

#include "third_party/onnx/onnx-ml.pb.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mt::onnx {

class NodeAttributes {
public:
  NodeAttributes() = default;
  /// `call`: attributes of the node that calls the function which `node` is part of; null outside functions.
  NodeAttributes(const ::onnx::NodeProto &node, const NodeAttributes *call) {
    for (const auto &attribute : node.attribute()) {
      const ::onnx::AttributeProto *meant = &attribute;
      if (!attribute.ref_attr_name().empty())
        meant = call ? call->find(attribute.ref_attr_name()) : nullptr;
      if (meant)
        attributes[attribute.name()] = meant;
    }
  }
  /// A function's default for an attribute its caller leaves out.
  void addDefault(const ::onnx::AttributeProto &attribute) { attributes.emplace(attribute.name(), &attribute); }

  const ::onnx::AttributeProto *find(const std::string &name) const {
    auto at = attributes.find(name);
    return at == attributes.end() ? nullptr : at->second;
  }
  bool has(const std::string &name) const { return find(name) != nullptr; }
  int64_t integer(const std::string &name, int64_t otherwise) const {
    const auto *attribute = find(name);
    return attribute ? attribute->i() : otherwise;
  }
  double real(const std::string &name, double otherwise) const {
    const auto *attribute = find(name);
    return attribute ? attribute->f() : otherwise;
  }
  std::string text(const std::string &name, const std::string &otherwise) const {
    const auto *attribute = find(name);
    return attribute ? attribute->s() : otherwise;
  }
  std::optional<std::vector<int64_t>> integers(const std::string &name) const {
    const auto *attribute = find(name);
    if (!attribute)
      return std::nullopt;
    return std::vector<int64_t>(attribute->ints().begin(), attribute->ints().end());
  }
  std::optional<std::vector<float>> reals(const std::string &name) const {
    const auto *attribute = find(name);
    if (!attribute)
      return std::nullopt;
    return std::vector<float>(attribute->floats().begin(), attribute->floats().end());
  }

private:
  std::map<std::string, const ::onnx::AttributeProto *> attributes;
};

} // namespace mt::onnx
#endif
