// Builds an ONNX graph node by node; a value is its name. It writes plain ONNX only and holds no weights: those are
// described by Weights. The families (Gpt2.cpp, Decoder.cpp, ...) are written with it, through the pieces of Blocks.h.
#ifndef MT_MODELS_GRAPHBUILDER_H
#define MT_MODELS_GRAPHBUILDER_H

#include "models/Weights.h"

#include <map>
#include <string>
#include <variant>
#include <vector>

namespace mt::models {

using Value = std::string;
using Dims = std::vector<int64_t>;
/// Sizes of a graph input or output: a number, or a symbol such as "batch".
using Axes = std::vector<std::variant<int64_t, std::string>>;

struct Attribute {
  std::string name;
  std::variant<int64_t, double, std::string, Dims> value;
};

class GraphBuilder {
public:
  /// `packed`: rows hold several sequences, which do not see each other; the graph is told which token is of which.
  GraphBuilder(std::string name, int64_t opset, Weights &weights, bool packed = false);

  int64_t opset() const { return version; }
  bool isPacked() const { return packed; }

  Value tokens(const std::string &name);                     ///< an int64 input [batch, seq]
  Value features(const std::string &name, int64_t width);    ///< a float input [batch, width]
  void output(const Value &value, const Axes &axes);         ///< a float output, under its own name

  /// A trainable tensor; the same name again is the same tensor (tied weights).
  Value parameter(const std::string &name, const Dims &dims, const Generator &fresh);
  bool hasParameter(const std::string &name) const { return weights.has(name); } ///< of one that may be left out

  Value ints(const Dims &values);                            ///< a constant [n] of int64
  Value integer(int64_t value);                              ///< a constant scalar of int64
  Value real(double value);                                  ///< a constant scalar of float
  Value reals(const std::string &hint, const std::vector<float> &values); ///< a constant [n] of float

  /// One node of one result, named after the scopes it is in; `result` overrides the result's name.
  Value node(const std::string &op, const std::vector<Value> &inputs, const std::vector<Attribute> &attributes = {},
             const std::string &result = {});
  /// One node of several results.
  std::vector<Value> nodes(const std::string &op, const std::vector<Value> &inputs,
                           const std::vector<Attribute> &attributes, int results);

  std::string modulePrefix; ///< what the names of parameters lack of those that they have in the original module

  /// Node names made while it lives start with the scope's name.
  class Scope {
  public:
    Scope(GraphBuilder &builder, const std::string &name) : builder(builder), length(builder.prefix.size()) {
      builder.prefix += "/" + name;
    }
    ~Scope() { builder.prefix.resize(length); }
    Scope(const Scope &) = delete;

  private:
    GraphBuilder &builder;
    size_t length;
  };

  /// Whether every parameter was found so far; a builder of many layers stops where not.
  bool ok() const { return failure.ok(); }
  /// The model, or the first error that a parameter met.
  Result<onnx::ModelProto> finish();

private:
  onnx::NodeProto *append(const std::string &op, const std::vector<Value> &inputs,
                          const std::vector<Attribute> &attributes);
  std::string fresh(const std::string &stem);
  Value constant(const std::string &key, const onnx::TensorProto &tensor);

  onnx::ModelProto model;
  Weights &weights;
  int64_t version;
  bool packed;
  std::string prefix;
  std::map<std::string, int> used;
  std::map<std::string, Value> constants;
  std::map<std::string, Value> parameters;
  Status failure;
};

} // namespace mt::models
#endif
