// The tensors of an .onnx file whose values can be replaced or lie elsewhere, found by walking its protocol-buffer wire
// format: the main graph's initializers, and what nodes and functions keep in other files. No schema and no other part
// of the model; enough to put trained weights back (Export.h).
#ifndef MT_RUNTIME_TRAIN_ONNXFILE_H
#define MT_RUNTIME_TRAIN_ONNXFILE_H

#include "runtime/base/MappedFile.h"
#include "runtime/train/Elements.h"

#include <functional>
#include <map>
#include <set>
#include <vector>

namespace mt::train {

/// A byte range of the file.
struct Range {
  uint64_t begin = 0, end = 0;
  uint64_t size() const { return end - begin; }
};

struct Initializer {
  std::string name;
  int32_t onnxType = 0;      ///< TensorProto.DataType
  std::optional<DType> type; ///< the same, where it is one of ours
  Dims dims;
  Range field;   ///< the whole field of the graph, with tag and length
  Range content; ///< the TensorProto
  Range raw;     ///< its values as little-endian bytes: raw_data, or packed float_data; empty if there are none
  bool external = false;
  std::map<std::string, std::string> externalData; ///< location, offset, length, ...

  /// The entry of `externalData`, or nothing.
  std::string entry(const std::string &key) const;
};

/// A field of the model or of its main graph, no initializer, in which a tensor has its values in another file: a node
/// (its constants, its subgraphs), a sparse initializer, a function.
struct NestedTensors {
  Range field, content;
  int number = 0; ///< of the field: in the graph, or in the model
  bool inGraph = false;
};

/// The model, as far as export needs it.
struct OnnxFile {
  MappedFile file;
  Range graphField, graph; ///< in ModelProto: with tag and length, and without
  std::vector<Initializer> initializers;
  std::vector<NestedTensors> nested;
  std::set<std::string> locations; ///< of all tensors' values that lie in other files

  /// The field with another TensorProto, which `moved` returns, in place of each whose values lie in another file.
  Result<std::string> withMoved(const NestedTensors &nested,
                                const std::function<Result<std::string>(const Initializer &)> &moved) const;

  /// Errors name the file and the byte at which it is no ONNX model.
  static Result<OnnxFile> open(const std::string &path);
};

/// A TensorProto of this name, type and shape whose values lie at `offset` of the file `location`: its wire bytes.
std::string externalTensor(const Initializer &like, const std::string &location, uint64_t offset, uint64_t length);

/// A length-delimited field: tag, length, content.
std::string wireField(int number, std::string_view content);
std::string wireVarint(uint64_t value);

} // namespace mt::train
#endif
