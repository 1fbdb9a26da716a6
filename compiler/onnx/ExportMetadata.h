// What an exporter wrote down about a model's tensors: which were parameters and which buffers of the original module,
// and under which names. Reads the metadata of torch.onnx (graph signature and FX nodes); other exporters leave none.
#ifndef MT_COMPILER_ONNX_EXPORTMETADATA_H
#define MT_COMPILER_ONNX_EXPORTMETADATA_H

#include "third_party/onnx/onnx-ml.pb.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mt::onnx {

/// A name that a tensor has beside its own: of another initializer that held a copy of it, or of a tensor of the
/// original module.
struct Alias {
  enum class Kind : uint8_t { initializer, module };
  Kind kind = Kind::initializer;
  std::string name;
  bool transposed = false; ///< what has this name is the transpose
  bool operator==(const Alias &) const = default;
};

struct Origin {
  enum class Kind : uint8_t { unknown, parameter, buffer, constant };
  Kind kind = Kind::unknown;
  std::string name;              ///< of the original module's tensor; empty where unknown
  std::optional<bool> transposed; ///< whether the initializer is its transpose; empty where unknown
};

/// The origin of every initializer that the metadata speaks about, by initializer name. An initializer without its
/// original's name (constant folding makes a new tensor of a transposed weight) is traced through the FX node of the
/// nodes that use it: that names the one original which no initializer carries any more. If every value that the FX
/// nodes of its users name is another operand of theirs, it has no original: the exporter made a constant, such as
/// the gain of ones of a norm that has none.
std::map<std::string, Origin> originsOf(const ::onnx::GraphProto &graph);

/// Names that initializers have in the original module beside their own, by initializer name: that of the origin, where
/// its layout is known, and those of tied tensors. torch.export writes a tied tensor once and lists all its names; a name that nothing carries
/// or mentions belongs to what the nodes of its module use of other modules.
std::map<std::string, std::vector<Alias>> moduleNamesOf(const ::onnx::GraphProto &graph,
                                                        const std::map<std::string, Origin> &origins);

/// What tells by its name that an initializer of no known origin is a variable of the model's, trained or not:
/// PyTorch's exporters name what they make themselves otherwise, and tf2onnx names the reading of a variable.
class VariableNames {
public:
  explicit VariableNames(const ::onnx::ModelProto &model);
  bool contains(const std::string &initializer) const;

private:
  bool byPyTorch, byOlderExporter;
};

/// The tensors of the original module, by the names that notes on nodes have for them.
std::map<std::string, Origin> signatureOf(const ::onnx::GraphProto &graph);

/// The call of PyTorch's that a node was, or was a part of, by its note.
struct FxCall {
  std::string name;                   ///< of what it gives; empty: the node has no note
  std::string function;               ///< "sub.Tensor"
  std::vector<std::string> arguments; ///< names of values, those in lists too, in their order
};
FxCall fxCallOf(const ::onnx::NodeProto &node);

/// "sin" of "sin_3".
std::string stemOf(const std::string &name);

/// The id that PyTorch's embedding at a node takes for padding: its row is not trained by that. None: every row is.
std::optional<int64_t> paddingOf(const ::onnx::NodeProto &node);

/// Whether PyTorch's embedding at a node divides the gradient of a row by how often it is looked up.
bool isScaledByFrequency(const ::onnx::NodeProto &node);

/// Whether a ReduceMax or ReduceMin is PyTorch's max or min over one dimension, whose gradient goes to the first of
/// equal elements; amax and amin share it.
bool isOfFirst(const ::onnx::NodeProto &node);

/// Of a ScatterElements that is PyTorch's scatter_reduce by means, which ONNX has no word for: whether what was there
/// before counts, too. None: it is none of those.
std::optional<bool> countsSelf(const ::onnx::NodeProto &node);

/// Whether an Identity is PyTorch's detach: no gradient goes through it.
bool isDetach(const ::onnx::NodeProto &node);

/// Whether a Clip (or Max or Min, of a clamp) is PyTorch's relu6 or hardtanh, which have no gradient at their bounds,
/// or its clamp, which has one; none where the exporter did not say.
std::optional<bool> isFlatAtBounds(const ::onnx::NodeProto &node);

/// Whether a node is of PyTorch's sinc, which the exporter writes as a choice.
bool isSinc(const ::onnx::NodeProto &node);

/// Whether a Max is one of those that PyTorch's binary_cross_entropy bounds its logarithms with.
bool isBoundOfCrossEntropy(const ::onnx::NodeProto &node);

/// The share that PyTorch's cross-entropy at a node gives to all classes alike; ONNX's has none. 0: it gives none.
double labelSmoothingOf(const ::onnx::NodeProto &node);

/// Parameters that notes on nodes name, and that no initializer carries, by the parameter that these nodes take in
/// their place: they were equal when the model was exported, and an optimizer merged them.
std::map<std::string, std::set<std::string>> mergedInto(const ::onnx::GraphProto &graph);

/// What the exporter computed instead of writing down how: initializers that carry the value of an FX node, and
/// parameters of the signature that neither an initializer nor a node speaks of any more. Those are in these values, or
/// other names of tied ones, or not used by the model. Empty where nothing was computed. What it computed of nothing
/// but numbers (torch.eye), or detached, is made: in no case a parameter.
struct Folded {
  std::vector<std::string> values, parameters, made;
  std::vector<std::string> numbers; ///< those of the values that have one element
  bool isTold = false; ///< there is a signature: where it names no lost parameter, none is in these values alone
};
Folded foldedBy(const ::onnx::GraphProto &graph);

} // namespace mt::onnx
#endif
