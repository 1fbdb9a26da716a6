// What the planner knows of a model: its layers, the templates that compute them with their predicted seconds, and the
// values that cross layers. Read once from the IR (passes/schedule/ReadModel.h); no slot or command is here. Free of MLIR.
#ifndef MT_COMPILER_PLANNER_MODEL_H
#define MT_COMPILER_PLANNER_MODEL_H

#include "kernels/Blocks.h"
#include "kernels/Optimizers.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mt::planner {

/// Element type and shape of a tensor.
struct TensorType {
  kernels::DType type = kernels::DType::f32;
  kernels::Dims dims;
  int64_t bytes() const { return elements() * static_cast<int64_t>(kernels::byteSize(type)); }
  int64_t elements() const {
    int64_t count = 1;
    for (int64_t size : dims)
      count *= size;
    return count;
  }
};

/// A parameter. `owner` is the first layer that uses it (-1: none does); that layer's weights hold it. It is trained if
/// a layer gives it a gradient, which lies in `pack` at `packOffset`.
struct Parameter {
  /// What updates alone read and write: the lower halves of a split master, and what the optimizer keeps.
  struct Rest {
    int64_t part = 0; ///< of the parameter, by number: plan::kStateParts
    TensorType type;  ///< of what a rank has of them
    int64_t elements = 1; ///< of the parameter, for one of these
  };
  std::string name;
  TensorType type;
  TensorType full;       ///< of gradients: in 32 bits
  std::string optimizer; ///< empty: the model's
  const kernels::OptimizerSpec *spec = nullptr;
  std::vector<Rest> rest;
  int64_t owner = -1;
  int64_t pack = -1, packOffset = 0;
  kernels::Shares shares = {}; ///< of ranks, of one that is trained
  TensorType own = {};         ///< of a rank's gradient: 32 bits of its share and the tail
  int64_t ownOffset = 0;       ///< of that, where a pack's lie together
  bool isTrained() const { return pack >= 0; }
  /// Whether the master is the weight and a remainder: where the weight is bf16.
  bool isSplit() const { return type.type == kernels::DType::bf16; }
};

/// Gradients that lie together, in 32 bits: of parameters that get one from the same `layers` (ascending). Where these
/// are several, each gives a part; backward comes by the last of them first.
struct GradientPack {
  std::vector<int64_t> parameters, layers;
  int64_t bytes = 0;
  int64_t ownBytes = 0; ///< of a rank's
  bool isShared() const { return layers.size() > 1; }
  int64_t first() const { return layers.back(); }     ///< the layer whose part is the first
  int64_t complete() const { return layers.front(); } ///< the layer whose part is the last
};

/// What a micro-batch feeds: a graph input or the labels.
struct Input {
  std::string name;
  TensorType type; ///< of one micro-batch
};

/// A result of a layer. `users` are the layers that take it, ascending.
struct Value {
  int64_t layer = 0, result = 0;
  TensorType type;
  std::vector<int64_t> users;
  bool isStepSum = false; ///< one place for all micro-batches, which add to it
};

/// What an operand of a layer is: an index into the model's list of that kind.
struct Operand {
  enum Kind : uint8_t { parameter, input, scalars, value } kind = value;
  int64_t index = 0;
};

/// What a template takes: an operand of its layer, a value that forward saved, the gradient of a result of its layer.
struct Argument {
  enum Kind : uint8_t { operand, saved, gradient } kind = operand;
  int64_t index = 0;
  TensorType type;
};
/// What a template gives: a result of its layer, a value that it saves, the gradient of an operand, the loss, what an
/// evaluation predicts.
struct Result {
  enum Kind : uint8_t { value, saved, gradient, loss, prediction } kind = value;
  int64_t index = 0;
  TensorType type;
  bool addsOnce = false; ///< it may be added to what is there, with the bits of a sum
};
struct Template {
  std::string name;
  double seconds = 0, flops = 0; ///< of one run
  int64_t workspace = 0;         ///< bytes
  std::vector<Argument> arguments;
  std::vector<Result> results;
  std::vector<bool> reads = {}; ///< by operand of its layer; those behind its end are not read
};

/// Templates of one rung of the ladder of saved activations: indices into the model's templates.
struct Rung {
  std::string name;
  int64_t forward = -1, backward = -1;
};

struct Layer {
  int64_t primal = -1;     ///< the template of an evaluation
  std::vector<Rung> rungs; ///< from the least saved to the most; none where no gradient is wanted
  std::vector<Operand> operands;
  std::vector<int64_t> results; ///< indices of values
  std::vector<int64_t> owned;   ///< parameters whose weights lie with this layer
  std::vector<int64_t> packs;   ///< those that it gives gradients, or parts of them
  bool isLoss = false;
  bool isDifferentiated() const { return !rungs.empty(); }
};

struct Model {
  std::vector<Parameter> parameters;
  std::vector<GradientPack> packs;
  std::vector<Input> inputs;
  std::vector<Value> values;
  std::vector<Layer> layers;
  std::vector<Template> templates;
  int64_t microBatch = 1;   ///< rows of one run of a template
  int64_t microBatches = 1; ///< of a step, on one rank
  int64_t ranks = 1;        ///< that train together, each with micro-batches of its own
  bool clip = false;
  bool narrowExchange = false; ///< ranks send each other gradients in 16 bits

  /// The layer that a parameter is held with where it stays on the device: whose backward completes its gradient, or, of one
  /// that is frozen, its owner (-1: nobody's).
  int64_t homeOf(int64_t parameter) const;
  /// Gives every parameter its optimizer, and what that keeps, of which so many ranks have a share each. Fails where
  /// one is named that there is none of.
  Status setOptimizer(const std::string &usual, int64_t rankCount = 1);
  /// Micro-batches of a step for each of so many ranks. Fails where they do not divide into parts whose sums are among
  /// those that one rank adds up.
  Status setMicroBatches(int64_t batch, int64_t rankCount);
  static constexpr int64_t kMostMicroBatches = 1 << 13; ///< of a step: each has commands in the plan
  /// The kernel that updates a parameter.
  std::string updateOf(int64_t parameter) const;
  /// Notes in each template what it reads. Call when all are there.
  void noteReads();
  /// Whether a rung's backward reads an operand of its layer.
  bool backwardReads(int64_t layer, int64_t rung, int64_t operand) const;
};

} // namespace mt::planner
#endif
