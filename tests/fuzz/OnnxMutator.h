// Random edits of an ONNX model that keep it a model: operators, wiring, attributes, shapes, initializers, types,
// versions; and parts of one model put into another. What a mutator of bytes would hardly ever reach.
#ifndef MT_TESTS_FUZZ_ONNXMUTATOR_H
#define MT_TESTS_FUZZ_ONNXMUTATOR_H

#include "third_party/onnx/onnx-ml.pb.h"

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace mt::fuzz {

class OnnxMutator {
public:
  OnnxMutator(::onnx::ModelProto &model, uint32_t seed);

  /// One to four edits.
  void mutate();
  /// Copies some nodes of another model, with the initializers they read, and feeds them from this one's values.
  void graft(const ::onnx::ModelProto &other);

private:
  ::onnx::ModelProto &model;
  ::onnx::GraphProto &graph;
  std::mt19937 random;

  size_t below(size_t count) { return count ? random() % count : 0; }
  template <typename List> auto &any(List &list) { return *list.Mutable(static_cast<int>(below(list.size()))); }
  int64_t number();
  float real();
  std::string value();
  void editOnce();
  void editNode(::onnx::NodeProto &node);
  void editWires(::onnx::NodeProto &node);
  void editNodes();
  void editAttribute(::onnx::NodeProto &node);
  void setAttribute(::onnx::AttributeProto &attribute);
  void editInitializer();
  void editContent(::onnx::TensorProto &tensor);
  void addInitializer();
  void editType(::onnx::ValueInfoProto &info);
  void editModel();
};

} // namespace mt::fuzz
#endif
